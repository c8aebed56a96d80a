"""Derivatives at edges are finite wherever the value is: in reverse mode, forward mode and second order.

``tests/builtins/test_adjoint_rules.py`` says which choice is made where no derivative exists, and
``tests/passes/ad/test_forward.py`` that both modes make the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.builtins.calls import Case, cases, empty
from tests.builtins.calls import kernel as call_kernel
from tests.interpreter import run
from tests.long_tail import examples, more, tail
from warp_like.ir.types import Type, float16, float32, float64, is_differentiable
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.ad.forward import forward_mode
from warp_like.passes.pipeline import DEFAULT, prepare

SCALARS = [
    "pow",
    "sqrt",
    "cbrt",
    "log",
    "min",
    "max",
    "clamp",
    "abs",
    "atan2",
    "acos",
    "asin",
    "div",
    "mod",
    "copysign",
]
VECTORS = ["length", "normalize", "norm_l1", "norm_l2", "norm_huber"]
MATRICES = ["inverse", "determinant", "svd2", "svd3", "qr3", "eig3"]
QUATERNIONS = ["quat_from_matrix", "quat_to_matrix", "quat_to_axis_angle", "quat_from_axis_angle", "quat_inverse"]
COUNT = examples(16, few=12)


def found() -> Iterator[Any]:
    """Every row in float64; in float32 and float16 every other one, the rest for the long tail."""
    names = {*SCALARS, *VECTORS, *MATRICES, *QUATERNIONS}
    dtypes = [(t, names if t is float64 else {*SCALARS, *VECTORS}) for t in (float64, float32, float16)]
    for t, wanted in dtypes:
        rows = [c for c in cases(t) if c.row.name in wanted and is_differentiable(c.result)]
        for k, c in enumerate(rows):
            taken = t is float64 or k % 2 == (t is float16)
            yield (str(t), c) if taken else tail(str(t), c)


def edges(t: Type, rng: np.random.Generator) -> np.ndarray:
    """Zeros, ones, ties, and as matrices also multiples of the identity, turns by 180 degrees and singular ones."""
    a = empty(t, COUNT)
    shape = a.shape[1:]
    if a.dtype.kind != "f":
        a[...] = rng.integers(0, 2, a.shape)
        return a
    a[...] = rng.choice([0.0, -0.0, 1.0, -1.0, 0.5], a.shape)
    for k, x in enumerate([0.0, -0.0, 1.0, -1.0]):
        a[k] = x
    if len(shape) == 2 and shape[0] == shape[1]:
        diagonals: list[Any] = [1.0, -2.0, [1.0, -1.0, -1.0, 1.0], [-1.0, 1.0, -1.0, 1.0], [3.0, 2.0, 2.0, 2.0]]
        for k, d in enumerate(diagonals):
            a[4 + k] = np.diag(np.broadcast_to(d, 4 if isinstance(d, list) else shape[0])[: shape[0]])
    elif shape:  # unit vectors, and the identity as a quaternion
        a[4], a[5], a[6] = 0.0, 0.0, 0.0
        a[4].flat[-1], a[5].flat[0], a[6].flat[-1] = 1.0, 1.0, -1.0
    return a


def finite(a: np.ndarray) -> np.ndarray:
    return np.isfinite(a).reshape(COUNT, -1).all(axis=1)


@more
@pytest.mark.parametrize(("dtype", "case"), list(found()), ids=str)
def test_finite(dtype: str, case: Case) -> None:
    rng = np.random.default_rng(0)
    f = prepare(call_kernel(case))
    wrt = [i for i, p in enumerate(f.params) if is_differentiable(p.type)]
    reverse = adjoint(f, wrt, DEFAULT)
    primals = [*(edges(t, rng) for t in case.types), empty(case.result, COUNT)]

    tangents = [rng.normal(size=primals[i].shape).astype(primals[i].dtype) for i in wrt]
    with np.errstate(all="ignore"):
        moved = [t.copy() for t in tangents]
        run(forward_mode(f, wrt, DEFAULT), [*primals, *moved], (COUNT,))
        fine = finite(primals[-1])
        adjoints = [np.zeros_like(primals[i]) for i in wrt[:-1]]
        seed = rng.normal(size=primals[-1].shape).astype(primals[-1].dtype)
        changes = [np.zeros_like(a) for a in adjoints]
        positions = [i for i, p in enumerate(reverse.params) if is_differentiable(p.type)]
        second = forward_mode(reverse, positions, DEFAULT)
        arrays = [*primals, *adjoints, seed.copy()]
        run(second, [*arrays, *(t.copy() for t in tangents), *changes, np.zeros_like(seed)], (COUNT,))
    assert finite(moved[-1])[fine].all(), "forward"
    for k, (a, change) in enumerate(zip(adjoints, changes, strict=True)):
        assert finite(a)[fine].all(), f"reverse, argument {k + 1}"
        assert finite(change)[fine].all(), f"second order, argument {k + 1}"
