"""Random loops of one thread that look for few things among many; ``check(seed)`` compares them sifted and as they are.

Conditions stand in each other, and guard what is read behind them: an element that need not be there, a division, the
place that a root gives. Loops carry numbers and flags, and write memory that conditions may read. Most may be sifted,
or only barely may not. All numbers are exact, and everything is compared to the last bit.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import numpy as np

from tests.backend.running import Kernel
from tests.interpreter import run
from tests.ir_builder import branch, loop, start, tid, while_
from tests.lane_interpreter import run_lanes
from warp_like.backend.target import Options
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Scalar, Type, bool_, float32, float64, int32, int64, uint64
from warp_like.ir.verify import verify
from warp_like.passes.expand import expand
from warp_like.passes.spmd import filter_lists, filter_loops, filter_nests
from warp_like.passes.spmd.filters import find_filters

T = TypeVar("T")

THREADS, EXTENT, ITEMS, ROWS = 3, 7, 60, 6
POINTS = 70
"""How many elements ``x`` has; rows of items that are indices of it go to its end."""
PARAMS: dict[str, Type] = {
    "x": Array(float32, 1),
    "ids": Array(int32, 1),
    "d": Array(float64, 1),
    "table": uint64,
    "s": int32,
    "p": Array(float32, 1),
    "q": Array(float32, 1),
    "out": Array(float32, 2),
}
APART = [list(PARAMS).index("p")]
"""What overlaps no other argument: ``q`` may be ``x``."""


class _Maker:
    """Appends a random loop; ``pool`` holds the values in scope, ``inside`` those that are indices of ``x``."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.f, self.b = start("filtered", **PARAMS)
        self.given = dict(zip(PARAMS, self.f.params, strict=True))
        self.thread = tid(self.b)
        self.pool: list[Value] = [self.given["s"], self.thread]
        self.inside: list[Value] = [self.thread]
        self.carried: list[Value] = []
        self.plain = False  # whether the first condition reads the elements of items alone
        self.own = self.b.insert(ops.LocalArray((EXTENT,)), Array(float32, 1)).result

    def pick(self, options: Sequence[T]) -> T:
        return options[self.r.randrange(len(options))]

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def function(self) -> Function:
        init = [self.b.constant(self.pick([0, 1]), t) for t in self.pick([(), (float32,), (float32, int32), (bool_,)])]
        kind = self.r.random()
        got = (self.over_rows if kind < 0.25 else self.over_nest if kind < 0.6 else self.over_range)(init)
        for k, v in enumerate(got):
            self.b.store(self.given["out"], [self.thread, self.b.index(k)], self.b.cast(v, float32))
        for k in range(EXTENT):
            element = self.b.load(self.own, [self.b.index(k)])
            self.b.store(self.given["out"], [self.thread, self.b.index(k + 2)], element)
        self.b.yield_()
        return self.f

    # --- loops --------------------------------------------------------------------------------------------------

    def over_range(self, init: Sequence[Value]) -> Sequence[Value]:
        high = 2**31 - 1
        lo, hi = self.pick([(0, ITEMS), (0, ITEMS), (-9, 40), (5, 5), (9, 2), (high - 70, high), (0, 1)])
        bounds: list[Any] = [lo, hi]
        if self.chance(0.2):
            bounds = [self.b.add(self.thread, -2), self.b.mul(self.given["s"], 9)]
        with loop(self.b, *bounds, init=init) as body:
            self.carried = list(body.carried)
            self.pool.append(body.i)
            body.next = self.level(body.carried, 0)
        return body.results

    def over_nest(self, init: Sequence[Value], depth: int = 0) -> Sequence[Value]:
        """Loops and branches around such a loop, which mostly only lead there."""
        if depth == 3 or (depth and self.chance(0.3)):
            return self.over_range(init)
        pool, inside = list(self.pool), list(self.inside)
        if self.chance(0.4):
            cond = self.condition()

            def leads() -> tuple[Value, ...]:
                return self.lead(init, depth)

            def passes() -> tuple[Value, ...]:
                self.pool, self.inside, self.carried = list(pool), list(inside), list(init)
                return tuple(init) if self.chance(0.95) else tuple(map(self.next, init))

            got: Sequence[Value] = branch(self.b, cond, *((leads, passes) if self.chance(0.7) else (passes, leads)))
        else:
            bounds = self.pick([(0, 3, 1), (-1, 2, 1), (5, -1, -2), (0, 7, 3), (1, 1, 1), (0, 5, 1)])
            with loop(self.b, *bounds, init=init) as body:
                self.pool.append(body.i)
                body.next = self.lead(body.carried, depth)
            got = body.results
        self.pool, self.inside = pool, inside
        return got

    def lead(self, carried: Sequence[Value], depth: int) -> tuple[Value, ...]:
        """Statements, and the next level."""
        self.carried = list(carried)
        for _ in range(self.r.randint(0, 2)):
            self.statement()
        if self.chance(0.05):
            self.do()
        pool = list(self.pool)
        got = tuple(self.over_nest(carried, depth + 1))
        self.pool, self.carried = pool, list(carried)
        return got if self.chance(0.95) else tuple(map(self.next, got))

    def over_rows(self, init: Sequence[Value]) -> Sequence[Value]:
        """As a hash grid's: ``table`` has the starts of the rows, then their items.

        Behind this is another table, of items that mostly follow on each other, and all are indices of ``x``.
        """
        b, size = self.b, self.b.constant(len(TABLE), int64)
        points = self.chance(0.6)
        header = FIRST_OF_POINTS if points else 0
        self.plain = points and self.chance(0.6)

        def at(i: Value) -> Value:
            made = ops.AtAddress(self.given["table"], (size,), constant=True)
            return b.load(b.insert(made, Array(int32, 1)).result, [i])

        def body(row: Value, first: Value, end: Value, *carried: Value) -> tuple[Value, ...]:
            with loop(b, first, end, init=carried) as inner:
                self.carried = list(inner.carried)
                item = at(inner.i)
                self.pool.append(item)
                if points:
                    self.pool.append(b.load(self.given["x"], [item]))
                inner.next = self.level(inner.carried, 0)
            after = b.add(row, 1)
            return (after, at(after), at(b.add(after, ROWS)), *inner.results)

        state = [b.index(header), at(b.index(header)), at(b.index(header + ROWS))]
        return while_(b, [*state, *init], lambda row, *_: b.lt(row, header + ROWS), body)[3:]

    def level(self, kept: Sequence[Value], depth: int) -> tuple[Value, ...]:
        """Statements and a branch that ends them; return what is carried on."""
        pool, inside = list(self.pool), list(self.inside)
        plain = self.plain and not depth
        for _ in range(0 if plain else self.r.randint(1, 4)):
            self.statement()
        if depth == 3 or (depth and self.chance(0.3)):
            found = self.do()
        else:
            found = self.branch(kept, depth)
        self.pool, self.inside = pool, inside
        return found

    def branch(self, kept: Sequence[Value], depth: int) -> tuple[Value, ...]:
        cond, side, valid = (
            self.guard()
            if self.chance(0.45) and (depth or not self.plain)
            else (self.condition(), self.chance(0.7), None)
        )

        def found() -> tuple[Value, ...]:
            pool, inside = list(self.pool), list(self.inside)
            if valid is not None:
                self.inside.append(valid)
                self.pool.append(self.b.load(self.given["x"], [valid]))
            made = self.level(kept, depth + 1) if self.chance(0.6) or depth == 0 else self.do()
            self.pool, self.inside = pool, inside
            return made

        def otherwise() -> tuple[Value, ...]:
            return tuple(kept) if self.chance(0.95) else self.do()

        return branch(self.b, cond, found, otherwise) if side else branch(self.b, cond, otherwise, found)

    # --- conditions ---------------------------------------------------------------------------------------------

    def guard(self) -> tuple[Value, bool, Value]:
        """A condition, for which side of it an integer is an index of ``x``, and the integer."""
        b, kind = self.b, self.r.randrange(4)
        if kind == 0:
            i = b.add(self.some(int32), self.r.randint(-5, 5))
            return b.bit_and(b.ge(i, 0), b.lt(i, EXTENT)), True, i
        if kind == 1:
            i = self.some(int32)
            return b.bit_or(b.lt(i, 0), b.ge(i, EXTENT)), False, i
        t = self.pick([float32, float64])
        root, most = b.sqrt(self.some(t)), b.constant(self.pick([1.0, 2.0, float(EXTENT)]), t)
        scaled = b.sub(b.cast(root, int32), 0)  # 0 for what is no number
        return (b.lt(root, most), True, scaled) if kind == 2 else (b.ge(root, most), False, scaled)

    def condition(self) -> Value:
        b, kind = self.b, self.r.random()
        flags = [v for v in self.carried if v.type == bool_]
        if flags and kind < 0.3:
            return flags[0]
        if kind < 0.25:
            return b.apply(self.pick(["lt", "ne", "ge"]), self.some(int32), self.some(int32))
        t = self.pick([float32, float32, float64])
        left, right = self.polynomial(t), self.pick([self.some(t), b.constant(self.pick([0.0, 2.0, -1.0]), t)])
        if self.chance(0.3):
            left = b.sqrt(left)
        fn = self.pick(["lt", "le", "gt", "ge", "eq"])
        return b.apply(fn, left, right) if self.chance(0.7) else b.apply(fn, right, left)

    def polynomial(self, t: Scalar) -> Value:
        """Several sums and products, all exact, or infinite or none."""
        b, total = self.b, self.some(t)
        for _ in range(self.r.randint(2, 6)):
            total = b.add(total, b.mul(self.some(t), self.some(t))) if self.chance(0.5) else b.sub(total, self.some(t))
        return b.apply("min", b.apply("max", total, self.some(t)), b.constant(64.0, t)) if self.chance(0.5) else total

    # --- statements ---------------------------------------------------------------------------------------------

    def some(self, t: Scalar) -> Value:
        known = [v for v in self.pool if v.type == t]
        if self.chance(0.04):
            known = [v for v in self.carried if v.type == t] or known
        if known and self.chance(0.85):
            return self.pick(known[-5:])
        return self.b.constant(self.pick([0, 1, 2, 3]), t)

    def index(self) -> Value:
        """Some index of ``x``."""
        if self.chance(0.4):
            return self.pick(self.inside[-3:])
        return self.b.apply("mod", self.b.bit_and(self.some(int32), 0xFFFF), EXTENT)

    def statement(self) -> None:
        b, kind = self.b, self.r.randrange(8)
        if kind < 3:
            name = self.pick(["x", "x", "x", "p", "q"])
            self.pool.append(b.load(self.given[name], [self.index()]))
        elif kind == 3:
            self.pool.append(b.load(self.given["ids"], [self.index()]))
        elif kind == 4:
            self.pool.append(b.load(self.pick([self.own, self.given["d"]]), [self.index()]))
        elif kind == 5:
            again = tid(b) if self.chance(0.5) else b.cast(self.some(float32), int32)
            self.pool.append(again)
        elif kind == 6:
            t = self.pick([int32, float32, float64])
            self.pool.append(b.apply(self.pick(["add", "sub", "min"]), self.some(t), self.some(t)))
        else:
            cond = b.gt(self.some(int32), 0)
            self.pool += branch(
                b, cond, lambda: (b.load(self.given["x"], [self.index()]),), lambda: (self.some(float32),)
            )

    def do(self) -> tuple[Value, ...]:
        """Write something, and return what is carried on."""
        b = self.b
        for _ in range(self.r.randint(0, 2)):
            value = self.some(float32)
            target = self.pick(["own", "own", "p", "p", "q"])
            if target == "own":
                b.store(self.own, [self.index()], value)
            else:
                place = self.thread if self.chance(0.7) else self.index()
                b.store(self.given[target], [place], value)
        return tuple(self.next(v) for v in self.carried)

    def next(self, v: Value) -> Value:
        b, t = self.b, v.type
        assert isinstance(t, Scalar)
        if t == bool_:
            return b.apply(self.pick(["lt", "ge"]), self.some(float32), self.some(float32))
        return b.apply("min", b.add(v, self.some(t)), b.constant(500, t))


