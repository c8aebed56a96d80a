"""The order of a tile's elements: the row behind ``wp.tile_sort``.

Keys become unsigned integers of their width, in the same order, so that every sort here is of integers, and total: 0.0
and -0.0 are one key, and NaN follows all other numbers, whatever its sign. A few keys are counted against each other,
which takes no branch and makes vectors; more are sorted by their digits, the lowest first (Knuth, "The Art of Computer
Programming", volume 3, 5.2 and 5.2.5). Both take the same time whatever the keys are, and keep equal ones in order.
"""

from __future__ import annotations

import math

from warp_like.builtins.device import tiles as device
from warp_like.builtins.emit import Emitter, scalar_type
from warp_like.builtins.loops import counted
from warp_like.builtins.operators import INTEGERS
from warp_like.builtins.patterns import S, TileOf, Var
from warp_like.builtins.spec import Expand, Inline, declare_row
from warp_like.builtins.tiles import GROUP, at_number, tabulated, tile_type
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import INTS, Scalar, Tile, int32

MOST_COUNTED = 128
"""The most keys that are counted against each other. The time grows with the square of their number."""
_DIGIT, _DIGITS = 8, 256
"""The bits of a digit, and how many there are."""

_UNSIGNED = Var("U", tuple(t for t in INTS if not t.is_signed), "an unsigned integer")


def _order(b: Emitter, keys: Value) -> Value:
    """The order of the elements, counted row by row."""
    t = tile_type(keys)
    assert isinstance(t.dtype, Scalar)
    count, unsigned = math.prod(t.shape), Scalar("uint", t.dtype.bits)
    line = tabulated(
        b, Tile((count,), unsigned), lambda at: _as_unsigned(b, b.extract(keys, *at_number(b, t, at[0])), unsigned)
    )
    order = b.apply("_tile_order_by_counts", line) if count <= MOST_COUNTED else _by_digits(b, line)
    if len(t.shape) == 1:
        return order

    def element(at: tuple[Value, ...]) -> Value:
        number = at[0]
        for i, n in zip(at[1:], t.shape[1:], strict=True):
            number = b.add(b.mul(number, n), i)
        return b.extract(order, number)

    return tabulated(b, Tile(t.shape, int32), element)


def _as_unsigned(b: Emitter, x: Value, unsigned: Scalar) -> Value:
    """The unsigned integer that stands for the key ``x``."""
    t = scalar_type(x)
    sign = b.constant(1 << (t.bits - 1), unsigned)
    if not t.is_float:
        return b.bit_xor(b.cast(x, unsigned), sign) if t.is_signed else x
    bits, zero = b.bitcast(x, unsigned), b.zero(unsigned)
    bits = b.select(b.eq(bits, sign), zero, bits)
    ordered = b.select(b.ge(bits, sign), b.invert(bits), b.bit_or(bits, sign))
    return b.select(b.ne(x, x), b.invert(zero), ordered)


def _by_digits(b: Emitter, keys: Value) -> Value:
    """The order of ``keys``, sorted by one digit after the other: each is moved behind those with a lower digit."""
    t, numbers = tile_type(keys), Tile(tile_type(keys).shape, int32)
    (n,), passes = t.shape, scalar_type(b.extract(keys, 0)).bits // _DIGIT

    def digit(key: Value, k: int) -> Value:
        return b.cast(b.bit_and(b.rshift(key, k * _DIGIT), _DIGITS - 1), int32)

    def count(i: Value, places: Value) -> list[Value]:
        key = b.extract(keys, i)
        for k in range(passes):
            at = b.index(k), digit(key, k)
            places = b.insert_component(places, b.add(b.extract(places, *at), 1), *at)
        return [places]

    def begin(k: Value, places: Value) -> list[Value]:
        """Where the keys with each value of digit ``k`` begin. One loop for all digits would take 5 times as long."""

        def step(value: Value, places: Value, total: Value) -> list[Value]:
            following = b.add(total, b.extract(places, k, value))
            return [b.insert_component(places, total, k, value), following]

        return counted(b, 0, _DIGITS, [places, b.index(0)], step)[:1]

    (places,) = counted(b, 0, n, [b.zero(Tile((passes, _DIGITS), int32))], count)
    (places,) = counted(b, 0, passes, [places], begin)
    order = tabulated(b, numbers, lambda at: at[0])
    for k in range(passes):

        def move(
            i: Value, places: Value, *moved: Value, k: int = k, keys: Value = keys, order: Value = order
        ) -> list[Value]:
            key = b.extract(keys, i)
            at = b.index(k), digit(key, k)
            place = b.extract(places, *at)
            parts = (b.extract(order, i), key)
            made = [b.insert_component(x, part, place) for x, part in zip(moved, parts, strict=False)]
            return [b.insert_component(places, b.add(place, 1), *at), *made]

        last = k == passes - 1  # when nobody needs the keys any more
        start = [b.insert(ops.Empty(), x).result for x in ([numbers] if last else [numbers, t])]
        places, order, *rest = counted(b, 0, n, [places, *start], move)
        keys = keys if last else rest[0]
    return order


declare_row(
    "_tile_order_by_counts",
    Inline(device.order),
    {"keys": TileOf(("N",), _UNSIGNED)},
    TileOf(("N",), int32),
    group=GROUP,
    doc="Return the order of a few keys.",
    adjoint=INTEGERS,
)
declare_row(
    "_tile_order",
    Expand(_order),
    {"keys": TileOf("shape", S)},
    TileOf("shape", int32),
    group=GROUP,
    doc="Return the numbers of the elements in ascending order.",
    adjoint=INTEGERS,
)
