"""Sums, prefix sums, sorts and runs over arrays of the host, in native code on all threads.

``native/reduce.cpp``, ``scan.cpp`` and ``sort.cpp`` have them. Results do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

from warp_like import _native

MOST_NUMBERS = None


def fingerprint(a: Any) -> int:
    """Return a hash of the bytes."""
    return _native.fingerprint(a)


def reduce(a: Any, b: Any, target: Any, axis: int) -> bool:
    """Write sums, or sums of products; False where one of integers does not fit."""
    return _native.reduce(a, b, target, axis)


def scan(source: Any, target: Any, inclusive: bool) -> None:
    """Write the prefix sums."""
    _native.scan(source, target, inclusive)


def sort_pairs(keys: Any, values: Any, n: int, first: int, last: int) -> None:
    """Sort pairs by bits of the keys."""
    _native.sort_pairs(keys, values, n, first, last)


def sort_segments(keys: Any, values: Any, n: int, starts: Any, ends: Any) -> int | None:
    """Sort within segments; where one is wrong, nothing is sorted, and its number returned."""
    return _native.sort_segments(keys, values, n, starts, ends)


def encode_runs(source: Any, values: Any, lengths: Any, n: int, count: Any) -> int | None:
    """Write values and lengths of runs, and return or write how many there are."""
    found = _native.encode_runs(source, values, lengths, n)
    if count is None:
        return found
    count.numpy()[0] = found
    return None
