"""Integer ranges: what is proven of a value holds in every run, and what cannot wrap never does; against Python."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.interpreter import _Thread
from tests.ir_builder import branch, loop, start, tid, while_
from tests.lane_interpreter import _Vector
from warp_like.analysis.intervals import exact_result, type_range, within
from warp_like.analysis.ranges import Ranges, find_ranges
from warp_like.base.contract import MAX_NARROW
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import INTS, Array, Lanes, Scalar, bool_, float32, int8, int32, int64, lane_type, uint8, uint32
from warp_like.ir.verify import verify
from warp_like.passes.spmd.widen import widen

BINARY = ("add", "sub", "mul", "div", "mod", "min", "max", "bit_and", "bit_or", "bit_xor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
EXACT: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "div": lambda a, b: 0 if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1),
}


def edge_number(rng: random.Random, t: Scalar) -> int:
    """A number at which something may happen: small, or near an end of ``t``."""
    low, high = type_range(t)
    near = rng.choice([0, 0, low, high, high // 2])
    return min(max(near + rng.randint(-4, 4), low), high)


class Maker:
    """Appends random statements on integers of all types; ``pool`` has the values in scope."""

    def __init__(self, rng: random.Random, b: Emitter, pool: list[Value]) -> None:
        self.rng, self.b, self.pool = rng, b, pool

    def pick(self, t: Scalar) -> Value:
        found = [v for v in self.pool if v.type == t]
        if not found or self.rng.random() < 0.3:
            return self.b.constant(edge_number(self.rng, t), t)
        return self.rng.choice(found[-6:])

    def compared(self) -> Value:
        t = self.rng.choice(INTS)
        cond = self.b.apply(self.rng.choice(COMPARISONS), self.pick(t), self.pick(t))
        for _ in range(self.rng.randint(0, 2)):
            other = self.b.apply(self.rng.choice(COMPARISONS), self.pick(t), self.pick(t))
            cond = self.b.apply(self.rng.choice(["bit_and", "bit_or"]), cond, other)
        return self.b.unot(cond) if self.rng.random() < 0.3 else cond

    def some(self, t: Scalar) -> Value:
        kind = self.rng.randrange(8)
        if kind == 0:
            return self.b.cast(self.pick(self.rng.choice(INTS)), t)
        if kind == 1:
            return self.b.apply(self.rng.choice(["neg", "invert"]), self.pick(t))
        if kind == 2:
            return self.b.select(self.compared(), self.pick(t), self.pick(t))
        return self.b.apply(self.rng.choice(BINARY), self.pick(t), self.pick(t))

    def statement(self, depth: int) -> None:
        kind = self.rng.randrange(10)
        if kind == 0 and depth:
            self.if_(depth - 1)
        elif kind == 1 and depth:
            self.for_(depth - 1)
        elif kind == 2 and depth:
            self.while_(depth - 1)
        else:
            self.pool.append(self.some(self.rng.choice(INTS)))

    def inside(self, depth: int, types: list[Scalar], *params: Value) -> tuple[Value, ...]:
        """Some statements with ``params`` in scope; values of ``types`` that they make."""
        before = list(self.pool)
        self.pool += params
        for _ in range(self.rng.randint(1, 5)):
            self.statement(depth)
        made = tuple(self.some(t) for t in types)
        self.pool[:] = before
        return made

    def types(self) -> list[Scalar]:
        return [self.rng.choice(INTS) for _ in range(self.rng.randint(1, 3))]

    def if_(self, depth: int) -> None:
        types = self.types()
        self.pool += branch(self.b, self.compared(), *[lambda: self.inside(depth, types)] * 2)

    def for_(self, depth: int) -> None:
        t, types = self.rng.choice(INTS), self.types()
        lo, step = self.pick(t), self.rng.choice([1, 1, 2, 7, *([-1, -3] if t.is_signed else [])])
        hi = self.b.add(lo, self.b.constant(step * self.rng.randint(0, 3), t))  # if that wraps, it is behind lo
        with loop(self.b, lo, hi, self.b.constant(step, t), [self.pick(s) for s in types]) as body:
            body.next = self.inside(depth, types, body.i, *body.carried)
        self.pool += body.results

    def while_(self, depth: int) -> None:
        types = self.types()

        def cond(n: Value, *carried: Value) -> Value:
            self.pool += carried
            found = self.b.bit_and(self.b.lt(n, 3), self.compared())
            del self.pool[-len(carried) :]
            return found

        def body(n: Value, *carried: Value) -> tuple[Value, ...]:
            return (self.b.add(n, 1), *self.inside(depth, types, n, *carried))

        self.pool += while_(self.b, [self.b.index(0), *map(self.pick, types)], cond, body)


def random_function(seed: int) -> Function:
    f, b = start("ranges", **{str(t): t for t in INTS})
    maker = Maker(random.Random(seed), b, [*f.params, tid(b)])
    for _ in range(25):
        maker.statement(3)
    b.yield_()
    verify(f)
    return f


class Checking(_Thread):
    """Compares each integer that a run computes with what ``ranges`` says of it."""

    def __init__(self, ranges: list[Ranges], thread: int) -> None:
        super().__init__((thread,), (3,), [], [100_000])
        self.ranges = ranges
        self.proven = 0

    def execute(self, o: Op, env: dict[Value, Any]) -> list[Any]:
        given = {v: env[v] for v in o.operands()}
        results = super().execute(o, env)
        for v, x in zip(o.results, results, strict=True):
            self.check(v, x)
        if isinstance(o, (ops.Apply, ops.Cast)) and o.result.type in INTS:
            for ranges in self.ranges:
                if ranges.cannot_wrap(o):
                    self.check_exact(o, [given[v] for v in o.operands()], int(results[0]))
        return results

    def enter(self, b: Block, env: dict[Value, Any], values: Any) -> list[Any]:
        for p, x in zip(b.params, values, strict=True):
            self.check(p, x)
        return super().enter(b, env, values)

    def check(self, v: Value, x: Any) -> None:
        for ranges in self.ranges:
            if v.type in INTS:
                low, high = ranges.of(v)
                assert low <= int(x) <= high, v
                self.proven += (low, high) != type_range(v.type)  # type: ignore[arg-type]

    def check_exact(self, o: Op, args: list[Any], got: int) -> None:
        if isinstance(o, ops.Cast):
            assert int(args[0]) == got
        elif isinstance(o, ops.Apply) and o.fn in EXACT:
            assert EXACT[o.fn](*map(int, args)) == got, o.fn


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_stay_in_their_ranges(seed: int) -> None:
    f = random_function(seed)
    rng, proven = random.Random(seed), 0
    ranges = [find_ranges(f), Ranges()]
    with np.errstate(all="ignore"):
        for run in range(4):
            machine = Checking(ranges, run % 3)
            machine.call(f, [np.dtype(str(t)).type(edge_number(rng, t)) for t in INTS])
            proven += machine.proven
    assert proven > 100


class CheckingLanes(_Vector):
    """Compares each integer of each lane with what ``ranges`` says of it, also in lanes that have no thread."""

    def __init__(self, ranges: list[Ranges], width: int, active: int) -> None:
        super().__init__((0,), (width,), width, active, [], [100_000])
        self.ranges = ranges
        self.proven = 0

    def execute(self, o: Op, env: dict[Value, Any]) -> list[Any]:
        results = super().execute(o, env)
        for v, x in zip(o.results, results, strict=True):
            self.check(v, x)
        return results

    def enter(self, b: Block, env: dict[Value, Any], values: Any) -> list[Any]:
        for p, x in zip(b.params, values, strict=True):
            self.check(p, x)
        return super().enter(b, env, values)

    def check(self, v: Value, x: Any) -> None:
        t = lane_type(v.type)
        for ranges in self.ranges if t in INTS else ():
            low, high = ranges.of(v)
            for one in x if isinstance(v.type, Lanes) else (x,):
                assert low <= int(one) <= high, v
            self.proven += isinstance(v.type, Lanes) and (low, high) != type_range(t)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_stay_in_their_ranges_in_lanes(seed: int) -> None:
    f = widen(random_function(seed), 4)
    rng, proven = random.Random(seed), 0
    ranges = [find_ranges(f), Ranges()]
    with np.errstate(all="ignore"):
        for active in (4, 3):
            machine = CheckingLanes(ranges, 4, active)
            machine.call(f, [np.dtype(str(t)).type(edge_number(rng, t)) for t in INTS])
            proven += machine.proven
    assert proven > 10


def test_how_far_lanes_reach() -> None:
    """The most iterations of a loop whose bound differs between lanes, as ``widen`` counts them."""
    f, b = start(out=Array(int32, 1), n=int32)
    i = tid(b)
    for bound in (b.mod(i, 5), b.sub(b.min(i, 7), 3), f.params[1]):
        with loop(b, b.index(-1), b.sub(bound, 1), b.index(1)) as body:
            b.store(f.params[0], [i], body.i)
    b.yield_()
    lanes = widen(f, 8)
    ranges = find_ranges(lanes)
    bounds = [ranges.of(o.hi) for o in lanes.body.walk() if isinstance(o, ops.For)]
    assert bounds == [(0, 4), (0, 4), type_range(int32)]


def test_arithmetic_that_wraps_back() -> None:
    f, b = start(n=int32)
    least = b.max(b.min(f.params[0], 9), -1)
    distance = b.sub(b.cast(least, uint32), b.cast(b.index(-1), uint32))
    b.yield_()
    ranges = find_ranges(f)
    assert ranges.of(distance) == (0, 10)
    assert not ranges.cannot_wrap(distance.op)  # type: ignore[arg-type]


def test_intervals_of_ops_hold_all_results() -> None:
    """Every op on all pairs of small numbers of 4 bits, as if that were a type."""
    rng = random.Random(0)
    for t in (Scalar("int", 4), Scalar("uint", 4)):
        low, high = type_range(t)
        numbers = range(low, high + 1)
        for fn in ("add", "sub", "mul", "div", "mod", "min", "max", "bit_and", "bit_or", "bit_xor", "rshift", "lshift"):
            for _ in range(60):
                a, b = (tuple(sorted(rng.choices(numbers, k=2))) for _ in range(2))
                interval = exact_result(fn, [a, b], t)
                assert interval is not None
                for x in range(a[0], a[1] + 1):
                    for y in range(b[0], b[1] + 1):
                        assert interval[0] <= small(fn, x, y) <= interval[1], (fn, a, b, x, y)


def small(fn: str, x: int, y: int) -> int:
    """The exact result of an op on numbers of 4 bits."""
    match fn:
        case "mod":
            return 0 if y == 0 else x - y * EXACT["div"](x, y)
        case "lshift":
            return x << (y & 3)
        case "rshift":
            return x >> (y & 3)
    return {
        **EXACT,
        "min": min,
        "max": max,
        "bit_and": operator.and_,
        "bit_or": operator.or_,
        "bit_xor": operator.xor,
    }[fn](x, y)


def proofs(f: Function, *, narrow: bool = False) -> list[bool]:
    """Whether each addition, in order, can't wrap."""
    ranges = find_ranges(f, narrow)
    return [ranges.cannot_wrap(o) for o in f.body.walk() if isinstance(o, ops.Apply) and o.fn == "add"]


