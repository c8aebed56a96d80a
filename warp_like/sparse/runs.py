"""Runs of rows, each for one kernel thread that has an array with an element for each column."""

from __future__ import annotations

import os
from typing import Any

RUNS_PER_THREAD = 4
"""Runs for each OS thread: more than one, so that threads end at about the same time."""

CUDA_RUNS = 2048
MOST_PLACES = 1 << 26
"""Elements, at most, of these arrays together."""


def divide_into_runs(rows: int, columns: int, device: Any) -> tuple[int, int]:
    """Return how many rows a run has, and how many runs there are."""
    wanted = RUNS_PER_THREAD * (os.cpu_count() or 1) if device.is_cpu else CUDA_RUNS
    runs = max(1, min(wanted, rows, MOST_PLACES // max(1, columns)))
    size = max(1, -(-rows // runs))
    return size, max(1, -(-rows // size))
