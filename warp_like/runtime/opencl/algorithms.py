"""Sums, prefix sums, sorts and runs over arrays of OpenCL devices: the CPU's, on copies in the host's memory."""

from __future__ import annotations

from typing import Any

from warp_like.runtime.cpu import algorithms as on_cpu
from warp_like.runtime.memory.device import get_device

MOST_NUMBERS = None


def _here(a: Any) -> Any:
    """Return a copy of ``a`` in the host's memory; None for None."""
    return None if a is None else a.to(get_device("cpu"))


def fingerprint(a: Any) -> int:
    """Return a hash of the bytes."""
    return on_cpu.fingerprint(_here(a))


def reduce(a: Any, b: Any, target: Any, axis: int) -> bool:
    """Write sums, or sums of products; False where one of integers does not fit."""
    result = _here(target)
    fits = on_cpu.reduce(_here(a), _here(b), result, axis)
    target.assign(result)
    return fits


def scan(source: Any, target: Any, inclusive: bool) -> None:
    """Write the prefix sums."""
    result = _here(target)
    on_cpu.scan(_here(source), result, inclusive)
    target.assign(result)


def sort_pairs(keys: Any, values: Any, n: int, first: int, last: int) -> None:
    """Sort pairs by bits of the keys."""
    here = _here(keys), _here(values)
    on_cpu.sort_pairs(*here, n, first, last)
    keys.assign(here[0])
    values.assign(here[1])


def sort_segments(keys: Any, values: Any, n: int, starts: Any, ends: Any) -> int | None:
    """Sort within segments; where one is wrong, nothing is sorted, and its number returned."""
    here = _here(keys), _here(values)
    wrong = on_cpu.sort_segments(*here, n, _here(starts), _here(ends))
    if wrong is None:
        keys.assign(here[0])
        values.assign(here[1])
    return wrong


def encode_runs(source: Any, values: Any, lengths: Any, n: int, count: Any) -> int | None:
    """Write values and lengths of runs, and return or write how many there are."""
    here = _here(values), _here(lengths)
    found = on_cpu.encode_runs(_here(source), *here, n, None)
    assert found is not None
    values.assign(here[0])
    lengths.assign(here[1])
    if count is None:
        return found
    count.assign([found])
    return None
