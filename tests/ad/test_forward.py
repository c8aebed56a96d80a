"""Forward mode: against reverse mode (``<c, J t> = <J' c, t>``), central differences, and itself over reverse mode."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warp_like as wp
from tests.ad.gradients import _bind as bind
from tests.ad.test_gradients import CASES, branches, nested, stateful, vector_state
from tests.builtins.calls import Case, cases, empty, smooth
from tests.builtins.calls import kernel as call_kernel
from tests.interpreter import run
from tests.ir_builder import branch, count, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, Vec, bool_, float64, int32, is_differentiable
from warp_like.ir.verify import verify
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.ad.forward import forward_mode, tangent
from warp_like.passes.pipeline import Options, prepare

f64 = wp.float64
CHECKED = Options(verify=True)
ATOMIC_WINNERS = {"atomic max"}  # forward mode refuses them


def random_like(a: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=np.shape(a))


# --- every builtin ------------------------------------------------------------------------------------------------


def table() -> list[Case]:
    return [c for c in cases(float64) if is_differentiable(c.result) and not c.row.name.startswith("_")]


@functools.cache
def both_modes(case: Case) -> tuple[Function, Function, list[int]]:
    f = prepare(call_kernel(case))
    wrt = [i for i, p in enumerate(f.params) if is_differentiable(p.type)]
    return forward_mode(f, wrt, CHECKED), adjoint(f, wrt, CHECKED), wrt


def compare_modes(case: Case, args: list[np.ndarray]) -> None:
    forward, reverse, wrt = both_modes(case)
    n = len(args[0])
    primals = [*args, empty(case.result, n)]
    changes = [random_like(primals[i], i) for i in wrt]
    changes[-1][...] = 0
    given = [t.copy() for t in changes]
    run(forward, [*primals, *changes], (n,))

    c = random_like(primals[-1], 99)
    adjoints = [np.zeros_like(primals[i]) for i in wrt[:-1]]
    run(reverse, [*primals, *adjoints, c.copy()], (n,))
    pairs = zip(given[:-1], adjoints, strict=True)
    backwards = sum(((t * a).reshape(n, -1).sum(axis=1) for t, a in pairs), np.zeros(n))
    np.testing.assert_allclose((c * changes[-1]).reshape(n, -1).sum(axis=1), backwards, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", table(), ids=str)
def test_builtin(case: Case) -> None:
    compare_modes(case, smooth(case, 12))


@pytest.mark.parametrize("case", table(), ids=str)
def test_builtin_at_edges(case: Case) -> None:
    """At zeros, ones and ties both modes make the same choice."""
    args = []
    for t in case.types:
        a = empty(t, 6)
        values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0]).astype(a.dtype)
        args.append(np.ascontiguousarray(np.broadcast_to(values.reshape(6, *[1] * (a.ndim - 1)), a.shape)))
    compare_modes(case, args)
