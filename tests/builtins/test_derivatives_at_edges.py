"""Derivatives at edges are finite wherever the value is: in reverse mode, forward mode and second order.

``tests/builtins/test_adjoint_rules.py`` says which choice is made where no derivative exists, and
``tests/passes/ad/test_forward.py`` that both modes make the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
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


@wp.kernel
def one_of(x: wp.array(dtype=wp.float64), which: int, y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    a = x[i]
    if which == 0:
        y[i] = wp.sqrt(a)
    elif which == 1:
        y[i] = wp.exp(a)
    elif which == 2:
        y[i] = wp.log(a)
    elif which == 3:
        y[i] = wp.sin(a)
    elif which == 4:
        y[i] = wp.tan(a)
    elif which == 5:
        y[i] = wp.asin(a)
    elif which == 6:
        y[i] = wp.atan(a)
    elif which == 7:
        y[i] = wp.cosh(a)
    elif which == 8:
        y[i] = wp.tanh(a)
    elif which == 9:
        y[i] = wp.erf(a)
    elif which == 10:
        y[i] = wp.abs(a)
    elif which == 11:
        y[i] = a**2.0
    elif which == 12:
        y[i] = a**3.0
    elif which == 13:
        y[i] = a**0.5
    elif which == 14:
        y[i] = a**-1.0
    elif which == 15:
        y[i] = a**0.0
    elif which == 16:
        y[i] = wp.atan2(a, wp.float64(2.0))
    elif which == 17:
        y[i] = wp.pow(wp.abs(a) + wp.float64(1.0e-308), a)


def test_derivatives_are_those_of_pytorch_where_these_are_numbers():
    """Elsewhere they are infinite as well, or 0: outside of a domain and at its ends."""
    torch = pytest.importorskip("torch")
    functions = [
        *(torch.sqrt, torch.exp, torch.log, torch.sin, torch.tan, torch.asin, torch.atan, torch.cosh, torch.tanh),
        *(torch.erf, torch.abs, lambda a: a**2.0, lambda a: a**3.0, lambda a: a**0.5, lambda a: a**-1.0),
        *(lambda a: a**0.0, lambda a: torch.atan2(a, torch.tensor(2.0, dtype=torch.float64))),
        lambda a: torch.pow(torch.abs(a) + 1e-308, a),
    ]
    numbers = [0.0, 1.0, 2.0, 0.5, 0.999, 1e-310, 1e-160, 1e-20, 3.0, 40.0, 705.0, 750.0, 1e5, 1e22, 1e160, 1.7e308]
    x = np.array([s * v for v in numbers for s in (1.0, -1.0)])
    for which, function in enumerate(functions):
        a = wp.array(x, dtype=wp.float64, requires_grad=True)
        y = wp.zeros_like(a, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(one_of, dim=len(x), inputs=[a, which, y])
        tape.backward(grads={y: wp.ones_like(a)})
        t = torch.tensor(x, requires_grad=True)
        function(t).sum().backward()
        got, expected = a.grad.numpy(), t.grad.numpy()
        inside = np.isfinite(expected) & ~((which == 2) & (x <= 0))  # PyTorch gives 1 / x for log of a negative number
        np.testing.assert_allclose(got[inside], expected[inside], rtol=1e-12, atol=1e-307, err_msg=str(which))
        rest = got[~inside]
        assert (np.isinf(rest) & (rest == expected[~inside]) | (rest == 0)).all(), (which, x[~inside], rest)