def test_the_index_of_a_thread() -> None:
    f, b = start(n=int32)
    i = tid(b)
    for step in (1, 2**16, 2**16 + 1, -1, f.params[0]):
        b.add(i, step)
    b.yield_()
    assert proofs(f) == [True, True, False, True, False]


def test_conditions_hold_in_their_branch_alone() -> None:
    f, b = start(i=int32, n=int32)
    i, n = f.params
    cond = b.bit_and(b.lt(i, n), b.ge(i, 0))

    def use() -> tuple[()]:
        b.add(i, 1)
        b.add(n, 1)
        return ()

    branch(b, cond, use, use)
    branch(b, b.unot(b.bit_or(b.ge(i, n), b.lt(i, 0))), use, use)
    use()
    b.yield_()
    assert proofs(f) == [True, False, False, False] * 2 + [False, False]


def test_loops() -> None:
    f, b = start(n=int32, lo=int32)
    n, lo = f.params
    for bounds in ((0, n, 1), (lo, n, 1), (n, lo, -1), (lo, n, f.params[0])):
        with loop(b, *bounds) as body:
            b.add(body.i, 1)
            b.add(body.i, -1)
    b.yield_()
    assert proofs(f) == [True, True, True, False, False, True, False, False]


def test_loops_with_steps() -> None:
    """The index is a whole number of steps from the start, where both are known."""
    f, b = start()
    for lo, hi, step in ((0, 64, 8), (16, 60, 8), (10, 0, -4), (3, 4, 8), (0, -7, -3), (5, 5, 2), (9, -1, -1)):
        with loop(b, lo, hi, step) as body:
            pass
        indices = range(lo, hi, step)
        assert find_ranges(f).of(body.i) == ((min(indices), max(indices)) if indices else (lo, lo)), (lo, hi, step)


