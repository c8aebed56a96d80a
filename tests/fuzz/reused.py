"""Generators that tests of one stage use, as kinds of the driver."""

from __future__ import annotations

import random

import numpy as np

from tests.frontend.random_source import Generator
from tests.fuzz.program import Program
from tests.fuzz.scalars import InvalidProgram


def control(seed: int, known: frozenset[str]) -> Program:
    """Nested branches, loops and exits of every kind."""
    source = "@wp.kernel\n" + Generator(seed).kernel()
    setup = "x, y = [(0, 0), (3, 1), (7, 10), (2, 5)][turn]\nout = np.zeros(8, 'int32')\n"
    setup += "memory = [out]\nargs = [out, x, y]\n"
    return Program("control", seed, source, setup, ((1,),) * 4, ({}, {"vector_width": 4}, {"max_unroll": 0}))


def compiled_ir(seed: int) -> None:
    """Random IR compiled, for a thread at a time and in lanes, does what it does interpreted."""
    from tests.backend.llvm.test_lanes import EXACT, test_random_functions
    from tests.backend.running import check
    from tests.random_ir import OWN_DIMS, own_arguments, own_function
    from warp_like.passes.pipeline import finish, optimise, prepare

    f = finish(optimise(prepare(own_function(seed))))
    check(f, own_arguments(seed), OWN_DIMS, rtol=1e-5, base=EXACT)
    test_random_functions(seed)


def dual_numbers(seed: int) -> None:
    """A random program on a tape has the gradients that dual numbers give."""
    from tests.passes.ad import dual_kernels
    from tests.passes.ad.random_kernels import source
    from tests.passes.ad.test_random_kernels import MODERATE, by_dual_numbers, check_tape, random_arrays

    r = random.Random(seed)
    text = source(r.randint, kernels=2, statements=5)
    steps = [("launch", (f"k{r.randint(0, 1)}", r.randint(0, 4), r.choice([-0.6, 0.35, 1.1]))) for _ in range(2)]
    by_dual_numbers(text, steps, random_arrays(1))
    if not dual_kernels.Dual.largest < MODERATE or np.isnan(dual_kernels.Dual.largest):
        raise InvalidProgram("values are too large")
    check_tape(text, steps)
