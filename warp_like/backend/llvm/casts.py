"""Conversions between scalars in registers."""

from __future__ import annotations

from warp_like.backend.llvm.values import constant, is_half, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.types import Scalar, float16, float32, float64


def cast(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    """Return ``x`` of type ``source`` converted to ``to``; the rules are those of ``ir.ops.Cast``."""
    if source == to:
        return x
    if is_half(source):
        return cast(w, extend_half(w, x, source), float32, to)
    if source.is_bool:
        return _from_bool(w, x, to)
    if to.is_bool:
        test = "icmp ne" if source.is_int else "fcmp une"
        return w.op(f"{test} {register_type(source)} {x}, {constant(0, source)}")
    if source.is_int:
        return _int_to_int(w, x, source, to) if to.is_int else _int_to_float(w, x, source, to)
    return _float_to_int(w, x, source, to) if to.is_int else _float_to_float(w, x, source, to)


def bitcast(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    """Return the bits of ``x`` as ``to``."""
    if source.is_bool:
        x = w.op(f"zext i1 {x} to i8")
    a = "i8" if source.is_bool else register_type(source)
    if to.is_bool:
        return w.op(f"icmp ne {a} {x}, 0")
    b = register_type(to)
    return x if a == b else w.op(f"bitcast {a} {x} to {b}")


def extend_half(w: Writer, x: str, t: Scalar) -> str:
    """Return a 16-bit float as float32."""
    if t == float16:
        return w.op(f"fpext half {x} to float")
    bits = w.op(f"zext i16 {x} to i32")
    return w.op(f"bitcast i32 {w.op(f'shl i32 {bits}, 16')} to float")


def round_half(w: Writer, x: str, t: Scalar) -> str:
    """Return a float32 rounded to nearest even as a 16-bit float."""
    if t == float16:
        return w.op(f"fptrunc float {x} to half")
    bits = w.op(f"bitcast float {x} to i32")
    high = w.op(f"lshr i32 {bits}, 16")
    odd = w.op(f"and i32 {high}, 1")
    half = w.op(f"add i32 {odd}, 32767")
    rounded = w.op(f"lshr i32 {w.op(f'add i32 {bits}, {half}')}, 16")
    quiet = w.op(f"or i32 {high}, 64")
    nan = w.op(f"fcmp uno float {x}, {x}")
    return w.op(f"trunc i32 {w.select(nan, 'i32', quiet, rounded)} to i16")


def _from_bool(w: Writer, x: str, to: Scalar) -> str:
    if to.is_int:
        return w.op(f"zext i1 {x} to {register_type(to)}")
    return w.select(x, register_type(to), constant(1, to), constant(0, to))


def _int_to_int(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    if source.bits == to.bits:
        return x
    how = "trunc" if to.bits < source.bits else "sext" if source.is_signed else "zext"
    return w.op(f"{how} i{source.bits} {x} to i{to.bits}")


def _int_to_float(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    how = "sitofp" if source.is_signed else "uitofp"
    if is_half(to):
        # Exact in float64 for every value that does not overflow a half, so that rounding happens once.
        return cast(w, w.op(f"{how} i{source.bits} {x} to double"), float64, to)
    return w.op(f"{how} i{source.bits} {x} to {register_type(to)}")


def _float_to_int(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    how = "fptosi" if to.is_signed else "fptoui"
    name = f"llvm.{how}.sat.i{to.bits}.f{source.bits}"
    return w.intrinsic(name, f"i{to.bits}", [register_type(source)], [x])


def _float_to_float(w: Writer, x: str, source: Scalar, to: Scalar) -> str:
    if is_half(to):
        return round_half(w, x if source == float32 else _round_to_odd(w, x), to)
    if to.bits > source.bits:
        return w.op(f"fpext float {x} to double")
    return w.op(f"fptrunc double {x} to float")


def _round_to_odd(w: Writer, x: str) -> str:
    """Return a float64 as float32, rounded such that rounding it again to 16 bits gives the right result."""
    near = w.op(f"fptrunc double {x} to float")
    back = w.op(f"fpext float {near} to double")
    inexact = w.op(f"fcmp one double {back}, {x}")
    size = [w.intrinsic("llvm.fabs.f64", "double", ["double"], [v]) for v in (back, x)]
    too_far = w.op(f"fcmp ogt double {size[0]}, {size[1]}")
    bits = w.op(f"bitcast float {near} to i32")
    toward_zero = w.op(f"sub i32 {bits}, {w.op(f'zext i1 {too_far} to i32')}")
    odd = w.op(f"or i32 {toward_zero}, 1")
    return w.op(f"bitcast i32 {w.select(inexact, 'i32', odd, bits)} to float")
