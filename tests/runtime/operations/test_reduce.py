"""``array_sum``, ``array_inner`` and ``array_scan`` against NumPy in float64 and in Python's integers."""

import math
from typing import Any

import numpy as np
import pytest

import warp_like as wp

u = wp.utils
FLOATS = ("float16", "float32", "float64")
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SIZES = (0, 1, 2, 7, 63, 64, 65, 1000, 70_001)


def numbers(n: int, dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return rng.uniform(-1, 1, n).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min // 2, limits.max // 2, n, dtype=dtype, endpoint=True)


def tolerance(dtype: Any) -> dict[str, float]:
    return {"rtol": 2 * float(np.finfo(dtype).eps), "atol": 1e-12}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", SIZES)
def test_the_sum_of_floats_is_exact_to_the_last_bit_or_so(dtype: str, n: int) -> None:
    x = numbers(n, dtype)
    got = u.array_sum(wp.array(x))
    assert got.dtype == dtype
    np.testing.assert_allclose(float(got), x.astype(np.float64).sum(), **tolerance(dtype))
    y = numbers(n, dtype, 1)
    wanted = (x.astype(np.float64) * y.astype(np.float64)).sum()
    np.testing.assert_allclose(float(u.array_inner(wp.array(x), wp.array(y))), wanted, **tolerance(dtype))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("n", SIZES)
def test_the_sum_of_integers_holds_all_of_it(dtype: str, n: int) -> None:
    x = numbers(n, dtype)
    wanted = sum(x.tolist())
    if abs(wanted) >= 2**63:
        wanted = (wanted + 2**63) % 2**64 - 2**63 if dtype == "int64" else wanted % 2**64
    got = u.array_sum(wp.array(x))
    assert type(got) is int
    assert got == wanted


def test_bfloat16() -> None:
    x = np.arange(1, 101, dtype=np.float32)
    a = wp.array(x, dtype=wp.bfloat16)
    assert float(u.array_sum(a)) == 5056.0  # 5050 rounded to 8 bits
    assert u.array_sum(a, out=wp.zeros(1, dtype=wp.bfloat16)).list() == [5056.0]


@pytest.mark.parametrize("shape", [(5, 7), (3, 1000), (1000, 3), (300, 300), (4, 5, 6), (2, 3, 4, 70), (0, 3), (3, 0)])
def test_axes(shape: tuple[int, ...]) -> None:
    x = numbers(int(np.prod(shape)), "float32").reshape(shape)
    a = wp.array(x)
    for axis in range(-len(shape), len(shape)):
        wanted = x.astype(np.float64).sum(axis, keepdims=True)
        got = u.array_sum(a, axis=axis)
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6, atol=1e-12)
        squares = (x.astype(np.float64) ** 2).sum(axis, keepdims=True)
        np.testing.assert_allclose(u.array_inner(a, a, axis=axis).numpy(), squares, rtol=1e-6, atol=1e-12)


def test_strides_of_every_kind() -> None:
    x = numbers(24 * 30, "float64").reshape(24, 30)
    a = wp.array(x)
    views = [(slice(None, None, 2), slice(None)), (slice(None), slice(1, None, 3)), (slice(None, None, -1),) * 2]
    for key in views:
        for part, of in ((a[key], x[key]), (a[key].transpose(), x[key].T)):
            np.testing.assert_allclose(u.array_sum(part), of.sum(), rtol=1e-13)
            np.testing.assert_allclose(u.array_inner(part, part), (of * of).sum(), rtol=1e-13)
            for axis in (0, 1):
                np.testing.assert_allclose(
                    u.array_sum(part, axis=axis).numpy(), of.sum(axis, keepdims=True), rtol=1e-13
                )
                got = u.array_inner(part, part.contiguous(), axis=axis).numpy()
                np.testing.assert_allclose(got, (of * of).sum(axis, keepdims=True), rtol=1e-13)


def test_strided_results() -> None:
    x = numbers(12, "float32").reshape(3, 4)
    out = wp.zeros((1, 8))
    assert u.array_sum(wp.array(x), out=out[:, ::2], axis=0) is not None
    np.testing.assert_allclose(out.numpy()[0, ::2], x.sum(0), rtol=1e-6)
    assert not out.numpy()[0, 1::2].any()


