"""Refusing what a kind of device or its language lacks, at its place in the user's source, before LLVM sees it."""

from __future__ import annotations

from collections.abc import Iterator

from warp_like.backend.target import Target
from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Function, Op
from warp_like.ir.types import Array, Scalar, Type, float16, float64, scalar_of

_HOSTS = {ops.Native: "call native code", ops.Print: "print", ops.Breakpoint: "stop in a debugger"}
_MISSING: dict[str, dict[type[Op], str]] = {
    "opencl": {**_HOSTS, ops.Push: "save values of loops for a gradient"},
    "amd": _HOSTS,
}
_NAMES = {"opencl": "OpenCL devices", "amd": "AMD's GPUs"}


def require_supported(function: Function, target: Target) -> None:
    """Check that devices of ``target`` run all that ``function`` does.

    Raises:
        WarpCodegenError: One op can't be done there.
    """
    if target.kind not in _MISSING:
        return
    with at(function.loc):
        for p in function.params:
            _require_type(p.type, target)
    for o in _all_ops(function):
        with at(o.loc):
            what = _MISSING[target.kind].get(type(o))
            if target.is_amd and isinstance(o, ops.Apply) and o.fn == "warp_ballot":
                what = "tell in 32 bits which of the 64 lanes of a warp vote yes"
            if what is not None:
                raise WarpCodegenError(
                    f"kernels on {_NAMES[target.kind]} can't {what}", help="launch the kernel on the CPU"
                )
            if isinstance(o, ops.Atomic | ops.AtomicCas):
                _require_atomic(o.array.type, target)
            for r in o.results:
                _require_type(r.type, target)


def _all_ops(function: Function) -> Iterator[Op]:
    for o in function.body.walk():
        yield o
        if isinstance(o, ops.Outlined):
            yield from _all_ops(o.callee)


def _require_type(t: Type, target: Target) -> None:
    scalar = scalar_of(t.dtype if isinstance(t, Array) else t)
    if target.is_opencl and scalar in _FEATURE and _FEATURE[scalar] not in target.feature_set:
        raise WarpCodegenError(f"the OpenCL device does not have {scalar} (cl_khr_{_FEATURE[scalar]})")


_FEATURE: dict[Scalar | None, str] = {float16: "fp16", float64: "fp64"}


def _require_atomic(t: Type, target: Target) -> None:
    scalar = scalar_of(t.dtype) if isinstance(t, Array) else None
    if not target.is_opencl or scalar is None:
        return
    if scalar.bits < 32 or scalar.is_bool:
        raise WarpCodegenError(
            f"OpenCL devices update 32 and 64 bits atomically, and an element of this array is {scalar}",
            help="use an array of int32 or float32",
        )
    if scalar.bits == 64 and "int64_atomics" not in target.feature_set:
        raise WarpCodegenError(
            f"the OpenCL device updates 32 bits atomically (it lacks cl_khr_int64_base_atomics), not {scalar}"
        )
