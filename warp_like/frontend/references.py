"""Parameters that are ``wp.ref[T]``: a function returns what they hold in the end, and its caller stores that.

The argument is read before the call and written after it. What the function's code never assigns is not written, so
that threads may read one element side by side.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.frontend.context import Context
from warp_like.frontend.flow import assigned_names, assignments
from warp_like.frontend.function import Function, Overload
from warp_like.frontend.host import Host, builtin_name
from warp_like.frontend.names import MISSING, dotted, follow
from warp_like.frontend.operands import ArgumentType
from warp_like.frontend.syntax import all_nodes
from warp_like.frontend.tile_views import Aliases, TileView, root_of
from warp_like.ir.core import Value
from warp_like.ir.types import Array, Tile, TileStack

OF_BLOCKS = (Tile, TileStack)
"""What functions take by reference without saying so."""


def changed(overload: Overload, given: Sequence[ArgumentType]) -> tuple[str, ...]:
    """Return the reference parameters of a function that its code may assign, for arguments of these types."""
    references = tuple(dict.fromkeys((*overload.references, *tile_parameters(overload, given))))
    if not references or overload.native is not None:
        return overload.references  # native code may assign all of its own
    body = overload.source.node.body
    assigned = assigned_names(body)
    calls = [n for s in body for n in all_nodes(s) if isinstance(n, ast.Call)]
    passed = {n.id for call in calls for a in arguments(call) for n in all_nodes(a) if isinstance(n, ast.Name)}
    types = dict(zip(overload.params, given, strict=True))
    changed_tiles = (
        _changed_tiles(overload, calls, assigned) if any(isinstance(t, OF_BLOCKS) for t in given) else frozenset()
    )

    def is_changed(name: str) -> bool:
        if isinstance(types[name], Array):  # whose elements are the caller's anyway
            return assigned.get(name) is False
        if isinstance(types[name], OF_BLOCKS):
            return name in changed_tiles
        return name in assigned or name in passed

    return tuple(filter(is_changed, references))


def _changed_tiles(overload: Overload, calls: Sequence[ast.Call], assigned: Mapping[str, bool]) -> frozenset[str]:
    """The names of tiles and stacks that a function may change in place, also through parts of them.

    Raises:
        WarpCodegenError: It assigns another tile to such a parameter, too, which its caller would not see.
    """
    body = overload.source.node.body
    nodes = [n for s in body for n in all_nodes(s)]
    names = {n.target.id for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    names |= {name for name, by_part in assigned.items() if by_part}
    stores = (n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
    names |= {root for n in stores if (root := root_of(n)) is not None}
    others = [call for call in calls if builtin_name(overload.source.meaning(call.func)) is None]  # or are unknown here
    names |= {root for call in others for a in arguments(call) if (root := root_of(a)) is not None}
    found = Aliases(body, always=True).roots(names)
    for n in nodes:
        for target, _ in assignments(n):
            if isinstance(target, ast.Name) and target.id in found and target.id in overload.params:
                raise WarpCodegenError(
                    f"`{target.id}` is an argument that func `{overload.source.name}` changes, and gets another "
                    "value here, which the caller would not see",
                    overload.source.loc(n),
                    help="give the other value another name",
                )
    return found


def arguments(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call, those by name last."""
    return [*call.args, *(k.value for k in call.keywords)]


def variables_changed(ctx: Context, nodes: Sequence[ast.stmt]) -> list[str]:
    """Return the variables that calls in ``nodes`` take by reference, or a part of them."""
    found = []
    for call in (n for s in nodes for n in all_nodes(s) if isinstance(n, ast.Call)):
        function = _meaning(ctx, call.func)
        if isinstance(function, Function):
            takes_references = any(o.references for o in function.overloads)
            for a in arguments(call):
                while isinstance(a, (ast.Subscript, ast.Attribute)):
                    a = a.value
                name = root_of(a)
                found += [name] if name is not None and (takes_references or holds_tile(ctx, name)) else []
    return found


def holds_tile(ctx: Context, name: str) -> bool:
    """Return whether a variable holds a tile, a part of one or a stack, which functions take by reference."""
    held = ctx.scope.variable(name)
    if held is None or isinstance(held.value, TileView):
        return held is not None
    return isinstance(held.value, Value) and isinstance(held.value.type, OF_BLOCKS)


def tile_parameters(overload: Overload, given: Sequence[ArgumentType]) -> tuple[str, ...]:
    """Return the parameters that are tiles or stacks, for arguments of these types."""
    if overload.takes_copies:
        return ()
    return tuple(p for p, t in zip(overload.params, given, strict=True) if isinstance(t, OF_BLOCKS))


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
