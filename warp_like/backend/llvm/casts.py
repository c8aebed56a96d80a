"""Conversions between scalars in registers."""

from __future__ import annotations

from warp_like.backend.llvm.values import (
    LaneScalar,
    beside,
    constant,
    is_half,
    memory_type,
    one_lane,
    register_type,
    suffix,
    vector,
)
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.literal import int_range
from warp_like.ir.types import Scalar, float32, float64, int32, uint16

_SINCE_BFLOAT = 80
"""The CUDA architecture that rounds to bfloat16 in one instruction."""


def cast(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    """Return ``x`` of type ``source`` converted to ``to``; the rules are those of ``ir.ops.Cast``."""
    if source == to:
        return x
    if is_half(source):
        return cast(w, extend_half(w, x, source), beside(float32, source), to)
    if source.is_bool:
        return _from_bool(w, x, source, to)
    if to.is_bool:
        test = "icmp ne" if source.is_int else "fcmp une"
        return w.op(f"{test} {register_type(source)} {x}, {constant(0, source)}")
    if source.is_int:
        return _int_to_int(w, x, source, to) if to.is_int else _int_to_float(w, x, source, to)
    return _float_to_int(w, x, source, to) if to.is_int else _float_to_float(w, x, source, to)


def bitcast(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    """Return the bits of ``x`` as ``to``."""
    a = memory_type(source)
    if source.is_bool:
        x = w.op(f"zext {register_type(source)} {x} to {a}")
    if to.is_bool:
        return w.op(f"icmp ne {a} {x}, zeroinitializer")
    b = register_type(to)
    return x if a == b else w.op(f"bitcast {a} {x} to {b}")


def extend_half(w: Writer, x: str, t: Scalar) -> str:
    """Return a 16-bit float as float32."""
    single, i32 = vector("float", t), vector("i32", t)
    if t.kind == "float":
        return w.op(f"fpext {register_type(t)} {x} to {single}")
    bits = w.op(f"zext {register_type(t)} {x} to {i32}")
    return w.op(f"bitcast {i32} {w.op(f'shl {i32} {bits}, {constant(16, beside(int32, t))}')} to {single}")


def round_half(w: Writer, x: str, t: Scalar) -> str:
    """Return a float32 rounded to nearest even as a 16-bit float."""
    single, i32 = vector("float", t), vector("i32", t)
    if t.kind == "float":
        return w.op(f"fptrunc {single} {x} to {register_type(t)}")
    if w.target.arch >= _SINCE_BFLOAT:
        return w.op(f"bitcast bfloat {w.op(f'fptrunc float {x} to bfloat')} to i16")
    return w.op(f"trunc {i32} {_rounded_by_integers(w, x, t)} to {register_type(beside(uint16, t))}")


def _rounded_by_integers(w: Writer, x: str, t: Scalar) -> str:
    """The bits of ``x`` as bfloat16, in an int32."""
    single, i32 = vector("float", t), vector("i32", t)

    def number(n: int) -> str:
        return constant(n, beside(int32, t))

    bits = w.op(f"bitcast {single} {x} to {i32}")
    high = w.op(f"lshr {i32} {bits}, {number(16)}")
    odd = w.op(f"and {i32} {high}, {number(1)}")
    half = w.op(f"add {i32} {odd}, {number(32767)}")
    rounded = w.op(f"lshr {i32} {w.op(f'add {i32} {bits}, {half}')}, {number(16)}")
    quiet = w.op(f"or {i32} {high}, {number(64)}")
    nan = w.op(f"fcmp uno {single} {x}, {x}")
    return w.select(nan, i32, quiet, rounded, vector("i1", t))


def _from_bool(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    if to.is_int:
        return w.op(f"zext {register_type(source)} {x} to {register_type(to)}")
    return w.select(x, register_type(to), constant(1, to), constant(0, to), register_type(source))


def _int_to_int(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    if source.bits == to.bits:
        return x
    how = "trunc" if to.bits < source.bits else "sext" if source.is_signed else "zext"
    return w.op(f"{how} {register_type(source)} {x} to {register_type(to)}")


def _int_to_float(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    how = "sitofp" if source.is_signed else "uitofp"
    if is_half(to):
        # Exact in float64 for every value that does not overflow a half, so that rounding happens once.
        exact = beside(float64, to)
        return cast(w, w.op(f"{how} {register_type(source)} {x} to {register_type(exact)}"), exact, to)
    return w.op(f"{how} {register_type(source)} {x} to {register_type(to)}")


def _float_to_int(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    if w.target.is_cuda and to.bits >= 32:
        return _by_hardware(w, x, source, to)
    if isinstance(source, LaneScalar) and (to.bits <= 32 or "avx512dq" in w.target.feature_set):
        return _clamped(w, x, source, to)
    how = "fptosi" if to.is_signed else "fptoui"
    name = f"llvm.{how}.sat.{suffix(to)}.{suffix(source)}"
    return w.intrinsic(name, register_type(to), [register_type(source)], [x])


def _clamped(w: Writer, x: str, source: LaneScalar, to: Scalar) -> str:
    """A vector as integers that processors convert to: LLVM's own way converts lane by lane on x86.

    Integers of fewer than 32 bits are made as int32.
    """
    reg, test = register_type(source), vector("i1", source)
    whole = beside(int32, source) if to.bits < 32 else LaneScalar(to.kind, to.bits, source.width)
    low, high = int_range(one_lane(to))
    # The largest integer may be no float: what is above the float below it is set afterwards.
    digits = 24 if source.bits == 32 else 53
    most = high + 1 - (1 << max(0, high.bit_length() - digits))
    x = w.select(w.op(f"fcmp ord {reg} {x}, {x}"), reg, x, constant(0, source), test)
    bounded = w.select(w.op(f"fcmp ogt {reg} {x}, {constant(low, source)}"), reg, x, constant(low, source), test)
    bounded = w.select(
        w.op(f"fcmp olt {reg} {bounded}, {constant(most, source)}"), reg, bounded, constant(most, source), test
    )
    how = "fptosi" if whole.is_signed else "fptoui"
    made = w.op(f"{how} {reg} {bounded} to {register_type(whole)}")
    if most != high:
        above = w.op(f"fcmp oge {reg} {x}, {constant(high + 1, source)}")
        made = w.select(above, register_type(whole), constant(high, whole), made, test)
    return _int_to_int(w, made, whole, to)


def _by_hardware(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    """The GPU's conversion, which saturates, but makes 0 of NaN in 32 bits alone (PTX ISA, ``cvt``)."""
    number = ("" if to.is_signed else "u") + ("i" if to.bits == 32 else "ll")
    reg = register_type(source)
    name = f"llvm.nvvm.{'f' if source.bits == 32 else 'd'}2{number}.rz"
    converted = w.intrinsic(name, register_type(to), [reg], [x])
    if source.bits == to.bits == 32:
        return converted
    return w.select(w.op(f"fcmp uno {reg} {x}, {x}"), register_type(to), constant(0, to), converted, "i1")


def _float_to_float(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    if is_half(to):
        single = x if source.bits == 32 else _round_to_odd(w, x, source)
        return _round_for_memory(w, single, to) or round_half(w, single, to)
    how = "fpext" if to.bits > source.bits else "fptrunc"
    return w.op(f"{how} {register_type(source)} {x} to {register_type(to)}")


def _round_for_memory(w: Writer, x: str, t: Scalar) -> str:
    """The same as ``round_half`` by an instruction for bfloat16; empty where the target has none for such vectors.

    It takes longer until it is done than integer operations, but fewer operations. What programs convert by name, they
    store; a sum of bfloat16 may have another one waiting for it.
    """
    if t.kind != "bfloat" or not isinstance(t, LaneScalar) or "avx512bf16" not in w.target.feature_set:
        return ""
    from warp_like.backend.llvm.rounding import has_instruction, round_by_instruction

    single = beside(float32, t)
    assert isinstance(single, LaneScalar)
    if not has_instruction(w, single):
        return ""
    return round_by_instruction(w, single, x, lambda y: _rounded_by_integers(w, y, t))


def _round_to_odd(w: Writer, x: str, t: Scalar) -> str:
    """Return a float64 as float32, rounded such that rounding it again to 16 bits gives the right result."""
    double, single, i32, i1 = (vector(name, t) for name in ("double", "float", "i32", "i1"))
    near = w.op(f"fptrunc {double} {x} to {single}")
    back = w.op(f"fpext {single} {near} to {double}")
    inexact = w.op(f"fcmp one {double} {back}, {x}")
    size = [w.intrinsic(f"llvm.fabs.{suffix(t)}", double, [double], [v]) for v in (back, x)]
    too_far = w.op(f"fcmp ogt {double} {size[0]}, {size[1]}")
    bits = w.op(f"bitcast {single} {near} to {i32}")
    toward_zero = w.op(f"sub {i32} {bits}, {w.op(f'zext {i1} {too_far} to {i32}')}")
    odd = w.op(f"or {i32} {toward_zero}, {constant(1, beside(int32, t))}")
    return w.op(f"bitcast {i32} {w.select(inexact, i32, odd, bits, i1)} to {single}")
