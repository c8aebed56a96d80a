"""Functions in lanes, compiled, do what they did thread by thread in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.running import Kernel, compare, copies
from tests.interpreter import run
from tests.long_tail import seeds
from tests.random_ir import OWN_DIMS, own_arguments, own_function
from warp_like.backend.target import Options
from warp_like.ir.printer import print_function
from warp_like.passes.pipeline import finish, optimise, prepare
from warp_like.passes.spmd.widen import widen

EXACT = Options(fuse_fp=False, vector_math=False)


@pytest.mark.parametrize("seed", seeds(40, few=16))
def test_random_functions(seed: int) -> None:
    f = finish(optimise(prepare(own_function(seed + 1000))))
    wide = widen(f, (4, 8, 16, 32)[seed % 4])
    wanted = own_arguments(seed)
    told: list[str] = []
    run(f, wanted, OWN_DIMS, told)
    got = copies(own_arguments(seed))
    kernel = Kernel(wide, EXACT.replace(contiguous=bool(seed % 2)))
    kernel(got, OWN_DIMS, splits=(1, 5, 13))
    assert sorted(kernel.runtime.printed) == sorted(told)
    for a, b in zip(wanted, got, strict=True):
        if isinstance(a, np.ndarray):
            compare(b, a, 1e-5, print_function(wide))
