"""How often counted loops run, near the ends of every integer type; against Python's ranges."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter import evaluate
from tests.ir_builder import start
from tests.long_tail import crossed
from warp_like.analysis.intervals import type_range
from warp_like.builtins.trips import constant_trips, counter_type, trip_count
from warp_like.ir.types import INTS, Scalar


def python_trips(lo: int, hi: int, step: int) -> int:
    """By counting in Python's integers, without a division."""
    if step == 0 or (hi - lo) * step <= 0:
        return 0
    trips = (hi - lo) // step
    return trips + (lo + trips * step != hi)


@pytest.mark.parametrize("t", crossed(INTS, every=2), ids=str)
def test_the_count_is_exact(t: Scalar) -> None:
    low, high = type_range(t)
    near = (low, low + 1, low // 2, -3, -1, 0, 1, 2, 7, high // 2, high - 1, high)
    numbers = sorted({n for n in near if low <= n <= high})
    general, b = start("general", "func", (counter_type(t),), lo=t, hi=t, step=t)
    b.yield_(trip_count(b, *general.params))
    for step in numbers:
        known, b = start("known", "func", (counter_type(t),), lo=t, hi=t)
        b.yield_(trip_count(b, *known.params, b.constant(step, t)))
        for lo in numbers:
            for hi in numbers:
                wanted = python_trips(lo, hi, step)
                assert constant_trips(lo, hi, step) == wanted
                given = [np.dtype(str(t)).type(n) for n in (lo, hi, step)]
                assert int(evaluate(known, given[:2])) == wanted, (lo, hi, step)
                assert int(evaluate(general, given)) == wanted, (lo, hi, step)


def test_python_counts_the_same() -> None:
    for lo in range(-6, 7):
        for hi in range(-6, 7):
            for step in (-4, -2, -1, 1, 3, 9):
                assert python_trips(lo, hi, step) == len(range(lo, hi, step))
