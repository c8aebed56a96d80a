"""Operations on whole arrays that launch kernels: maps, scans, sorts, reductions."""

from __future__ import annotations

from warp_like.runtime.arrays.operation_hooks import Operations, operations


def _load() -> Operations:
    from warp_like.runtime.operations import mapping  # not loaded unless an array needs it

    return mapping


operations.register(_load)
