"""Functions in lanes do what they did thread by thread."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.random_ir import OWN_DIMS, own_arguments, own_function
from warp_like.ir.printer import print_function
from warp_like.ir.verify import verify
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.pipeline import finish, optimise, prepare
from warp_like.passes.spmd.widen import NotWidenable, widen


@pytest.mark.parametrize("part", range(4))
def test_lanes_do_what_threads_do(part: int) -> None:
    widened, refused = 0, set()
    for seed in range(part * 100, part * 100 + 100):
        f = finish(optimise(prepare(own_function(seed))))
        width = (2, 4, 8, 16)[seed % 4]
        try:
            wide = widen(f, width)
        except NotWidenable as e:
            refused.add(str(e))
            continue
        widened += 1
        wanted = own_arguments(seed)
        run(f, wanted, OWN_DIMS)
        for g in (wide, dce(cse(widen(f, width)))):
            verify(g)
            got = own_arguments(seed)
            run_lanes(g, got, OWN_DIMS)
            for a, b in zip(wanted, got, strict=True):
                np.testing.assert_array_equal(b, a, err_msg=f"{seed}\n{print_function(f)}\n{print_function(g)}")
    assert widened > 50
    assert refused <= {"the gradient saves the state of a loop that threads leave at different times"}
