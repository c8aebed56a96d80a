"""Random programs compute what Python computes that runs the same source."""

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.program_source import Program
from tests.frontend.python_values import run
from tests.frontend.support import define
from tests.long_tail import seeds
from warp_like.backend import libdevice
from warp_like.backend.nvptx import assemble

pytestmark = pytest.mark.usefixtures("each_pass_is_verified")

THREADS = 19
OPTIONS = ({}, {"max_unroll": 0}, {"vector_width": 1})


def arguments(seed):
    rng = np.random.default_rng(seed)
    xs = rng.integers(-100, 100, (THREADS, 2)).astype(np.int32)
    xs[:3] = [[0, 0], [2**31 - 1, -(2**31)], [-1, 7]]
    return [xs, np.zeros((THREADS, 6), np.int32), np.zeros((THREADS, 5), np.float32), np.zeros(16, np.int32)]


@pytest.mark.parametrize("seed", seeds(40, few=20))
def test_a_program(seed):
    source = Program(seed).source()
    expected = run(source, THREADS, arguments(seed))
    given = arguments(seed)
    kernel = wp.kernel(define(source)["k"], **OPTIONS[seed % len(OPTIONS)])
    wp.launch(kernel, THREADS, inputs=given)
    for name, got, want in zip(("xs", "out", "reals", "notes"), given, expected, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=f"{name} of\n{source}")
    if seed % 10 == 0 and libdevice.find_ptxas() is not None:
        assert assemble(kernel.inspect("ptx", target="sm_80"), "sm_80")[:4] == b"\x7fELF"
