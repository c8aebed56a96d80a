"""A thread sees its own stores, however it names the element: as one array or another, by one index or another.

The programs below give each thread three elements of its own and reach them in ways that only coincide at run time. The
oracle is the interpreter, which runs one thread after the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.backend.running import Kernel, compare
from tests.interpreter import run
from tests.ir_builder import branch, loop, start, tid
from tests.long_tail import seeds
from warp_like.backend.target import Options
from warp_like.builtins.emit import Emitter
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.types import Array, Vec, float32, int32
from warp_like.passes.pipeline import finish, optimise, prepare
from warp_like.passes.spmd.widen import widen

N = 83
VEC = Vec(3, float32)
EXACT = Options(fuse_fp=False, vector_math=False, contiguous=True)


class Program:
    """A random function; thread ``i`` owns the elements ``3 * i + c`` of the memory that four parameters share."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.f, self.b = start(
            flat=Array(float32, 1),
            again=Array(float32, 1),
            table=Array(float32, 2),
            vectors=Array(VEC, 1),
            x=Array(float32, 1),
            out=Array(float32, 1),
            own=Array(int32, 1),
            zero=int32,
            one=int32,
            m=int32,
        )
        self.i = tid(self.b)
        *_, self.out, _, _, _, _ = self.f.params

    def function(self) -> Function:
        """The function, of some loads and stores, which adds up in ``out`` what it has seen."""
        b = self.b
        total = b.load(self.f.params[4], [self.i])
        for _ in range(self.random.randrange(4, 11)):
            total = self.step(total)
        b.store(self.out, [self.i], total)
        b.yield_()
        return self.f

    def step(self, total: Value) -> Value:
        b, roll = self.b, self.random.random()
        if roll < 0.1:
            (total,) = branch(b, b.gt(total, 0.5), lambda: (self.access(total),), lambda: (self.access(total),))
            return total
        if roll < 0.2:
            with loop(b, 0, 3, init=[total]) as body:
                body.next = (self.access(body.carried[0], body.i),)
            return body.results[0]
        return self.access(total)

    def access(self, total: Value, slot: Value | None = None) -> Value:
        """Store something, or add what is there to ``total``."""
        b, stores = self.b, self.random.random() < 0.5
        at = self.index()
        if slot is None and self.random.random() < 0.3:
            vectors = self.f.params[3]
            if stores:
                b.store(vectors, [at], b.make(VEC, [b.add(total, float(k)) for k in range(3)]))
                return total
            return b.add(b.mul(total, 0.5), b.extract(b.load(vectors, [at]), self.random.randrange(3)))
        slot = slot or b.constant(self.random.randrange(3), int32)
        array, indices = self.random.choice(self.places())(at, slot)
        if stores:
            b.store(array, indices, b.add(total, float(self.random.randrange(4))))
            return total
        return b.add(b.mul(total, 0.5), b.load(array, indices))

    def places(self) -> list[Callable[[Value, Value], tuple[Value, list[Value]]]]:
        """The ways to name element ``slot`` of the thread's three."""
        flat, again, table, *_ = self.f.params
        b = self.b
        return [
            lambda at, slot: (flat, [b.add(b.mul(at, 3), slot)]),
            lambda at, slot: (again, [b.add(slot, b.mul(3, at))]),
            lambda at, slot: (table, [at, slot]),
        ]

    def index(self) -> Value:
        """The thread's number, in a way that the compiler can see or can't."""
        *_, own, zero, one, m = self.f.params
        b, i = self.b, self.i
        ways: list[Callable[[], Value]] = [
            lambda: i,
            lambda: i,
            lambda: b.add(i, zero),
            lambda: b.mul(i, one),
            lambda: b.sub(m, b.sub(m, i)),
            lambda: b.load(own, [i]),
        ]
        return self.random.choice(ways)()


def arguments(seed: int) -> list[object]:
    """Arguments of which the first four are one memory."""
    rng = np.random.default_rng(seed)
    memory = rng.uniform(0, 1, 3 * N).astype(np.float32)
    table = memory.reshape(N, 3)
    x, out = rng.uniform(0, 1, N).astype(np.float32), np.zeros(N, np.float32)
    return [memory, memory, table, table, x, out, np.arange(N, dtype=np.int32), 0, 1, 7]


@pytest.mark.parametrize("width", [1, 4, 16])
@pytest.mark.parametrize("seed", seeds(16, few=8))
def test_random_programs(seed: int, width: int) -> None:
    f = finish(optimise(prepare(Program(seed).function())))
    wanted = arguments(seed)
    run(f, wanted, (N,))
    for debug in (False, True)[: 1 + (width == 1)]:
        got = arguments(seed)
        Kernel(f if width == 1 else widen(f, width), EXACT.replace(debug=debug))(got, (N,), splits=(1, 20))
        compare(got[5], wanted[5], 1e-6, print_function(f))  # type: ignore[arg-type]
        compare(got[0], wanted[0], 1e-6, print_function(f))  # type: ignore[arg-type]


def interleaved(order: str) -> Function:
    """Loads (``r``, ``R``) and stores (``w``, ``W``) of the elements 0 and 1 of the thread's three, in this order."""
    f, b = start(a=Array(float32, 1), c=Array(float32, 1), x=Array(float32, 1), out=Array(float32, 1), zero=int32)
    a, c, x, out, zero = f.params
    i = tid(b)
    far = b.add(i, zero)
    total: Value = b.load(x, [i])
    for k, letter in enumerate(order):
        slot = int(letter.isupper())
        if letter in "wW":
            b.store(a, [b.add(b.mul(i, 3), slot)], b.add(total, float(k)))
        else:
            total = b.add(b.mul(total, 0.5), b.load(c, [b.add(b.mul(far, 3), slot)]))
    b.store(out, [i], total)
    Emitter(f.body).yield_()
    return f


@pytest.mark.parametrize("order", ["wrWR", "rwWR", "wRrW", "rWwR", "wWrR", "rRwW", "WrwRW", "RwrWR"])
def test_neighbours_that_llvm_would_access_as_one(order: str) -> None:
    f = finish(optimise(prepare(interleaved(order))))
    rng = np.random.default_rng(3)
    memory, x = rng.uniform(0, 1, 3 * N).astype(np.float32), rng.uniform(0, 1, N).astype(np.float32)
    seen = []
    for execute in (lambda args: run(f, args, (N,)), lambda args: Kernel(f, EXACT)(args, (N,))):
        shared, out = memory.copy(), np.zeros(N, np.float32)
        execute([shared, shared, x, out, 0])
        seen.append((shared, out))
    for got, wanted in zip(seen[1], seen[0], strict=True):
        compare(got, wanted, 1e-6)
