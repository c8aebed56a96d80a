"""The long tail of parametrised tests: ``make test-long`` runs it, or ``pytest --long``; the suite leaves it out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings


def tail(*values: Any) -> Any:
    """Return parameters of a test that only ``make test-long`` takes."""
    return pytest.param(*values, marks=pytest.mark.long)


def seeds(count: int, *, few: int) -> list[Any]:
    """Return the numbers below ``count``: the suite takes the first ``few`` of them."""
    return [*range(few), *map(tail, range(few, count))]


def examples(count: int, *, few: int) -> int:
    """Return how many examples Hypothesis draws: ``few`` in the suite, which fixes them, ``count`` in the long tail."""
    assert settings.default is not None
    return few if settings.default.derandomize else count
