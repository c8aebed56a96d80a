"""Every builtin, compiled for the CPU and in the interpreter, gives what its NumPy reference gives."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.backend.running import Kernel
from tests.builtins.calls import Case, cases, empty, kernel, reference, telling
from tests.interpreter import run
from warp_like.ir.types import Scalar, bool_, float16, float32, float64, int32, scalar_of, uint8
from warp_like.passes.pipeline import finish

TOLERANCE = {float64: 4e-14, float32: 4e-6, float16: 8e-3}
TYPES = (float64, float32, int32, uint8, bool_)


@functools.cache
def checked(scalar: Scalar) -> list[Case]:
    return [c for c in cases(scalar) if c.row.ref is not None and not c.row.name.startswith("_")]


def compare(case: Case, args: list[np.ndarray], got: np.ndarray) -> None:
    """Exactly for integers; floats to the rounding of either the exact result or of the formula's steps."""
    scalar = scalar_of(case.result)
    assert scalar is not None
    with np.errstate(over="ignore"):
        exact = reference(case, args).astype(got.dtype)
    stepwise = exact if scalar == float16 else reference(case, args, double=False).astype(got.dtype)
    if not scalar.is_float:
        np.testing.assert_array_equal(got, exact, err_msg=str(case))
        return
    near = [close(got, w, TOLERANCE[scalar]) for w in (exact, stepwise)]
    wrong = np.flatnonzero(~(near[0] | near[1]))
    assert not len(wrong), "\n".join(
        f"{case}: {[a[k] for a in args]} gave {got[k]}, not {exact[k]}" for k in wrong[:9]
    )


def close(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> np.ndarray:
    """Which results are right: for scalars relative to themselves, for vectors to their largest component."""
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    size = 1.0 if got.ndim == 1 else float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0))
    same = np.isclose(got, wanted, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    return same.reshape(len(same), -1).all(axis=1)


@pytest.mark.parametrize("case", [c for t in TYPES for c in checked(t)], ids=str)
def test_compiled(case: Case) -> None:
    args = telling(case)
    out = empty(case.result, len(args[0]))
    Kernel(finish(kernel(case)))([*args, out], (len(out),))
    compare(case, args, out)


@pytest.mark.parametrize("case", [c for t in (float64, float32, float16, int32) for c in checked(t)], ids=str)
def test_interpreted(case: Case) -> None:
    args = [a[::7] for a in telling(case)]
    out = empty(case.result, len(args[0]))
    run(kernel(case), [*args, out], (len(out),))
    compare(case, args, out)
