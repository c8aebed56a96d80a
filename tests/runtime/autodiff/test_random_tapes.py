"""Random tapes against PyTorch; see ``random_tapes``."""

import pytest

from tests.long_tail import tail
from tests.runtime.autodiff import random_tapes, random_views, random_zeroing

COUNT = 300


@pytest.mark.parametrize("part", range(4))
def test_random_tapes(part: int) -> None:
    refused = [random_tapes.check(seed) for seed in range(part * COUNT // 4, (part + 1) * COUNT // 4)]
    assert sum(refused) < len(refused) // 5


@pytest.mark.parametrize("first", [0, *(tail(first) for first in range(8, 200, 24))])
def test_captured_tapes(first: int) -> None:
    count = 8 if first == 0 else 24
    assert sum(random_tapes.check_captured(seed) for seed in range(first, first + count)) > count // 4


@pytest.mark.parametrize("first", [tail(first) for first in range(0, 200, 50)])
def test_views_of_several_types(first: int) -> None:
    for seed in range(first, first + 50):
        random_views.check(seed)


@pytest.mark.parametrize("first", [tail(first) for first in range(0, 2000, 500)])
def test_gradients_that_launches_set_to_zero(first: int) -> None:
    for seed in range(first, first + 500):
        random_zeroing.check(seed)
