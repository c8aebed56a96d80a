"""Sorts, runs and casts against NumPy's stable sort, ``itertools.groupby`` and ``astype``."""

import itertools
from typing import Any

import numpy as np
import pytest

import warp_like as wp

u = wp.utils
KEYS = ("int32", "uint32", "int64", "uint64", "float32", "float64")


def keys_of(n: int, dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Numbers with duplicates, and among floats both zeros, infinities and NaNs of both signs."""
    rng = np.random.default_rng(seed)
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        wide = rng.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)
        return np.where(rng.random(n) < 0.3, wide % 7, wide).astype(dtype)
    x = (rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)).astype(dtype)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0], dtype)
    return np.where(rng.random(n) < 0.3, odd[rng.integers(0, len(odd), n)], x).astype(dtype)


@pytest.mark.parametrize("dtype", KEYS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 8192, 8193, 100_000])
@pytest.mark.parametrize("room", [1, 2])
def test_radix_sort_is_numpys_stable_sort(dtype: str, n: int, room: int) -> None:
    x = keys_of(n, dtype)
    keys = wp.array(np.concatenate([x] * room))
    values = wp.array(np.arange(room * n, dtype=np.int32))
    order = np.argsort(x, kind="stable")
    u.radix_sort_pairs(keys, values, n)
    assert np.array_equal(values.numpy()[:n], order)
    assert keys.numpy()[:n].tobytes() == x[order].tobytes()


@pytest.mark.parametrize("values", [wp.float32, wp.int64, wp.float64, wp.vec2, wp.uint32])
def test_values_of_four_and_eight_bytes(values: Any) -> None:
    x = keys_of(5000, "int32")
    data = np.arange(5000).repeat(2 if values is wp.vec2 else 1)
    carried = wp.array(data.astype(np.float32) if values is wp.vec2 else data, dtype=values)
    before = carried.numpy().copy()
    u.radix_sort_pairs(wp.array(x), carried)
    assert np.array_equal(carried.numpy(), before[np.argsort(x, kind="stable")])


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (3, 9), (0, 32), (31, 32), (5, 5)])
def test_bits(begin: int, end: int) -> None:
    x = keys_of(3000, "uint32")
    values = wp.array(np.arange(3000, dtype=np.int32))
    u.radix_sort_pairs(wp.array(x), values, 3000, begin_bit=begin, end_bit=end)
    part = (x.astype(np.uint64) >> np.uint64(begin)) & np.uint64((1 << (end - begin)) - 1)
    assert np.array_equal(values.numpy(), np.argsort(part, kind="stable"))


def test_only_the_first_pairs() -> None:
    keys, values = wp.array([3, 1, 2, -9], dtype=int), wp.array([0, 1, 2, 3], dtype=int)
    u.radix_sort_pairs(keys, values, 3)
    assert keys.list() == [1, 2, 3, -9]
    assert values.list() == [1, 2, 0, 3]


@pytest.mark.parametrize("dtype", KEYS)
@pytest.mark.parametrize("length", [1, 5, 24, 25, 300, 512, 513, 5000])
def test_segments(dtype: str, length: int) -> None:
    n = 4 * length + 3
    x = keys_of(n, dtype, length)
    keys, values = wp.array(x), wp.array(np.arange(n, dtype=np.int32))
    offsets = np.arange(5, dtype=np.int32) * length + 1
    u.segmented_sort_pairs(keys, values, n, wp.array(offsets))
    order = np.arange(n)
    for start, stop in itertools.pairwise(offsets):
        order[start:stop] = start + np.argsort(x[start:stop], kind="stable")
    assert np.array_equal(values.numpy(), order)
    assert keys.numpy().tobytes() == x[order].tobytes()


def test_segments_given_by_starts_and_ends_in_any_order() -> None:
    x = keys_of(40, "int32")
    starts, ends = [30, 0, 12, 12], [40, 9, 12, 20]
    keys, values = wp.array(x), wp.array(np.arange(40, dtype=np.int32))
    u.segmented_sort_pairs(keys, values, 40, wp.array(starts, dtype=int), wp.array(ends, dtype=int))
    wanted = x.copy()
    for a, b in zip(starts, ends, strict=True):
        wanted[a:b] = np.sort(x[a:b])
    assert np.array_equal(keys.numpy(), wanted)


def raised(kind: type[Exception], f: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as caught:
        f(*args, **kwargs)
    return str(caught.value)


def ints(*values: int) -> Any:
    return wp.array(np.array(values, np.int32))


def test_sort_messages() -> None:
    sort = u.radix_sort_pairs
    assert raised(ValueError, sort, ints(3, 1), ints(1, 2), -1) == "radix_sort_pairs(): `count` is not negative, got -1"
    assert raised(RuntimeError, sort, wp.zeros(3, dtype=wp.int16), ints(0, 1, 2), 3) == (
        "radix_sort_pairs(): `keys` has one of the dtypes int32, uint32, int64, uint64, float32, float64, got "
        "array(shape=(3,), dtype=int16)"
    )
    assert raised(RuntimeError, sort, ints(3, 1), wp.zeros(2, dtype=wp.vec3), 2) == (
        "radix_sort_pairs() takes values of 4 or 8 bytes, got array(shape=(2,), dtype=vec3f)"
    )
    assert raised(RuntimeError, sort, ints(3, 1), ints(1), 2) == "radix_sort_pairs(): 2 pairs of arrays that hold 1"
    assert raised(RuntimeError, sort, ints(3, 1, 2, 4)[::2], ints(1, 2), 2) == (
        "radix_sort_pairs(): `keys` is not contiguous: array(shape=(2,), dtype=int32) with strides (8,)"
    )
    assert raised(RuntimeError, sort, ints(3, 1), ints(1, 2), 2, 5, 2) == (
        "radix_sort_pairs(): bits 5 to 2 of keys that have 32"
    )
    both = ints(1, 2, 3, 4)
    assert raised(RuntimeError, sort, both, both, 2) == "radix_sort_pairs(): `keys` and `values` overlap"
    assert raised(TypeError, sort, np.zeros(3, np.int32), ints(1, 2, 3), 3) == (
        "radix_sort_pairs() sorts `keys` in place and takes a wp.array, got ndarray"
    )


@pytest.mark.parametrize(
    ("starts", "ends", "segment"),
    [
        ([0, 2, 9], None, "segment 1, [2, 9)"),
        ([3, 1], None, "segment 0, [3, 1)"),
        ([-1, 1], None, "segment 0, [-1, 1)"),
        ([0, 1], [2, 3], "segment 1, [1, 3)"),
        ([2, 0], [4, 3], "segment 0, [2, 4)"),
    ],
)
def test_wrong_segments_leave_all_as_it_was(starts: list[int], ends: list[int] | None, segment: str) -> None:
    keys, values = ints(4, 3, 2, 1), ints(0, 1, 2, 3)
    last = None if ends is None else ints(*ends)
    message = raised(ValueError, u.segmented_sort_pairs, keys, values, 4, ints(*starts), last)
    assert message == f"segmented_sort_pairs(): {segment}, is not in [0, 4) or overlaps another one"
    assert keys.list() == [4, 3, 2, 1]


def test_segment_messages() -> None:
    sort = u.segmented_sort_pairs
    assert raised(RuntimeError, sort, ints(1, 2), ints(1, 2), 2, ints(0, 1), ints(1)) == (
        "segmented_sort_pairs(): 2 segments start and 1 end"
    )
    keys = ints(0, 1, 2)
    assert raised(RuntimeError, sort, keys, ints(0, 1, 2), 3, keys) == (
        "segmented_sort_pairs(): `segment_start_indices` overlaps what is sorted"
    )
    assert raised(RuntimeError, sort, ints(1), ints(1), 1, wp.zeros(2, dtype=wp.int64)) == (
        "segmented_sort_pairs(): `segment_start_indices` is a contiguous array of int32 with one dimension, got "
        "array(shape=(2,), dtype=int64)"
    )
    sort(ints(1), ints(1), 1, wp.zeros(0, dtype=int))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64"])
@pytest.mark.parametrize("n", [0, 1, 2, 100, 16384, 50_000])
@pytest.mark.parametrize("length", [1, 10, 40_000])
def test_runs(dtype: str, n: int, length: int) -> None:
    rng = np.random.default_rng(n + length)
    x = (np.cumsum(rng.random(n) < 1 / length) % 5).astype(dtype)
    wanted = [(k, len(list(g))) for k, g in itertools.groupby(x.tolist())]
    values = wp.full(n, 77, dtype=getattr(wp, dtype))
    lengths = wp.full(n, -1, dtype=wp.int64 if length == 10 else wp.int32)
    runs = u.runlength_encode(wp.array(x), values, lengths)
    assert runs == len(wanted)
    assert list(zip(values.list()[:runs], lengths.list()[:runs], strict=True)) == wanted
    assert set(values.list()[runs:]) <= {77}
    assert set(lengths.list()[runs:]) <= {-1}


def test_runs_of_strided_values_a_count_and_an_array_for_the_number() -> None:
    values, lengths, count = wp.zeros(3, dtype=int), wp.zeros(6, dtype=int), wp.zeros(1, dtype=int)
    source = ints(5, 0, 5, 0, 6, 0)
    assert u.runlength_encode(source[::2], values, lengths[::2], run_count=count) is count
    assert count.list() == [2]
    assert values.list() == [5, 6, 0]
    assert lengths.list() == [2, 0, 1, 0, 0, 0]
    assert u.runlength_encode(source, values, lengths, value_count=2) == 2


def test_run_messages() -> None:
    encode = u.runlength_encode
    assert raised(RuntimeError, encode, ints(1, 2, 3), ints(0, 0), ints(0, 0, 0)) == (
        "runlength_encode(): `run_values` needs room for 3 elements, got array(shape=(2,), dtype=int32)"
    )
    assert raised(RuntimeError, encode, wp.zeros(2), wp.zeros(2), ints(0, 0)).startswith(
        "runlength_encode(): `values` has one of the dtypes int8, "
    )
    x = ints(1, 1)
    assert raised(RuntimeError, encode, x, x, ints(0, 0)) == "runlength_encode(): the arrays overlap"


@pytest.mark.parametrize("to", ["int8", "int32", "uint64", "float16", "float64", "bool"])
@pytest.mark.parametrize("of", ["int8", "int64", "float32", "bool"])
def test_cast(of: str, to: str) -> None:
    x = (np.arange(-3, 9) if of != "bool" else np.arange(12) % 2).astype(of)
    if to.startswith("u"):
        x = np.abs(x) if of != "bool" else x
    out = wp.zeros(12, dtype=getattr(wp, to))
    u.array_cast(wp.array(x), out)
    assert np.array_equal(out.numpy(), x.astype(to))


def test_cast_shapes() -> None:
    x = np.arange(12, dtype=np.float32)
    grid, flat = wp.zeros((3, 4), dtype=int), wp.zeros(12, dtype=wp.float64)
    u.array_cast(wp.array(x.reshape(3, 4)), grid)
    assert np.array_equal(grid.numpy(), x.reshape(3, 4))
    u.array_cast(grid, flat)
    assert np.array_equal(flat.numpy(), x)
    vectors = wp.zeros(4, dtype=wp.vec3d)
    u.array_cast(wp.array(x, dtype=wp.vec3), vectors)
    assert np.array_equal(vectors.numpy(), x.reshape(4, 3))
    u.array_cast(vectors, wp.zeros(12, dtype=int))
    part = wp.zeros(12, dtype=int)
    u.array_cast(wp.array(x), part, count=3)
    assert part.list() == [0, 1, 2] + [0] * 9
    turned = wp.zeros((4, 3))
    u.array_cast(grid.transpose(), turned)
    assert np.array_equal(turned.numpy(), x.reshape(3, 4).T)
    strided = wp.zeros((2, 2), dtype=wp.vec3d)
    u.array_cast(wp.array(x, dtype=wp.vec3).reshape(2, 2).transpose(), strided)
    assert np.array_equal(strided.numpy(), x.reshape(2, 2, 3).transpose(1, 0, 2))


def test_cast_out_of_range_and_on_a_tape() -> None:
    out = wp.zeros(4, dtype=int)
    u.array_cast(wp.array([1.7, -1.7, 3e9, np.nan], dtype=float), out)
    assert out.list() == [1, -1, 2**31 - 1, 0]
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        u.array_cast(x, y)
    tape.backward(grads={y: wp.array([3.0, 4.0], dtype=wp.float64)})
    assert x.grad.list() == [3.0, 4.0]


def test_cast_counts_elements_of_the_source() -> None:
    pairs = wp.array([[1.5, 2.5], [3.5, 4.5]], dtype=wp.vec2)
    numbers = wp.full(5, 9.0, dtype=wp.float64)
    u.array_cast(pairs, numbers, count=1)
    assert numbers.list() == [1.5, 2.5, 9.0, 9.0, 9.0]
    u.array_cast(numbers, pairs, count=4)
    assert pairs.list() == [wp.vec2(1.5, 2.5), wp.vec2(9.0, 9.0)]
    assert raised(RuntimeError, u.array_cast, numbers, pairs, count=3).startswith("array_cast() takes arrays of one")
    assert "4 elements of arrays that hold 2" in raised(RuntimeError, u.array_cast, pairs, numbers[:2], count=2)[-200:]


def test_cast_messages() -> None:
    cast = u.array_cast
    assert raised(RuntimeError, cast, wp.zeros((3, 4)), wp.zeros((4, 3), dtype=int)) == (
        "array_cast() takes two arrays of one shape, got array(shape=(3, 4), dtype=float32) and "
        "array(shape=(4, 3), dtype=int32)"
    )
    assert raised(RuntimeError, cast, wp.zeros((3, 4)), wp.zeros((3, 4), dtype=int), count=3) == (
        "array_cast() takes a count for arrays of one dimension alone"
    )
    assert raised(RuntimeError, cast, wp.zeros(3), wp.zeros(2, dtype=wp.vec2)) == (
        "array_cast() takes arrays of one number of components, got array(shape=(3,), dtype=float32) and "
        "array(shape=(2,), dtype=vec2f)"
    )
