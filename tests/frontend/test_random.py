"""Random kernels do what Python does with the same source."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontend.random_source import Generator
from tests.frontend.support import build, define
from tests.interpreter import run
from tests.long_tail import examples
from warp_like.passes.checks import debug_checks


def outputs(source: str, x: int, y: int, reference: str | None = None) -> tuple[list[int], list[int]]:
    k = define(source)["k"]
    got = np.zeros(8, np.int32)
    run(debug_checks(build(k), reference is None), [got, x, y], (1,))
    expected = np.zeros(8, np.int64)
    (define(reference)["k"] if reference is not None else k)(expected, x, y)
    return got.tolist(), expected.tolist()


@settings(max_examples=examples(60, few=25), deadline=None)
@given(st.integers(0, 10**9))
def test_control_flow_is_that_of_python(seed):
    source = Generator(seed).kernel()
    for x, y in ((0, 0), (3, 1), (7, 10), (2, 5)):
        got, expected = outputs(source, x, y)
        assert got == expected, f"x={x}, y={y}\n{source}"


@pytest.mark.filterwarnings("ignore:.*not assigned on any path")
@settings(max_examples=examples(60, few=25), deadline=None)
@given(st.integers(0, 10**9))
def test_names_that_some_paths_assign_are_zero_on_the_others(seed):
    generator = Generator(seed, late=True)
    source = generator.kernel()
    head, _, rest = source.partition("\n")
    zeros = "".join(f"    {name} = 0\n" for name in generator.names if name not in ("x", "y"))
    for x, y in ((0, 0), (3, 1), (7, 10), (2, 5)):
        got, expected = outputs(source, x, y, f"{head}\n{zeros}{rest}")
        assert got == expected, f"x={x}, y={y}\n{source}"
