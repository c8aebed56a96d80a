"""The gradient of every builtin: by its rule or its body, against central differences and at its edges."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest

from tests.builtins.calls import Case, cases, empty, has_reference, kernel, reference, smooth
from tests.interpreter import evaluate, run
from tests.ir_builder import start
from warp_like.builtins import powers
from warp_like.builtins.spec import NoGradient
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import element_shape, float64, is_differentiable
from warp_like.passes.ad.adjoint import differentiate, needs_expansion
from warp_like.passes.dce import dce
from warp_like.passes.expand import expand
from warp_like.passes.pipeline import prepare

STEP = 1e-5


@functools.cache
def adjoint(case: Case) -> tuple[Function, list[int]]:
    f = expand(prepare(kernel(case)), needs_expansion)
    wrt = [i for i, p in enumerate(f.params) if is_differentiable(p.type)]
    return differentiate(f, wrt), wrt


def gradients(case: Case, args: list[np.ndarray], g: np.ndarray) -> list[np.ndarray | None]:
    """The adjoint of each argument for the adjoint ``g`` of the result."""
    f, wrt = adjoint(case)
    count = len(g)
    out = empty(case.result, count)
    run(kernel(case), [*args, out], (count,))
    primals = [*args, out]
    found = [g.copy() if i == len(args) else np.zeros_like(primals[i]) for i in wrt]
    run(f, [*primals, *found], (count,))
    by_position = dict(zip(wrt, found, strict=True))
    return [by_position.get(i) for i in range(len(args))]


def slope(case: Case, args: list[np.ndarray], k: int, g: np.ndarray) -> np.ndarray:
    """Central differences of ``sum(g * result)`` with respect to argument ``k``."""
    expected = np.zeros_like(args[k])
    for at in np.ndindex(args[k].shape[1:]):
        moved = []
        for sign in (1.0, -1.0):
            shifted = [a.copy() for a in args]
            shifted[k][(slice(None), *at)] += sign * STEP
            moved.append(reference(case, shifted))
        change = (g * (moved[0] - moved[1])).reshape(len(g), -1).sum(axis=1) / (2 * STEP)
        expected[(slice(None), *at)] = change
    return expected


def differentiable() -> list[Case]:
    found = [c for c in cases(float64) if is_differentiable(c.result) and not c.row.name.startswith("_")]
    return [c for c in found if has_reference(c)]


@pytest.mark.parametrize("case", differentiable(), ids=str)
def test_gradient(case: Case) -> None:
    args = smooth(case, 12)
    g = np.random.default_rng(3).normal(size=empty(case.result, 12).shape)
    for k, got in enumerate(gradients(case, args, g)):
        if got is not None:
            np.testing.assert_allclose(got, slope(case, args, k, g), rtol=2e-6, atol=2e-6, err_msg=f"argument {k + 1}")


def test_rows_without_a_gradient_say_why() -> None:
    silent = [
        c for c in cases(float64) if not is_differentiable(c.result) and not isinstance(c.row.adjoint, NoGradient)
    ]
    assert [str(c) for c in silent if not c.row.name.startswith(("where", "select"))] == []


def at(name: str, *args: Any, g: Any = 1.0) -> list[float | np.ndarray]:
    """The gradients of one float64 call."""
    arrays = [np.array([a], np.float64 if not isinstance(a, bool) else np.bool_) for a in args]
    case = next(c for c in cases(float64) if c.row.name == name and _shapes(c) == [a.shape[1:] for a in arrays])
    seed = np.ones((1, *empty(case.result, 1).shape[1:])) * g
    return [None if x is None else x[0].tolist() for x in gradients(case, arrays, seed)]


def _shapes(case: Case) -> list[tuple[int, ...]]:
    return [element_shape(t) for t in case.types]


INF, NAN = math.inf, math.nan

EDGES = [
    ("sqrt", (0.0,), [0.0]),
    ("sqrt", (-1.0,), [0.0]),
    ("cbrt", (0.0,), [0.0]),
    ("abs", (0.0,), [0.0]),
    ("abs", (-0.0,), [0.0]),
    ("log", (0.0,), [0.0]),
    ("log2", (-1.0,), [0.0]),
    ("asin", (1.0,), [0.0]),
    ("asin", (7.0,), [0.0]),
    ("acos", (-1.0,), [0.0]),
    ("atan2", (0.0, 0.0), [0.0, 0.0]),
    ("atan2", (2.0**-600, 2.0**-600), [2.0**599, -(2.0**599)]),
    ("atan2", (-(2.0**700), 2.0**700), [2.0**-701, 2.0**-701]),
    ("atan2", (0.0, -4.0), [-0.25, 0.0]),
    ("div", (1.0, 0.0), [0.0, 0.0]),
    ("div", (0.0, 0.0), [0.0, 0.0]),
    ("mod", (1.0, 0.0), [0.0, 0.0]),
    ("mod", (7.5, 2.0), [1.0, -3.0]),
    ("frac", (2.25,), [1.0]),
    ("min", (2.0, 2.0), [1.0, 0.0]),
    ("max", (2.0, 2.0), [1.0, 0.0]),
    ("min", (NAN, 2.0), [0.0, 1.0]),
    ("max", (2.0, NAN), [1.0, 0.0]),
    ("clamp", (0.0, 0.0, 1.0), [1.0, 0.0, 0.0]),
    ("clamp", (1.0, 0.0, 1.0), [1.0, 0.0, 0.0]),
    ("clamp", (2.0, 0.0, 1.0), [0.0, 0.0, 1.0]),
    ("pow", (0.0, 0.0), [0.0, 0.0]),
    ("pow", (0.0, 0.5), [0.0, 0.0]),
    ("pow", (0.0, 1.0), [1.0, 0.0]),
    ("pow", (0.0, 2.0), [0.0, 0.0]),
    ("pow", (0.0, -1.0), [0.0, 0.0]),
    ("pow", (-2.0, 3.0), [12.0, 0.0]),
    ("pow", (-2.0, 0.0), [0.0, 0.0]),
    ("erfinv", (1.0,), [0.0]),
    ("erfcinv", (0.0,), [0.0]),
    ("copysign", (0.0, -1.0), [0.0, 0.0]),
    ("copysign", (-3.0, 2.0), [-1.0, 0.0]),
    ("sign", (0.0,), [0.0]),
    ("step", (0.0,), [0.0]),
    ("floor", (2.0,), [0.0]),
    ("length", ([0.0, 0.0, 0.0],), [[0.0, 0.0, 0.0]]),
    ("normalize", ([0.0, 0.0, 0.0],), [[0.0, 0.0, 0.0]]),
    ("norm_l1", ([0.0, -2.0, 3.0],), [[0.0, -1.0, 1.0]]),
    ("norm_huber", ([0.0, 0.0, 0.0], 1.0), [[0.0, 0.0, 0.0], 0.0]),
    ("min", ([1.0, 1.0, 3.0],), [[1.0, 0.0, 0.0]]),
    ("max", ([1.0, 3.0, 3.0],), [[0.0, 1.0, 0.0]]),
    ("inverse", ([[1.0, 2.0], [2.0, 4.0]],), [[[0.0, 0.0], [0.0, 0.0]]]),
    ("determinant", ([[0.0, 0.0], [0.0, 0.0]],), [[[0.0, 0.0], [0.0, 0.0]]]),
    ("determinant", ([[1.0, 2.0], [2.0, 4.0]],), [[[4.0, -2.0], [-2.0, 1.0]]]),
]


@pytest.mark.parametrize(("name", "args", "expected"), EDGES, ids=[f"{n}{a}" for n, a, _ in EDGES])
def test_edges(name: str, args: tuple[Any, ...], expected: list[Any]) -> None:
    assert at(name, *args) == expected


@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log10", "asin", "acos", "erfinv", "erfcinv", "abs"])
def test_at_nan_these_have_the_derivative_zero(name: str) -> None:
    assert at(name, float("nan")) == [0.0]


@pytest.mark.parametrize("name", ["exp", "sin", "cbrt", "atan", "tanh", "erf"])
def test_at_nan_others_have_the_derivative_nan(name: str) -> None:
    assert np.isnan(at(name, float("nan")))


@pytest.mark.parametrize("case", [c for c in differentiable() if c.row.name not in ("exp", "sinh", "cosh")], ids=str)
def test_a_discarded_value_sends_no_nan(case: Case) -> None:
    """Where the incoming adjoint is 0, as below a ``where``, no argument near zero or one gets anything else."""
    count = 6
    args = []
    for t in case.types:
        a = empty(t, count)
        values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0]).astype(a.dtype)
        args.append(np.ascontiguousarray(np.broadcast_to(values.reshape(count, *[1] * (a.ndim - 1)), a.shape)))
    for got in gradients(case, args, empty(case.result, count)):
        assert got is None or np.array_equal(got, np.zeros_like(got)), str(got)


def test_twice_a_half_is_the_whole() -> None:
    def made(half: float, otherwise: float, doubles: bool) -> tuple[Function, list[str]]:
        f, b = start("f", "func", (float64,), x=float64, g=float64, h=float64)
        x, g, h = f.params
        chosen = b.select(b.gt(x, 0.0), b.mul(g, b.mul(h, half)), b.constant(otherwise, float64))
        b.yield_(powers.twice(b, chosen) if doubles else b.add(chosen, chosen))
        f = dce(f)
        return f, [o.fn for o in f.body.walk() if isinstance(o, ops.Apply)]

    numbers = [0.0, -0.0, 1.5, -3.0, 2.0**-500, 2.0**1000, INF, -INF, NAN]
    for half, otherwise, fewer in ((0.5, 0.0, True), (0.25, 0.0, False), (0.5, 1.0, False)):
        (f, found), (g, plain) = made(half, otherwise, True), made(half, otherwise, False)
        assert found == (["gt", "mul", "where"] if fewer else plain)
        for args in itertools.product(numbers, repeat=3):
            np.testing.assert_array_equal(evaluate(f, args), evaluate(g, args))
