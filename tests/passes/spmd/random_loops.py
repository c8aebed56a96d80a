"""Random functions of one thread with loops that may run in lanes; ``check(seed)`` compares both ways.

The loops read and write arrays of the thread's own, and read arguments, at indices of many kinds: of this iteration,
of others, of several. What would go wrong in lanes has to be refused, so most programs have something that must not be
done, or only barely may. The numbers are such that all sums are exact, and everything is compared to the last bit.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tests.backend.running import Kernel
from tests.interpreter import run
from tests.ir_builder import branch, loop, start, tid
from tests.lane_interpreter import run_lanes
from warp_like.backend.target import Options
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Lanes, Scalar, Type, bool_, float32, float64, int32, int64, uint32
from warp_like.ir.verify import verify
from warp_like.passes.cse import cse
from warp_like.passes.expand import expand
from warp_like.passes.spmd.consecutive import load_consecutively
from warp_like.passes.spmd.join_accesses import join_accesses
from warp_like.passes.spmd.widen_loops import widen_loops

T = TypeVar("T")

THREADS = 3
STEPS = (2, 3, 4, 5)
"""How far iterations are from each other in arrays of which each has several neighbours."""
DEPTH = 3
"""The extent of the second dimension of arrays, and of the rows in flat ones."""
PARAMS: dict[str, Type] = {
    "x": Array(float32, 1),
    "n": Array(int32, 1),
    "m": Array(float32, 2),
    "d": Array(float64, 1),
    "s": int32,
}
SCALARS = (float32, int32, bool_, float64, int64, uint32)


class _Maker:
    """Appends random statements; ``pool`` holds the values in scope, ``own`` the arrays of the thread's own."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.columns = self.pick([4, 5, 8, 12, 16, 17, 21, 32, 33, 40])
        self.calls = self.r.random() < 0.3
        self.step, self.kinds = self.pick(STEPS), ["flat", "flat", "long", "rows", "columns"]
        if self.r.random() < 0.5:
            self.kinds += ["wide"] * 8
        out = {"f": Array(float32, 2), "i": Array(int32, 2)}
        self.f, self.b = start("loops", **PARAMS, **out)
        self.arguments = dict(zip([*PARAMS, *out], self.f.params, strict=True))
        self.pool: list[Value] = [self.arguments["s"], tid(self.b)]
        self.own: list[tuple[Value, str]] = []
        self.column: Value
        self.counter = self.pick([int32, int32, int32, int64, uint32])
        self.depth: list[Value] = []

    def pick(self, options: Sequence[T]) -> T:
        return options[self.r.randrange(len(options))]

    def function(self) -> Function:
        """The whole function."""
        for _ in range(self.r.randint(1, 3)):
            self.make_own()
        for _ in range(self.r.randint(1, 2)):
            self.simd_loop()
        self.copy_out()
        self.b.yield_()
        return self.f

    def make_own(self) -> None:
        t = self.pick([float32, float32, int32])
        kind = self.pick(self.kinds)
        n = self.columns
        shape = {"flat": (n,), "long": (DEPTH * n + DEPTH,), "rows": (DEPTH, n), "columns": (n, DEPTH)}.get(kind)
        shape = shape or (STEPS[-1] * n + STEPS[-1],)
        array = self.b.insert(ops.LocalArray(shape), Array(t, len(shape))).result
        self.own.append((array, kind))

    def copy_out(self) -> None:
        """Store all elements of the own arrays, one after the other, in the thread's row."""
        thread, at = tid(self.b), {"f": 0, "i": 0}
        for array, _ in self.own:
            t = array.type
            assert isinstance(t, Array)
            name = "i" if t.dtype == int32 else "f"
            assert isinstance(array.op, ops.LocalArray)
            rows, cols = array.op.shape if t.ndim == 2 else (1, array.op.shape[0])
            with loop(self.b, 0, rows) as outer, loop(self.b, 0, cols) as inner:
                place = self.b.add(self.b.add(self.b.mul(outer.i, cols), inner.i), at[name])
                element = self.b.load(array, [outer.i, inner.i] if t.ndim == 2 else [inner.i])
                self.b.store(self.arguments[name], [thread, place], element)
            at[name] += rows * cols

    def simd_loop(self) -> None:
        self.column = Value(self.counter, "j")
        outside = list(self.pool)
        with self.b.into(Block([self.column])) as body:
            self.pool.append(self.column)
            if self.calls:
                x = self.b.load(self.arguments["x"], [self.inside(self.columns)])
                self.pool.append(self.b.exp(x))
            self.statements(self.r.randint(2, 9), 0)
            array, kind = self.pick(self.own)
            self.store(array, kind)
            self.b.yield_()
        bounds = [self.b.constant(k, self.counter) for k in (0, self.columns, 1)]
        self.b.for_(*bounds, (), body, simd=not self.calls or self.r.random() < 0.5)
        self.pool = outside

    # --- values -------------------------------------------------------------------------------------------------

    def some(self, t: Scalar) -> Value:
        known = [v for v in self.pool if v.type == t]
        if known and self.r.random() < 0.8:
            return self.pick(known[-5:])
        if t == int32 and self.r.random() < 0.7:
            return self.b.cast(self.column, int32)
        return self.b.constant(self.pick([True, False] if t.is_bool else [0, 1, 2, 3]), t)

    def inside(self, extent: int) -> Value:
        """Some index that is in range."""
        i = self.some(int32)
        return self.b.apply("mod", self.b.bit_and(i, 0xFFFF), extent)

    def of_column(self, scale: int = 1) -> Value:
        """An index in ``columns`` places that this iteration alone has, or nearly so."""
        j = self.b.cast(self.column, self.pick([int32, int64])) if self.r.random() < 0.4 else self.column
        last = self.b.sub(self.b.constant(self.columns - 1, j.type), j)  # type: ignore[arg-type]
        kind = self.r.random()
        if kind < 0.72:
            return j
        if kind < 0.84:
            return last
        if kind < 0.92:
            return self.b.apply("mod", self.b.add(j, self.r.randint(1, 4)), self.columns)
        return self.b.select(self.b.gt(j, 0), self.b.sub(j, 1), j)

    def place(self, array: Value, kind: str) -> list[Value]:
        """Where in an own array."""
        if self.r.random() < 0.08:
            assert isinstance(array.op, ops.LocalArray)
            return [self.inside(n) for n in array.op.shape]
        j = self.of_column()
        k = self.pick(self.depth) if self.depth and self.r.random() < 0.7 else self.b.index(self.r.randrange(DEPTH))
        if kind == "rows":
            return [k, j]
        if kind == "columns":
            return [j, k]
        if kind == "flat":
            return [j]
        if kind == "wide":
            return [self.b.add(self.b.mul(j, self.step), self.r.randrange(self.step))]
        t = j.type
        assert isinstance(t, Scalar)
        k = k if k.type == t else self.b.cast(k, t)
        factor, other = self.pick([(DEPTH, 1), (1, self.columns), (2, 1), (1, 1), (DEPTH, 1)])
        return [self.b.add(self.b.mul(j, factor), self.b.mul(k, other))]

    # --- statements ---------------------------------------------------------------------------------------------

    def statements(self, count: int, depth: int) -> None:
        kinds: list[Callable[[int], None]] = [self.arithmetic] * 3 + [self.compare, self.convert]
        kinds += [self.load_argument, self.load_own, self.load_own, self.store_own, self.store_own]
        kinds += [self.if_, self.for_, self.for_, self.again] if depth < 3 else []
        kinds += [self.neighbours] * 6 if any(kind == "wide" for _, kind in self.own) else []
        for _ in range(count):
            self.pick(kinds)(depth)

    def scoped(self, count: int, depth: int, types: Sequence[Scalar], params: Sequence[Value]) -> tuple[Value, ...]:
        outside, self.pool = self.pool, [*self.pool, *params]
        self.statements(self.r.randint(0, count), depth)
        values = tuple(self.some(t) for t in types)
        self.pool = outside
        return values

    def arithmetic(self, depth: int) -> None:
        t = self.pick([s for s in SCALARS if s != bool_])
        fns = ["add", "sub", "min", "max", *(["mul"] if depth == 0 else [])]
        fns += ["bit_and", "bit_xor", "rshift", "floordiv", "mod"] if t.is_int else []
        self.pool.append(self.b.apply(self.pick(fns), self.some(t), self.some(t)))

    def compare(self, depth: int) -> None:
        t = self.pick([float32, int32, int32, int64])
        found = self.b.apply(self.pick(["lt", "le", "gt", "eq", "ne"]), self.some(t), self.some(t))
        self.pool.append(found)
        u = self.pick([float32, int32])
        self.pool.append(self.b.select(found, self.some(u), self.some(u)))

    def convert(self, depth: int) -> None:
        self.pool.append(self.b.cast(self.some(self.pick(SCALARS)), self.pick(SCALARS)))

    def again(self, depth: int) -> None:
        """The thread's own index, asked for once more; or an extent."""
        self.pool.append(tid(self.b) if self.r.random() < 0.7 else self.b.dim(self.arguments["m"], 0))

    def load_argument(self, depth: int) -> None:
        name = self.pick(["x", "n", "m", "d"])
        at = self.pick([self.of_column, lambda: self.inside(self.columns)])()
        indices = [at, self.inside(DEPTH)] if name == "m" else [at]
        if name == "m" and self.r.random() < 0.3:
            self.pool.append(self.b.load(self.b.view(self.arguments["m"], [at]), [self.inside(DEPTH)]))
            return
        self.pool.append(self.b.load(self.arguments[name], indices))

    def load_own(self, depth: int) -> None:
        array, kind = self.pick(self.own)
        self.pool.append(self.b.load(array, self.place(array, kind)))

    def store_own(self, depth: int) -> None:
        self.store(*self.pick(self.own))

    def store(self, array: Value, kind: str) -> None:
        t = array.type
        assert isinstance(t, Array)
        assert isinstance(t.dtype, Scalar)
        place, value = self.place(array, kind), self.some(t.dtype)
        if len(place) == 2 and self.r.random() < 0.2:
            self.b.store(self.b.view(array, place[:1]), place[1:], value)
        else:
            self.b.store(array, place, value)

    def neighbours(self, depth: int) -> None:
        """Load or store elements that follow on each other; now and then something else happens between."""
        array, _ = self.pick([own for own in self.own if own[1] == "wide"])
        t, j = array.type, self.of_column()
        assert isinstance(t, Array)
        assert isinstance(t.dtype, Scalar)
        first, stores, order = self.b.mul(j, self.step), self.r.random() < 0.5, list(range(self.step))
        if self.r.random() < 0.1:
            self.r.shuffle(order)
        begin = 0 if self.r.random() < 0.9 else self.r.randrange(STEPS[-1] - max(order))
        for k in order:
            at = self.b.add(first, begin + k)
            if stores:
                self.b.store(array, [at], self.some(t.dtype))
            else:
                self.pool.append(self.b.load(array, [at]))
            if self.r.random() < 0.15:
                other = [self.b.add(first, self.r.randrange(self.step))]
                if self.r.random() < 0.5:
                    self.b.store(array, other, self.some(t.dtype))
                else:
                    self.pool.append(self.b.load(array, other))

    def if_(self, depth: int) -> None:
        types = [self.pick([float32, int32, bool_]) for _ in range(self.r.randint(0, 2))]
        sides = [lambda: self.scoped(3, depth + 1, types, [])] * 2
        self.pool += branch(self.b, self.some(bool_), *sides)

    def for_(self, depth: int) -> None:
        types = [self.pick([float32, float32, int32]) for _ in range(self.r.randint(0, 3))]
        bounds: Any = self.pick([(0, DEPTH, 1), (0, DEPTH, 1), (DEPTH - 1, -1, -1), (0, 2, 1), (1, 3, 2), None])
        if bounds is None:
            bounds = self.inside(2), self.inside(DEPTH + 1), 1
        with loop(self.b, *bounds, init=[self.some(t) for t in types]) as body:
            self.depth.append(body.i)
            body.next = self.scoped(4, depth + 1, types, [body.i, *body.carried])
            self.depth.pop()
        self.pool += body.results


