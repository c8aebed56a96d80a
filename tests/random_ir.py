"""Random functions for property tests: valid, terminating, in bounds, and using every kind of op.

The arrays' extents are powers of two, so that an index is made safe by masking. What ``fold`` may change, the
sign of a zero, never becomes visible: floats are divided by constants alone, and only integers are printed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from tests.ir_builder import branch, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import (
    Array,
    Mat,
    Scalar,
    Type,
    Vec,
    bool_,
    float32,
    float64,
    int32,
    int64,
    scalar_of,
    uint8,
)

T = TypeVar("T")

VEC, MAT = Vec(3, float32), Mat(2, 2, float32)
SCALARS = (float32, int32, bool_, float64, int64, uint8)
TYPES: tuple[Type, ...] = (*SCALARS, VEC, MAT)
ARRAYS: dict[str, Array] = {
    "x": Array(float32, 1),
    "m": Array(float32, 2),
    "n": Array(int32, 1),
    "d": Array(float64, 1),
    "v": Array(VEC, 1),
}
SHAPES = {"x": (8,), "m": (4, 2), "n": (4,), "d": (2,), "v": (2, 3)}
PARAMS: dict[str, Type] = {**ARRAYS, "s": float32, "k": int32, "w": VEC}
DIMS = (2, 2)
TIDS = [(0, 2), (1, 2), (0, 1)]
"""The axes and dimensions of a thread's indices."""


def arguments(seed: int = 0) -> list[Any]:
    """Arguments for a random function."""
    rng = np.random.default_rng(seed)
    x, m, d, v = (rng.normal(size=SHAPES[a]) for a in "xmdv")
    n = rng.integers(-9, 9, SHAPES["n"])
    narrow = [a.astype(np.float32) for a in (x, m, v)]
    return [narrow[0], narrow[1], n.astype(np.int32), d, narrow[2], 1.5, 3, np.float32([1, -2, 0.5])]


OWN_DIMS = (3, 7)
"""A grid for ``own_function`` that does not fill whole vectors."""


def own_arguments(seed: int = 0, dims: tuple[int, int] = OWN_DIMS) -> list[Any]:
    """Arguments for ``own_function``: each thread of ``dims`` has the arrays to itself."""
    threads = dims[0] * dims[1]
    sets = [arguments(seed + k) for k in range(threads)]
    return [
        np.stack(same) if isinstance(same[0], np.ndarray) and k < len(ARRAYS) else same[0]
        for k, same in enumerate(zip(*sets, strict=True))
    ]


@st.composite
def functions(draw: Callable[[Any], Any], statements: int = 12, calls: bool = True, stack: bool = True) -> Function:
    """A strategy for kernels over ``PARAMS``."""
    f, b = start("random", **PARAMS)
    arrays = dict(zip(PARAMS, f.params, strict=True))
    _Maker(lambda low, high: draw(st.integers(low, high)), b, arrays, calls, stack).everything(statements)
    return f


def own_function(seed: int, statements: int = 16, stack: bool = True, columns: int = 0) -> Function:
    """A kernel whose arrays have a dimension more in front, of which each thread uses its own part alone.

    It has arrays of its threads' own, and loops that save their state until other loops take it back. With ``columns``,
    the extent of the grid's last dimension, a thread knows its two indices alone, and nothing depends on its number.
    """
    own = {name: Array(t.dtype, t.ndim + 1) for name, t in ARRAYS.items()}
    f, b = start("random", **{**PARAMS, **own})
    thread = b.add(b.mul(tid(b, 0, 2), columns), tid(b, 1, 2)) if columns else tid(b, 0, 1)
    views = {name: b.view(v, [thread]) for name, v in zip(ARRAYS, f.params, strict=False)}
    maker = _Maker(random.Random(seed).randint, b, views, False, stack)
    maker.kinds += [maker.effect, maker.compare, maker.memory, maker.if_, maker.local] * 2 + [maker.for_, maker.while_]
    maker.kinds += [maker.stack] * stack
    if columns:
        maker.effects = ["store", "atomic"]
    maker.everything(statements, [(0, 2), (1, 2)] if columns else TIDS)
    return f


