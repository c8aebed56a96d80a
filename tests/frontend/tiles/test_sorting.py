"""Sorts of tiles of any type and length, against NumPy: few keys are counted, many are sorted by digits."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import CudaKernel
from tests.frontend.support import build
from tests.gradients import check
from tests.interpreter import run
from tests.long_tail import crossed, name, sampled
from warp_like.builtins.tile_sorting import MOST_COUNTED
from warp_like.passes.pipeline import Options, finish, optimise, prepare

ROWS, MANY = 5, MOST_COUNTED + 1


def sorting(t: Any, shape: int | tuple[int, int]) -> Any:
    """A kernel that sorts the elements of each tile, and says where they were."""
    ndim = 1 if isinstance(shape, int) else 2

    @wp.kernel(module="unique", enable_backward=False)
    def sorts(
        keys: wp.array(dtype=t, ndim=ndim + 1),
        out: wp.array(dtype=t, ndim=ndim + 1),
        order: wp.array(dtype=wp.int32, ndim=ndim + 1),
    ):
        i = wp.tid()
        k = wp.tile_load(keys[i], shape=shape)
        v = wp.tile_load(order[i], shape=shape)
        wp.tile_sort(k, v)
        wp.tile_store(out[i], k)
        wp.tile_store(order[i], v)

    return sorts


def keys(dtype: Any, count: int) -> np.ndarray:
    """Numbers with equal ones among them, and all that is special about their type."""
    rng, t = np.random.default_rng(count), np.dtype(dtype)
    shape = ROWS, count
    if t.kind != "f":
        limits = np.iinfo(t)
        made = rng.integers(limits.min, limits.max, shape, dtype=t, endpoint=True)
        made[1] = rng.integers(0, 3, count)
        made[2, :2] = (limits.max, limits.min)[: min(count, 2)]
        return made
    made = rng.standard_normal(shape).astype(t)
    made[1] = np.round(made[1])
    special = [np.nan, -0.0, 0.0, np.inf, -np.nan, -np.inf, np.finfo(t).max, np.finfo(t).smallest_subnormal, 0.0, -0.0]
    made[2, : len(special)] = special[:count]
    return made


@pytest.mark.parametrize(
    "dtype, count",
    sampled(
        [
            *(("float32", n) for n in (1, 7, MOST_COUNTED, MANY, 1000)),
            *(("float64", 30), ("float64", MANY), ("float16", MANY), ("int8", MANY), ("uint16", 9)),
            *(("int16", MANY), ("uint32", MANY), ("int64", MANY), ("int64", 16), ("uint64", MANY)),
        ],
        every=2,
    ),
)
def test_numbers(dtype: str, count: int):
    given = keys(dtype, count)
    got, order = np.zeros_like(given), np.tile(np.arange(count, dtype=np.int32), (ROWS, 1))
    wp.launch_tiled(sorting(getattr(wp, dtype), count), dim=ROWS, inputs=[given, got, order], block_dim=64)
    wanted = np.argsort(given, axis=1, kind="stable")
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(got, np.take_along_axis(given, wanted, 1))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(np.take_along_axis(given, wanted, 1)))


@pytest.mark.parametrize(
    ("count", "options"),
    crossed([6, MANY], [{"vector_width": 4}, {"mode": "debug"}, {"fast_math": True}], every=2),
    ids=name,
)
def test_options(count: int, options: dict[str, Any]):
    given = keys("float32", count)
    given[2] = 0.0 if "fast_math" in options else given[2]  # which knows no NaN
    got, order = np.zeros_like(given), np.tile(np.arange(count, dtype=np.int32), (ROWS, 1))
    kernel = sorting(wp.float32, count)
    wp.launch_tiled(kernel, dim=ROWS, inputs=[given, got, order], block_dim=64, options=options)
    np.testing.assert_array_equal(order, np.argsort(given, axis=1, kind="stable"))


@pytest.mark.parametrize("shape", [(2, 3), (3, MANY // 3)], ids=str)
def test_the_interpreter_and_cuda_agree(shape: tuple[int, int]):
    options = Options(verify=True)
    count = shape[0] * shape[1]
    given = keys("float32", count).reshape(ROWS, *shape)
    f = build(sorting(wp.float32, shape).func)
    f = finish(optimise(prepare(f, options), options), options)
    wanted = np.argsort(given.reshape(ROWS, count), axis=1, kind="stable").reshape(given.shape)
    for launch in (lambda args: run(f, args, (ROWS,)), lambda args: CudaKernel(f)(args, (ROWS,))):
        order = np.tile(np.arange(count, dtype=np.int32).reshape(shape), (ROWS, 1, 1))
        launch([given, np.zeros_like(given), order])
        np.testing.assert_array_equal(order, wanted)


@pytest.mark.parametrize("count", [4, MANY])
def test_gradients(count: int):
    @wp.kernel(module="unique")
    def weighted(keys: wp.array2d[wp.float64], values: wp.array2d[wp.float64], out: wp.array2d[wp.float64]):
        i = wp.tid()
        k = wp.tile_load(keys[i], shape=count)
        v = wp.tile_load(values[i], shape=count)
        wp.tile_sort(k, v)
        wp.tile_store(out[i], k * v * v)

    rng = np.random.default_rng(1)
    check(weighted, 2, [rng.standard_normal((2, count)) for _ in range(2)], (2, count))
