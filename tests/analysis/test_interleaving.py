"""For which functions the loop over threads is marked parallel: those in which no thread's order can change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ir_builder import loop, start, tid
from warp_like.analysis.interleaving import keeps_order
from warp_like.analysis.memory import analyse
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Array, Struct, Vec, float32, int32

VEC = Vec(3, float32)
PAIR = Struct("Pair", (("x", float32), ("y", float32)))

Body = Callable[[Emitter, Value, dict[str, Value]], None]


def order_is_kept(body: Body) -> bool:
    """Whether the function with this body keeps the order of each thread's accesses."""
    arrays = {"a": Array(float32, 1), "c": Array(float32, 1), "v": Array(VEC, 1), "w": Array(VEC, 1)}
    f, b = start(**arrays, s=Array(PAIR, 1), n=int32)
    body(b, tid(b), {p.hint: p for p in f.params})
    b.yield_()
    return keeps_order(analyse(f))


def twice(b: Emitter, i: Value, slot: int) -> Value:
    index: Value = b.add(b.mul(i, 2), slot)
    return index


def saxpy(b: Emitter, i: Value, p: dict[str, Value]) -> None:
    b.store(p["a"], [i], b.add(b.load(p["a"], [i]), b.load(p["c"], [i])))
    b.store(p["c"], [b.add(i, 1)], b.load(p["a"], [p["n"]]))


def particles(b: Emitter, i: Value, p: dict[str, Value]) -> None:
    moved = b.add(b.load(p["v"], [i]), b.load(p["w"], [i]))
    b.store(p["v"], [i], moved)
    b.store(p["w"], [i], moved)


def fields(b: Emitter, i: Value, p: dict[str, Value]) -> None:
    x, y = b.field_view(p["s"], 0), b.field_view(p["s"], 1)
    b.store(x, [i], b.load(x, [i]))
    b.store(y, [i], b.load(y, [i]))


def pairs(b: Emitter, i: Value, p: dict[str, Value]) -> None:
    b.store(p["a"], [twice(b, i, 0)], b.load(p["c"], [i]))
    b.load(p["a"], [twice(b, i, 1)])  # another element than the one before


def own_copy(b: Emitter, i: Value, p: dict[str, Value]) -> None:
    mine = b.insert(ops.LocalArray((8,)), Array(float32, 1)).result
    for k in (0, 1):
        b.store(mine, [b.constant(k, int32)], b.load(p["a"], [twice(b, i, k)]))


@pytest.mark.parametrize("body", [saxpy, particles, fields, pairs, own_copy])
def test_the_loop_is_marked(body: Body) -> None:
    assert order_is_kept(body)


def read_between(b: Emitter, i: Value, p: dict[str, Value]) -> None:
    b.store(p["a"], [twice(b, i, 0)], b.load(p["c"], [i]))
    seen = b.load(p["a"], [b.mul(b.add(i, p["n"]), 2)])
    b.store(p["a"], [twice(b, i, 1)], seen)


def written_between(b: Emitter, i: Value, p: dict[str, Value]) -> None:
    first = b.extract(b.load(p["v"], [i]), 0)
    b.store(p["c"], [i], first)  # which may be the same memory
    b.store(p["c"], [b.add(i, 1)], b.extract(b.load(p["v"], [i]), 1))


def in_a_loop(b: Emitter, i: Value, p: dict[str, Value]) -> None:
    with loop(b, 0, 2) as k:
        at: Value = b.add(b.mul(i, 2), k.i)
        b.load(p["a"], [at])
        b.store(p["c"], [at], b.constant(1, float32))


@pytest.mark.parametrize("body", [read_between, written_between, in_a_loop])
def test_the_loop_is_not_marked(body: Body) -> None:
    assert not order_is_kept(body)
