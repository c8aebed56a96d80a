"""Every builtin, compiled for the CPU and in the interpreter, gives what its NumPy reference gives."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.backend.running import Kernel
from tests.builtins.calls import Case, empty, has_reference, kernel, only, reference, telling
from tests.interpreter import run
from tests.long_tail import more, tail
from warp_like.builtins.overload import Expand, Inline
from warp_like.ir.types import (
    Scalar,
    Type,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    scalar_of,
    uint8,
    uint16,
    uint32,
    uint64,
)
from warp_like.passes.pipeline import finish
from warp_like.values import bfloat

TOLERANCE = {float64: 4e-14, float32: 4e-6, float16: 8e-3, bfloat16: 6e-2}
HALVES = (float16, bfloat16)
TYPES = (float64, float32, float16, bfloat16, int32, uint8, bool_, uint64)
TAIL = (uint32, int64, int8, int16, uint16)
"""Integers whose sizes and signs other types of the suite have."""


AMPLIFIES = ("determinant", "inverse", "inverse_approx", "lerp")
"""Formulas that cancel, so that the rounding of their steps in half precision is no longer small."""


@functools.cache
def checked(scalar: Scalar) -> list[Case]:
    found = [c for c in only(scalar) if not c.row.name.startswith("_") and has_reference(c)]
    return [c for c in found if scalar not in HALVES or c.row.name not in AMPLIFIES]


def names(scalar: Scalar) -> list[str]:
    return list(dict.fromkeys(c.row.name for c in checked(scalar)))


def compare(case: Case, args: list[np.ndarray], got: np.ndarray) -> None:
    """Exactly for integers; floats to the rounding of either the exact result or of the formula's steps."""
    scalar = scalar_of(case.result)
    assert scalar is not None
    with np.errstate(over="ignore"):
        exact = reference(case, args).astype(got.dtype)
    if not scalar.is_float:
        np.testing.assert_array_equal(got, exact, err_msg=str(case))
        return
    near = close(got, exact, TOLERANCE[scalar])
    if not near.all() and scalar not in HALVES:
        near |= close(got, reference(case, args, double=False).astype(got.dtype), TOLERANCE[scalar])
    wrong = np.flatnonzero(~near)
    assert not len(wrong), "\n".join(f"{case}: {[a[k] for a in args]} gave {got[k]}, not {exact[k]}" for k in wrong[:9])


def close(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> np.ndarray:
    """Which results are right: for scalars relative to themselves, for vectors to their largest component."""
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    size = 1.0 if got.ndim == 1 else float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0))
    same = np.isclose(got, wanted, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    return same.reshape(len(same), -1).all(axis=1)


TOGETHER = 8
"""How many builtins stand in one kernel: LLVM takes longer for a loop over the grid than for a call in it."""


def groups(scalar: Scalar, given: list[str]) -> Iterator[tuple[str, ...]]:
    """Divide builtins into those of one kernel: those with a body may branch, of the others LLVM makes vectors."""
    for some in division(scalar, given):
        yield from (tuple(some[k : k + TOGETHER]) for k in range(0, len(some), TOGETHER))


def division(scalar: Scalar, given: list[str]) -> list[list[str]]:
    """Divide builtins into those without and with a body; those of halves once more, by ``is_optimised``."""
    bodies = {c.row.name for c in checked(scalar) if isinstance(c.row.lower, (Expand, Inline))}
    few = [n for n in given if is_optimised(scalar, n)]
    return [
        [n for n in part if (n in bodies) == body]
        for part in (few, [n for n in given if n not in few])
        for body in (False, True)
    ]


@functools.cache
def is_optimised(scalar: Scalar, name: str) -> bool:
    """Whether LLVM's whole pipeline makes the kernel of a builtin: not of vectors of halves.

    They become so many conversions that its time grows with their square; float32 has the same vectors.
    """
    return scalar not in HALVES or all(
        isinstance(t, Scalar) for c in checked(scalar) if c.row.name == name for t in (*c.types, c.result)
    )


def table() -> Iterator[Any]:
    """Every builtin in the types of the suite, and in those of the tail where no other has it, as random numbers."""
    others = {n for t in TYPES for n in names(t)}
    for t in TYPES:
        yield from ((t, some) for some in groups(t, names(t)))
    for t in TAIL:
        yield from ((t, some) for some in groups(t, [n for n in names(t) if n not in others]))
        yield from (tail(t, some) for some in groups(t, [n for n in names(t) if n in others]))


def shown(value: Scalar | tuple[str, ...]) -> str:
    return "-".join(value) if isinstance(value, tuple) else str(value)


@more
@pytest.mark.parametrize(("scalar", "some"), list(table()), ids=shown)
def test_compiled(scalar: Scalar, some: tuple[str, ...]) -> None:
    """All overloads of some builtins in one kernel; shorter arguments are repeated."""
    calls = [c for c in checked(scalar) if c.row.name in some]
    given = [[in_memory(a, t) for a, t in zip(telling(c), c.types, strict=True)] for c in calls]
    longest = max(len(args[0]) for args in given)
    memory = [[np.resize(a, (longest, *a.shape[1:])) for a in args] for args in given]
    out = [in_memory(empty(c.result, longest), c.result) for c in calls]
    flat = [a for args, result in zip(memory, out, strict=True) for a in (*args, result)]
    Kernel(finish(kernel(*calls)), optimised=is_optimised(scalar, some[0]))(flat, (longest,))
    for case, args, got in zip(calls, given, out, strict=True):
        seen = [from_memory(a, t) for a, t in zip(args, case.types, strict=True)]
        compare(case, seen, from_memory(got, case.result)[: len(args[0])])


def in_memory(a: np.ndarray, t: Type) -> np.ndarray:
    """Arrays of bfloat16 hold its bits."""
    return bfloat.encode_array(a) if scalar_of(t) == bfloat16 else a


def from_memory(a: np.ndarray, t: Type) -> np.ndarray:
    return bfloat.decode_array(a) if scalar_of(t) == bfloat16 else a


@pytest.mark.parametrize("case", [c for t in (float64, float16, int32) for c in checked(t)], ids=str)
def test_interpreted(case: Case) -> None:
    args = [a[::7] for a in telling(case)]
    out = empty(case.result, len(args[0]))
    run(kernel(case), [*args, out], (len(out),))
    compare(case, args, out)


@pytest.mark.parametrize("scalar", [float64, float32])
@pytest.mark.parametrize("name", ["erfinv", "erfcinv"])
def test_inverse_error_functions_are_accurate_to_the_ends(name: str, scalar: Scalar) -> None:
    case = next(c for c in checked(scalar) if c.row.name == name)
    dtype = empty(scalar, 1).dtype
    if name == "erfinv":
        x = np.array([1e-30, 1e-8, 0.3, 0.499, 0.5, 0.501, 0.9, 0.999, 1 - 4 * np.finfo(dtype).epsneg], dtype)
        x = np.concatenate([x, -x])
    else:
        smallest = {float64: 1e-300, float32: 1e-37}[scalar]
        x = np.array([smallest, 1e-30, 1e-10, 1e-3, 0.499, 0.5, 0.999, 1.0, 1.5, 1.999], dtype)
    out = empty(scalar, len(x))
    Kernel(finish(kernel(case)))([x, out], (len(x),))
    np.testing.assert_allclose(out, reference(case, [x]), rtol=16 * np.finfo(dtype).eps)