def test_what_loops_carry() -> None:
    """A counter that a condition holds back can't wrap; a sum can."""
    f, b = start(n=int32)
    while_(b, [b.index(0), b.index(0)], lambda k, s: b.lt(k, f.params[0]), lambda k, s: (b.add(k, 1), b.add(s, k)))
    b.yield_()
    assert proofs(f) == [True, False]


def test_nested_loops_are_visited_in_linear_time() -> None:
    """Each level is visited a few times, not a few times for each visit of the level around it."""
    f, b = start(n=int32)
    visits = 0

    def nest(depth: int, total: Value) -> Value:
        with loop(b, 0, f.params[0], init=[total]) as body:
            body.next = (nest(depth - 1, body.carried[0]) if depth else b.add(body.carried[0], 1),)
        return body.results[0]

    nest(12, b.index(0))
    b.yield_()

    class Counting(type(find_ranges(f))):  # type: ignore[misc]
        def _exact_result(self, o: Op, v: Value, t: Scalar) -> Any:
            nonlocal visits
            visits += isinstance(o, ops.Apply)
            return super()._exact_result(o, v, t)

    Counting(()).block(f.body)
    assert visits < 50


def test_extents_of_small_arrays() -> None:
    f, b = start(a=Array(float32, 2), n=int32)
    part = b.view(f.params[0], [tid(b)])
    for extent in (b.dim(f.params[0], 0), b.dim(part, 0)):
        b.add(extent, 1)
    local = b.insert(ops.LocalArray((7,)), Array(float32, 1)).result
    b.add(b.dim(local, 0), 1)
    b.yield_()
    assert proofs(f) == [False, False, True]
    assert proofs(f, narrow=True) == [True, True, True]
    assert find_ranges(f, True).of(part.op.indices[0]) == (0, MAX_NARROW - 1)  # type: ignore[union-attr]


def test_casts() -> None:
    f, b = start(x=int8, y=uint8, z=int64, c=bool_, r=float32)
    x, y, z, c, r = f.params
    casts = [b.cast(v, t) for v, t in ((x, int32), (y, int32), (x, uint32), (z, int32), (c, int8), (r, int32))]
    casts.append(b.cast(b.mod(z, 100), int8))
    b.yield_()
    ranges = find_ranges(f)
    assert [ranges.cannot_wrap(v.op) for v in casts] == [True, True, False, False, True, False, True]  # type: ignore[arg-type]
    assert within(ranges.of(casts[-1]), (-99, 99))


def test_a_choice_between_what_is_compared() -> None:
    f, b = start(i=int32, n=int32)
    i, n = f.params
    clamped = b.select(b.lt(i, 10), i, b.index(10))
    clamped = b.select(b.gt(clamped, 0), clamped, b.index(0))
    b.min(n, 5)
    b.yield_()
    ranges = find_ranges(f)
    assert ranges.of(clamped) == (0, 10)
    assert ranges.of(f.body.ops[-2].result) == (-(2**31), 5)
