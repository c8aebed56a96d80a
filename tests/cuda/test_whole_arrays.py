"""wp.utils on arrays of CUDA devices."""

import numpy as np
import pytest

import warp_like as wp


def test_sums_scans_and_sorts(fake):
    data = np.random.default_rng(0).integers(0, 50, 1000)
    a = wp.array(data, dtype=int, device="cuda:0")
    assert wp.utils.array_sum(a) == data.sum()
    out = wp.zeros(1, dtype=int, device="cuda:0")
    assert wp.utils.array_sum(a, out=out) is out
    assert out.list() == [data.sum()]
    columns = wp.utils.array_sum(wp.array(data.reshape(10, 100), dtype=int, device="cuda:0"), axis=0)
    assert columns.device == "cuda:0"
    assert columns.numpy()[0].tolist() == data.reshape(10, 100).sum(0).tolist()
    scanned = wp.zeros(1000, dtype=int, device="cuda:0")
    wp.utils.array_scan(a, scanned)
    assert scanned.numpy().tolist() == np.cumsum(data).tolist()
    keys = wp.array(np.concatenate([data, np.zeros(1000, int)]), dtype=int, device="cuda:0")
    values = wp.array(np.arange(2000), dtype=int, device="cuda:0")
    wp.utils.radix_sort_pairs(keys, values, 1000)
    assert values.numpy()[:1000].tolist() == np.argsort(data, kind="stable").tolist()


def test_arrays_of_several_devices(fake):
    with pytest.raises(
        TypeError, match=r"array_inner\(\) takes arrays of one device, got some on cuda:0 and some on cpu"
    ):
        wp.utils.array_inner(wp.zeros(3, device="cuda:0"), wp.zeros(3))
