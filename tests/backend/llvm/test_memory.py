"""Arrays: strides, element types, views, components at dynamic indices, atomics, index checks."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
import pytest

from tests.backend.kernels import copy_kernel
from tests.backend.running import Kernel, Outcome, Runtime, check, check_param, dtype_of, outcomes
from tests.ir_builder import start, tid
from tests.long_tail import crossed, name
from warp_like.backend.target import Options
from warp_like.base.loc import Loc, at
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import (
    FLOATS,
    INTS,
    SCALARS,
    Array,
    Mat,
    Quat,
    Scalar,
    Type,
    Vec,
    bool_,
    element_shape,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint16,
)

COPIED = [*SCALARS, Vec(3, float32), Vec(2, bool_), Mat(2, 3, float64), Quat(float16)]


@pytest.mark.parametrize(("t", "ndim"), crossed(COPIED, [1, 2, 3, 4], every=2), ids=str)
def test_copy(t: Type, ndim: int) -> None:
    shape = (3, 2, 4, 2)[:ndim]
    x = np.random.default_rng(0).integers(0, 2, (*shape, *element_shape(t))).astype(dtype_of(t))
    check(copy_kernel(t, ndim), [x, np.zeros_like(x)], shape)


@pytest.mark.parametrize(
    "cut",
    [np.s_[::-1, :], np.s_[:, ::-1], np.s_[::2, ::3], np.s_[::-2, 1::-1], np.s_[1:3, 2:5]],
    ids=["rows back", "columns back", "steps", "both back", "window"],
)
def test_strides(cut: Any) -> None:
    base = np.arange(42, dtype="f").reshape(6, 7)
    x = base[cut]
    y = np.zeros((6, 7), "f")[cut]
    check(copy_kernel(float32, 2), [x, y], x.shape)
    check(copy_kernel(float32, 2), [x.T, np.zeros(x.T.shape, "f")], x.T.shape)


def test_broadcast_strides() -> None:
    x = np.broadcast_to(np.arange(4, dtype="f"), (3, 4))
    check(copy_kernel(float32, 2), [x, np.zeros((3, 4), "f")], (3, 4))


def test_strided_vectors() -> None:
    x = np.arange(60, dtype="f").reshape(10, 2, 3)
    check(copy_kernel(Vec(3, float32), 1), [x[::-2, 1], np.zeros((5, 3), "f")], (5,))


def test_stencil_with_scalars() -> None:
    f, b = start("stencil", x=Array(float32, 2), y=Array(float32, 2), w=float32, s=int8, big=float64, flag=bool_)
    x, y, w, s, big, flag = f.params
    i, j = tid(b, 0, 2), tid(b, 1, 2)
    up, left = b.add(i, 1), b.add(j, 1)
    total = b.add(b.load(x, [i, left]), b.add(b.load(x, [b.add(i, 2), left]), b.load(x, [up, j])))
    total = b.mul(w, b.add(total, b.load(x, [up, b.add(j, 2)])))
    total = b.add(total, b.add(b.cast(s, float32), b.cast(big, float32)))
    b.store(y, [up, left], b.select(flag, total, b.neg(total)))
    b.yield_()
    x_ = np.random.default_rng(0).normal(size=(9, 33)).astype("f")
    for flag_ in (True, False):
        check(f, [x_, np.zeros_like(x_), 0.25, -3, 1e-3, flag_], (7, 31), rtol=1e-5)


def test_views() -> None:
    f, b = start("views", x=Array(Vec(2, float32), 3), y=Array(float32, 1))
    x, y = f.params
    i = tid(b)
    plane = b.view(x, [i])
    row = b.view(plane, [b.index(1)])
    v = b.add(b.load(row, [b.index(2)]), b.load(plane, [b.index(0), b.index(3)]))
    b.store(y, [i], b.add(b.extract(v, 1), b.cast(b.add(b.dim(plane, 1), b.dim(row, 0)), float32)))
    b.yield_()
    x_ = np.random.default_rng(0).normal(size=(3, 2, 4, 2)).astype("f")
    check(f, [x_, np.zeros(3, "f")], (3,))
    check(f, [x_[::-1, :, ::-1], np.zeros(3, "f")], (3,))


# --- components ---------------------------------------------------------------------------------------------

AGGREGATES = [
    Vec(3, float32),
    Vec(40, float32),
    Quat(float64),
    Mat(3, 2, float32),
    Mat(5, 5, int32),
    Mat(20, 2, int64),
]


@pytest.mark.parametrize("t", AGGREGATES, ids=str)
def test_dynamic_components(t: Any) -> None:
    two = isinstance(t, Mat)
    scalar = t.dtype
    f, b = start("components", m=Array(t, 1), i=Array(int32, 1), j=Array(int32, 1), out=Array(scalar, 1))
    m, i_, j_, out = f.params
    k = tid(b)
    at_ = [b.load(i_, [k])] + ([b.load(j_, [k])] if two else [])
    x = b.load(m, [k])
    b.store(out, [k], b.extract(x, *at_))
    b.store(m, [k], b.insert_component(x, b.constant(77, scalar), *at_))
    b.yield_()
    n = 12
    i = np.array([0, 1, 2, 2, 1, 0, -1, 50, 3, 1, 4, 19], "i")
    j = np.array([0, 1, 0, 1, 2, 9, 0, 0, -1, 1, 4, 1], "i")
    m_ = np.random.default_rng(0).integers(0, 50, (n, *element_shape(t))).astype(dtype_of(t))
    check(f, [m_, i, j, np.zeros(n, dtype_of(t))], (n,))


@pytest.mark.parametrize("t", [Mat(3, 2, float32), Mat(20, 2, float32)], ids=str)
def test_dynamic_rows(t: Mat) -> None:
    row = Vec(t.cols, float32)
    f, b = start("rows", m=Array(t, 1), i=Array(int32, 1), out=Array(row, 1))
    m, i_, out = f.params
    k = tid(b)
    x, at_ = b.load(m, [k]), b.load(i_, [k])
    b.store(out, [k], b.extract(x, at_))
    mixed = b.insert_component(b.insert_component(x, b.constant(5.0, row), at_), b.constant(6.0, float32), at_, 1)
    b.store(m, [k], b.insert_component(mixed, b.extract(mixed, at_, 0), 1, at_))
    b.yield_()
    i = np.array([0, 1, 2, 7, -4], "i")
    m_ = np.random.default_rng(0).normal(size=(5, t.rows, t.cols)).astype("f")
    check(f, [m_, i, np.zeros((5, t.cols), "f")], (5,))


def test_constant_components() -> None:
    t = Mat(2, 3, float32)
    f, b = start("constants", m=Array(t, 1), out=Array(Vec(3, float32), 1))
    x = b.load(f.params[0], [tid(b)])
    y = b.insert_component(b.insert_component(x, b.extract(x, 1), 0), b.extract(x, 0, 2), 1, 1)
    b.store(f.params[0], [tid(b)], y)
    b.store(f.params[1], [tid(b)], b.extract(y, 1))
    b.yield_()
    check(f, [np.random.default_rng(0).normal(size=(4, 2, 3)).astype("f"), np.zeros((4, 3), "f")], (4,))


# --- atomics ------------------------------------------------------------------------------------------------


ARITHMETIC = ["add", "sub", "min", "max", "exch"]
BITS = ["and", "or", "xor"]


@functools.cache
def atomics(kinds: tuple[str, ...], t: Type) -> tuple[Function, list[Outcome]]:
    """One kernel for several updates of elements of ``t``; it was run."""
    memory = {f"{name}_{kind}": Array(t, 1) for kind in kinds for name in ("y", "old")}
    f, b = start("atomics", x=Array(t, 1), **memory)
    i = tid(b)
    for kind, y, old in zip(kinds, f.params[1::2], f.params[2::2], strict=True):
        b.store(old, [i], b.atomic(kind, y, [b.mod(i, 3)], b.load(f.params[0], [i])))
    b.yield_()
    x = np.random.default_rng(0).integers(0, 9, (20, *element_shape(t)))
    if str(t) == "bfloat16":
        x = (x.astype("f").view(np.uint32) >> 16).astype(np.uint16)
    x = x.astype(dtype_of(t))
    return f, outcomes(f, [x, *(a for _ in kinds for a in (x[:3].copy(), np.zeros_like(x)))], (20,))


def check_atomic(kind: str, kinds: list[str], t: Type) -> None:
    f, found = atomics(tuple(kinds), t)
    k = 1 + 2 * kinds.index(kind)
    for outcome in found:
        for param in (0, k, k + 1):
            check_param(f, outcome, param)


@pytest.mark.parametrize(("kind", "t"), crossed(ARITHMETIC, INTS + FLOATS, every=2), ids=name)
def test_atomic_arithmetic(kind: str, t: Scalar) -> None:
    check_atomic(kind, ARITHMETIC, t)


@pytest.mark.parametrize("t", [float32, float64], ids=str)
@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("first", [1.0, np.nan, np.inf, -np.inf])
def test_extremes_leave_out_what_is_no_number(first: float, kind: str, t: Scalar) -> None:
    f, b = start("extreme", x=Array(t, 1), y=Array(t, 1))
    b.atomic(kind, f.params[1], [b.index(0)], b.load(f.params[0], [tid(b)]))
    b.yield_()
    x, y = np.array([np.nan, -3.0, 7.0, np.nan, 5.0], dtype_of(t)), np.array([first], dtype_of(t))
    Kernel(f)([x, y], (5,))
    assert y[0] == (np.fmin if kind == "min" else np.fmax).reduce([first, *x])


@pytest.mark.parametrize("t", [*INTS, bool_], ids=str)
@pytest.mark.parametrize("kind", BITS)
def test_atomic_bits(kind: str, t: Scalar) -> None:
    check_atomic(kind, BITS, t)


@pytest.mark.parametrize("t", [Vec(3, float32), Mat(2, 2, float64), Vec(2, float16)], ids=str)
def test_atomic_on_components(t: Type) -> None:
    check_atomic("add", ["add"], t)


@pytest.mark.parametrize("t", [int32, int64, float32, float64, uint16, float16], ids=str)
def test_compare_and_swap(t: Scalar) -> None:
    f, b = start("cas", x=Array(t, 1), old=Array(t, 1))
    x, old = f.params
    i = tid(b)
    got = b.insert(ops.AtomicCas(x, (b.mod(i, 4),), b.constant(2, t), b.cast(i, t)), t).result
    b.store(old, [i], got)
    b.yield_()
    check(f, [np.array([2, 1, 2, 5], dtype_of(t)), np.zeros(12, dtype_of(t))], (12,))


@pytest.mark.parametrize("t", [int32, float32, float64, float16, Vec(3, float32)], ids=str)
def test_atomics_of_many_os_threads(t: Type) -> None:
    f, b = start("count", y=Array(t, 1))
    b.atomic("add", f.params[0], [b.index(0)], b.constant(1, t))
    b.yield_()
    kernel = Kernel(f)
    y = np.zeros((1, *element_shape(t)), dtype_of(t))
    each = 500 if str(t) == "float16" else 20000
    workers = [threading.Thread(target=kernel, args=([y], (each,))) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    np.testing.assert_array_equal(y, 4 * each)


# --- checks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [5, -1, 1 << 30])
def test_debug_reports_an_index_out_of_range(index: int) -> None:
    f, b = start("outside", x=Array(float32, 1), k=int32)
    x, k = f.params
    i = tid(b)
    with at(Loc("kernel.py", 42, 0, 42, 1)):
        b.store(x, [b.select(b.eq(i, 3), k, i)], b.constant(1.0, float32))
    b.yield_()
    runtime = Runtime()
    x_ = np.zeros(5, "f")
    Kernel(f, Options(debug=True), runtime)([x_, index], (5,))
    (error,) = runtime.errors
    assert isinstance(error, IndexError)
    assert str(error) == (
        f"kernel: index {index} is out of range for array `x` of shape (5,) in thread 3, line 42 of kernel.py"
    )
    np.testing.assert_array_equal(x_, [1, 1, 1, 0, 0])


def test_debug_reports_the_flat_thread_and_views() -> None:
    f, b = start("outside", x=Array(float32, 2), k=int32)
    x, k = f.params
    i, j = tid(b, 0, 2), tid(b, 1, 2)
    row = b.view(x, [b.add(i, k)])
    b.store(row, [j], b.constant(1.0, float32))
    b.yield_()
    runtime = Runtime()
    Kernel(f, Options(debug=True, contiguous=True), runtime)([np.zeros((3, 4), "f"), 1], (3, 4))
    assert list(map(str, runtime.errors)) == [
        "kernel: index 3 is out of range for array `x` of shape (3, 4) in thread 8"
    ]
