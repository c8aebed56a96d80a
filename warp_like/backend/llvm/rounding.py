"""Vectors of float32 rounded to bfloat16 by the processor's instruction, which takes denormal numbers for zero.

So a vector that has one goes by a branch, in a function of its own, where integers round it as elsewhere. All other
numbers the instruction rounds in the same way, to the nearest and of two to the even one; NaN becomes the same NaN.

Where a program has told the processor to take denormal numbers for zero in all arithmetic (DAZ), the test for them
finds none, and they become zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from warp_like.backend.llvm.lane_math import LaneMath, call_function
from warp_like.backend.llvm.shuffle import join, split
from warp_like.backend.llvm.values import LaneScalar, beside, vector
from warp_like.backend.llvm.writer import Writer, aligned
from warp_like.ir.types import Scalar, uint16

LANES, DENORMAL = 16, 0x20
"""The lanes of the instruction, and the bit by which ``vfpclassps`` asks for denormal numbers."""


def has_instruction(w: Writer, t: Scalar) -> bool:
    """Whether there is an instruction for vectors such as ``t``, which is float32 in lanes."""
    return isinstance(t, LaneScalar) and t.width % LANES == 0 and {"avx512bf16", "avx512dq"} <= w.target.feature_set


def round_by_instruction(w: Writer, t: LaneScalar, x: str, by_integers: Callable[[str], str]) -> str:
    """Append ``x`` as bits of bfloat16; ``by_integers`` gives the same as int32, for any numbers."""
    v, narrow = LaneMath(w, t), vector("i16", t)
    one = LaneMath(w, LaneScalar(t.kind, t.bits, LANES))
    pieces = split(w, t, x, LANES)
    has_denormal = one.any(
        functools.reduce(lambda a, b: w.op(f"or {one.mask} {a}, {b}"), [_denormal(one, p) for p in pieces])
    )
    special, usual, done = (w.label(hint) for hint in ("denormal", "usual", "done"))
    w.branch(has_denormal, special, usual)
    w.start(special)
    wide = call_function(
        v, "round_bfloat16", [x], lambda y: v.from_bits(by_integers(y)), f"{aligned(t.width * 4)} cold"
    )
    outside = w.op(f"trunc {v.integer} {v.to_bits(wide)} to {narrow}")
    w.jump(done)
    w.start(usual)
    name, half = "llvm.x86.avx512bf16.cvtneps2bf16.512", f"<{LANES} x bfloat>"
    made = [w.op(f"bitcast {half} {w.intrinsic(name, half, [one.reg], [p])} to <{LANES} x i16>") for p in pieces]
    inside = join(w, beside(uint16, one.t), made)
    w.jump(done)
    w.start(done)
    return w.op(f"phi {narrow} [{outside}, %{special}], [{inside}, %{usual}]")


def _denormal(v: LaneMath, x: str) -> str:
    return v.w.intrinsic("llvm.x86.avx512.fpclass.ps.512", v.mask, [v.reg, "i32"], [x, str(DENORMAL)])


__all__ = ["has_instruction", "round_by_instruction"]
