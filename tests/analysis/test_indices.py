"""The classes of indices say what is true of the values that the interpreter computes, also where these wrap."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.interpreter import run
from tests.ir_builder import branch, loop, start, tid
from warp_like.analysis.indices import Affine, Index, Indices, ThreadIndex, Uniform
from warp_like.builtins.emit import Emitter
from warp_like.ir.core import Value
from warp_like.ir.types import Array, Scalar, int16, int32, int64, uint32

GRID = (3, 5)
NUMBERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31), 65536)
TYPES = (int32, int32, int64, uint32, int16)


def expression(b: Emitter, known: list[Value], pick: random.Random) -> Value:
    """One more value, made of values in ``known``."""
    x = pick.choice(known)
    assert isinstance(x.type, Scalar)
    same = [v for v in known if v.type == x.type]
    match pick.randrange(8):
        case 0:
            made = b.cast(x, pick.choice(TYPES))
        case 1:
            made = b.neg(x)
        case 2:
            number = pick.choice(NUMBERS) % (1 << x.type.bits)
            number -= (1 << x.type.bits) if x.type.is_signed and number >= 1 << x.type.bits - 1 else 0
            made = b.apply(pick.choice(("add", "sub", "mul")), x, b.constant(number, x.type))
        case 3:
            y = pick.choice(same)
            (made,) = branch(b, b.lt(x, y), lambda: (x,), lambda: (pick.choice(same),))
        case 4:
            made = b.select(b.lt(x, pick.choice(same)), x, pick.choice(same))
        case _:
            made = b.apply(pick.choice(("add", "sub", "mul", "min")), x, pick.choice(same))
    result: Value = made
    return result


def claimed(index: Index, i: int, j: int, bits: int, first: int) -> int | None:
    """What ``index`` says that thread ``(i, j)`` has, modulo 2 to ``bits``; ``first`` is what the first thread has."""
    flat = GRID[1] * i + j
    threads = {(0, 1): flat, (0, 2): i, (1, 2): j}
    modulus = 1 << bits
    match index:
        case ThreadIndex(axis, ndim, offset):
            return (threads[axis, ndim] + offset) % modulus
        case Affine(terms, offset):
            found = sum(c * threads[axis, ndim] for axis, ndim, c in terms)
            return (found + (first if offset is None else offset)) % modulus
        case Uniform(value):
            return (first if value is None else value) % modulus
    return None


@pytest.mark.parametrize("seed", range(30))
def test_random_expressions(seed: int) -> None:
    pick = random.Random(seed)
    f, b = start(out=Array(int64, 3), n=int32, m=int64)
    out, n, m = f.params
    known = [tid(b, 0, 1), tid(b, 0, 2), tid(b, 1, 2), n, m, b.constant(2, int32)]
    row, column = known[1], known[2]
    given = len(known)
    for _ in range(20):
        known.append(expression(b, known, pick))
    for k, v in enumerate(known):
        b.store(out, [row, column, b.constant(k, int32)], b.cast(v, int64))
    b.yield_()
    indices = Indices(f)
    got = np.zeros((*GRID, len(known)), np.int64)
    run(f, [got, pick.choice((5, 2**31 - 2)), pick.choice((-3, 2**40))], GRID)
    classes = [indices.of(v) for v in known]
    for k, (v, found) in enumerate(zip(known, classes, strict=True)):
        assert isinstance(v.type, Scalar)
        first = int(got[0, 0, k])  # where all thread indices are 0: the constant part
        for i, j in np.ndindex(*GRID):
            wanted = claimed(found, i, j, v.type.bits, first)
            assert wanted is None or wanted == int(got[i, j, k]) % (1 << v.type.bits), (seed, k, found)
    assert sum(isinstance(c, (ThreadIndex, Affine, Uniform)) for c in classes) >= given  # it is no test of nothing


def test_counters_of_loops_agree_in_the_same_iteration() -> None:
    f, b = start(out=Array(int32, 2), n=int32)
    out, n = f.params
    i = tid(b)
    with loop(b, 2, n, 3) as body:
        moved = b.add(b.mul(body.i, body.i), i)
        b.store(out, [i, body.i], moved)
    b.yield_()
    assert Indices(f).of(moved) == Affine(((0, 1, 1),), None, True)
    got = np.full((4, 12), -1, np.int32)
    run(f, [got, 12], (4,))
    for k in range(2, 12, 3):
        np.testing.assert_array_equal(got[:, k] - got[0, k], np.arange(4))
