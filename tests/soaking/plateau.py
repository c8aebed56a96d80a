"""Whether something that is measured while operations run grows with them, or has reached a plateau.

The first half of the operations is the warm-up: caches fill, and memory gets as large as the largest operation needs.
In the second half, growth is the median slope between samples (Theil and Sen), in units for each operation: a few
samples that were taken at a peak do not change it, and a leak raises all of them.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SAMPLES = 8
LEAST_OPERATIONS = 20_000
"""In the second half. Fewer show no slope, or the warm-up is not over."""


@dataclass(frozen=True)
class Verdict:
    """What became of one series.

    Attributes:
        growth: By how much it grows with each operation, in the second half.
        bound: By how much it may.
        noise: How far half of the samples are from the line at least.
        operations: How many the second half has.
        decided: Whether there were enough operations and samples: growth at the bound would be four times the noise.
    """

    growth: float
    bound: float
    noise: float
    operations: int
    decided: bool

    @property
    def grows(self) -> bool:
        """Whether it surely grows by more than the bound."""
        return self.decided and self.growth > self.bound

    @property
    def words(self) -> str:
        """What to call it."""
        return "grows" if self.grows else "plateau" if self.decided else "too short to tell"


def judge(operations: Sequence[int], values: Sequence[float], bound: float) -> Verdict:
    """Judge a series of samples.

    Args:
        operations: How many operations were over at each sample; increasing.
        values: What was measured.
        bound: By how much it may grow with each operation.
    """
    half = operations[-1] / 2 if operations else 0
    second = [(n, v) for n, v in zip(operations, values, strict=True) if n >= half]
    slopes = [(b - a) / (m - n) for (n, a), (m, b) in itertools.combinations(second, 2) if m > n]
    span = second[-1][0] - second[0][0] if second else 0
    if not slopes:
        return Verdict(0.0, bound, 0.0, span, False)
    growth = statistics.median(slopes)
    base = statistics.median([v - growth * n for n, v in second])
    noise = statistics.median([abs(v - growth * n - base) for n, v in second])
    enough = len(second) >= LEAST_SAMPLES and span >= LEAST_OPERATIONS
    decided = enough and span * bound > 4 * noise
    return Verdict(growth, bound, noise, span, decided)
