"""Functions over the elements of tiles: maps, conversions, reductions, scans."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.loops import counted, for_each, over
from warp_like.builtins.patterns import Literal
from warp_like.builtins.reductions import reduced
from warp_like.builtins.tiles import as_tile, at_number, tabulated, tile_type
from warp_like.frontend import plain_names
from warp_like.frontend.arguments import positional_only
from warp_like.frontend.context import Context
from warp_like.frontend.function import Function
from warp_like.frontend.host import Host, builtin_name
from warp_like.frontend.operands import NOTHING, Operand, describe, flatten, require_value_kind
from warp_like.frontend.overloads import Argument, instance
from warp_like.frontend.tiles import parts, structs
from warp_like.frontend.tiles.arguments import Arguments, require_element, require_same_shape
from warp_like.ir import ops
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Scalar, Tile, Type, int32, scalar_of

Call = Callable[..., Value]


def function_argument(ctx: Context, node: ast.expr, name: str) -> Call:
    """Return a builtin or a user's function, given as an argument, as a function of values that builds a call.

    Raises:
        WarpCodegenTypeError: It is neither, or it returns not one value.
    """
    operand = plain_names.callee(ctx, node)

    def one(got: Operand) -> Value:
        with ctx.at(node):
            if not isinstance(got, Value):
                raise WarpCodegenTypeError(f"the function of {name}() returns one value, got {describe(got)}")
        return got

    if isinstance(operand, Host) and (builtin := builtin_name(operand.obj)) is not None:
        return lambda *args: one(ctx.apply(builtin, *args))
    if isinstance(operand, Host) and isinstance(operand.obj, Function):
        function = operand.obj

        def call(*args: Value) -> Value:
            called = instance(ctx, function, [Argument(x, node) for x in args], {})
            if called.changed:
                raise WarpCodegenTypeError(f"{name}() takes no function that changes its arguments")
            return one(ctx.call(called.function, flatten(tuple(called.args))))

        return call
    with ctx.at(node):
        raise WarpCodegenTypeError(f"{name}() takes a function, got {describe(operand)}", help="wp.sin, or a wp.func")


def result_type(ctx: Context, build: Callable[[], Value]) -> Type:
    """Return the type of what ``build`` gives, which is built once for nothing."""
    with ctx.b.into(Block()):
        return build().type


# --- maps ---


def _map(ctx: Context, node: ast.Call) -> Operand:
    given = positional_only(node, "tile_map")
    if len(given) < 2:
        raise WarpCodegenTypeError("tile_map() takes a function and at least one tile", help="wp.tile_map(wp.sin, t)")
    call = function_argument(ctx, given[0], "tile_map")
    args = [ctx.expr(g) for g in given[1:]]
    tiles = [a for a in args if isinstance(a, Value) and isinstance(a.type, Tile)]
    if not tiles:
        raise WarpCodegenTypeError("tile_map() takes at least one tile")
    require_same_shape(ctx, node, "tile_map", *tiles)
    first = tile_type(tiles[0])
    like = scalar_of(first.dtype)
    values = [_argument(ctx, a, g, like) for a, g in zip(args, given[1:], strict=True)]
    b = ctx.b

    def element(at: tuple[Value, ...]) -> Value:
        return call(*(b.extract(v, *at) if isinstance(v.type, Tile) else v for v in values))

    zero = tuple(b.index(0) for _ in first.shape)
    t = result_type(ctx, lambda: element(zero))
    return tabulated(b, Tile(first.shape, require_element(ctx, t, given[0])), element)


def _argument(ctx: Context, operand: Operand, node: ast.expr, like: Type | None) -> Value:
    """An argument that is the same for all elements; a number is of their type where that can be."""
    with ctx.at(node):
        operand = require_value_kind(operand)
        if isinstance(operand, Literal) and like is not None and operand.fits(like):
            return ctx.b.constant(operand.value, like)
        return ctx.settle(operand)


def _astype(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_astype", "t dtype", 2)
    t, to = a.tile("t"), a.dtype()
    if not isinstance(tile_type(t).dtype, Scalar) or not isinstance(to, Scalar):
        raise WarpCodegenTypeError(f"tile_astype() converts tiles of numbers, got {tile_type(t).dtype} to {to}")
    return ctx.b.cast(t, Tile(tile_type(t).shape, to))


def _where(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_where", "cond a b", 3)
    cond = a.tile("cond")
    sides = [ctx.expr(a[p]) for p in "ab"]
    typed = next((s for s in sides if isinstance(s, Value)), None)
    like = None if typed is None else tile_type(typed).dtype if isinstance(typed.type, Tile) else typed.type
    values = [_argument(ctx, s, a[p], like) for s, p in zip(sides, "ab", strict=True)]
    require_same_shape(ctx, node, "tile_where", cond, *(v for v in values if isinstance(v.type, Tile)))
    b = ctx.b

    def element(at: tuple[Value, ...]) -> Value:
        x, y = (b.extract(v, *at) if isinstance(v.type, Tile) else v for v in values)
        got = ctx.apply("where", b.extract(cond, *at), x, y)
        assert isinstance(got, Value)
        return got

    zero = tuple(b.index(0) for _ in tile_type(cond).shape)
    return tabulated(b, Tile(tile_type(cond).shape, result_type(ctx, lambda: element(zero))), element)


# --- reductions ---


def _sum(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_sum", "a axis", 1)
    t = a.tile("a")
    if structs.is_tile_of_structs(t) and not a.has("axis"):
        return structs.total(ctx, t)
    if not a.has("axis"):
        return ctx.apply("tile_sum", t)
    add = functools.partial(structs.combined, ctx.b, "add")
    return _along(ctx, t, a.axis(len(tile_type(t).shape)), add if structs.is_tile_of_structs(t) else ctx.b.add)


def _reduce(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_reduce", "op a axis", 2)
    combine, t = function_argument(ctx, a["op"], "tile_reduce"), a.tile("a")
    made = tile_type(t)
    zero = tuple(ctx.b.index(0) for _ in made.shape)
    got = result_type(ctx, lambda: combine(ctx.b.extract(t, *zero), ctx.b.extract(t, *zero)))
    if got != made.dtype:
        with ctx.at(a["op"]):
            raise WarpCodegenTypeError(f"the function of tile_reduce() gives {made.dtype}, as it takes, got {got}")
    if not a.has("axis"):
        return as_tile(ctx.b, reduced(ctx.b, made, lambda at: ctx.b.extract(t, *at), combine))
    return _along(ctx, t, a.axis(len(made.shape)), combine)


def _along(ctx: Context, x: Value, axis: int, combine: Call) -> Value:
    """The elements along one axis combined."""
    b, t = ctx.b, tile_type(x)
    rest = (*t.shape[:axis], *t.shape[axis + 1 :])
    made = Tile(rest or (1,), t.dtype)

    def whole(at: tuple[Value, ...], i: Value) -> tuple[Value, ...]:
        return (*at[:axis], i, *at[axis:]) if rest else (i,)

    if axis == len(t.shape) - 1:
        line = Tile((t.shape[axis],), t.dtype)
        return tabulated(b, made, lambda at: reduced(b, line, lambda k: b.extract(x, *whole(at, k[0])), combine))
    first = tabulated(b, made, lambda at: b.extract(x, *whole(at, b.index(0))))

    def add(i: Value, total: Value) -> list[Value]:  # a whole row at a time, which lies side by side
        def one(at: tuple[Value, ...], made: Value) -> list[Value]:
            combined = combine(b.extract(made, *at), b.extract(x, *whole(at, i)))
            return [b.insert_component(made, combined, *at)]

        return over(b, rest, [total], one)

    return counted(b, 1, t.shape[axis], [first], add)[0]


# --- scans ---


def _scan(kind: str, combine: str, inclusive: bool) -> Callable[[Context, ast.Call], Operand]:
    def build(ctx: Context, node: ast.Call) -> Operand:
        a = Arguments(ctx, node, f"tile_scan_{kind}", "a", 1)
        x, b = a.tile("a"), ctx.b
        t = tile_type(x)
        if not isinstance(t.dtype, Scalar) or t.dtype.is_bool:
            raise WarpCodegenTypeError(f"tile_scan_{kind}() takes a tile of numbers, got {t}")
        start = b.insert(ops.Empty(), t).result
        if inclusive:
            zero = tuple(b.index(0) for _ in t.shape)
            first = b.extract(x, *zero)

            def step(at: tuple[Value, ...], made: Value, total: Value, number: Value) -> list[Value]:
                y = b.extract(x, *at)
                begins = b.eq(number, 0)
                total = b.select(begins, y, b.apply(combine, total, y))
                return [b.insert_component(made, total, *at), total, b.add(number, 1)]

            return for_each(b, t, [start, first, b.index(0)], step)[0]

        def before(at: tuple[Value, ...], made: Value, total: Value) -> list[Value]:
            return [b.insert_component(made, total, *at), b.apply(combine, total, b.extract(x, *at))]

        return for_each(b, t, [start, b.zero(t.dtype)], before)[0]

    return build


# --- sorting ---


def _sort(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_sort", "keys values", 2)
    keys, values = parts.changing(ctx, a, "keys"), parts.changing(ctx, a, "values")
    if keys.shape != values.shape:
        raise WarpCodegenTypeError(f"tile_sort() takes tiles of one shape, got {keys.shape} and {values.shape}")
    k, v = a.tile("keys"), a.tile("values")
    if not isinstance(keys.dtype, Scalar) or keys.dtype.is_bool:
        raise WarpCodegenTypeError(f"the keys of tile_sort() are numbers, got {keys.dtype}")
    order = ctx.apply("_tile_order", k)
    assert isinstance(order, Value)
    b = ctx.b
    for view, x in ((keys, k), (values, v)):
        t = tile_type(x)

        def element(at: tuple[Value, ...], x: Value = x, t: Tile = t) -> Value:
            return b.extract(x, *at_number(b, t, b.extract(order, *at)))

        parts.replace(ctx, view, tabulated(b, t, element))
    return NOTHING


HANDLERS = {
    "tile_map": _map,
    "tile_astype": _astype,
    "tile_where": _where,
    "tile_sum": _sum,
    "tile_reduce": _reduce,
    "tile_scan_inclusive": _scan("inclusive", "add", True),
    "tile_scan_exclusive": _scan("exclusive", "add", False),
    "tile_scan_max_inclusive": _scan("max_inclusive", "max", True),
    "tile_scan_min_inclusive": _scan("min_inclusive", "min", True),
    "tile_sort": _sort,
}

__all__ = ["HANDLERS", "function_argument", "int32", "result_type"]
