"""Random tapes against PyTorch; see ``random_tapes``."""

import pytest

from tests.runtime.autodiff import random_tapes

COUNT = 300


@pytest.mark.parametrize("part", range(4))
def test_random_tapes(part: int) -> None:
    refused = [random_tapes.check(seed) for seed in range(part * COUNT // 4, (part + 1) * COUNT // 4)]
    assert sum(refused) < len(refused) // 5