@pytest.mark.parametrize("n", [1, 5, 100, 40_000])
def test_components_are_summed_apart(n: int) -> None:
    x = numbers(n * 3, "float32").reshape(n, 3)
    a = wp.array(x, dtype=wp.vec3)
    got = u.array_sum(a)
    assert got.shape == (3,)
    np.testing.assert_allclose(got, x.astype(np.float64).sum(0), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(u.array_inner(a, a), (x.astype(np.float64) ** 2).sum(), rtol=1e-6)
    out = wp.zeros(1, dtype=wp.vec3)
    assert u.array_sum(a, out=out) is out
    np.testing.assert_allclose(out.numpy()[0], got)
    total = wp.zeros(1)
    assert u.array_inner(a, a, out=total) is total


def test_vectors_matrices_and_axes() -> None:
    x = numbers(2 * 5 * 3, "float64").reshape(2, 5, 3)
    a = wp.array(x, dtype=wp.vec3d)
    np.testing.assert_allclose(u.array_sum(a, axis=1).numpy(), x.sum(1, keepdims=True))
    np.testing.assert_allclose(u.array_inner(a, a, axis=0).numpy(), (x * x).sum((0, 2))[None])
    m = numbers(6 * 4, "float32").reshape(6, 2, 2)
    np.testing.assert_allclose(u.array_sum(wp.array(m, dtype=wp.mat22)), m.sum(0), rtol=1e-5)
    np.testing.assert_allclose(u.array_sum(wp.array(m, dtype=wp.mat22)[::2]), m[::2].sum(0), rtol=1e-5)


def test_counts() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    a = wp.array(x)
    assert u.array_sum(a, value_count=5) == 10.0
    assert u.array_sum(a, value_count=2, axis=0).list() == [4.0, 6.0, 8.0, 10.0]
    assert u.array_inner(a, a, count=3) == 5.0
    assert u.array_sum(a, value_count=0) == 0.0


def test_other_libraries_arrays() -> None:
    x, out = np.arange(5, dtype=np.float32), np.zeros(1, np.float32)
    assert u.array_sum(x) == 10.0
    assert u.array_sum(x, out=out) is out
    assert out[0] == 10.0


def test_the_same_bits_with_any_number_of_threads() -> None:
    a = wp.array(numbers(300_000, "float64"))
    out = wp.zeros_like(a)
    found = set()
    for threads in (1, 2, 4):
        wp.config.num_threads = threads
        u.array_scan(a, out)
        found.add((float(u.array_sum(a)), float(u.array_inner(a, a)), out.numpy().tobytes()))
    wp.config.num_threads = 0
    assert len(found) == 1


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (70_001,), (300, 70), (5, 6, 7), (3, 0)])
def test_bools_are_counted(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    x, y = rng.random(shape) < 0.6, rng.random(shape) < 0.5
    a, b = wp.array(x), wp.array(y)
    assert a.dtype is wp.bool
    assert u.array_sum(a) == x.sum()
    assert u.array_inner(a, b) == (x & y).sum()
    counts = u.array_sum(a, axis=-1)
    assert counts.dtype is wp.int64
    assert np.array_equal(counts.numpy(), x.sum(-1, keepdims=True))
    out = wp.zeros(1, dtype=wp.uint32)
    assert u.array_inner(a, b, out=out) is out
    assert out.list() == [(x & y).sum()]
    assert u.array_sum(a[..., ::2] if shape[-1] else a) == x[..., ::2].sum()


def test_too_many_bools_for_the_result() -> None:
    with pytest.raises(OverflowError, match="the sum of integers does not fit int8"):
        u.array_sum(wp.full(200, True), out=wp.zeros(1, dtype=wp.int8))
    with pytest.raises(
        RuntimeError, match=r"array_sum\(\) writes int64 to `out`, got array\(shape=\(1,\), dtype=bool\)"
    ):
        u.array_sum(wp.full(3, True), out=wp.zeros(1, dtype=bool))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
@pytest.mark.parametrize("n", [0, 1, 2, 16383, 16384, 16385, 100_003])
def test_scan(dtype: str, n: int) -> None:
    x = numbers(n, dtype)
    exact = np.cumsum(x, dtype=np.float64 if dtype.startswith("float") else dtype)
    close = {"rtol": 1e-3, "atol": 1e-3} if dtype == "float16" else {"rtol": 1e-6, "atol": 1e-9}
    out = wp.zeros(n, dtype=getattr(wp, dtype))
    u.array_scan(wp.array(x), out)
    exclusive = np.concatenate([[0], exact[:-1]])[:n].astype(exact.dtype)
    if not dtype.startswith("float"):
        assert np.array_equal(out.numpy(), exact)
    np.testing.assert_allclose(out.numpy().astype(exact.dtype), exact, **close)
    u.array_scan(wp.array(x), out, inclusive=False)
    np.testing.assert_allclose(out.numpy().astype(exact.dtype), exclusive, **close)


def test_a_scan_of_bfloat16_rounds_each_sum_once() -> None:
    a, out = wp.full(600, 1.0, dtype=wp.bfloat16), wp.zeros(600, dtype=wp.bfloat16)
    u.array_scan(a, out)
    exact = np.arange(1, 601, dtype=np.float32)
    assert [float(x) for x in out.list()] == [float(wp.bfloat16(x)) for x in exact.tolist()]


def test_scan_of_vectors_of_strided_arrays_and_in_place() -> None:
    x = numbers(3 * 20_000, "float64").reshape(-1, 3)
    a, out = wp.array(x, dtype=wp.vec3d), wp.zeros(20_000, dtype=wp.vec3d)
    u.array_scan(a, out)
    np.testing.assert_allclose(out.numpy(), np.cumsum(x, 0), atol=1e-10)
    back = wp.zeros(20_000, dtype=wp.vec3d)
    u.array_scan(a[::-1], back[::-1])
    np.testing.assert_allclose(back.numpy()[::-1], np.cumsum(x[::-1], 0), atol=1e-10)
    u.array_scan(a, a)
    np.testing.assert_allclose(a.numpy(), np.cumsum(x, 0), atol=1e-10)
    grid, flat = wp.array(np.arange(6, dtype=np.int32).reshape(2, 3)), wp.zeros(6, dtype=int)
    u.array_scan(grid, flat)
    assert flat.list() == [0, 1, 3, 6, 10, 15]


def raised(kind: type[Exception], f: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as caught:
        f(*args, **kwargs)
    return str(caught.value)


def test_messages() -> None:
    a, v = wp.zeros((3, 4)), wp.zeros(3, dtype=wp.vec3)
    assert raised(TypeError, u.array_scan, wp.zeros(3, dtype=bool), wp.zeros(3, dtype=bool)) == (
        "array_scan(): `in_array` is an array of numbers, got array(shape=(3,), dtype=bool)"
    )
    assert raised(TypeError, u.array_sum, 3.0).startswith("array_sum(): `values` is an array, got float: ")
    assert raised(IndexError, u.array_sum, a, axis=2) == (
        "array_sum(): axis 2 of array(shape=(3, 4), dtype=float32), which has 2 dimensions"
    )
    assert raised(RuntimeError, u.array_sum, a, value_count=13) == "array_sum(): 13 values of arrays that hold 12"
    assert raised(RuntimeError, u.array_sum, a.transpose(), value_count=3) == (
        "array_sum() takes the first 3 elements of a contiguous array, got strides (4, 16)"
    )
    assert raised(RuntimeError, u.array_sum, a, out=wp.zeros(4), axis=0) == (
        "array_sum() writes an array of shape (1, 4) to `out`, got array(shape=(4,), dtype=float32)"
    )
    assert raised(RuntimeError, u.array_inner, v, v, out=wp.zeros(1, dtype=wp.vec3)) == (
        "array_inner() writes float32 to `out`, got array(shape=(1,), dtype=vec3f)"
    )
    assert raised(ValueError, u.array_inner, a, wp.zeros((4, 3))) == (
        "array_inner() takes arrays of one shape, got array(shape=(3, 4), dtype=float32) and "
        "array(shape=(4, 3), dtype=float32)"
    )
    assert raised(OverflowError, u.array_sum, wp.full(3, 100, dtype=wp.int8), out=wp.zeros(1, dtype=wp.int8)) == (
        "array_sum(): the sum of integers does not fit int8"
    )
    frozen = np.zeros(1, np.float32)
    frozen.flags.writeable = False
    assert "is read-only" in raised(ValueError, u.array_sum, a, out=wp.from_numpy(frozen))


def test_scan_messages() -> None:
    a = wp.zeros((3, 4))
    assert raised(RuntimeError, u.array_scan, wp.zeros(3), wp.zeros(4)) == (
        "array_scan() takes two arrays of one size, got array(shape=(3,), dtype=float32) and "
        "array(shape=(4,), dtype=float32)"
    )
    assert raised(RuntimeError, u.array_scan, a[:, ::2], wp.zeros(6)) == (
        "array_scan(): `in_array` has several dimensions and is not contiguous: array(shape=(3, 2), dtype=float32)"
    )
    b = wp.zeros(10)
    assert raised(RuntimeError, u.array_scan, b[1:], b[:-1]) == "array_scan(): the two arrays overlap without being one"


@pytest.mark.parametrize("n", [1, 63, 64, 65, 127, 65536, 65536 + 64, 3 * 65536 + 7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_rows_are_exact_to_the_last_rounding(n, dtype):
    """Against exactly rounded sums: large terms that cancel leave what float32 additions would lose."""
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n)).astype(dtype)
    x[: n // 2] *= 1e4
    a, b = wp.array(x), wp.array(y)
    exact = math.fsum(x.astype("float64")), math.fsum(x.astype("float64") * y.astype("float64"))
    for threads in (1, 2):
        wp.config.num_threads = threads
        try:
            found = wp.utils.array_sum(a), wp.utils.array_inner(a, b)
        finally:
            del wp.config.num_threads
        assert found == pytest.approx(exact, rel=2e-7 if dtype == "float32" else 1e-12)
    assert wp.utils.array_sum(a[::2]) == pytest.approx(math.fsum(x[::2].astype("float64")), rel=2e-7)