class Filtered(NamedTuple):
    """A function, and what ``filter_loops`` made of it."""

    function: Function
    filtered: Function


def filtered(seed: int) -> Filtered:
    """A random function of which a loop is sifted: the first one of those of this seed."""
    for k in itertools.count(seed * 1000):
        m = _Maker(k)
        f = expand(m.function())
        verify(f)
        if find_filters(f, APART):
            bits, gathers = m.pick([256, 512]), m.chance(0.7)
            made = filter_loops.filter_loops(clone_function(f), bits, APART, gathers=gathers)
            verify(made)
            return Filtered(f, made)
    raise AssertionError


def _table() -> np.ndarray:
    """Rows of items: where they start, where they end, one before it starts, and the items."""
    sizes = [0, 33, 1, 16, 0, 9]
    starts = 2 * ROWS + 2 + np.cumsum([0, *sizes])
    items = np.random.default_rng(0).integers(-4, 12, sum(sizes))
    ends = [*starts[1:], starts[-1]]
    ends[4] -= 30
    return np.array([*starts[:ROWS], *ends[:ROWS], 0, 0, *items], np.int32)


def _table_of_points(begin: int) -> np.ndarray:
    """Rows as they stand behind ``begin`` words. One is left by its last item, one goes to the last point."""
    rows = [[*range(2, 22)], [*range(10, 43)], [], [*range(5, 17), 3], [5, 5, 6, 1], [*range(POINTS - 16, POINTS)]]
    starts = begin + 2 * ROWS + np.cumsum([0, *map(len, rows)])
    return np.array([*starts[:-1], *starts[1:], *itertools.chain(*rows)], np.int32)


