"""Operators on tiles, element by element, and what has a gradient of its own: sums, extremes, products.

The builtins that take shapes, functions or parts of tiles are declared in ``tile_calls``; the frontend builds them.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from warp_like.builtins import (
    reference,
    transform,  # noqa: F401 (its rows of a name come first)
)
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import FEW_BITS, SIMD_BITS, SIMD_ROWS, for_each, over, product, scan
from warp_like.builtins.operators import INTEGERS
from warp_like.builtins.patterns import MI, VI, F, I, M, Pattern, Q, S, TileOf, V
from warp_like.builtins.precision import in_float32
from warp_like.builtins.reductions import is_wide, reduced
from warp_like.builtins.spec import Adjoint, Adjoints, Elementwise, Expand, NoGradient, Target, declare_row
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Mat, Scalar, Tile, float32, int32, scalar_of, uint16, uint32

GROUP = "Tiles"

TILE = TileOf("shape", S)
ONE = TileOf((1,), S)


def tile_type(v: Value) -> Tile:
    """The type of ``v``, which is a tile."""
    assert isinstance(v.type, Tile), v
    return v.type


def as_tile(b: Emitter, x: Value) -> Value:
    """Return a tile of one element."""
    return b.fill(Tile((1,), x.type), x)


# --- operators ------------------------------------------------------------------------------------------------


def _total_of_products(b: Emitter, x: Value, y: Value) -> Value:
    return b.extract(b.tile_sum(b.mul(x, y)), 0)


def _declare_operator(
    name: str, operands: Sequence[Pattern], result: Pattern, words: str, adjoint: Adjoint = None
) -> None:
    """An operator that works element by element; what is no tile is the same for all elements."""
    params = dict(zip("ab" if len(operands) > 1 else "x", operands, strict=True))
    example = f"t = wp.tile_load(a, shape=4)\nr = wp.{name}({', '.join(map(_sample, operands))})"
    doc = f"Return {words}."
    declare_row(name, Elementwise(name), params, result, group="Operators", doc=doc, adjoint=adjoint, example=example)


def _sample(of: Pattern) -> str:
    """An operand for the example of a row: what it is made of is told by its elements."""
    if isinstance(of, TileOf):
        return "t" if of.dtype == S else f"wp.tile_full(4, {_sample(of.dtype)})"
    samples: dict[Pattern, str] = {
        V: "wp.vec2(t[0], 2.0)",
        M: "wp.mat22(t[0], 0.0, 0.0, 2.0)",
        Q: "wp.quat(t[0], 0.0, 0.0, 1.0)",
        I: "n[0]",
        VI: "wp.vec2i(n[0], 2)",
        MI: "wp.matrix(n[0], 2, 3, 4, shape=(2, 2), dtype=int)",
    }
    return samples.get(of, "2.0")


def _declare_sums(element: Pattern) -> None:
    tile = TileOf("shape", element)
    _declare_operator("add", (tile, tile), tile, "the sum of two tiles", lambda b, g, out, x, y: (g, g))
    _declare_operator("sub", (tile, tile), tile, "the difference of two tiles", lambda b, g, out, x, y: (g, b.neg(g)))
    _declare_operator("neg", (tile,), tile, "the tile with each element negated", lambda b, g, out, x: b.neg(g))


def _declare_scaling(element: Pattern) -> None:
    """Products and quotients of vectors or matrices and numbers, of which one or both are in a tile."""
    tile = TileOf("shape", element)
    for x, y in ((tile, S), (tile, TILE), (element, TILE)):
        _declare_operator("mul", (x, y), tile, "the products of the elements")
        _declare_operator("mul", (y, x), tile, "the products of the elements")
        _declare_operator("div", (x, y), tile, "the quotients of the elements")
        _declare_operator("div", (y, x), tile, "the quotients of the elements")


for _element in (S, V, M, Q):
    _declare_sums(_element)
_declare_operator(
    "mul", (TILE, TILE), TILE, "the products of the elements", lambda b, g, out, x, y: (b.mul(g, y), b.mul(g, x))
)
_declare_operator(
    "mul",
    (TILE, S),
    TILE,
    "tile ``a`` with each element multiplied by ``b``",
    lambda b, g, out, x, y: (b.mul(g, y), _total_of_products(b, g, x)),
)
_declare_operator(
    "mul",
    (S, TILE),
    TILE,
    "tile ``b`` with each element multiplied by ``a``",
    lambda b, g, out, x, y: (_total_of_products(b, g, y), b.mul(g, x)),
)
for _operands in ((TILE, TILE), (TILE, S), (S, TILE)):
    _declare_operator("div", _operands, TILE, "the quotients of the elements")
for _element in (V, M):
    _declare_scaling(_element)
for _operands in ((TileOf("shape", Q), S), (S, TileOf("shape", Q))):
    _declare_operator("mul", _operands, TileOf("shape", Q), "the quaternions of the tile scaled")
for _name, _word in (("bit_and", "and"), ("bit_or", "or"), ("bit_xor", "exclusive or")):
    for _element in (I, VI, MI):
        _tile = TileOf("shape", _element)
        _declare_operator(_name, (_tile, _tile), _tile, f"the bitwise {_word} of the elements", INTEGERS)


# --- sums and products ----------------------------------------------------------------------------------------


def _sum(b: Emitter, x: Value) -> Value:
    return as_tile(b, reduced(b, tile_type(x), lambda at: b.extract(x, *at), b.add, -0.0))


def _spread(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
    return b.fill(tile_type(x), b.extract(g, 0))


for _element in (S, V, M, Q):
    declare_row(
        "tile_sum",
        Expand(in_float32(_sum)),
        {"a": TileOf("shape", _element)},
        TileOf((1,), _element),
        group=GROUP,
        doc="Return the sum of all elements, as a tile of one element; with ``axis=``, a constant, the sums along it.",
        adjoint=_spread,
        example="t = wp.tile_load(a, shape=4)\nwp.tile_store(a, wp.tile_sum(t))",
    )


def _dot(b: Emitter, x: Value, y: Value) -> Value:
    t = tile_type(x).dtype
    pair = b.mul if isinstance(t, Scalar) else b.ddot if isinstance(t, Mat) else b.dot
    return as_tile(b, reduced(b, tile_type(x), lambda at: pair(b.extract(x, *at), b.extract(y, *at)), b.add, -0.0))


def _dot_adjoint(b: Emitter, g: Value, out: Value, x: Value, y: Value) -> Adjoints:
    scale = b.extract(g, 0)
    return b.mul(y, scale), b.mul(x, scale)


for _element in (S, V, M):
    declare_row(
        "tile_dot",
        Expand(in_float32(_dot)),
        {"a": TileOf("shape", _element), "b": TileOf("shape", _element)},
        ONE,
        group=GROUP,
        doc="Return the sum of the products of the elements, of vectors of their dot products, as a tile of one.",
        adjoint=_dot_adjoint,
        example="t = wp.tile_load(a, shape=4)\nwp.tile_store(a, wp.tile_dot(t, t))",
    )


# --- extremes -------------------------------------------------------------------------------------------------


def _extreme(name: str, before: str) -> Callable[[Emitter, Value], Value]:
    def body(b: Emitter, x: Value) -> Value:
        t = tile_type(x)

        def better(best: Value, y: Value) -> Value:
            """``name`` of floats as comparisons, of which LLVM makes vectors where a loop carries many of them, too."""
            return b.select(b.ne(best, best), y, b.select(b.apply(before, y, best), y, best))

        number = scalar_of(t.dtype)
        is_float = number is not None and number.is_float
        combine = better if is_float and not is_wide(t) else functools.partial(b.apply, name)
        return as_tile(b, reduced(b, t, lambda at: b.extract(x, *at), combine, math.nan if is_float else None))

    return body


def _place(before: str) -> Callable[[Emitter, Value], Value]:
    """The number of the first element that no other one is ``before``."""

    def body(b: Emitter, x: Value) -> Value:
        zero = tuple(b.index(0) for _ in tile_type(x).shape)

        def step(at: tuple[Value, ...], best: Value, place: Value, number: Value) -> list[Value]:
            number = b.add(number, 1)
            y = b.extract(x, *at)
            better = b.apply(before, y, best)
            return [b.select(better, y, best), b.select(better, number, place), number]

        _, place, _ = scan(b, x.type, [b.extract(x, *zero), b.index(0), b.index(0)], step)
        return as_tile(b, place)

    return body


def at_number(b: Emitter, t: Tile, number: Value) -> tuple[Value, ...]:
    """Return the index of the element that has this number, counted row by row."""
    found: list[Value] = []
    for axis, n in enumerate(t.shape):
        rest = math.prod(t.shape[axis + 1 :])
        i = b.div(number, rest) if rest > 1 else number
        found.append(b.mod(i, n) if axis else i)
    return tuple(found)


def _to_extreme(name: str) -> Callable[..., Adjoints]:
    def adjoint(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
        t = tile_type(x)
        where = at_number(b, t, b.extract(b.apply(name, x), 0))
        return b.insert_component(b.zero(t), b.extract(g, 0), *where)

    return adjoint


for _kind, _word, _before in (("min", "least", "lt"), ("max", "greatest", "gt")):
    declare_row(
        f"tile_{_kind}",
        Expand(_extreme(_kind, _before)),
        {"a": TILE},
        ONE,
        group=GROUP,
        doc=f"Return the {_word} element, as a tile of one.\n\nThe gradient goes to the first element that has it.",
        adjoint=_to_extreme(f"tile_arg{_kind}"),
        example=f"t = wp.tile_load(a, shape=4)\nwp.tile_store(a, wp.tile_{_kind}(t))",
    )
    declare_row(
        f"tile_arg{_kind}",
        Expand(_place(_before)),
        {"a": TILE},
        TileOf((1,), int32),
        group=GROUP,
        doc=f"Return the number of the first element that is the {_word}, counted row by row, as a tile of one.",
        adjoint=INTEGERS,
        example=f"t = wp.tile_load(a, shape=4)\na[0] = float(wp.tile_arg{_kind}(t)[0])",
    )


# --- matrices -------------------------------------------------------------------------------------------------

_FACTORS = TileOf(("M", "K"), F), TileOf(("K", "N"), F)


def _product(
    b: Emitter,
    x: Callable[[Value, Value], Value],
    y: Callable[[Value, Value], Value],
    made: Tile,
    depth: int,
) -> Value:
    """The sums over ``k`` of ``x(i, k) * y(k, j)``: of wide rows by a loop over columns that runs in lanes."""
    extents = (made.shape[0], depth, made.shape[1])
    if _is_wide(made):
        return product(b, made, extents, x, y, lambda *at: at, (_simd_rows(made), 1), simd=True)
    return product(b, made, extents, x, y, lambda *at: at)


def _is_wide(t: Tile) -> bool:
    """Whether a row of a product fills vectors."""
    assert isinstance(t.dtype, Scalar)
    return t.shape[1] * t.dtype.bits >= SIMD_BITS


def _simd_rows(t: Tile) -> int:
    """The rows of a wide product that are summed at once."""
    assert isinstance(t.dtype, Scalar)
    return 2 * SIMD_ROWS if SIMD_BITS < t.shape[1] * t.dtype.bits <= FEW_BITS else SIMD_ROWS


def _matrix_product(b: Emitter, x: Value, y: Value) -> Value:
    (m, k), (_, n) = tile_type(x).shape, tile_type(y).shape
    made = Tile((m, n), tile_type(x).dtype)
    return _product(b, lambda *at: b.extract(x, *at), lambda *at: b.extract(y, *at), made, k)


def _transposed_product(b: Emitter, x: Value, y: Value) -> Value:
    """``x @ y^T``, with a transposed copy where it pays, so that columns of the product are neighbours in memory."""
    (m, k), (n, _) = tile_type(x).shape, tile_type(y).shape
    made = Tile((m, n), tile_type(x).dtype)
    if m >= SIMD_ROWS and _is_wide(made):
        turned = tabulated(b, Tile((k, n), tile_type(y).dtype), lambda at: b.extract(y, at[1], at[0]))
        return _matrix_product(b, x, turned)
    columns = lambda p, j: b.extract(y, j, p)  # noqa: E731
    return product(b, made, (m, k, n), lambda *at: b.extract(x, *at), columns, lambda *at: at)


def _product_of_transposed(b: Emitter, x: Value, y: Value) -> Value:
    """``x^T @ y``, without a transposed copy."""
    (k, m), (_, n) = tile_type(x).shape, tile_type(y).shape
    made = Tile((m, n), tile_type(x).dtype)
    return _product(b, lambda i, p: b.extract(x, p, i), lambda *at: b.extract(y, *at), made, k)


def _declare_products(end: str) -> None:
    """The products of two matrices, of which one may be transposed; their adjoints are products of the same ``end``."""
    plain, turned_y, turned_x = (f"_tile_product{how}{end}" for how in ("", "_nt", "_tn"))

    def row(name: str, body: Callable[..., Value], x: TileOf, y: TileOf, adjoint: Adjoint) -> None:
        params, result = {"a": x, "b": y}, TileOf(("M", "N"), F)
        doc = "Return the product of two matrices, of which one may be transposed."
        declare_row(name, Expand(in_float32(body)), params, result, group=GROUP, doc=doc, adjoint=adjoint)

    row(
        plain,
        _matrix_product,
        *_FACTORS,
        lambda b, g, out, x, y: (b.apply(turned_y, g, y), b.apply(turned_x, x, g)),
    )
    row(
        turned_y,
        _transposed_product,
        TileOf(("M", "K"), F),
        TileOf(("N", "K"), F),
        lambda b, g, out, x, y: (b.apply(plain, g, y), b.apply(turned_x, g, x)),
    )
    row(
        turned_x,
        _product_of_transposed,
        TileOf(("K", "M"), F),
        TileOf(("K", "N"), F),
        lambda b, g, out, x, y: (b.apply(turned_y, y, g), b.apply(plain, x, g)),
    )


BY_TENSOR_CORES = "_by_tensor_cores"
"""How the names of those products end whose sums may be rounded as the matrix units of a GPU do it."""

for _end in ("", BY_TENSOR_CORES):
    _declare_products(_end)


declare_row(
    "_dot_of_pairs",
    Target(),
    {"total": float32, "x": uint32, "y": uint32},
    float32,
    group=GROUP,
    doc="Return ``total`` with the products of two pairs of bfloat16 added, as x86's ``vdpbf16ps`` does.\n\n"
    "A pair is a uint32 with the first number in its low half. The second product is added first. Each is added by a "
    "fused operation that rounds to the nearest float32. Denormal numbers count as zero, before and after each.",
    ref=reference.dot_of_pairs,
    adjoint=NoGradient("it is made after differentiation", zero=False),
)


def product_of_pairs(b: Emitter, x: Value, y: Value, *, turned_x: bool, turned_y: bool) -> Value:
    """The product of two tiles of bfloat16 in float32, summed in pairs along ``k``; a turned factor is transposed.

    Both factors are copied such that the numbers of a pair lie side by side, and pairs of neighbouring columns of the
    product as well.
    """
    m, k = tile_type(x).shape[::-1] if turned_x else tile_type(x).shape
    n = tile_type(y).shape[0 if turned_y else 1]
    made, half = Tile((m, n), float32), (k + 1) // 2
    left = _in_pairs(b, k, m, lambda p, i: b.extract(x, *((p, i) if turned_x else (i, p))), swapped=not turned_x)
    right = _in_pairs(b, k, n, lambda p, j: b.extract(y, *((j, p) if turned_y else (p, j))))
    return product(
        b,
        made,
        (m, half, n),
        lambda i, p: b.extract(left, *((p, i) if turned_x else (i, p))),
        lambda p, j: b.extract(right, p, j),
        lambda *at: at,
        (_simd_rows(made), 1),
        simd=True,
        fused=lambda *given: b.apply("_dot_of_pairs", *given),
    )


def is_wide_in_float32(m: int, n: int) -> bool:
    """Whether a product of ``m`` rows and ``n`` columns in float32 reads its factors so often that copies pay."""
    return m >= SIMD_ROWS and _is_wide(Tile((m, n), float32))


def _in_pairs(
    b: Emitter, depth: int, count: int, number: Callable[[Value, Value], Value], *, swapped: bool = False
) -> Value:
    """The tile of pairs of ``number(p, i)``, at ``[p // 2, i]`` or ``swapped``; the last one may have a zero in it."""

    def pair(low: Value, high: Value | None) -> Value:
        halves = [b.cast(b.bitcast(v, uint16), uint32) for v in (low, high) if v is not None]
        return halves[0] if high is None else b.bit_or(halves[0], b.lshift(halves[1], 16))

    def put(p: Value, i: Value, made: Value, *, is_last: bool = False) -> list[Value]:
        first = b.mul(p, 2)
        both = pair(number(first, i), None if is_last else number(b.add(first, 1), i))
        return [b.insert_component(made, both, *((i, p) if swapped else (p, i)))]

    half, whole = (depth + 1) // 2, depth // 2
    made = b.insert(ops.Empty(), Tile((count, half) if swapped else (half, count), uint32)).result
    if swapped:
        (made,) = over(b, (count, whole), [made], lambda at, made: put(at[1], at[0], made))
    else:
        (made,) = over(b, (whole, count), [made], lambda at, made: put(at[0], at[1], made))
    if half > whole:
        last = b.index(whole)
        (made,) = over(b, (count,), [made], lambda at, made: put(last, at[0], made, is_last=True))
    return made


def tabulated(b: Emitter, t: Tile, element: Callable[[tuple[Value, ...]], Value]) -> Value:
    """Return the tile with these elements."""
    start = b.insert(ops.Empty(), t).result
    return for_each(b, t, [start], lambda at, made: [b.insert_component(made, element(at), *at)])[0]


__all__ = [
    "BY_TENSOR_CORES",
    "GROUP",
    "as_tile",
    "at_number",
    "is_wide_in_float32",
    "product_of_pairs",
    "tabulated",
    "tile_type",
]
