"""Products of pairs of bfloat16 that are added to float32: by ``vdpbf16ps`` where the target has it.

Elsewhere the same is made of fused operations, so that the builtin means one thing on all targets (Intel's Software
Developer's Manual, "VDPBF16PS"): the products of the second numbers come first, and denormal numbers count as zero.
"""

from __future__ import annotations

from warp_like.backend.llvm.shuffle import join, shuffle, split
from warp_like.backend.llvm.values import LaneScalar, beside, constant, register_type, suffix, vector
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.types import Scalar, uint32

LEAST_NORMAL = 2.0**-126
_SIZES = (16, 8, 4)
"""The lanes of the instruction's forms."""


def dot_of_pairs(w: Writer, t: Scalar, total: str, x: str, y: str) -> str:
    """Append ``total`` plus the products of the pairs ``x`` and ``y``; ``t`` is float32 in as many lanes."""
    if {"avx512bf16", "avx512vl"} <= w.target.feature_set:
        return _by_instruction(w, t, total, x, y)
    i32, pair = vector("i32", t), beside(uint32, t)
    for shift in (False, True):
        factors = []
        for v in (x, y):
            high = w.op(
                f"shl {i32} {v}, {constant(16, pair)}" if shift else f"and {i32} {v}, {constant(0xFFFF0000, pair)}"
            )
            factors.append(_without_denormals(w, t, w.op(f"bitcast {i32} {high} to {register_type(t)}")))
        reg = register_type(t)
        given = [*factors, _without_denormals(w, t, total)]
        total = _without_denormals(w, t, w.intrinsic(f"llvm.fma.{suffix(t)}", reg, [reg] * 3, given))
    return total


def _without_denormals(w: Writer, t: Scalar, x: str) -> str:
    reg = register_type(t)
    size = w.intrinsic(f"llvm.fabs.{suffix(t)}", reg, [reg], [x])
    small = w.op(f"fcmp olt {reg} {size}, {constant(LEAST_NORMAL, t)}")
    zero = w.intrinsic(f"llvm.copysign.{suffix(t)}", reg, [reg, reg], [constant(0.0, t), x])
    return w.select(small, reg, zero, x, vector("i1", t))


def _by_instruction(w: Writer, t: Scalar, total: str, x: str, y: str) -> str:
    if not isinstance(t, LaneScalar):
        lanes = LaneScalar(t.kind, t.bits, _SIZES[-1])
        whole = [w.op(f"insertelement {vector(of, lanes)} poison, {of} {v}, i32 0") for of, v in _typed(total, x, y)]
        made = _call(w, lanes, *whole)
        return w.op(f"extractelement {register_type(lanes)} {made}, i32 0")
    size = next((n for n in _SIZES if t.width % n == 0), 0)
    if not size:  # a vector of one or two lanes fills a part of a register
        size = _SIZES[-1]
        places = [k if k < t.width else -1 for k in range(size)]
        parts = [_widened(w, vector(of, t), v, places) for of, v in _typed(total, x, y)]
        one = LaneScalar(t.kind, t.bits, size)
        return shuffle(w, register_type(one), _call(w, one, *parts), "poison", range(t.width))
    one, pair = LaneScalar(t.kind, t.bits, size), beside(uint32, t)
    assert isinstance(pair, LaneScalar)
    pieces = zip(split(w, t, total, size), split(w, pair, x, size), split(w, pair, y, size), strict=True)
    return join(w, one, [_call(w, one, *p) for p in pieces])


def _typed(total: str, x: str, y: str) -> tuple[tuple[str, str], ...]:
    return ("float", total), ("i32", x), ("i32", y)


def _widened(w: Writer, type: str, x: str, places: list[int]) -> str:
    order = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in places)
    return w.op(f"shufflevector {type} {x}, {type} poison, <{len(places)} x i32> <{order}>")


def _call(w: Writer, t: LaneScalar, total: str, x: str, y: str) -> str:
    reg, pairs = register_type(t), f"<{2 * t.width} x bfloat>"
    given = [w.op(f"bitcast {vector('i32', t)} {v} to {pairs}") for v in (x, y)]
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * t.width}"
    return w.intrinsic(name, reg, [reg, pairs, pairs], [total, *given])


__all__ = ["dot_of_pairs"]
