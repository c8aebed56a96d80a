"""Arithmetic, comparisons, casts and constants on every scalar type, against the interpreter."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest

from tests.backend import running
from tests.backend.running import OF_VECTORS, Kernel, Outcome, Runtime, check_param, dtype_of
from tests.ir_builder import start, tid
from tests.long_tail import more
from warp_like.backend.target import Options
from warp_like.ir.core import Function
from warp_like.ir.types import (
    FLOATS,
    INTS,
    SCALARS,
    Array,
    Mat,
    Scalar,
    Vec,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint16,
)

pytestmark = more
outcomes = functools.partial(running.outcomes, changes=OF_VECTORS)
check = functools.partial(running.check, changes=OF_VECTORS)


def samples(t: Scalar) -> np.ndarray:
    """Telling values of ``t``, in the dtype of its memory."""
    if t.is_bool:
        return np.array([False, True])
    if t.is_int:
        info = np.iinfo(str(t))
        some = [0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min] + ([-1, -2, -7] if t.is_signed else [])
        return np.array(some, str(t))
    some = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 1e-3, 300.7, -70000.3, 1e12, np.inf, -np.inf, np.nan])
    with np.errstate(over="ignore"):
        if t == bfloat16:
            return (some.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return some.astype(str(t))


ARITHMETIC = ["add", "sub", "mul", "div", "mod"]
BITS = ["bit_and", "bit_or", "bit_xor", "lshift", "rshift"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
EQUALITIES = ["eq", "ne"]


@functools.cache
def binaries(names: tuple[str, ...], t: Scalar, out: Scalar) -> tuple[Function, list[Outcome]]:
    """One kernel for several operators, since LLVM takes longer to begin than for an operator; it was run."""
    f, b = start(f"of_{t}", x=Array(t, 1), y=Array(t, 1), **{name: Array(out, 1) for name in names})
    i = tid(b)
    for name, z in zip(names, f.params[2:], strict=True):
        b.store(z, [i], b.apply(name, b.load(f.params[0], [i]), b.load(f.params[1], [i])))
    b.yield_()
    x, y = pairs(t)
    return f, outcomes(f, [x, y, *(np.zeros(len(x), dtype_of(out)) for _ in names)], (len(x),))


def check_binary(name: str, names: list[str], t: Scalar, out: Scalar, rtol: float = 1e-6) -> None:
    f, found = binaries(tuple(names), t, out)
    for outcome in found:
        check_param(f, outcome, 2 + names.index(name), rtol)


@functools.cache
def casts(source: Scalar) -> tuple[Function, list[Outcome]]:
    """A kernel that casts to every type, and its runs."""
    f, b = start(f"cast_{source}", x=Array(source, 1), **{f"to_{to}": Array(to, 1) for to in SCALARS})
    i = tid(b)
    for to, z in zip(SCALARS, f.params[1:], strict=True):
        b.store(z, [i], b.cast(b.load(f.params[0], [i]), to))
    b.yield_()
    x = samples(source)
    return f, outcomes(f, [x, *(np.zeros(len(x), dtype_of(to)) for to in SCALARS)], (len(x),))


def unary(build: Any, name: str, t: Scalar, out: Scalar) -> Function:
    f, b = start(f"{name}_{t}_{out}", x=Array(t, 1), z=Array(out, 1))
    i = tid(b)
    b.store(f.params[1], [i], build(b, b.load(f.params[0], [i])))
    b.yield_()
    return f


def pairs(t: Scalar) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(list(itertools.product(samples(t), repeat=2)), dtype_of(t))
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


@pytest.mark.parametrize("t", INTS + FLOATS, ids=str)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str, t: Scalar) -> None:
    check_binary(name, ARITHMETIC, t, t, rtol=0)


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("name", BITS)
def test_bits(name: str, t: Scalar) -> None:
    check_binary(name, BITS, t, t)


@pytest.mark.parametrize("t", INTS, ids=str)
def test_invert_and_count(t: Scalar) -> None:
    f, b = start(f"bits_of_{t}", x=Array(t, 1), inverted=Array(t, 1), counts=Array(int32, 1))
    i = tid(b)
    v = b.load(f.params[0], [i])
    b.store(f.params[1], [i], b.invert(v))
    b.store(f.params[2], [i], b.bit_count(v))
    b.yield_()
    x = samples(t)
    check(f, [x, np.zeros_like(x), np.zeros(len(x), np.int32)], (len(x),))


@pytest.mark.parametrize("t", SCALARS, ids=str)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparison(name: str, t: Scalar) -> None:
    if t.is_bool and name not in EQUALITIES:
        t = int8
    check_binary(name, EQUALITIES if t.is_bool else COMPARISONS, t, bool_)


@pytest.mark.parametrize("t", INTS + FLOATS, ids=str)
def test_neg(t: Scalar) -> None:
    x = samples(t)
    check(unary(lambda b, v: b.neg(v), "neg", t, t), [x, np.zeros_like(x)], (len(x),))


def test_not() -> None:
    x = np.array([True, False])
    check(unary(lambda b, v: b.unot(v), "unot", bool_, bool_), [x, x.copy()], (2,))


DIVISORS = [0, 1, 7, -1]


def divisor_of(t: Scalar, divisor: int) -> int:
    return 13 if divisor < 0 and not t.is_signed else divisor


@functools.cache
def divisions(t: Scalar) -> tuple[Function, list[Outcome]]:
    """A kernel that divides by every constant, and its runs."""
    names = [f"{name}{k}" for name in ("div", "mod") for k in range(len(DIVISORS))]
    f, b = start(f"divisions_of_{t}", x=Array(t, 1), **dict.fromkeys(names, Array(t, 1)))
    i = tid(b)
    for name, z in zip(names, f.params[1:], strict=True):
        divisor = b.constant(divisor_of(t, DIVISORS[int(name[3:])]), t)
        b.store(z, [i], b.apply(name[:3], b.load(f.params[0], [i]), divisor))
    b.yield_()
    x = samples(t)
    return f, outcomes(f, [x, *(np.zeros_like(x) for _ in names)], (len(x),))


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("name", ["div", "mod"])
def test_constant_divisor(name: str, divisor: int, t: Scalar) -> None:
    f, found = divisions(t)
    for outcome in found:
        check_param(f, outcome, 1 + ["div", "mod"].index(name) * len(DIVISORS) + DIVISORS.index(divisor))


@pytest.mark.parametrize("to", SCALARS, ids=str)
@pytest.mark.parametrize("source", SCALARS, ids=str)
def test_cast(source: Scalar, to: Scalar) -> None:
    f, found = casts(source)
    for outcome in found:
        check_param(f, outcome, 1 + SCALARS.index(to), rtol=0)


@pytest.mark.parametrize("to", [float16, bfloat16], ids=str)
def test_float64_rounds_once_to_half(to: Scalar) -> None:
    """Values next to the middle of two 16-bit floats, which rounding through float32 gets wrong."""
    bits = 11 if to == float16 else 8
    middle = 1 + 2.0**-bits
    x = np.array([middle, middle + 2.0**-40, middle - 2.0**-40, -middle - 2.0**-40, 1e300, 2.0**-25 + 2.0**-60])
    got = np.zeros(len(x), dtype_of(to))
    Kernel(unary(lambda b, v: b.cast(v, to), "cast", float64, to))([x, got], (len(x),))
    if to == float16:
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, x.astype(np.float16))
    else:
        np.testing.assert_array_equal(got[:4], [0x3F80, 0x3F81, 0x3F80, 0xBF81])


@pytest.mark.parametrize(
    ("source", "to"),
    [(float32, int32), (int64, float64), (uint16, bfloat16), (float16, uint16), (int8, bool_)],
)
def test_bitcast(source: Scalar, to: Scalar) -> None:
    x = np.array([0, 1, 1, 0], np.int8) if to.is_bool else samples(source)
    check(
        unary(lambda b, v: b.bitcast(v, to), "bitcast", source, to),
        [x, np.zeros(len(x), dtype_of(to))],
        (len(x),),
        rtol=0,
    )


@pytest.mark.parametrize("t", SCALARS, ids=str)
def test_constants(t: Scalar) -> None:
    """Every sample, written as a constant."""
    values = samples(t) if t != bfloat16 else samples(float32)
    f, b = start("constants", z=Array(t, 1))
    for i, x in enumerate(values.tolist()):
        b.store(f.params[0], [b.index(i)], b.constant(x, t))
    b.yield_()
    check(f, [np.zeros(len(values), dtype_of(t))], (1,), rtol=0)


def test_aggregates_cast_and_select() -> None:
    v, m = Vec(3, float32), Mat(2, 3, float64)
    f, b = start("aggregates", x=Array(v, 1), i=Array(Vec(3, int32), 1), m=Array(m, 1), n=Array(Mat(2, 3, float32), 1))
    x, i, p, q = f.params
    t = tid(b)
    vec = b.add(b.mul(b.load(x, [t]), 2.0), b.constant((1.0, 2.0, 3.0), v))
    b.store(i, [t], b.cast(vec, Vec(3, int32)))
    big = b.gt(b.extract(vec, 0), 3.0)
    b.store(x, [t], b.select(big, b.neg(vec), vec))
    b.store(q, [t], b.cast(b.mul(b.load(p, [t]), b.constant(0.5, float64)), Mat(2, 3, float32)))
    b.yield_()
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(5, 3)).astype("f") * 3
    check(f, [xs, np.zeros((5, 3), "i"), rng.normal(size=(5, 2, 3)), np.zeros((5, 2, 3), "f")], (5,))


def test_fast_math_and_scalar_libm() -> None:
    f = unary(lambda b, v: b.sin(b.mul(v, v)), "sines", float32, float32)
    x = np.linspace(-3, 3, 1000, dtype="f")
    for options in (Options(fast_math=True), Options(vector_math=False)):
        out = np.zeros_like(x)
        Kernel(f, options, Runtime())([x, out], (1000,))
        np.testing.assert_allclose(out, np.sin(x * x), rtol=1e-5, atol=1e-6)