class Loops(NamedTuple):
    """A function, what ``widen_loops`` made of it, and how many columns its loops have."""

    function: Function
    wide: Function
    columns: int


def loops(seed: int) -> Loops:
    """A random function of which something may run in lanes: the first one of those of this seed."""
    for k in itertools.count(seed * 1000):
        m = _Maker(k)
        f = expand(m.function())
        verify(f)
        wide = widen_loops(clone_function(f), m.pick([128, 256, 512]), m.pick([16, 32]))
        verify(wide)
        if any(isinstance(r.type, Lanes) for o in wide.body.walk() for r in o.results):
            return Loops(f, wide, m.columns)
    raise AssertionError


def arguments(columns: int, seed: int = 0) -> list[Any]:
    """Arguments for a function of ``loops``."""
    rng = np.random.default_rng(seed)
    x, m, d = (rng.integers(-8, 9, shape) / 4 for shape in (columns, (columns, DEPTH), columns))
    n = rng.integers(-3, 40, columns).astype(np.int32)
    room = 3 * STEPS[-1] * (columns + 1)
    out = [np.zeros((THREADS, room), np.float32), np.zeros((THREADS, room), np.int32)]
    return [x.astype(np.float32), n, m.astype(np.float32), d, 2, *out]


def check(seed: int, compiled: bool = True) -> None:
    """Compare a random function with what ``widen_loops`` makes of it, interpreted and compiled."""
    f, wide, columns = loops(seed)
    load_consecutively(wide)
    cse(wide)
    join_accesses(wide)
    verify(wide)
    expected, got = arguments(columns, seed), arguments(columns, seed)
    run(f, expected, (THREADS,))
    run_lanes(wide, got, (THREADS,))
    for a, b in zip(expected[-2:], got[-2:], strict=True):
        np.testing.assert_array_equal(b, a, err_msg=f"seed {seed}\n{print_function(f)}\n{print_function(wide)}")
    if not compiled or "exp" in {o.fn for o in f.body.walk() if isinstance(o, ops.Apply)}:
        return  # whose results differ in the last bit
    args = arguments(columns, seed)
    Kernel(wide, Options(contiguous=bool(seed % 2), fuse_fp=False, vector_math=False))(args, (THREADS,))
    for a, b in zip(expected[-2:], args[-2:], strict=True):
        np.testing.assert_array_equal(b, a, err_msg=f"seed {seed}\n{print_function(wide)}")
