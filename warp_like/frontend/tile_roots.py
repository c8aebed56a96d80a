"""Which variable's tile the syntax of an expression may be a part of."""

from __future__ import annotations

import ast

VIEWS = frozenset(
    {"tile_view", "tile_transpose", "tile_broadcast", "tile_squeeze", "tile_reshape", "tile_slice_indexed"}
)
"""The builtins that give a view of their first argument."""


def root_of(node: ast.expr) -> str | None:
    """Return the variable that an expression may be a part of; None where it is none."""
    while True:
        match node:
            case ast.Name():
                return node.id
            case ast.Subscript():
                node = node.value
            case ast.Call(args=[first, *_]) if last_name(node.func) in VIEWS:
                node = first
            case ast.Call(keywords=given) if last_name(node.func) in VIEWS:
                named = [k.value for k in given if k.arg in ("t", "a")]
                if not named:
                    return None
                node = named[0]
            case _:
                return None


def last_name(node: ast.AST) -> str:
    """Return the name that an expression ends with, as ``f`` in ``module.f``; nothing for others."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


__all__ = ["VIEWS", "last_name", "root_of"]
