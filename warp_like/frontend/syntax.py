"""Walks over Python's syntax trees, which the frontend takes several times for each statement that it builds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def all_nodes(root: ast.AST) -> list[ast.AST]:
    """Return ``root`` and all nodes below it, outer ones first, in half the time of ``ast.walk``.

    Left out are the marks without content that stand alone in a field: whether a name is read or assigned, and which
    operator a node applies.
    """
    found = [root]
    for node in found:  # which grows meanwhile
        add_children(found, node)
    return found


def add_children(found: list[ast.AST], node: ast.AST) -> None:
    """Append the nodes right below ``node`` to ``found``, but for those marks."""
    kind = type(node)
    if kind is ast.BinOp:  # many nodes are of these two kinds
        found += (node.left, node.right)  # type: ignore[attr-defined]
        return
    if kind is ast.Assign:
        found += (*node.targets, node.value)  # type: ignore[attr-defined]
        return
    names = _HOLDERS.get(kind)
    for name in _find_holders(kind) if names is None else names:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [n for n in value if isinstance(n, ast.AST)]
        elif isinstance(value, ast.AST) and value._fields:
            found.append(value)


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Iterate over the statements of ``body`` and those inside of them, outer ones first."""
    waiting = [iter(body)]
    while waiting:
        for s in waiting[-1]:
            yield s
            inner = [part for name in ("body", "orelse") if (part := getattr(s, name, None))]
            if inner:
                waiting.extend(map(iter, reversed(inner)))
                break
        else:
            waiting.pop()


_HOLDERS: dict[type[ast.AST], tuple[str, ...]] = {ast.Name: (), ast.Constant: ()}
"""The fields that may hold nodes, by the class of the node that has them."""

_PLAIN = {"arg", "attr", "ctx", "id", "kind", "op", "type_comment"}
"""The fields that hold texts, or marks without content."""


def _find_holders(kind: type[ast.AST]) -> tuple[str, ...]:
    found = _HOLDERS[kind] = tuple([name for name in kind._fields if name not in _PLAIN])
    return found


__all__ = ["add_children", "all_nodes", "statements"]
