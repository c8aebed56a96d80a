"""Adjoints as they are compiled for CUDA, run on the CPU: their stacks in an arena that is too small at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings

from tests.cuda_emulation import Context, CudaKernel
from tests.passes.ad.random_kernels import THREADS, sources
from tests.passes.ad.test_random_kernels import (
    COUNTERS,
    FIXED,
    INDICES,
    QUICK,
    WRT,
    Step,
    agree,
    by_dual_numbers,
    launches,
    module,
    numbers,
    random_arrays,
    typed,
)
from warp_like.analysis.memory import analyse
from warp_like.backend.target import Options as Lowering
from warp_like.frontend.build import build_kernel
from warp_like.ir.core import Function
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.effects import array_uses
from warp_like.passes.pipeline import Options, finish, optimise, prepare

BLOCKS, BLOCK = 2, 1  # fewer than there are threads in the grid: a column of the arena serves several


def launch(f: Function, args: Sequence[Any], capacity: int = 0) -> list[int]:
    """Launch as ``backend/llvm/cuda.py`` says that a host does; return the capacities that it took."""
    kernel = CudaKernel(f, Lowering(fuse_fp=False))
    written = [i for i, a in array_uses(analyse(f)).items() if a.written]
    tried = [capacity]
    while True:
        before = {i: args[i].copy() for i in written}
        context = Context(tried[-1], BLOCKS * BLOCK)
        kernel(args, (THREADS,), context, BLOCKS, BLOCK)
        needed = context.get("stack_needed")
        if not needed:
            return tried
        assert needed > tried[-1]
        assert needed % 4 == 0
        for i, a in before.items():
            args[i][...] = a
        tried.append(max(needed, 2 * tried[-1]))


def gradients(space: dict[str, Any], step: Step, seeds: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[int]]:
    """The gradients of one launch, and the capacities that were tried."""
    _, (name, n, s) = step
    kernel = space[name]
    options = Options(checkpoint_loops=kernel.option("checkpoint_loops"), verify=True)
    f = prepare(build_kernel(kernel.source, tuple(t for _, t in kernel.parameters), wide=False), options)
    g = adjoint(f, WRT, options)
    before = [*typed(random_arrays(0)), INDICES.copy(), COUNTERS.copy()]
    after = [a.copy() for a in before]
    CudaKernel(finish(optimise(f, options), options), Lowering(fuse_fp=False))([*after, n, s], (THREADS,), Context())
    found = typed(seeds)
    prelaunch_copies = [before[i].copy() for i in g.prelaunch_copies]
    tried = launch(finish(optimise(g, options), options), [*after, n, s, *found, *prelaunch_copies])
    return numbers(found), tried


@settings(QUICK, max_examples=5)
@given(source=sources(), step=launches(1))
def test_random_adjoints(source: str, step: Step) -> None:
    seeds = random_arrays(1)
    expected = by_dual_numbers(source, [step], seeds)
    found, _ = gradients(module(source), step, seeds)
    agree(found, expected, source)


def test_a_stack_that_grows() -> None:
    seeds, step = random_arrays(1), ("launch", ("k0", 4, 0.35))
    expected = by_dual_numbers(FIXED, [step], seeds)
    found, tried = gradients(module(FIXED), step, seeds)
    agree(found, expected, FIXED)
    assert 2 <= len(tried) <= 4  # a sweep that runs out is counted to its end
