"""Calls: of builtins, of user functions, of types."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like import values
from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.builtins.overload import NoMatch, Special
from warp_like.builtins.spec import ASSIGNING, REGISTRY, bind, resolve
from warp_like.frontend import (
    assignment,
    constants,
    places,
    plain_names,
    references,
    specials,
    statics,
    unpacking,
)
from warp_like.frontend.arguments import require_assignable
from warp_like.frontend.context import Context, expression, vector_instead
from warp_like.frontend.expressions import array_choice
from warp_like.frontend.function import Function
from warp_like.frontend.host import NUMPY_DIFFERS, GradientOf, Host, builtin_name, grad, type_named
from warp_like.frontend.operands import NOTHING, Operand, describe, flatten, require_value_kind
from warp_like.frontend.tile_views import TileView, root_of
from warp_like.ir import core as ir
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Struct, Tile, TileStack, Transform

if TYPE_CHECKING:
    from warp_like.frontend.overloads import Argument


@expression(ast.Call)
def build_call(ctx: Context, node: ast.Call) -> Operand:
    """``f(...)``."""
    callee = ctx.type_meant(plain_names.callee(ctx, node.func), node.func)
    if not isinstance(callee, Host):
        raise WarpCodegenTypeError(f"{describe(callee)} can't be called", help=_as_function(node.func))
    name = builtin_name(callee.obj)
    if name == "static":
        if not isinstance(node.func, (ast.Name, ast.Attribute)) or (
            isinstance(node.func, ast.Name) and node.func.id in ctx.scope.names
        ):  # the cache key would not see it
            raise WarpCodegenError("static() can't go by another name", help="wp.static(...)")
        return statics.static(ctx, node)
    for keyword in node.keywords:
        if keyword.arg is None:
            raise WarpCodegenError("`**` can't unpack in kernel code", help="name each argument")
    node = unpacking.without_stars(ctx, node)
    if callee.obj is grad:
        from warp_like.frontend import derivatives

        return derivatives.build_grad(ctx, node)
    if name is not None:
        _warn_of_numpy(callee)
        return _builtin(ctx, name, node)
    if isinstance(callee.obj, GradientOf):
        from warp_like.frontend import derivatives

        return derivatives.call_gradient(ctx, *_called(ctx, callee.obj, node))
    if isinstance(callee.obj, Function):
        return _call_user(ctx, callee.obj, node)
    t = type_named(callee, may_be_empty=True) if callee.obj is not Any and values.is_type(callee.obj) else None
    if isinstance(t, Struct):
        args = [(ctx.expr(a), a) for a in node.args]
        keywords = {k.arg: (ctx.expr(k.value), k.value) for k in node.keywords if k.arg}
        cls = callee.obj if isinstance(callee.obj, type) else values.from_ir(t)
        from warp_like.frontend import constructors

        return constructors.structure(ctx, t, cls, args, keywords)
    if isinstance(t, Transform):
        from warp_like.frontend import making

        return making.transform(ctx, node, t)
    if t is not None:
        from warp_like.frontend import constructors, making

        making.require_agreement(ctx, node, t, callee.text)
        return constructors.construct(ctx, t, [ctx.expr(a) for a in node.args], node.args)
    from warp_like.frontend import refused

    raise refused.call(callee, node)


def _as_function(called: ast.expr) -> str | None:
    """How ``v.length()`` is written: functions are not methods."""
    if isinstance(called, ast.Attribute) and called.attr in REGISTRY:
        return f"wp.{called.attr}({ast.unparse(called.value)})"
    return None


def _warn_of_numpy(callee: Host) -> None:
    """Say that a function of NumPy has another meaning in kernel code, as in Warp."""
    if isinstance(callee.obj, np.ufunc) and callee.obj.__name__ in NUMPY_DIFFERS:
        name, difference = NUMPY_DIFFERS[callee.obj.__name__]
        from warp_like.frontend.warn import warn

        warn(
            f"`{callee.text}` is wp.{name}() in kernel code, which {difference}", help=f"write wp.{name} if it is meant"
        )


def _builtin(ctx: Context, name: str, node: ast.Call) -> Operand:
    special = specials.handler(name)
    if special is not None:
        return special(ctx, node)
    first = next(REGISTRY.rows(name), None)
    if first is None or isinstance(first.lower, Special):
        raise WarpCodegenError(f"{name}() can't be used here")
    args = [ctx.expr(a) for a in node.args]
    keywords = {k.arg: ctx.expr(k.value) for k in node.keywords if k.arg}
    try:
        bound = bind(name, args, keywords)
    except NoMatch as error:
        raise WarpCodegenTypeError(str(error), help=error.help) from None
    nodes = node.args if not keywords and len(bound) == len(node.args) else None
    for argument, operand in zip(node.args, args, strict=True):
        with ctx.at(argument):
            require_value_kind(operand, functools.partial(vector_instead, node=argument))
    if name in ("where", "select") and len(bound) == 3:
        cond, *sides = bound
        chosen = array_choice(ctx, cond, *(sides if name == "where" else sides[::-1]))
        if chosen is not None:
            return chosen
    result = ctx.apply(name, *bound, nodes=nodes)
    return _assigned(ctx, name, node, result) if name in ASSIGNING else result


def _assigned(ctx: Context, name: str, node: ast.Call, results: Operand) -> Operand:
    """Give the variables that a builtin changes their new values, and return its other results.

    An argument that is no variable has nothing to change: its new value is dropped, as that of ``wp.rand_init(i)`` in
    ``wp.randf(wp.rand_init(i))``. A call for the sake of the change alone needs a place for it.
    """
    op = next(v.op for v in (results if isinstance(results, tuple) else (results,)) if isinstance(v, Value))
    assert isinstance(op, (ops.Apply, ops.Call))
    row = resolve(name, [a.type for a in op.args]).overload
    if not row.assigns:
        return results
    if not isinstance(node.func, (ast.Name, ast.Attribute)) or ast.unparse(node.func).split(".")[-1] != name:
        raise WarpCodegenError(f"{name}() changes a variable and can't go by another name", help=f"wp.{name}(...)")
    require_assignable(ctx, name)
    values = op.results
    kept = len(values) - len(row.assigns)
    given = dict(zip(row.params, node.args, strict=False)) | {k.arg: k.value for k in node.keywords if k.arg}
    for param, new in zip(row.assigns, values[kept:], strict=True):
        target = given[param]
        if isinstance(target, ast.Name) and ctx.scope.variable(target.id) is not None:
            ctx.bind(target.id, new, target)
        elif not kept:
            assignment.assign(ctx, target, new, target)
    return values[0] if kept == 1 else tuple(values[:kept]) if kept else NOTHING


def _arguments(ctx: Context, function: Function, node: ast.Call) -> tuple[list[Argument], dict[str, Argument]]:
    """Build the arguments of a call of a user function: those by position, and those by name."""
    from warp_like.frontend.overloads import Argument

    by_reference = {(o.params.index(p), p) for o in function.overloads for p in o.references}

    def built(a: ast.expr, is_reference: bool) -> Argument:
        root = root_of(a)
        if root is not None and references.holds_tile(ctx, root):
            from warp_like.frontend.tiles.arguments import as_view

            operand = ctx.reference(a)
            view = as_view(ctx, operand, a)
            if view is None:
                return Argument(constants.opened(ctx, operand), a, _place_of_stack(ctx, a, operand))
            return Argument(ctx.viewed(view) if view.is_whole else view.read(ctx.b, ctx.viewed(view)), a, view)
        if is_reference and isinstance(a, (ast.Name, ast.Subscript, ast.Attribute)):
            where = places.place(ctx, a)
            with ctx.at(a):
                return Argument(places.load(ctx, where), a, where)
        return Argument(constants.opened(ctx, ctx.expr(a)), a)

    args = [built(a, any(k == i for i, _ in by_reference)) for k, a in enumerate(node.args)]
    keywords = {k.arg: built(k.value, any(k.arg == p for _, p in by_reference)) for k in node.keywords if k.arg}
    return args, keywords


def _place_of_stack(ctx: Context, node: ast.expr, operand: Operand) -> Any:
    """The place of a stack, which functions change."""
    is_stack = isinstance(node, ast.Name) and isinstance(operand, Value) and isinstance(operand.type, TileStack)
    return places.place(ctx, node) if is_stack else None


def _call_user(ctx: Context, function: Function, node: ast.Call) -> Operand:
    """Call a user function, and store what it gives for arguments taken by reference."""
    from warp_like.frontend import overloads

    called = overloads.instance(ctx, function, *_arguments(ctx, function, node))
    results = ctx.call(called.function, flatten(tuple(called.args)))
    if not called.changed:
        return results
    if ctx.no_assignment:
        raise WarpCodegenError(
            f"{function.name}() changes an argument, so it can't stand {ctx.no_assignment}",
            help="call it in a statement of its own before",
        )
    values = results if isinstance(results, tuple) else (results,)
    kept = len(values) - len(called.changed)
    for (name, argument), new in zip(called.changed.items(), values[kept:], strict=True):
        given = argument if isinstance(argument, overloads.Argument) else None
        if isinstance(new.type, Tile):
            if given is not None and isinstance(given.place, TileView):
                _require_distinct(ctx, function, name, given.place, given.node)
                from warp_like.frontend.tiles.parts import replace

                replace(ctx, given.place, new)
            continue  # what no variable holds, nobody sees again
        target = references.require_place(ctx, function, name, given.node if given is not None else None)
        assert given is not None
        with ctx.at(target):
            assignment.store(ctx, given.place, new, target, target)
    return values[0] if kept == 1 else tuple(values[:kept]) if kept else NOTHING


def _require_distinct(ctx: Context, function: Function, name: str, view: TileView, node: ast.expr) -> None:
    """Raise where a function changes elements of its tile that are one element of the caller's: it knows them apart."""
    if view.is_repeated:
        with ctx.at(node):
            raise WarpCodegenError(
                f"{function.name}() changes its argument `{name}`, and several elements of `{view.text}` are one "
                f"element of `{view.root}`",
                help="give it the tile before it is broadcast, or a copy: wp.tile_broadcast(...) + wp.tile_zeros(...)",
            )


def _called(ctx: Context, gradient: GradientOf, node: ast.Call) -> tuple[ir.Function, list[Operand]]:
    """The function of which ``gradient`` is the gradient, for the arguments of ``node``, and these arguments."""
    from warp_like.frontend import derivatives

    of = gradient.function
    if isinstance(of, Function):
        from warp_like.frontend import overloads

        called = overloads.instance(ctx, of, *_arguments(ctx, of, node))
        if called.changed:
            raise WarpCodegenError(f"grad() can't differentiate {of.name}(), which changes its argument")
        return derivatives.flattened(ctx, called.function), called.args
    if isinstance(of, GradientOf):
        primal, args = _called(ctx, of, node)
        return derivatives.gradient_of(ctx, primal), args
    return derivatives.builtin_primal(ctx, of.name, node)
