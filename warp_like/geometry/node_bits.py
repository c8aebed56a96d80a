"""Grids as words of bits, one bit for each node: whether it lies outside; shared by the methods that extract surfaces.

A word holds 32 nodes, neighbours along z. A node lies outside where its value is not below the threshold. Bits of cubes
and edges stand at the place of their first node.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp

WORD = 32
"""Nodes of a word of bits."""

MOST_INDICES = 2**31 - 1


@wp.kernel(enable_backward=False)
def _pack(field: wp.array3d[float], threshold: float, outside: wp.array3d[wp.uint32]) -> None:
    i, j, word = wp.tid()
    first = word * WORD
    bits = wp.uint32(0)
    if first + WORD <= field.shape[2]:
        for n in range(WORD):
            bits |= wp.where(field[i, j, first + n] < threshold, wp.uint32(0), wp.uint32(1) << wp.uint32(n))
    else:
        for n in range(field.shape[2] - first):
            bits |= wp.where(field[i, j, first + n] < threshold, wp.uint32(0), wp.uint32(1) << wp.uint32(n))
    outside[i, j, word] = bits


@wp.func
def shifted(outside: wp.array3d[wp.uint32], i: int, j: int, word: int) -> wp.uint32:
    """Return the bits of the nodes one further along z."""
    bits = outside[i, j, word] >> wp.uint32(1)
    if word + 1 < outside.shape[2]:
        bits |= outside[i, j, word + 1] << wp.uint32(WORD - 1)
    return bits


@wp.func
def with_next(word: int, nz: int) -> wp.uint32:
    """Return the bits of the nodes of a word that have a neighbour along z."""
    count = nz - 1 - word * WORD
    return wp.where(count >= WORD, ~wp.uint32(0), (wp.uint32(1) << wp.uint32(wp.min(count, WORD - 1))) - wp.uint32(1))


@wp.func
def case_of(outside: wp.array3d[wp.uint32], i: int, j: int, word: int, bit: wp.uint32) -> int:
    """Return the case of the cube whose first node is a bit of a word."""
    case = (outside[i, j, word] >> bit) & wp.uint32(1)
    case |= ((outside[i + 1, j, word] >> bit) & wp.uint32(1)) << wp.uint32(1)
    case |= ((outside[i + 1, j + 1, word] >> bit) & wp.uint32(1)) << wp.uint32(2)
    case |= ((outside[i, j + 1, word] >> bit) & wp.uint32(1)) << wp.uint32(3)
    case |= ((shifted(outside, i, j, word) >> bit) & wp.uint32(1)) << wp.uint32(4)
    case |= ((shifted(outside, i + 1, j, word) >> bit) & wp.uint32(1)) << wp.uint32(5)
    case |= ((shifted(outside, i + 1, j + 1, word) >> bit) & wp.uint32(1)) << wp.uint32(6)
    case |= ((shifted(outside, i, j + 1, word) >> bit) & wp.uint32(1)) << wp.uint32(7)
    return int(case)


@wp.func
def mixed_cubes(outside: wp.array3d[wp.uint32], i: int, j: int, word: int, nz: int) -> wp.uint32:
    """Return the bits of the cubes that the surface crosses."""
    if i + 1 >= outside.shape[0] or j + 1 >= outside.shape[1]:
        return wp.uint32(0)
    a = outside[i, j, word]
    b = outside[i + 1, j, word]
    c = outside[i + 1, j + 1, word]
    d = outside[i, j + 1, word]
    e = shifted(outside, i, j, word)
    f = shifted(outside, i + 1, j, word)
    g = shifted(outside, i + 1, j + 1, word)
    h = shifted(outside, i, j + 1, word)
    some = a | b | c | d | e | f | g | h
    every = a & b & c & d & e & f & g & h
    return some & ~every & with_next(word, nz)


@wp.func
def lowest(bits: wp.uint32) -> wp.uint32:
    """Return the number of the lowest bit that is set."""
    return wp.uint32(wp.bit_count((bits & (~bits + wp.uint32(1))) - wp.uint32(1)))


@wp.func
def fraction(a: float, b: float, threshold: float) -> float:
    """Return where the surface crosses an edge with values ``a`` and ``b``; at a finite one if the other is not."""
    if not wp.isfinite(a):
        return wp.where(wp.isfinite(b), 1.0, 0.5)
    if not wp.isfinite(b):
        return 0.0
    return wp.clamp((threshold - a) / (b - a), 0.0, 1.0)


def scan(counts: Any, what: str, size: int = 1) -> tuple[Any, int]:
    """Return the sums of the counts before each word, and the sum of all.

    Raises:
        ValueError: ``size`` indices for each of what is counted are more than an array holds.
    """
    starts = wp.empty_like(counts)
    wp.utils.array_scan(counts, starts, inclusive=False)
    last = counts.size - 1
    total = sum(int(a.reshape(-1)[last:].numpy()[0]) for a in (counts, starts))
    if size * total > MOST_INDICES:
        raise ValueError(f"the surface has {total} {what}, more than indices of 32 bits count")
    return starts, total


def outside_bits(field: Any, threshold: float) -> Any:
    """Return a field's words: bit ``n`` of word ``(i, j, w)`` is set where node ``(i, j, 32 w + n)`` lies outside."""
    shape = (*field.shape[:2], -(-field.shape[2] // WORD))
    outside = wp.empty(shape, dtype=wp.uint32, device=field.device)
    wp.launch(_pack, dim=shape, inputs=[field, threshold, outside], device=field.device)
    return outside
