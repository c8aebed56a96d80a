"""Reductions of the elements of a tile: in an order that is the same for every target and every launch.

A reduction keeps several partial results, each of every n-th element of a row, and combines them in the end, in halves.
So additions need not wait for each other, and LLVM makes vectors of the partial results. Those of a wide row are a tile
themselves, whose elements are updated by a loop: LLVM keeps them in as many registers as it takes. Those of others are
values that a loop carries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import Index, counted, over, scan, tabulate
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, Tile

CARRIED = 16
"""The partial results that a loop carries: as many as hide the latency of additions, in vectors of 8 floats."""
WIDE, WIDE_ROW = 256, 512
"""The partial results of a row that is at least so long. Fewer of them stay in memory in LLVM's code."""

Element = Callable[[Index], Value]
Combine = Callable[[Value, Value], Value]


def reduced(b: Emitter, t: Tile, element: Element, combine: Combine, identity: float | None = None) -> Value:
    """Return the elements at all places of ``t`` combined; ``combine`` is associative, so this may group them.

    Partial results begin with the ``identity`` of ``combine``, or without one with the first elements: more code.
    """
    if is_wide(t):
        return _of_wide_rows(b, t, element, combine, identity)
    if isinstance(t.dtype, Scalar) and t.shape[-1] >= CARRIED:
        return _of_rows(b, t, element, combine, identity)
    first = element(tuple(b.index(0) for _ in t.shape))
    return scan(b, t, [first], lambda at, total: [combine(total, element(at))])[0]


def is_wide(t: Tile) -> bool:
    """Return whether partial results of ``t`` are a tile."""
    return isinstance(t.dtype, Scalar) and t.shape[-1] >= WIDE_ROW


def _of_wide_rows(b: Emitter, t: Tile, element: Element, combine: Combine, identity: float | None) -> Value:
    *outer, columns = t.shape
    whole = columns - columns % WIDE
    partial = Tile((WIDE,), t.dtype)

    def row(at: Index, made: Value, begin: int = 0) -> list[Value]:
        def part(j: Value, made: Value) -> list[Value]:
            return counted(b, 0, WIDE, [made], lambda k, made: [update(at, j, k, made)])

        return counted(b, begin, whole, [made], part, WIDE)

    def update(at: Index, j: Value, k: Value, made: Value) -> Value:
        return b.insert_component(made, combine(b.extract(made, k), element((*at, b.add(j, k)))), k)

    if identity is not None:
        (totals,) = over(b, outer, [b.constant(identity, partial)], row)
    else:
        zero = tuple(b.index(0) for _ in outer)
        first = tabulate(b, partial, lambda at: element((*zero, *at)))
        (totals,) = _other_rows(b, outer, row(zero, first, begin=WIDE), row)
    half = WIDE
    while half > CARRIED:
        half //= 2
        totals = tabulate(b, Tile((half,), t.dtype), functools.partial(_of_halves, b, totals, half, combine))
    total = _in_halves([b.extract(totals, k) for k in range(CARRIED)], combine)
    return _with_rest(b, t, whole, total, element, combine)


def _of_halves(b: Emitter, totals: Value, half: int, combine: Combine, at: Index) -> Value:
    return combine(b.extract(totals, *at), b.extract(totals, b.add(at[0], half)))


def _of_rows(b: Emitter, t: Tile, element: Element, combine: Combine, identity: float | None) -> Value:
    *outer, columns = t.shape
    whole = columns - columns % CARRIED

    def row(at: Index, *totals: Value, begin: int = 0) -> list[Value]:
        def step(j: Value, *totals: Value) -> list[Value]:
            return [combine(total, element((*at, b.add(j, k)))) for k, total in enumerate(totals)]

        return counted(b, begin, whole, totals, step, CARRIED)

    if identity is not None:
        totals = over(b, outer, [b.constant(identity, t.dtype)] * CARRIED, row)
    else:
        zero = tuple(b.index(0) for _ in outer)
        first = [element((*zero, b.index(k))) for k in range(CARRIED)]
        totals = _other_rows(b, outer, row(zero, *first, begin=CARRIED), row)
    return _with_rest(b, t, whole, _in_halves(totals, combine), element, combine)


def _with_rest(b: Emitter, t: Tile, whole: int, total: Value, element: Element, combine: Combine) -> Value:
    """Combine ``total`` with the elements of the columns from ``whole`` on."""
    *outer, columns = t.shape
    if whole == columns:
        return total

    def rest(at: Index, total: Value) -> list[Value]:
        return counted(b, whole, columns, [total], lambda j, s: [combine(s, element((*at, j)))])

    return over(b, outer, [total], rest)[0]


def _other_rows(b: Emitter, shape: Sequence[int], totals: list[Value], row: Callable[..., list[Value]]) -> list[Value]:
    """Go over all rows but the first: the rest of the innermost dimension, then that of the one around it."""
    for axis in reversed(range(len(shape))):
        top = tuple(b.index(0) for _ in range(axis))

        def part(i: Value, *inner: Value, axis: int = axis, top: Index = top) -> list[Value]:
            return over(b, shape[axis + 1 :], inner, row, (*top, i))

        totals = counted(b, 1, shape[axis], totals, part)
    return totals


def _in_halves(totals: Sequence[Value], combine: Combine) -> Value:
    while len(totals) > 1:
        half = len(totals) // 2
        totals = [combine(x, y) for x, y in zip(totals[:half], totals[half:], strict=True)]
    return totals[0]


__all__ = ["is_wide", "reduced"]
