"""Inner products of vectors, one for each system of a batch, that stay on the device.

They are summed in float64, in an order that does not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.optim.linear.steps import subtract

PART = 1024
"""Numbers that one thread sums."""

LANES = 16
"""Sums of a thread side by side: in one alone, each addition would wait for the one before."""

_Lanes = wp.types.vector(length=LANES, dtype=wp.float64)


@wp.func
def find_system(i: int, offsets: wp.array[int]) -> int:
    """Return the system that number ``i`` of a vector belongs to; -1 if it belongs to none."""
    if not offsets:
        return 0
    last = offsets.shape[0] - 1
    if i < offsets[0] or i >= offsets[last]:
        return -1
    low = 0
    high = int(last)
    while low + 1 < high:
        middle = (low + high) // 2
        if offsets[middle] <= i:
            low = middle
        else:
            high = middle
    return low


@wp.kernel(enable_backward=False)
def _list_systems(offsets: wp.array[int], systems: wp.array[int]) -> None:
    i = wp.tid()
    systems[i] = find_system(i, offsets)


@wp.func
def _part(part: int, size: int) -> Any:
    """Where a part of a vector begins and ends, and where the numbers begin that don't fill the lanes."""
    begin = wp.int64(part) * wp.int64(PART)  # sums of shorter ones might wrap, so that loads would not be of one vector
    end = wp.min(begin + wp.int64(PART), wp.int64(size))
    return begin, end, end - (end - begin) % wp.int64(LANES)


@wp.func
def _sum(totals: Any) -> wp.float64:
    total = wp.float64(0.0)
    for k in range(LANES):
        total += totals[k]
    return total


@wp.func
def dot_part(part: int, a: wp.array[Any], b: wp.array[Any]) -> wp.float64:
    """Return the inner product of a part of two vectors."""
    begin, end, rest = _part(part, a.shape[0])
    totals = _Lanes()
    for i in range(begin, rest, wp.int64(LANES)):
        for k in range(LANES):
            at = wp.uint64(i + wp.int64(k))
            totals[k] += wp.float64(a[at]) * wp.float64(b[at])
    for i in range(rest, end):
        totals[0] += wp.float64(a[wp.uint64(i)]) * wp.float64(b[wp.uint64(i)])
    return _sum(totals)


@wp.kernel(enable_backward=False, vector_width=1)
def _dot_parts(a: wp.array2d[Any], b: wp.array2d[Any], step: int, partial: wp.array2d[wp.float64]) -> None:
    row, part = wp.tid()
    partial[row, part] = dot_part(part, a[row], b[row * step])


@wp.kernel(enable_backward=False, vector_width=1)
def _subtract_parts(
    length: wp.array[Any], change: wp.array[Any], r: wp.array[Any], partial: wp.array2d[wp.float64]
) -> None:
    part = wp.tid()
    begin, end, rest = _part(part, r.shape[0])
    alpha = length[0]
    totals = _Lanes()
    for i in range(begin, rest, wp.int64(LANES)):
        found = wp.types.vector(length=LANES, dtype=r.dtype)()
        for k in range(LANES):  # all are read before one is written
            at = wp.uint64(i + wp.int64(k))
            found[k] = r[at] - alpha * change[at]
        for k in range(LANES):
            r[wp.uint64(i + wp.int64(k))] = found[k]
            totals[k] += wp.float64(found[k]) * wp.float64(found[k])
    for i in range(rest, end):
        left = r[wp.uint64(i)] - alpha * change[wp.uint64(i)]
        r[wp.uint64(i)] = left
        totals[0] += wp.float64(left) * wp.float64(left)
    partial[0, part] = _sum(totals)


@wp.kernel(enable_backward=False, vector_width=1)
def _sum_parts(partial: wp.array2d[wp.float64], out: wp.array2d[Any]) -> None:
    row = wp.tid()
    total = wp.float64(0.0)
    for part in range(partial.shape[1]):
        total += partial[row, part]
    out[row, 0] = out.dtype(total)


@wp.kernel(enable_backward=False, vector_width=1)
def _dot_systems(
    a: wp.array2d[Any], b: wp.array2d[Any], step: int, offsets: wp.array[int], out: wp.array2d[Any]
) -> None:
    row, system = wp.tid()
    total = wp.float64(0.0)
    for i in range(offsets[system], offsets[system + 1]):
        total += wp.float64(a[row, i]) * wp.float64(b[row * step, i])
    out[row, system] = out.dtype(total)


class Dots:
    """Computes inner products of vectors with ``n`` numbers.

    Args:
        n: How many numbers vectors have.
        rows: The most vectors at a time.
        offsets: Where the numbers of each system begin; None for one system.
        device: Where it computes.

    Attributes:
        systems: Whether there are several systems, and if so the system of each number: arguments for kernels.
    """

    def __init__(self, n: int, rows: int, offsets: Any, device: Any) -> None:
        self.offsets = offsets
        self.count = 1 if offsets is None else offsets.size - 1
        self._device = device
        self._partial = wp.empty((rows, max(1, -(-n // PART))), dtype=wp.float64, device=device)
        found = wp.empty(1 if offsets is None else n, dtype=int, device=device)
        if offsets is not None:
            wp.launch(_list_systems, dim=n, inputs=[offsets, found], device=device)
        self.systems = offsets is not None, found

    def compute(self, a: Any, b: Any, out: Any) -> None:
        """Write the inner products of the rows of ``a`` with those of ``b``, or with ``b`` if it is one vector.

        Args:
            a: An array of numbers, of one or two dimensions.
            b: An array of numbers of the same shape, or of one dimension.
            out: For each row of ``a`` and each system the inner product; without rows where ``a`` has none.
        """
        step = 0 if a.ndim > b.ndim else 1
        left, right = (v if v.ndim == 2 else v.reshape((1, v.size)) for v in (a, b))
        result = out if out.ndim == 2 else out.reshape((1, out.size))
        rows = left.shape[0]
        if self.offsets is not None:
            arguments = [left, right, step, self.offsets, result]
            wp.launch(_dot_systems, dim=(rows, self.count), inputs=arguments, device=self._device)
            return
        if rows == 1 and step and not self._device.is_cpu:
            wp.utils.array_inner(left.flatten(), right.flatten(), out=result.flatten())
            return
        partial = self.parts(rows)
        wp.launch(_dot_parts, dim=partial.shape, inputs=[left, right, step, partial], device=self._device)
        self.sum_parts(partial, result)

    def parts(self, rows: int) -> Any:
        """Return an array for the inner products of the parts of ``rows`` vectors, which ``sum_parts`` adds up."""
        return self._partial[:rows]

    def sum_parts(self, partial: Any, out: Any) -> None:
        """Write the sum of each row of ``partial``."""
        wp.launch(_sum_parts, dim=partial.shape[0], inputs=[partial, out], device=self._device)

    def subtract(self, length: Any, change: Any, r: Any, out: Any) -> None:
        """``r -= length * change``, and write the square of the norm of ``r``.

        Args:
            length: A number for each system.
            change: An array of numbers, of one dimension.
            r: Another one.
            out: For each system the inner product of ``r`` with itself.
        """
        if self.offsets is None and self._device.is_cpu:  # in one pass
            partial = self.parts(1)
            wp.launch(_subtract_parts, dim=partial.shape[1], inputs=[length, change, r, partial], device=self._device)
            self.sum_parts(partial, out.reshape((1, 1)))
            return
        wp.launch(subtract, dim=r.size, inputs=[*self.systems, length, change, r], device=self._device)
        self.compute(r, r, out)
