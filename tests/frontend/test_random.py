"""Random kernels do what Python does with the same source."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontend.random_source import Generator
from tests.frontend.support import build, define
from tests.interpreter import run


def outputs(source: str, x: int, y: int) -> tuple[list[int], list[int]]:
    k = define(source)["k"]
    got = np.zeros(8, np.int32)
    run(build(k), [got, x, y], (1,))
    expected = np.zeros(8, np.int64)
    k(expected, x, y)
    return got.tolist(), expected.tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_control_flow_is_that_of_python(seed):
    source = Generator(seed).kernel()
    for x, y in ((0, 0), (3, 1), (7, 10), (2, 5)):
        got, expected = outputs(source, x, y)
        assert got == expected, f"x={x}, y={y}\n{source}"