TABLE = _table()
FIRST_OF_POINTS = len(TABLE)
TABLE = np.concatenate([TABLE, _table_of_points(FIRST_OF_POINTS)])


def arguments(seed: int) -> list[Any]:
    """Arguments for a function of ``filtered``."""
    rng = np.random.default_rng(seed)
    x, d, p, q = (rng.integers(-8, 9, EXTENT) / 2 for _ in range(4))
    x[seed % EXTENT] = [np.nan, np.inf, -np.inf, -0.0, 3.0][seed % 5]
    x = np.concatenate([x, rng.integers(-8, 9, POINTS - EXTENT) / 2])
    ids = rng.integers(-12, 20, EXTENT).astype(np.int32)
    floats = [v.astype(np.float32) for v in (x, p, q)]
    out = np.zeros((THREADS, EXTENT + 2), np.float32)
    return [floats[0], ids, d, TABLE.ctypes.data, 2, *floats[1:], out]


def check(seed: int, compiled: bool = True) -> None:
    """Compare a random function with what ``filter_loops`` makes of it, interpreted and compiled."""
    with mock.patch.object(filter_lists, "LISTED", 32), mock.patch.object(filter_nests, "ROWS", 3):
        f, made = filtered(seed)
    expected, got = arguments(seed), arguments(seed)
    run(f, expected, (THREADS,))
    run_lanes(made, got, (THREADS,))
    text = f"seed {seed}\n{print_function(f)}\n{print_function(made)}"
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(b, a, err_msg=text)
    if compiled:
        got = arguments(seed)
        Kernel(made, Options(contiguous=bool(seed % 2), fuse_fp=False, vector_math=False))(got, (THREADS,))
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(b, a, err_msg=text)
