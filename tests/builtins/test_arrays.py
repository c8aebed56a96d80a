"""Builtins that take arrays: searches, and choices by whether an array holds anything; the size of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.base.errors import WarpCodegenTypeError


@wp.kernel
def search(
    a: wp.array(dtype=Any),
    values: wp.array(dtype=Any),
    begin: int,
    end: int,
    whole: wp.array(dtype=int),
    between: wp.array(dtype=int),
):
    i = wp.tid()
    whole[i] = wp.lower_bound(a, values[i])
    between[i] = wp.lower_bound(a, arr_begin=begin, arr_end=end, value=values[i])


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.float16, wp.int8, wp.uint16, wp.int32, wp.uint64])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 1000])
def test_lower_bound(dtype: Any, length: int) -> None:
    rng = np.random.default_rng(length)
    a = np.sort(rng.integers(0, 100, 2 * length))[::2]  # every second element of memory
    values = np.concatenate([rng.integers(0, 110, 50), a[:5]])
    memory = wp.array(np.repeat(a, 2), dtype=dtype)
    found = [wp.zeros(len(values), dtype=int) for _ in range(2)]
    begin, end = length // 3, length - length // 4
    sought = wp.array(values, dtype=dtype)
    wp.launch(search, dim=len(values), inputs=[memory[::2], sought, begin, end, *found])
    last = max(length - 1, 0)
    np.testing.assert_array_equal(found[0].numpy(), np.minimum(np.searchsorted(a, values), last))
    inside = begin + np.searchsorted(a[begin:end], values)
    np.testing.assert_array_equal(found[1].numpy(), np.maximum(np.minimum(inside, end - 1), begin))


@wp.kernel
def choose(a: wp.array(dtype=wp.vec3), b: wp.array2d(dtype=wp.int64), out: wp.array(dtype=float)):
    out[0] = wp.where(a, 1.0, 2.0)
    out[1] = wp.select(b, 1.0, 2.0)
    out[2] = float(wp.where(b, 3, 4))
    if a:
        out[3] = 1.0
    if not b or a:
        out[4] = 1.0
    out[5] = float(wp.unot(a))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (3, (2, 2), [1, 2, 3, 1, 1, 0]),
        (0, (2, 2), [2, 2, 3, 0, 0, 1]),
        (3, (2, 0), [1, 1, 4, 1, 1, 0]),
        (0, (0, 2), [2, 1, 4, 0, 1, 1]),
    ],
)
def test_an_array_is_true_if_it_has_elements(a: int, b: tuple[int, ...], expected: list[int]) -> None:
    out = wp.zeros(6, dtype=float)
    wp.launch(choose, dim=1, inputs=[wp.zeros(a, dtype=wp.vec3), wp.zeros(b, dtype=wp.int64), out])
    assert out.numpy().tolist() == expected
    assert ".visible .entry" in choose.inspect("ptx", target="sm_80")


@wp.kernel
def blocks(out: wp.array(dtype=int)):
    out[wp.tid()] = wp.block_dim()


@pytest.mark.on_cpu("a block of the CPU has one thread")
def test_block_dim() -> None:
    out = wp.zeros(5, dtype=int)
    wp.launch(blocks, dim=5, outputs=[out])
    assert out.numpy().tolist() == [1] * 5
    assert "%ntid.x" in blocks.inspect("ptx", target="sm_90")


@wp.kernel
def flat(a: wp.array2d(dtype=float), out: wp.array(dtype=int)):
    out[0] = wp.lower_bound(a, 1.0)


@wp.kernel
def mixed(a: wp.array(dtype=float), out: wp.array(dtype=int)):
    out[0] = wp.lower_bound(a, out[0])


@pytest.mark.parametrize(
    ("kernel", "ndim", "message"),
    [
        (flat, 2, r"lower_bound\(\) needs an array of 1 dimension for argument 1 `arr`, got array2d\[float32\]"),
        (mixed, 1, r"lower_bound\(\) needs float32 for argument 2 `value`, got int32"),
    ],
)
def test_mistakes(kernel: Any, ndim: int, message: str) -> None:
    with pytest.raises(WarpCodegenTypeError, match=message):
        wp.launch(kernel, dim=1, inputs=[wp.zeros((1,) * ndim, dtype=float), wp.zeros(1, dtype=int)])
