"""The order of entries by row, in both ways, compared with NumPy."""

import numpy as np
import pytest

import warp_like as wp
from warp_like.sparse import counting


@pytest.mark.parametrize("order", [counting.order_by_runs, counting.order_by_ranks])
@pytest.mark.parametrize(
    "size, n",
    [((5, 4), 0), ((1, 1), 1), ((7, 5), 41), ((3, 200), 1000), ((0, 3), 5), ((900, 2), 300), ((2500, 3), 4000)],
)
def test_entries_by_row(order, size, n, monkeypatch):
    monkeypatch.setattr(counting.os, "cpu_count", lambda: 3)
    rng = np.random.default_rng(n)
    rows, columns = (rng.integers(-1, m + 1, n).astype(np.int32) for m in size)
    values = rng.integers(0, 3, n).astype(np.float32)
    for limit in (None, n // 2, -1, n + 7):
        for nonzero in (None, values):
            inside = (rows >= 0) & (rows < size[0]) & (columns >= 0) & (columns < size[1])
            inside &= np.arange(n) < (n if limit is None else limit)
            inside &= nonzero is None or values != 0
            kept = np.flatnonzero(inside)
            kept = kept[np.argsort(rows[kept], kind="stable")]
            given = [size, wp.array(rows), wp.array(columns), limit if limit is None else wp.array([limit], dtype=int)]
            pairs = wp.zeros(n, dtype=wp.int64)
            starts = order([*given, wp.array([] if nonzero is None else nonzero, dtype=float)], pairs).numpy()
            expected = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=size[0])[: size[0]])])
            np.testing.assert_array_equal(starts, expected)
            found = pairs.numpy()[: starts[-1]]
            np.testing.assert_array_equal(found >> 32, columns[found & 0xFFFFFFFF])
            found &= 0xFFFFFFFF
            if order is counting.order_by_ranks:  # rows are in order, what is in them is not
                found = found[np.lexsort((found, rows[found]))]
            np.testing.assert_array_equal(found, kept)


def test_runs_are_not_more_than_they_are_worth():
    cpu = wp.get_device("cpu")
    for rows, width, items in ((100, 10, 1000), (1, 5, 3), (0, 5, 0), (10**6, 10**6, 5), (50, 10**9, 50)):
        size, runs = counting.divide_into_runs(rows, width, items, cpu)
        assert size * runs >= rows > size * (runs - 1) - 1
        assert runs == 1 or runs * width <= counting.PLACES_PER_ITEM * (items + rows)