class _Maker:
    """Appends random statements; ``pool`` holds the values in scope."""

    def __init__(
        self, number: Callable[[int, int], int], b: Emitter, arrays: dict[str, Value], calls: bool, stack: bool
    ) -> None:
        self.number = number  # a random one, both ends included
        self.b = b
        self.arrays = arrays
        self.pool: list[Value] = []
        self.slots = 0
        self.effects = ["store", "atomic", "cas", "print"]
        self.kinds: list[Callable[[int], None]] = [self.arithmetic] * 4
        self.kinds += [self.memory, self.aggregate, self.if_, self.for_] * 2
        self.kinds += [self.compare, self.convert, self.while_, self.effect, self.choose, self.dim]
        self.kinds += [self.call] * calls + [self.stack] * stack

    def everything(self, statements: int, tids: Sequence[tuple[int, int]] = TIDS) -> None:
        """Make the whole body."""
        self.pool += [v for v in self.b.block.params if not isinstance(v.type, Array)]
        self.pool += [tid(self.b, axis, ndim) for axis, ndim in tids]
        self.statements(statements, 0)
        for name, t in ARRAYS.items():
            self.store(name, self.some(t.dtype))
        self.b.yield_()

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def some(self, t: Type) -> Value:
        """A value of type ``t``: one in scope, or a constant."""
        known = [v for v in self.pool if v.type == t]
        if known and self.number(0, 3):
            return self.pick(known[-6:])
        scalar = scalar_of(t)
        assert scalar is not None
        return self.b.constant(self.pick([True, False] if scalar.is_bool else [0, 1, 2, 3]), t)

    def index(self, extent: int) -> Value:
        return self.b.bit_and(self.some(int32), self.b.index(extent - 1))

    def scoped(self, size: int, depth: int, types: Sequence[Type], params: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Statements in a block of their own; what it yields."""
        outside, self.pool = self.pool, [*self.pool, *params]
        self.statements(size, depth)
        values = tuple(self.some(t) for t in types)
        self.pool = outside
        return values

    def carried(self) -> list[Type]:
        return [self.pick(TYPES) for _ in range(self.number(0, 3))]

    def statements(self, count: int, depth: int) -> None:
        for _ in range(self.number(0, count)):
            self.pick(self.kinds)(depth)

    # --- statements -----------------------------------------------------------------------------------------

    def arithmetic(self, depth: int) -> None:
        t = self.pick(TYPES)
        if t == bool_:
            self.pool.append(self.b.unot(self.some(t)))
            return
        fn = self.pick(["add", "sub", "mul", "neg", "div", "shift", "mod"])
        a, b = self.some(t), self.some(t)
        is_int = isinstance(t, Scalar) and t.is_int
        if fn == "neg":
            self.pool.append(self.b.neg(a))
        elif fn == "mul" and not isinstance(t, Scalar):
            self.pool.append(self.b.mul(a, self.some(float32)))
        elif fn == "div" and not is_int:
            self.pool.append(self.b.div(a, self.b.constant(2, scalar_of(t))))  # type: ignore[arg-type]
        elif fn in ("shift", "mod"):
            if is_int:
                fn = self.pick(["lshift", "rshift", "mod", "floordiv", "bit_xor"])
                self.pool.append(self.b.apply(fn, a, b))
        else:
            self.pool.append(self.b.apply(fn, a, b))

    def compare(self, depth: int) -> None:
        t = self.pick([s for s in SCALARS if s != bool_])
        fn = self.pick(["lt", "le", "gt", "ge", "eq", "ne"])
        self.pool.append(self.b.apply(fn, self.some(t), self.some(t)))

    def convert(self, depth: int) -> None:
        self.pool.append(self.b.cast(self.some(self.pick(SCALARS)), self.pick(SCALARS)))

    def choose(self, depth: int) -> None:
        t = self.pick(SCALARS)
        cond = self.some(self.pick([bool_, int32]))
        self.pool.append(self.b.where(cond, self.some(t), self.some(t)))

    def dim(self, depth: int) -> None:
        a = self.view() if self.number(0, 1) else self.arrays["m"]
        self.pool.append(self.b.dim(a, 0))

    def view(self) -> Value:
        return self.b.view(self.arrays["m"], [self.index(4)])

    def memory(self, depth: int) -> None:
        name = self.pick(list(ARRAYS))
        if name == "m" and self.number(0, 1):
            self.pool.append(self.b.load(self.view(), [self.index(2)]))
        else:
            self.pool.append(self.b.load(self.arrays[name], self.place(name)))

    def local(self, depth: int) -> None:
        """An array of the thread's own, and what becomes of it."""
        t, n = self.pick(TYPES), self.pick([2, 4])
        array = self.b.insert(ops.LocalArray((2, n)), Array(t, 2)).result
        row = self.b.view(array, [self.index(2)])
        zero, one = self.b.index(0), self.b.index(1)
        column = self.b.insert(ops.Slice(array, (zero, one), (self.b.index(2),), (one,), (0,)), Array(t, 1)).result
        for _ in range(self.number(1, 3)):
            self.b.store(array, [self.index(2), self.index(n)], self.some(t))
            self.b.store(row, [self.index(n)], self.some(t))
            self.b.store(column, [self.index(2)], self.some(t))
            if depth < 2:
                self.statements(2, depth + 1)
            self.pool.append(self.b.load(array, [self.index(2), self.index(n)]))

    def place(self, name: str) -> list[Value]:
        return [self.index(n) for n in SHAPES[name][: ARRAYS[name].ndim]]

    def store(self, name: str, value: Value) -> None:
        self.b.store(self.arrays[name], self.place(name), value)

    def effect(self, depth: int) -> None:
        kind = self.pick(self.effects)
        name = self.pick(list(ARRAYS))
        if kind == "store":
            self.store(name, self.some(ARRAYS[name].dtype))
        elif kind == "atomic":
            value = self.some(ARRAYS[name].dtype)
            at = self.place(name)
            self.pool.append(self.b.atomic(self.pick(["add", "max", "exch"]), self.arrays[name], at, value))
        elif kind == "cas":
            old = ops.AtomicCas(self.arrays["n"], (self.index(4),), self.some(int32), self.some(int32))
            self.pool.append(self.b.insert(old, int32).result)
        else:
            self.b.insert(ops.Print(("k = ", "\n"), (self.some(int32),)))

    def aggregate(self, depth: int) -> None:
        t = self.pick([VEC, MAT])
        at = [self.index(2) if self.number(0, 1) else self.b.index(self.number(0, 1))]
        at = at if t == VEC else [*at, self.b.index(self.number(0, 1))]
        kind = self.pick(["make", "extract", "insert", "row", "again"])
        if kind == "make":
            self.pool.append(self.b.make(t, [self.some(float32) for _ in range(3 if t == VEC else 4)]))
        elif kind == "extract":
            self.pool.append(self.b.extract(self.some(t), *at))
        elif kind == "insert":
            self.pool.append(self.b.insert_component(self.some(t), self.some(float32), *at))
        elif kind == "row":
            row = self.b.extract(self.some(MAT), at[0])
            self.pool.append(self.b.extract(row, self.number(0, 1)))
        else:
            x = self.some(t)
            self.pool.append(self.b.make(t, self.b.components(x)))

    def if_(self, depth: int) -> None:
        if depth > 2:
            return
        types = self.carried()
        sides = [lambda: self.scoped(3, depth + 1, types)] * 2
        self.pool += branch(self.b, self.some(bool_), *sides)

    def bounds(self) -> tuple[Value | int, Value | int, int]:
        if self.number(0, 1):
            return self.pick([(0, 0, 1), (0, 1, 1), (0, 3, 1), (4, 0, -2), (2, 7, 3)])
        return self.pick([0, 1]), self.b.bit_and(self.some(int32), self.b.index(3)), 1

    def for_(self, depth: int) -> None:
        if depth > 2:
            return
        types = self.carried()
        with loop(self.b, *self.bounds(), init=[self.some(t) for t in types]) as body:
            body.next = self.scoped(4, depth + 1, types, [body.i, *body.carried])
        self.pool += body.results

    def while_(self, depth: int) -> None:
        if depth > 2:
            return
        types = self.carried()

        def cond(count: Value, *carried: Value) -> Value:
            (go,) = self.scoped(2, 3, [bool_], carried)
            return self.b.where(go, self.b.lt(count, 3), self.b.lt(count, 2))

        def body(count: Value, *carried: Value) -> tuple[Value, ...]:
            return (self.b.add(count, 1), *self.scoped(3, depth + 1, types, [count, *carried]))

        self.pool += while_(self.b, [self.b.index(0), *(self.some(t) for t in types)], cond, body)

    def stack(self, depth: int) -> None:
        """Pushes, other statements, and the pops that match; straight or in loops."""
        slot, self.slots = self.slots, self.slots + 1
        if depth > 1 or self.number(0, 1):
            value = self.some(self.pick(TYPES))
            self.b.insert(ops.Push(slot, value))
            if depth < 2:
                self.statements(2, depth + 1)
            self.pool.append(self.b.insert(ops.Pop(slot), value.type).result)
            return
        t = self.pick(SCALARS)
        n = self.saving_while(slot, t, depth) if self.number(0, 1) else self.saving_for(slot, t, depth)
        last, step = (n, 1) if self.number(0, 1) else (self.b.index(-1), -1)
        first = 0 if step == 1 else self.b.sub(n, 1)
        with loop(self.b, first, last, step, init=[self.some(t)]) as back:
            got = self.b.insert(ops.Pop(slot), t).result
            self.store("x", self.b.cast(back.carried[0], float32))  # so it counts where nobody needs the result
            back.next = self.scoped(2, depth + 1, [t], [got, back.i, *back.carried])
        self.pool += back.results

    def saving_for(self, slot: int, t: Type, depth: int) -> Value:
        """A loop that saves a value in each iteration; returns how often it runs."""
        n = self.index(4)
        with loop(self.b, 0, n) as body:
            (value,) = self.scoped(2, depth + 1, [t], [body.i])
            self.b.insert(ops.Push(slot, value))
        return n

    def saving_while(self, slot: int, t: Type, depth: int) -> Value:
        def cond(count: Value) -> Value:
            return self.b.lt(count, most)

        def body(count: Value) -> tuple[Value, ...]:
            (value,) = self.scoped(2, depth + 1, [t], [count])
            self.b.insert(ops.Push(slot, value))
            return (self.b.add(count, 1),)

        most = self.index(4)
        (n,) = while_(self.b, [self.b.index(0)], cond, body)
        return n

    def call(self, depth: int) -> None:
        t = self.pick([float32, int32])
        callee, inner = start("callee", "func", (t, bool_), a=t, b=t, x=ARRAYS["x"])
        outer = self.b, self.arrays, self.pool
        self.b, self.arrays = inner, {**self.arrays, "x": callee.params[2]}
        self.pool = callee.params[:2]
        total = inner.add(callee.params[0], inner.mul(callee.params[0], callee.params[1]))
        if self.number(0, 1):
            inner.store(callee.params[2], [self.index(8)], inner.cast(total, float32))
        inner.yield_(total, inner.lt(total, callee.params[1]))
        self.b, self.arrays, self.pool = outer
        args = (self.some(t), self.some(t), self.arrays["x"])
        self.pool += self.b.insert(ops.Call(callee, args), *callee.results).results
