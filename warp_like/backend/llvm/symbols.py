"""Calls of the functions that ``Symbol`` builtins name: LLVM intrinsics, libm, libmvec, libdevice and OCML.

Those of OCML, AMD's library, have libm's names, too. OpenCL's are mangled as C++ mangles them (SPIR-V Environment
Specification; LLVM knows them).
"""

from __future__ import annotations

from warp_like.backend.llvm.shuffle import from_lanes, join, split, to_lanes
from warp_like.backend.llvm.values import LaneScalar, register_type, suffix
from warp_like.backend.llvm.writer import PURE_CALL, Writer
from warp_like.backend.target import Target
from warp_like.builtins.spec import Symbol
from warp_like.ir.types import Scalar

# Intrinsics that are one or a few instructions on every target; the others would become scalar calls of libm,
# out of reach of the vector math library.
# fmt: off
CHEAP = frozenset(
    f"llvm.{name}"
    for name in (
        "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "copysign",
        "fma", "minimumnum", "maximumnum", "minimum", "maximum",
    )
)

_SINCE_2_22 = frozenset(("sin", "cos", "exp", "log", "pow"))
_SINCE_2_35 = _SINCE_2_22 | {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh", "erf", "erfc", "exp10",
    "exp2", "expm1", "hypot", "log10", "log1p", "log2", "sinh", "tan", "tanh",
}
# fmt: on
_APPROXIMATED = frozenset(
    f"__nv_{name}" for name in ("sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow")
)
"""Functions that the GPU's special function units compute in a few instructions; used with ``fast_math``."""

_LIBMVEC: dict[str, frozenset[str]] = {"libmvec": _SINCE_2_35, "libmvec-2.22": _SINCE_2_22}


def call_symbol(w: Writer, symbol: Symbol, t: Scalar, args: list[str]) -> str:
    """Append the call of ``symbol`` on float32 or float64 arguments."""
    reg = register_type(t)
    types = [reg] * len(args)
    flags = w.fp if w.options.fast_math else ""
    if symbol.llvm in CHEAP:
        return w.intrinsic(f"{symbol.llvm}.{suffix(t)}", reg, types, args, flags)
    ending = "f" if t.bits == 32 else ""
    if w.target.is_opencl:
        letter = "f" if t.bits == 32 else "d"
        name = f"_Z{len(symbol.libm)}{symbol.libm}{letter * len(args)}"
        return _call(w, name, t, args, PURE_CALL, flags, "spir_func ")
    if w.target.is_cuda:
        fast = w.options.fast_math and t.bits == 32 and symbol.nvptx in _APPROXIMATED
        name = symbol.nvptx.replace("__nv_", "__nv_fast_") if fast else symbol.nvptx
        return _call(w, name + ending, t, args, "nounwind", flags)
    if w.target.is_amd:
        return _call(w, f"__ocml_{symbol.libm}_f{t.bits}", t, args, "nounwind", flags)
    if isinstance(t, LaneScalar):
        return _call_in_lanes(w, symbol, t, args)
    attributes = PURE_CALL
    if symbol.vector and w.options.vector_math:
        attributes += _vector_variants(w, symbol.libm, t, len(args))
    return _call(w, symbol.libm + ending, t, args, attributes, flags)


def _call_in_lanes(w: Writer, symbol: Symbol, t: LaneScalar, args: list[str]) -> str:
    """Append calls of the vector math library for as many lanes as it takes, or else one call a lane."""
    from warp_like.backend.llvm.domains import call_guarded, is_guarded  # many kernels call no such function
    from warp_like.backend.llvm.exponential import exponential, is_in_place

    library = _LIBMVEC.get(w.target.vector_math, frozenset())
    if w.options.vector_math and is_in_place(w, symbol.libm, t):
        return exponential(w, t, args[0])
    if symbol.vector and w.options.vector_math and symbol.libm in library and _vector_part(w.target, t):

        def call(libm: str, t: LaneScalar, args: list[str]) -> str:
            return _call_of_vectors(w, libm, t, args)

        guarded = is_guarded(symbol.libm, library)
        return call_guarded(w, symbol.libm, t, args, call) if guarded else call(symbol.libm, t, args)
    name = symbol.libm + ("f" if t.bits == 32 else "")
    lanes_of = zip(*(from_lanes(w, t, x) for x in args), strict=True)
    return to_lanes(w, t, [_call(w, name, t.one, list(one), PURE_CALL, "") for one in lanes_of])


def _call_of_vectors(w: Writer, libm: str, t: LaneScalar, args: list[str]) -> str:
    """Append calls of the library's function, for parts of the lanes if it takes fewer."""
    isa, lanes = _vector_part(w.target, t) or ("", 0)
    part = LaneScalar(t.kind, t.bits, lanes)
    name = _vector_name(isa, lanes, len(args), libm, t)
    pieces = zip(*(split(w, t, x, lanes) for x in args), strict=True)
    return join(w, part, [_call(w, name, part, list(p), PURE_CALL, "") for p in pieces])


def _vector_part(target: Target, t: LaneScalar) -> tuple[str, int] | None:
    """The widest vectors of ``t`` that the library takes and that fill its lanes, with the letter of their ABI."""
    for isa, bits in reversed(_isas(target)):
        if bits // t.bits <= t.width:
            return isa, bits // t.bits
    return None


def _vector_name(isa: str, lanes: int, arity: int, libm: str, t: Scalar) -> str:
    """Return a function's name by the vector ABI of x86-64."""
    return f"_ZGV{isa}N{lanes}{'v' * arity}_{libm}{'f' if t.bits == 32 else ''}"


def call_scalar(w: Writer, libm: str, nvptx: str, t: Scalar, *args: str) -> str:
    """Append the call of a libm or libdevice function, named in double precision."""
    return call_symbol(w, Symbol(libm, nvptx), t, list(args))


def _call(w: Writer, name: str, t: Scalar, args: list[str], attributes: str, flags: str, convention: str = "") -> str:
    reg = register_type(t)
    w.declare(name, f"{convention}{reg} @{name}({', '.join([reg] * len(args))})")
    given = ", ".join(f"{reg} {a}" for a in args)
    return w.op(f"call {flags}{convention}{reg} @{name}({given}) {w.attributes(attributes)}")


def _vector_variants(w: Writer, libm: str, t: Scalar, arity: int) -> str:
    if libm not in _LIBMVEC.get(w.target.vector_math, ()):
        return ""
    w.calls_vector_math = True
    name = libm + ("f" if t.bits == 32 else "")
    mappings = []
    for isa, bits in _isas(w.target):
        lanes = bits // t.bits
        vector = _vector_name(isa, lanes, arity, libm, t)
        mappings.append(f"_ZGV_LLVM_N{lanes}{'v' * arity}_{name}({vector})")
        v = f"<{lanes} x {register_type(t)}>"
        w.declare(vector, f"{v} @{vector}({', '.join([v] * arity)})")
        w.keep(vector)
    return f' "vector-function-abi-variant"="{",".join(mappings)}"'


def _isas(target: Target) -> list[tuple[str, int]]:
    """Return the vector ABIs of x86-64 that the target has: letter and width in bits."""
    features = target.feature_set
    found = [("b", 128)]
    if "avx2" in features:
        found.append(("d", 256))
    elif "avx" in features:
        found.append(("c", 256))
    if "avx512f" in features:
        found.append(("e", 512))
    return found
