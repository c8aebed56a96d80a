"""Walks over Python's syntax trees, which the frontend takes several times for each statement that it builds."""

from __future__ import annotations

import ast


def all_nodes(root: ast.AST) -> list[ast.AST]:
    """Return ``root`` and all nodes below it, outer ones first, in half the time of ``ast.walk``.

    Left out are the marks without content that stand alone in a field: whether a name is read or assigned, and which
    operator a node applies.
    """
    found = [root]
    for node in found:  # which grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                if value._fields:
                    found.append(value)
            elif type(value) is list:
                found += [n for n in value if isinstance(n, ast.AST)]
    return found


__all__ = ["all_nodes"]
