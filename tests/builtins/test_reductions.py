"""Reductions of tiles against NumPy in float64: sizes around those at which the order changes, NaN, infinities."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.gradients import check
from tests.long_tail import crossed, name
from warp_like.builtins.reductions import CARRIED, WIDE_ROW

ROWS = 2
COLUMNS = [CARRIED - 1, CARRIED + 1, WIDE_ROW - 1, WIDE_ROW, WIDE_ROW + 300]
TYPES = [wp.float32, wp.float64, wp.float16, wp.int32]


@wp.func
def farther(x: Any, y: Any):
    return wp.where(wp.abs(x) < wp.abs(y), y, x)


def reduces(columns: int, dtype: Any) -> Any:
    @wp.kernel(module="unique")
    def reduces_rows(a: wp.array2d(dtype=dtype), out: wp.array(dtype=dtype)):
        t = wp.tile_load(a, shape=(ROWS, columns))
        out[0] = wp.tile_sum(t)[0]
        out[1] = wp.tile_dot(t, t)[0]
        out[2] = wp.tile_min(t)[0]
        out[3] = wp.tile_max(t)[0]
        out[4] = wp.tile_reduce(farther, t)[0]

    return reduces_rows


def launched(kernel: Any, a: np.ndarray) -> np.ndarray:
    out = np.zeros(5, a.dtype)
    wp.launch_tiled(kernel, dim=1, inputs=[a, out], block_dim=64)
    return out


@pytest.mark.parametrize(("columns", "dtype"), crossed(COLUMNS, TYPES, every=2), ids=name)
def test_every_element_counts_once(columns: int, dtype: type):
    rng = np.random.default_rng(columns)
    a = rng.uniform(-4.0, 4.0, (ROWS, columns)).astype(wp.dtype_to_numpy(dtype))
    kernel, x = reduces(columns, dtype), a.astype(np.float64)
    got = launched(kernel, a)
    wanted = [x.sum(), (x * x).sum(), x.min(), x.max(), x.flat[np.argmax(np.abs(x))]]
    size = 8.0 * np.finfo(a.dtype).eps if a.dtype.kind == "f" else 0.0
    near = [size * np.abs(x).sum(), size * (x * x).sum(), 0.0, 0.0, 0.0]
    assert np.all(np.abs(got[:4] - wanted[:4]) <= near[:4]), (dtype, got, wanted)
    assert abs(got[4]) == abs(wanted[4])
    np.testing.assert_array_equal(launched(kernel, a), got)


@pytest.mark.parametrize("columns", COLUMNS)
def test_numbers_that_are_none_and_infinities(columns: int):
    kernel = reduces(columns, wp.float32)
    rng = np.random.default_rng(columns)
    for special in (np.nan, np.inf, -np.inf):
        a = rng.normal(size=(ROWS, columns)).astype(np.float32)
        a[0, ::3] = a[1, -1] = special
        got = launched(kernel, a)
        assert got[2] == np.fmin.reduce(a, axis=None)
        assert got[3] == np.fmax.reduce(a, axis=None)
        np.testing.assert_array_equal(got[0], special)
    a[:] = np.nan
    assert np.isnan(launched(kernel, a)[:4]).all()
    a[0, columns // 2] = -np.inf
    assert launched(kernel, a)[3] == -np.inf
    a[:] = -0.0
    assert np.signbit(launched(kernel, a)[0])


@pytest.mark.parametrize("columns", [CARRIED + 1, WIDE_ROW + 300])
def test_gradients(columns: int):
    @wp.kernel(module="unique")
    def loss(a: wp.array2d(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
        t = wp.tile_load(a, shape=(ROWS, columns))
        s = wp.tile_map(wp.sin, t) * t
        out[0] = wp.tile_sum(s)[0] + wp.tile_dot(s, t)[0] * wp.tile_max(s)[0] - wp.tile_min(t * t)[0]

    rng = np.random.default_rng(columns)
    check(loss, 1, [rng.uniform(0.5, 1.5, (ROWS, columns))], (1,))
