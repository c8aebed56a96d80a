"""The long tail of parametrised tests: ``make test-long`` runs it, or ``pytest --long``; the suite leaves it out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

more = pytest.mark.more
"""Marks tests of the suite that the long tail runs, too, with more in them: by ``examples`` and ``is_running``."""


def tail(*values: Any) -> Any:
    """Return parameters of a test that only ``make test-long`` takes."""
    return pytest.param(*values, marks=pytest.mark.long)


def crossed(*lists: Iterable[Any], every: int) -> list[Any]:
    """Return all combinations of the values of ``lists``; those beyond each ``every``-th are the long tail's.

    The suite takes them along diagonals, so that each value comes with ``1 / every`` of the values of each other list.
    """
    places = itertools.product(*(list(enumerate(values)) for values in lists))
    return [
        (pytest.param if sum(k for k, _ in place) % every == 0 else tail)(*(value for _, value in place))
        for place in places
    ]


def sampled(rows: Iterable[Any], *, every: int) -> list[Any]:
    """Return rows of several parameters each; those beyond each ``every``-th are the long tail's."""
    return [row if k % every == 0 else tail(*row) for k, row in enumerate(rows)]


def name(value: Any) -> str | None:
    """Return what a parameter is called in the name of a test: a kernel by its name, a dictionary by what it holds."""
    return str(value) if isinstance(value, (dict, tuple)) else getattr(value, "key", getattr(value, "__name__", None))


def seeds(count: int, *, few: int) -> list[Any]:
    """Return the numbers below ``count``: the suite takes the first ``few`` of them."""
    return [*range(few), *map(tail, range(few, count))]


def examples(count: int, *, few: int) -> int:
    """Return how many examples Hypothesis draws: ``few`` in the suite, which fixes them, ``count`` in the long tail."""
    return count if is_running() else few


def is_running() -> bool:
    """Return whether this is ``make test-long``, which saves no work."""
    return settings.default is not None and not settings.default.derandomize
