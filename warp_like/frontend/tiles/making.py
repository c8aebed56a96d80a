"""Tiles made of nothing: zeros, ones, values, ranges, random numbers."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from warp_like.base.errors import WarpCodegenTypeError, WarpCodegenValueError
from warp_like.builtins.loops import over
from warp_like.builtins.patterns import Literal
from warp_like.builtins.tiles import at_number, tabulated
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.operands import Operand, describe
from warp_like.frontend.tiles.arguments import MOST_ELEMENTS, Arguments, require_element
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, Struct, Tile, bfloat16
from warp_like.values.arithmetic import converted, rounded

Handler = Callable[[Context, ast.Call], Operand]


def _zeros(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_zeros", "shape dtype storage", 1)
    return ctx.b.zero(Tile(a.shape(), a.dtype()))


def _ones(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_ones", "shape dtype storage", 1)
    t = a.dtype()
    if isinstance(t, Struct):
        with ctx.at(a["dtype"]):
            raise WarpCodegenTypeError(
                f"tile_ones() makes numbers, vectors and matrices, got {with_article(str(t))}",
                help="wp.tile_full(shape, value)",
            )
    return ctx.b.constant(1, Tile(a.shape(), t))


def _empty(ctx: Context, node: ast.Call) -> Operand:
    """What nobody has written is zero, so that a program which reads it by mistake gives the same each time."""
    a = Arguments(ctx, node, "tile_empty", "shape dtype storage", 1)
    return ctx.b.zero(Tile(a.shape(), a.dtype()))


def _full(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_full", "shape value dtype storage", 2)
    operand = ctx.expr(a["value"])
    with ctx.at(a["value"]):
        if a.has("dtype"):
            t = a.dtype()
            if isinstance(operand, Value) and isinstance(operand.type, Scalar) and isinstance(t, Scalar):
                value = ctx.b.cast(operand, t)
            elif isinstance(operand, Literal) and isinstance(t, Scalar):
                value = ctx.b.constant(operand.value, t)
            else:
                value = ctx.convert(operand, t, "the value of tile_full()", a["value"])
        else:
            value = ctx.settle(operand)
        require_element(ctx, value.type, a["value"])
    return ctx.b.fill(Tile(a.shape(), value.type), value)


def _arange(ctx: Context, node: ast.Call) -> Operand:
    if len(node.args) > 3:
        raise WarpCodegenTypeError(
            f"tile_arange() takes up to 3 arguments by position, got {len(node.args)}",
            help="wp.tile_arange(start, stop, step, dtype=int)",
        )
    options = {k.arg for k in node.keywords}
    params = ["start stop step dtype storage", "stop dtype storage", "start stop dtype storage"][len(node.args) % 3]
    if "start" in options or "stop" in options or "step" in options:
        params = "start stop step dtype storage"
    a = Arguments(ctx, node, "tile_arange", params, 1)
    t = a.dtype()
    if not isinstance(t, Scalar) or t.is_bool:
        raise WarpCodegenTypeError(f"tile_arange() makes numbers, got the dtype {t}")
    given = {p: _constant(ctx, a, p, t) for p in ("start", "stop", "step") if a.has(p)}
    if len(given) == 1:
        given = {"stop": next(iter(given.values()))}
    start, step = given.get("start", Fraction(0)), given.get("step", Fraction(1))
    if step == 0:
        raise WarpCodegenValueError("tile_arange(): the step cannot be zero")
    count = _count(given["stop"], start, step, t)
    if count < 1:
        raise WarpCodegenValueError("tile_arange() has no elements")
    if count > MOST_ELEMENTS:
        raise WarpCodegenValueError(f"tile_arange() has at most {MOST_ELEMENTS} elements, and this would be more")
    b = ctx.b

    def element(at: tuple[Value, ...]) -> Value:
        i = b.cast(at[0], t)
        scaled = i if step == 1 else b.mul(i, b.constant(_number(step, t), t))
        return scaled if start == 0 else b.add(b.constant(_number(start, t), t), scaled)

    return tabulated(b, Tile((int(count),), t), element)


def _count(stop: Fraction, start: Fraction, step: Fraction, t: Scalar) -> float:
    """How many elements a range has; the quotient of floats is rounded to their type, so that 0.3 is 3 steps of 0.1."""
    quotient = (stop - start) / step
    if not t.is_float or quotient <= 0:
        return math.ceil(quotient)
    try:
        return max(math.ceil(rounded(float(quotient), t)), 1)
    except OverflowError:
        return math.inf


def _constant(ctx: Context, a: Arguments, param: str, t: Scalar) -> Fraction:
    """A bound of a range, rounded to type ``t``.

    Raises:
        WarpCodegenTypeError: It is no constant, or no number of that type.
    """
    operand = ctx.expr(a[param])
    known = operand.value if isinstance(operand, Literal) else None
    if isinstance(operand, Value):
        known = ops.constant_value(operand)
    with ctx.at(a[param]):
        if isinstance(known, bool) or not (
            isinstance(known, int) or (isinstance(known, float) and math.isfinite(known))
        ):
            raise WarpCodegenTypeError(f"the arguments of tile_arange() are constants, got {describe(operand)}")
        if t.is_int and (known != int(known) or not Literal(int(known)).fits(t)):
            raise WarpCodegenTypeError(f"`{param}` of tile_arange() is {with_article(str(t))}, got {known}")
        number = converted(_nearest(known, t) if isinstance(known, int) else known, t)
        if not math.isfinite(number):
            raise WarpCodegenTypeError(f"`{param}` of tile_arange() is {with_article(str(t))}, got {known}")
    return Fraction(number)


def _nearest(n: int, t: Scalar) -> int:
    """The integer nearest to ``n`` that a float type holds: a double in between would round it twice."""
    if not t.is_float:
        return n
    digits = 8 if t == bfloat16 else {16: 11, 32: 24, 64: 53}[t.bits]
    unit = 1 << max(n.bit_length() - digits, 0)
    return round(Fraction(n, unit)) * unit


def _number(x: Fraction, t: Scalar) -> int | float:
    return float(x) if t.is_float else int(x)


def _random(name: str) -> Handler:
    def build(ctx: Context, node: ast.Call) -> Operand:
        a = Arguments(ctx, node, f"tile_{name}", "shape rng min max storage", 2)
        b, shape = ctx.b, a.shape()
        limits = [ctx.value(a[p]) for p in ("min", "max") if a.has(p)]
        first = ctx.value(a["rng"])
        drawn = ctx.apply(name, first, *limits)
        assert isinstance(drawn, tuple)
        if ctx.session.block_dim > 1:
            return _random_of_threads(ctx, name, shape, first, limits)
        state = drawn[1]  # as Warp, which leaves the first number out
        t = Tile(shape, drawn[0].type)

        def draw(at: tuple[Value, ...], made: Value, s: Value) -> list[Value]:
            x, s = b.apply(name, s, *limits)
            return [b.insert_component(made, x, *at), s]

        return over(b, shape, [b.insert(ops.Empty(), t).result, state], draw)[0]

    return build


def _random_of_threads(ctx: Context, name: str, shape: Sequence[int], state: Value, limits: Sequence[Value]) -> Value:
    """Random numbers as Warp draws them in blocks: the threads take turns, each with a state of its own."""
    b, count = ctx.b, ctx.session.block_dim
    states = b.threads(state, count)
    t = Tile(tuple(shape), b.apply(name, state, *limits)[0].type)
    size = math.prod(shape)

    def of_thread(thread: tuple[Value, ...], made: Value) -> list[Value]:
        (k,) = thread
        own = b.apply(name, b.add(b.extract(states, k), b.cast(k, state.type)), *limits)[1]

        def draw(turn: tuple[Value, ...], made: Value, s: Value) -> list[Value]:
            x, s = b.apply(name, s, *limits)
            number = b.add(b.mul(turn[0], count), k)
            return [b.insert_component(made, x, *at_number(b, t, number)), s]  # out of range: as it was

        return over(b, (-(-size // count),), [made, own], draw)[:1]

    return over(b, (min(count, size),), [b.insert(ops.Empty(), t).result], of_thread)[0]


HANDLERS = {
    "tile_zeros": _zeros,
    "tile_ones": _ones,
    "tile_empty": _empty,
    "tile_full": _full,
    "tile_arange": _arange,
    "tile_randi": _random("randi"),
    "tile_randf": _random("randf"),
}
