"""The gradient of every builtin compiled for the CPU, in every float dtype, against the interpreter's in float64."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.backend.running import Kernel
from tests.builtins.calls import DECOMPOSITIONS, Case, cases, empty, kernel, smooth
from tests.interpreter import run
from tests.long_tail import more, tail
from warp_like.ir.core import Function
from warp_like.ir.types import Scalar, bfloat16, float16, float32, float64, is_differentiable
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.pipeline import DEFAULT, finish, prepare

EPSILON = {float64: 2.0**-52, float32: 2.0**-23, float16: 2.0**-10, bfloat16: 2.0**-7}
STEPS = 40
"""Roundings that a gradient may contain, each as large as the largest number of the gradient."""

COUNT = 12


@functools.cache
def reverse(case: Case) -> tuple[Function, list[int]]:
    f = prepare(kernel(case), keep_customs=True)
    wrt = [i for i, p in enumerate(f.params) if is_differentiable(p.type)]
    return adjoint(f, wrt, DEFAULT), wrt


@functools.cache
def in_double(case: Case) -> Case:
    """The same row for float64."""
    key = _key(case)
    return next(c for c in cases(float64) if _key(c) == key)


def _key(case: Case) -> str:
    """The case without the name of the float dtype."""
    return re.sub(r"\b(bfloat|float)\d+\b", "F", str(case))


def differentiable(scalar: Scalar) -> list[Case]:
    """Rows that have a gradient, and a float64 form to compare with (random numbers of float32 have none)."""
    found = [c for c in cases(scalar) if is_differentiable(c.result) and not c.row.name.startswith("_")]
    wide = {_key(c) for c in cases(float64)}
    return [c for c in found if c.row.name not in DECOMPOSITIONS and _key(c) in wide]


def to_bits(a: np.ndarray) -> np.ndarray:
    """Memory for the bfloat16 numbers ``a``, which are float32 that need no more than its bits."""
    return (a.view(np.uint32) >> 16).astype(np.uint16)


def from_bits(a: np.ndarray) -> np.ndarray:
    return (a.astype(np.uint32) << 16).view(np.float32)


def rounded(a: np.ndarray, scalar: Scalar) -> np.ndarray:
    if scalar != bfloat16 or a.dtype.kind != "f":
        return a
    return from_bits(to_bits(a.astype(np.float32)))


def compiled(case: Case, scalar: Scalar, args: list[np.ndarray], g: np.ndarray) -> list[np.ndarray]:
    f, wrt = reverse(case)
    memory = [to_bits(a) if scalar == bfloat16 and a.dtype == np.float32 else a.copy() for a in [*args, g]]
    out = np.zeros_like(memory[-1])
    primals = [*memory[:-1], out]
    adjoints = [memory[-1] if i == len(args) else np.zeros_like(primals[i]) for i in wrt]
    # Of the other types only conversions and rounding are new: LLVM's whole pipeline sees the gradients in float32.
    Kernel(finish(f), optimised=scalar == float32)([*primals, *adjoints], (COUNT,))
    found = [a for i, a in zip(wrt, adjoints, strict=True) if i < len(args)]
    return [from_bits(a) if a.dtype == np.uint16 else a for a in found]


def expected(case: Case, args: list[np.ndarray], g: np.ndarray) -> list[np.ndarray]:
    f, wrt = reverse(case)
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in [*args, g]]
    out = empty(case.result, COUNT)
    primals = [*wide[:-1], out]
    adjoints = [wide[-1].copy() if i == len(args) else np.zeros_like(primals[i]) for i in wrt]
    run(f, [*primals, *adjoints], (COUNT,))
    return [a for i, a in zip(wrt, adjoints, strict=True) if i < len(args)]


def sensitivity(case: Case, scalar: Scalar, args: list[np.ndarray], g: np.ndarray, k: int) -> np.ndarray:
    """How much the gradient changes when the arguments are rounded once more."""
    base = expected(case, args, g)[k]
    change = np.zeros(COUNT)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noise = [1 + EPSILON[scalar] * rng.uniform(-1, 1, a.shape) for a in args]
        moved = [a * n if a.dtype.kind == "f" else a for a, n in zip(args, noise, strict=True)]
        difference = np.abs(expected(case, moved, g)[k] - base)
        change = np.maximum(change, difference.reshape(COUNT, -1).max(axis=1))
    return change


def table() -> Iterator[Any]:
    """Every row in float32; of each other type a third of the rows, and others of each, but for the long tail."""
    first = {float16: 0, bfloat16: 1, float64: 2}
    for scalar in EPSILON:
        for k, case in enumerate(differentiable(scalar)):
            yield (scalar, case) if scalar == float32 or k % 3 == first[scalar] else tail(scalar, case)


@more
@pytest.mark.parametrize(("scalar", "case"), list(table()), ids=str)
def test_gradient(scalar: Scalar, case: Case) -> None:
    args = [rounded(a, scalar) for a in smooth(case, COUNT)]
    g = np.random.default_rng(3).normal(size=empty(case.result, COUNT).shape)
    g = rounded(g.astype(empty(case.result, 1).dtype), scalar)
    double = in_double(case)
    wanted = expected(double, args, g)
    for k, (got, exact) in enumerate(zip(compiled(case, scalar, args, g), wanted, strict=True)):
        size = np.maximum(1.0, np.abs(exact).reshape(COUNT, -1).max(axis=1))
        error = np.abs(got.astype(np.float64) - exact).reshape(COUNT, -1).max(axis=1)
        limit = STEPS * EPSILON[scalar] * size
        if (error > limit).any():
            limit = limit + STEPS * sensitivity(double, scalar, args, g, k)
        worst = float((error / limit).max())
        assert worst <= 1.0, f"argument {k + 1} of {case}: {worst:.1f} times the error that rounding explains"
