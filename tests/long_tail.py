"""The long tail of parametrised tests: ``make test-long`` runs it, or ``pytest --long``; the suite leaves it out."""

from __future__ import annotations

from typing import Any

import pytest


def tail(*values: Any) -> Any:
    """Return parameters of a test that only ``make test-long`` takes."""
    return pytest.param(*values, marks=pytest.mark.long)


def seeds(count: int, *, few: int) -> list[Any]:
    """Return the numbers below ``count``: the suite takes the first ``few`` of them."""
    return [*range(few), *map(tail, range(few, count))]
