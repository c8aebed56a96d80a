"""The setting ``forced`` of programs: thresholds of what is worth it let passes do all that they may.

Programs are small, so most passes would leave them alone. A pass has to be right wherever it may run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from warp_like.backend.llvm import lane_partials, pieces
from warp_like.passes import read_in_place, split_vectors
from warp_like.passes.spmd import choice, coarsening, filter_loops, filters, uniform_branches, widen_loops

THRESHOLDS = (
    (read_in_place, "FEWEST", 1),
    (read_in_place, "MOST_LOADS", 64),
    (split_vectors, "LONGEST", 9),
    (choice, "FEWEST", 1),
    (choice, "FLATTENED", 100.0),
    (choice, "LARGEST_BLOCKED", 6000),
    (coarsening, "LARGEST", 1000),
    (filters, "FEWEST", 1),
    (filter_loops, "FEWEST_IN_LINE", 1),
    (lane_partials, "FEWEST", 1),
    (pieces, "MOST_TOGETHER", 0),
    (pieces, "LOOPS", 1),
    (uniform_branches, "LARGEST", 1000),
    (widen_loops, "MOST_REGISTERS", 8),
)


@contextlib.contextmanager
def forced() -> Iterator[None]:
    """Let kernels that are compiled here have these thresholds; code that is there stays."""
    with contextlib.ExitStack() as stack:
        for module, name, value in THRESHOLDS:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        yield
