"""Parameters that are ``wp.ref[T]``: a function returns what they hold in the end, and its caller stores that.

The argument is read before the call and written after it. What the function's code never assigns is not written, so
that threads may read one element side by side.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.frontend.context import Context
from warp_like.frontend.flow import assigned_names
from warp_like.frontend.function import Function, Overload
from warp_like.frontend.host import Host
from warp_like.frontend.names import MISSING, dotted, follow
from warp_like.frontend.operands import ArgumentType
from warp_like.ir.types import Array


def changed(overload: Overload, given: Sequence[ArgumentType]) -> tuple[str, ...]:
    """Return the reference parameters of a function that its code may assign, for arguments of these types."""
    if not overload.references or overload.native is not None:
        return overload.references  # native code may assign all of its own
    body = overload.source.node.body
    assigned = assigned_names(body)
    calls = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Call)]
    passed = {n.id for call in calls for a in arguments(call) for n in ast.walk(a) if isinstance(n, ast.Name)}
    types = dict(zip(overload.params, given, strict=True))

    def is_changed(name: str) -> bool:
        if isinstance(types[name], Array):  # whose elements are the caller's anyway
            return assigned.get(name) is False
        return name in assigned or name in passed

    return tuple(filter(is_changed, overload.references))


def arguments(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call, those by name last."""
    return [*call.args, *(k.value for k in call.keywords)]


def variables_changed(ctx: Context, nodes: Sequence[ast.stmt]) -> list[str]:
    """Return the variables that calls in ``nodes`` take by reference, or a part of them."""
    found = []
    for call in (n for s in nodes for n in ast.walk(s) if isinstance(n, ast.Call)):
        function = _meaning(ctx, call.func)
        if isinstance(function, Function) and any(o.references for o in function.overloads):
            for a in arguments(call):
                while isinstance(a, (ast.Subscript, ast.Attribute)):
                    a = a.value
                found += [a.id] if isinstance(a, ast.Name) else []
    return found


def _meaning(ctx: Context, node: ast.expr) -> object:
    """The function that a dotted name means."""
    parts = dotted(node)
    held = None if parts is None else ctx.scope.variable(parts[0])
    if parts is None or held is None:
        return ctx.source.meaning(node)
    obj, used = follow(ctx.source.around, held.value.obj, parts[1:]) if isinstance(held.value, Host) else (MISSING, 0)
    return obj if 1 + used == len(parts) else MISSING


def require_place(ctx: Context, function: Function, name: str, node: ast.expr | None) -> ast.expr:
    """Return the syntax of the argument of a reference parameter.

    Raises:
        WarpCodegenTypeError: It is nothing that can be assigned.
    """
    if isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)):
        return node
    with ctx.at(node) if node is not None else ctx.at(ctx.source.node):
        raise WarpCodegenTypeError(
            f"{function.name}() changes its argument `{name}`, so it takes a variable, an element or a part of one",
            help="assign it to a variable first",
        )
