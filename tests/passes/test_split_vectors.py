"""Vectors that are places: what branches and loops carry, and that lanes see which components differ."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.ir_builder import assert_same, branch, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Vec, float32, int32, int64
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.fold import fold
from warp_like.passes.split_vectors import carries_places, split_vectors

N = 5


def step(b: Emitter, draw: random.Random, values: list[Value], depth: int) -> None:
    """Append something random to ``values``: arithmetic, components put elsewhere, a branch or a loop."""
    v, w = draw.choice(values), draw.choice(values)
    k, n = draw.randrange(v.type.length), draw.randrange(v.type.length)
    condition = b.lt(b.extract(v, k), b.extract(w, n))

    def inside() -> tuple[Value, ...]:
        more = list(values)
        for _ in range(2):
            step(b, draw, more, depth - 1)
        return draw.choice(more), draw.choice(more)

    match draw.randrange(6 if depth else 3):
        case 0:
            values.append(b.add(v, w))
        case 1:
            values.append(b.insert_component(v, b.sub(b.extract(w, n), 1), k))
        case 2:
            values.append(b.make(v.type, [b.extract(draw.choice(values), n) for _ in range(v.type.length)]))
        case 3:
            values += branch(b, condition, inside, inside)
        case 4:
            with loop(b, 0, draw.randrange(4), init=[v, w]) as body:
                more = [*values, *body.carried]
                step(b, draw, more, depth - 1)
                body.next = (more[-1], b.add(body.carried[0], body.carried[1]))
            values += body.results
        case 5:
            number = b.constant(0, int32)
            values += while_(
                b, [number, v, w], lambda i, p, q: b.lt(i, 3), lambda i, p, q: (b.add(i, 1), b.sub(q, p), p)
            )[1:]


def program(seed: int, length: int, dtype: Any) -> Function:
    """A random program over vectors of this type, which ends by writing some of them."""
    draw, t = random.Random(seed), Vec(length, dtype)
    f, b = start(x=Array(t, 1), out=Array(t, 1))
    x, out = f.params
    i = tid(b)
    values = [b.load(x, [i]), b.make(t, [b.cast(i, dtype) for _ in range(length)])]
    for _ in range(6):
        step(b, draw, values, 2)
    total = values[0]
    for v in values[1:]:
        total = b.add(total, v)
    b.store(out, [i], total)
    b.yield_()
    return f


@pytest.mark.parametrize("length", [1, 2, 4])
def test_random_programs_do_the_same(length: int) -> None:
    for seed in range(6):
        dtype = (int32, int64)[seed % 2]
        f = program(seed, length, dtype)
        numbers = np.random.default_rng(seed).integers(-9, 9, (N, length))
        args = [numbers.astype(str(dtype)), np.zeros((N, length), str(dtype))]
        g = clone_function(f)
        assert split_vectors(g) == carries_places(f)
        assert not split_vectors(g)
        assert_same(f, g, args, (N,))
        assert_same(f, dce(cse(fold(g))), args, (N,))


@pytest.mark.parametrize("t", [Vec(3, float32), Vec(5, int32)], ids=str)
def test_floats_and_long_vectors_stay(t: Vec) -> None:
    f, b = start(x=Array(t, 1))
    (v,) = branch(b, b.eq(tid(b), 0), lambda: (b.zero(t),), lambda: (b.load(f.params[0], [b.index(0)]),))
    b.store(f.params[0], [tid(b)], v)
    b.yield_()
    assert not split_vectors(f)


@wp.kernel
def shifted(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    place = wp.vec2i(i - 1, j)
    if place[0] < 0:
        place[0] = x.shape[0] - 1
    out[i, j] = x[place[0], place[1]]


def test_lanes_load_a_row_at_once() -> None:
    """The row is the same for all lanes, though a branch chose it, so nothing is gathered."""
    assert "vec2" not in shifted.inspect("lanes")
    assert "gather" not in shifted.inspect("llvm")
    x = np.random.default_rng(0).random((7, 37)).astype(np.float32)
    out = np.zeros_like(x)
    wp.launch(shifted, dim=x.shape, inputs=[x], outputs=[out])
    np.testing.assert_array_equal(out, np.roll(x, 1, 0))


def test_loops_count_what_they_carry_once() -> None:
    """A loop that carries a place and a number keeps their order."""
    t = Vec(2, int32)
    f, b = start(out=Array(int32, 1))
    with loop(b, 0, 4, init=[b.index(1), b.zero(t), b.index(2)]) as body:
        first, place, last = body.carried
        moved = b.insert_component(place, b.add(b.extract(place, 1), first), 1)
        body.next = (b.add(first, 1), moved, b.mul(last, 2))
    first, place, last = body.results
    for k, v in enumerate((first, b.extract(place, 0), b.extract(place, 1), last)):
        b.store(f.params[0], [b.index(k)], v)
    b.yield_()
    g = clone_function(f)
    assert split_vectors(g)
    (made,) = (o for o in g.body.walk() if isinstance(o, ops.For))
    assert [str(v.type) for v in made.results] == ["int32"] * 4
    out = np.zeros(4, np.int32)
    assert_same(f, g, [out], (1,))
