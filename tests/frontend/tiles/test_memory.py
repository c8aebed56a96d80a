"""Tiles from and to arrays of more than 2^31 elements, at int32 offsets."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp

COUNT = 16
FIRST = 2**31 - COUNT // 2
VALUES = np.arange(1, COUNT + 1, dtype=np.int8)
Bytes = wp.array(dtype=wp.int8)


@pytest.fixture
def large():
    """An array whose elements across 2^31 are not zero. Pages that nobody writes take no memory."""
    a = np.zeros(2**31 + 100, np.int8)
    a[FIRST : FIRST + COUNT] = VALUES
    return a


@wp.kernel
def loaded(a: Bytes, first: int, out: Bytes):
    wp.tile_store(out, wp.tile_load(a, shape=COUNT, offset=first))


@wp.kernel
def loaded_unchecked(a: Bytes, first: int, out: Bytes):
    wp.tile_store(out, wp.tile_load(a, shape=COUNT, offset=first, bounds_check=False))


@wp.kernel
def loaded_by_indices(a: Bytes, first: int, out: Bytes):
    wp.tile_store(out, wp.tile_load_indexed(a, indices=wp.tile_arange(COUNT, dtype=int), shape=COUNT, offset=first))


@wp.kernel
def stored(a: Bytes, first: int, values: Bytes):
    wp.tile_store(a, wp.tile_load(values, shape=COUNT) * wp.int8(2), offset=first)


@wp.kernel
def stored_unchecked(a: Bytes, first: int, values: Bytes):
    wp.tile_store(a, wp.tile_load(values, shape=COUNT) * wp.int8(2), offset=first, bounds_check=False)


@wp.kernel
def stored_by_indices(a: Bytes, first: int, values: Bytes):
    doubled = wp.tile_load(values, shape=COUNT) * wp.int8(2)
    wp.tile_store_indexed(a, indices=wp.tile_arange(COUNT, dtype=int), t=doubled, offset=first)


@pytest.mark.parametrize("kernel", [loaded, loaded_unchecked, loaded_by_indices], ids=lambda k: k.key)
def test_loads_across_2_to_the_31(large: np.ndarray, kernel: Any):
    out = np.zeros(COUNT, np.int8)
    wp.launch_tiled(kernel, dim=1, inputs=[large, FIRST, out], block_dim=64)
    np.testing.assert_array_equal(out, VALUES)


@pytest.mark.parametrize("kernel", [stored, stored_unchecked, stored_by_indices], ids=lambda k: k.key)
def test_stores_across_2_to_the_31(large: np.ndarray, kernel: Any):
    wp.launch_tiled(kernel, dim=1, inputs=[large, FIRST, VALUES], block_dim=64)
    around = large[FIRST - COUNT : FIRST + 2 * COUNT]
    np.testing.assert_array_equal(around, np.concatenate([np.zeros(COUNT), 2 * VALUES, np.zeros(COUNT)]))
    assert not large[:COUNT].any()
