"""Code over the components of large values (``ir.types.is_large``): loops in place of a line for each.

What is said of components here holds of a tile's elements.

The order of operations is that of the lines: rows one after the other, columns from left to right, and sums begin with
their first term. So results have the same bits whatever the size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Tile, Type, component_type, element_shape, int32

Index = tuple[Value, ...]
"""The place of a component: one index of a vector, row and column of a matrix, as many as a tile has dimensions."""

BLOCK = (2, 8)
"""The rows and columns of a product whose sums a loop carries at once: it reads 10 numbers for 16 products. In lanes
that takes 26 of 32 registers."""
SIMD_ROWS, SIMD_BITS = 4, 512
"""The rows that the loop over the columns of a wide product sums at once, and the bits of a row from which on it is
wide. That loop runs in the lanes of several vectors (``passes/spmd/widen_loops.py``): with four registers of 16, these
are 16 sums that do not wait for each other."""
FEW_BITS = 1024
"""The bits up to which twice as many rows are summed at once. With two registers of 16 these are 16 sums, too, and the
other factor is read half as often: products of 32 x 32 floats take 0.76 of the time with AVX-512, and 0.88 with AVX2.
Rows of one vector gain nothing."""


def counted(
    b: Emitter,
    lo: int,
    hi: int,
    init: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    step: int = 1,
    *,
    simd: bool = False,
) -> list[Value]:
    """Count from ``lo`` to ``hi``; ``body(i, *carried)`` gives the next carried values. Returns the last ones.

    With ``simd``, iterations do not depend on each other, and may run side by side in lanes.
    """
    if not lo < hi:
        return list(init)
    i = Value(int32)
    params = [Value(v.type) for v in init]
    with b.into(Block([i, *params])) as block:
        b.yield_(*body(i, *params))
    return list(b.for_(b.index(lo), b.index(hi), b.index(step), init, block, simd=simd))


def extents(t: Type) -> tuple[int, ...]:
    """Return the extents over which the functions of this file go: of a tile, those of its elements."""
    return t.shape if isinstance(t, Tile) else element_shape(t)


def over(
    b: Emitter, shape: Sequence[int], init: Sequence[Value], body: Callable[..., Sequence[Value]], at: Index = ()
) -> list[Value]:
    """Go over the indices of ``shape``, the last the fastest, as ``for_each`` does over those of a type."""
    if not shape:
        return list(body(at, *init))
    return counted(b, 0, shape[0], init, lambda i, *carried: over(b, shape[1:], carried, body, (*at, i)))


def for_each(b: Emitter, t: Type, init: Sequence[Value], body: Callable[..., Sequence[Value]]) -> list[Value]:
    """Go over the components of ``t``; ``body(index, *carried)`` gives the next carried values."""
    return over(b, extents(t), init, body)


def tabulate(b: Emitter, t: Type, component: Callable[[Index], Value]) -> Value:
    """Return the value of type ``t`` with these components."""

    def replace(index: Index, made: Value) -> Sequence[Value]:
        return [b.insert_component(made, component(index), *index)]

    return for_each(b, t, [b.insert(ops.Empty(), t).result], replace)[0]


def scan(b: Emitter, t: Type, first: Sequence[Value], body: Callable[..., Sequence[Value]]) -> list[Value]:
    """Go over the components of ``t`` but the first, of which ``first`` is made, as ``for_each`` does."""
    shape, carried = extents(t), list(first)
    for axis in reversed(range(len(shape))):  # the rest of the first row, then the other rows, and so on
        top = tuple(b.index(0) for _ in range(axis))

        def part(i: Value, *inner: Value, axis: int = axis, top: Index = top) -> Sequence[Value]:
            return over(b, shape[axis + 1 :], inner, body, (*top, i))

        carried = counted(b, 1, shape[axis], carried, part)
    return carried


def fold(b: Emitter, t: Type, component: Callable[[Index], Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Return the components combined from left to right."""
    first = component(tuple(b.index(0) for _ in extents(t)))
    return scan(b, t, [first], lambda index, total: [combine(total, component(index))])[0]


def product(
    b: Emitter,
    t: Type,
    extents: tuple[int, int, int],
    x: Callable[[Value, Value], Value],
    y: Callable[[Value, Value], Value],
    place: Callable[[Value, Value], Index],
    size: tuple[int, int] = BLOCK,
    *,
    simd: bool = False,
    fused: Callable[[Value, Value, Value], Value] | None = None,
) -> Value:
    """Return the ``t`` that has the sum over ``k`` of ``x(i, k) * y(k, j)`` at ``place(i, j)``.

    ``extents`` are the numbers of ``i``, ``k`` and ``j``, ``size`` the rows and columns whose sums a loop carries. With
    ``simd``, columns may be computed side by side in lanes. Where ``fused(total, x, y)`` multiplies and adds in one
    operation, sums begin with zero.
    """
    rows, depth, cols = extents

    def block(top: Value, left: Value, height: int, width: int, out: Value) -> Value:
        """Replace the elements of ``height`` rows from ``top`` on, and of ``width`` columns from ``left`` on."""
        at_row = [top, *(b.add(top, r) for r in range(1, height))]
        at_column = [left, *(b.add(left, c) for c in range(1, width))]

        def terms(k: Value) -> list[Value]:
            factors = [x(i, k) for i in at_row]
            others = [y(k, j) for j in at_column]
            return [b.mul(p, q) for p in factors for q in others]

        def add(k: Value, *sums: Value) -> list[Value]:
            return [b.add(total, term) for total, term in zip(sums, terms(k), strict=True)]

        def add_fused(k: Value, *sums: Value) -> list[Value]:
            assert fused is not None
            factors, others = [x(i, k) for i in at_row], [y(k, j) for j in at_column]
            pairs = [(p, q) for p in factors for q in others]
            return [fused(total, p, q) for total, (p, q) in zip(sums, pairs, strict=True)]

        if fused is None:
            sums = iter(counted(b, 1, depth, terms(b.index(0)), add))
        else:
            zeros = [b.zero(component_type(t, len(place(top, left))))] * (height * width)
            sums = iter(counted(b, 0, depth, zeros, add_fused))
        for i in at_row:
            for j in at_column:
                out = b.insert_component(out, next(sums), *place(i, j))
        return out

    def strip(top: Value, height: int, out: Value) -> Value:
        def columns(left: Value, width: int, out: Value) -> Value:
            return block(top, left, height, width, out)

        return blocked(b, cols, size[1], out, columns, simd=simd)

    return blocked(b, rows, size[0], b.insert(ops.Empty(), t).result, strip)


def blocked(
    b: Emitter, n: int, size: int, out: Value, body: Callable[[Value, int, Value], Value], *, simd: bool = False
) -> Value:
    """Go over ``n`` in blocks of ``size``, then the rest; ``body(first, length, carried)`` gives what is carried on."""
    whole = n - n % size
    (out,) = counted(b, 0, whole, [out], lambda i, made: [body(i, size, made)], size, simd=simd)
    return body(b.index(whole), n % size, out) if n % size else out
