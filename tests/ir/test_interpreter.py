"""The interpreter, which other tests trust: exact dtypes, the language's corner cases, and its own checks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter import InterpreterError, evaluate, run
from tests.interpreter_values import coerce
from tests.ir_builder import start, tid, while_
from warp_like.ir import ops
from warp_like.ir.types import (
    Array,
    Mat,
    Type,
    Vec,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)


def _binary(fn: str, t: Type, x: float, y: float, result: Type | None = None):
    f, b = start("f", "func", (result or t,), x=t, y=t)
    b.yield_(b.apply(fn, *f.params))
    return evaluate(f, [x, y])


def _cast(source: Type, to: Type, x: object):
    f, b = start("f", "func", (to,), x=source)
    b.yield_(b.cast(f.params[0], to))
    return evaluate(f, [x])


def test_each_dtype_rounds_and_wraps_on_its_own() -> None:
    assert _binary("add", float32, 0.1, 0.2) == np.float32(0.1) + np.float32(0.2)
    assert _binary("add", float64, 0.1, 0.2) == 0.1 + 0.2
    assert _binary("mul", float16, 3.0, 0.1) == np.float16(3) * np.float16(0.1)
    assert _binary("add", bfloat16, 1.0, 1 / 256) == 1.0  # halfway, to even
    assert _binary("add", bfloat16, 1.0, 3 / 256) == 1.015625
    assert _binary("add", int8, 127, 1) == -128
    assert _binary("mul", int64, 2**62, 4) == 0
    assert type(_binary("add", int8, 1, 1)) is np.int8


def test_integer_division() -> None:
    cases = {
        (7, 2): (3, 1),
        (-7, 2): (-3, -1),
        (7, -2): (-3, 1),
        (7, 0): (0, 0),
        (-(2**31), -1): (-(2**31), 0),
    }
    for (x, y), (quotient, remainder) in cases.items():
        assert _binary("div", int32, x, y) == quotient
        assert _binary("mod", int32, x, y) == remainder


def test_shifts_mask_their_amount() -> None:
    assert _binary("lshift", int32, 1, 33) == 2
    assert _binary("rshift", int8, -128, 9) == -64
    assert _binary("lshift", uint8, 255, 4) == 240


def test_casts() -> None:
    assert _cast(float32, int8, 1e9) == 127
    assert _cast(float32, int64, -np.inf) == -(2**63)
    assert _cast(float64, uint8, -3.0) == 0
    assert _cast(float32, int32, np.nan) == 0
    assert _cast(float32, int32, -2.9) == -2
    assert _cast(int32, uint8, 300) == 44
    assert _cast(float32, bool_, 0.5) == np.True_
    assert _cast(bool_, float32, True) == 1.0
    np.testing.assert_array_equal(_cast(Vec(2, float32), Vec(2, int32), [1.9, -1.9]), [1, -1])


def test_components_out_of_range() -> None:
    v = Vec(3, float32)
    f, b = start("f", "func", (float32, v), v=v, i=int32)
    x, i = f.params
    b.yield_(b.extract(x, i), b.insert_component(x, b.constant(9, float32), i))
    for at in (-1, 3, 100):
        first, same = evaluate(f, [[1, 2, 3], at])
        assert first == 1
        np.testing.assert_array_equal(same, [1, 2, 3])


@pytest.mark.parametrize(
    "dims, ndim, expected",
    [
        ((6,), 1, [range(6)]),
        ((2, 3), 1, [range(6)]),
        ((2, 2, 2), 2, [[0] * 4 + [1] * 4, [*range(4)] * 2]),
        ((2, 3), 2, [[0, 0, 0, 1, 1, 1], [0, 1, 2] * 2]),
        ((3,), 2, [[0, 1, 2], [0, 0, 0]]),
    ],
)
def test_thread_index(dims: tuple[int, ...], ndim: int, expected: list[list[int]]) -> None:
    f, b = start(x=Array(int32, 2), n=Array(int32, 1))
    x, n = f.params
    at = b.atomic("add", n, [b.index(0)], b.index(1))
    for axis in range(ndim):
        b.store(x, [b.index(axis), at], tid(b, axis, ndim))
    b.yield_()
    got = np.zeros((ndim, int(np.prod(dims))), np.int32)
    run(f, [got, np.zeros(1, np.int32)], dims)
    np.testing.assert_array_equal(got, [list(e) for e in expected])


def test_arrays_of_any_stride_and_of_matrices() -> None:
    mat = Mat(2, 2, float32)
    f, b = start(x=Array(mat, 1))
    (x,) = f.params
    i = tid(b)
    b.store(x, [i], b.mul(b.load(x, [i]), b.load(x, [i])))
    b.yield_()
    base = np.arange(32, dtype=np.float32).reshape(4, 2, 4)
    view = base[::-2, :, ::2]
    wanted = np.stack([m @ m for m in view])
    run(f, [view], (2,))
    np.testing.assert_array_equal(view, wanted)


def test_atomics_return_the_old_value() -> None:
    f, b = start(x=Array(int32, 1), y=Array(int32, 1))
    x, y = f.params
    for k, kind in enumerate(["add", "sub", "min", "max", "and", "or", "xor", "exch"]):
        b.store(y, [b.index(k)], b.atomic(kind, x, [b.index(0)], b.index(k + 3)))
    cas = ops.AtomicCas(x, (b.index(0),), b.index(10), b.index(99))
    b.store(y, [b.index(8)], b.insert(cas, int32).result)
    b.yield_()
    got, old = np.int32([8]), np.zeros(9, np.int32)
    run(f, [got, old], (1,))
    assert old.tolist() == [8, 11, 7, 5, 6, 6, 14, 7, 10]
    assert got[0] == 99


def test_bfloat16_arrays_as_bits_or_floats() -> None:
    f, b = start(x=Array(bfloat16, 1))
    (x,) = f.params
    b.store(x, [tid(b)], b.mul(b.load(x, [tid(b)]), 1.5))
    b.yield_()
    bits, floats = np.uint16([0x3F80, 0xC000]), np.float32([1, -2])
    run(f, [bits], (2,))
    run(f, [floats], (2,))
    assert bits.tolist() == [0x3FC0, 0xC040]
    assert floats.tolist() == [1.5, -3]
    assert coerce(np.nan, bfloat16) != coerce(np.nan, bfloat16)


def test_print() -> None:
    f, b = start(x=float32, v=Vec(2, int32))
    b.insert(ops.Print(("x = ", ", v = ", "\n"), tuple(f.params)))
    b.yield_()
    printed: list[str] = []
    run(f, [0.5, [1, 2]], (1,), printed)
    assert printed == ["x = 0.5, v = [1, 2]\n"]


# --- its own checks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [-1, 4])
def test_index_out_of_range(index: int) -> None:
    for op in ("load", "store", "atomic", "view"):
        f, b = start(x=Array(float32, 2), i=int32)
        x, i = f.params
        if op == "load":
            b.load(x, [i, b.index(0)])
        elif op == "store":
            b.store(x, [b.index(0), i], b.constant(1, float32))
        elif op == "atomic":
            b.atomic("add", x, [b.index(0), i], b.constant(1, float32))
        else:
            b.view(x, [i])
        b.yield_()
        with pytest.raises(IndexError, match=op):
            run(f, [np.zeros((4, 4), np.float32), index], (1,))


def test_stack_that_does_not_match() -> None:
    f, b = start(s=float32)
    b.insert(ops.Push(0, f.params[0]))
    b.yield_()
    with pytest.raises(InterpreterError, match=r"pushes of slots \[0\] were not popped"):
        run(f, [1.0], (1,))
    f, b = start(s=float32)
    b.insert(ops.Push(0, f.params[0]))
    b.insert(ops.Pop(1), float32)
    b.yield_()
    with pytest.raises(InterpreterError, match="pop of slot 1, but the top is slot 0"):
        run(f, [1.0], (1,))


def test_loops_that_do_not_end() -> None:
    f, b = start(n=int32)
    while_(b, [f.params[0]], lambda v: b.true(), lambda v: (v,))
    b.yield_()
    with pytest.raises(InterpreterError, match="does not end"):
        run(f, [1], (1,), max_steps=1000)


def test_arguments_of_another_type() -> None:
    f, b = start(x=Array(Vec(3, float32), 1))
    b.yield_()
    for bad in (np.zeros((2, 3)), np.zeros(3, np.float32), np.zeros((2, 4), np.float32)):
        with pytest.raises(TypeError, match="expected array1d"):
            run(f, [bad], (1,))
