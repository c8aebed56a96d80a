"""Forward mode of random kernels: against central differences, and over reverse mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warp_like as wp
from tests.interpreter import run
from tests.ir_builder import branch, loop, outcome, start, while_
from tests.passes.ad.test_forward import CHECKED, random_like
from tests.random_ir import DIMS, arguments, functions
from warp_like.builtins.emit import Emitter
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, Vec, float64, int32, is_differentiable
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.ad.forward import forward_mode
from warp_like.passes.pipeline import Options, prepare

VEC = Vec(2, float64)
SMOOTH: dict[str, Any] = {
    "x": Array(float64, 1),
    "y": Array(float64, 1),
    "v": Array(VEC, 1),
    "z": Array(float64, 1),
}
SHAPES = {"x": (4,), "y": (4,), "v": (2, 2), "z": (1,)}


@st.composite
def smooth_kernels(draw: Any) -> Function:
    """Kernels of one thread without kinks, whose values stay bounded: state, branches, loops, overwritten
    arrays."""
    f, b = start("smooth", **SMOOTH, k=int32)
    maker = Smooth(draw, b, dict(zip(SMOOTH, f.params, strict=False)))
    maker.floats = [b.load(f.params[0], [b.index(i)]) for i in range(2)]
    maker.ints = [f.params[-1]]
    maker.statements(7, 0)
    b.atomic("add", f.params[3], [b.index(0)], maker.pick(maker.floats[-3:]))
    b.yield_()
    return f


class Smooth:
    """Appends random statements; ``floats`` and ``ints`` hold the values in scope."""

    def __init__(self, draw: Any, b: Emitter, arrays: dict[str, Value]) -> None:
        self.draw = draw
        self.b = b
        self.arrays = arrays
        self.floats: list[Value] = []
        self.ints: list[Value] = []

    def pick(self, options: Any) -> Any:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def float(self) -> Value:
        return self.pick(self.floats[-5:])

    def index(self, n: int) -> Value:
        return self.b.bit_and(self.pick(self.ints), self.b.index(n - 1))

    def statements(self, n: int, depth: int) -> None:
        kinds = [
            self.arithmetic,
            self.arithmetic,
            self.load,
            self.store,
            self.vector,
            self.if_,
            self.for_,
            self.while_,
        ]
        for _ in range(self.draw(st.integers(1, n))):
            self.pick(kinds[: None if depth < 2 else 5])(depth)

    def arithmetic(self, depth: int) -> None:
        b, p, q = self.b, self.float(), self.float()
        made = [
            lambda: b.sin(b.add(p, q)),
            lambda: b.mul(b.cos(p), b.sin(q)),
            lambda: b.div(p, b.add(b.mul(q, q), 2.0)),
            lambda: b.sub(b.mul(p, 0.5), b.mul(q, 0.25)),
            lambda: b.tanh(b.mul(p, q)),
            lambda: b.where(b.lt(self.pick(self.ints), 2), p, b.neg(q)),
        ]
        self.floats.append(self.pick(made)())

    def load(self, depth: int) -> None:
        self.floats.append(self.b.load(self.arrays[self.pick(["x", "y"])], [self.index(4)]))

    def store(self, depth: int) -> None:
        self.b.store(self.arrays["y"], [self.index(4)], self.float())

    def vector(self, depth: int) -> None:
        b = self.b
        v = b.load(self.arrays["v"], [self.index(2)])
        v = b.insert_component(v, self.float(), self.index(2))
        self.floats.append(b.sin(b.dot(v, b.normalize(b.make(VEC, [self.float(), b.constant(1.5, float64)])))))

    def scoped(self, depth: int, ints: list[Value], floats: list[Value]) -> Value:
        saved = self.ints, self.floats
        self.ints, self.floats = [*self.ints, *ints], [*self.floats, *floats]
        self.statements(3, depth + 1)
        got = self.float()
        self.ints, self.floats = saved
        return got

    def if_(self, depth: int) -> None:
        cond = self.b.lt(self.pick(self.ints), 1)
        sides = [lambda: (self.scoped(depth, [], []),)] * 2
        self.floats += branch(self.b, cond, *sides)

    def for_(self, depth: int) -> None:
        with loop(self.b, 0, self.pick([3, self.index(4)]), init=[self.float()]) as body:
            body.next = (self.scoped(depth, [body.i], body.carried),)
        self.floats += body.results

    def while_(self, depth: int) -> None:
        def step(i: Value, v: Value) -> tuple[Value, ...]:
            return self.b.add(i, 1), self.scoped(depth, [i], [v])

        init = [self.b.index(0), self.float()]
        self.floats.append(while_(self.b, init, lambda i, v: self.b.lt(i, self.b.index(2)), step)[1])


def start_values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.uniform(-1, 1, shape) for name, shape in SHAPES.items()}


def moved_by(f: Function, starts: list[np.ndarray], changes: list[np.ndarray], rest: list[Any]) -> list[np.ndarray]:
    """Central differences of all arrays after the launch."""
    after = []
    for h in (1e-6, -1e-6):
        arrays = [a + h * t for a, t in zip(starts, changes, strict=True)]
        run(f, [*arrays[:4], *rest, *arrays[4:]], (1,))
        after.append(arrays)
    return [(p - m) / 2e-6 for p, m in zip(*after, strict=True)]


@settings(max_examples=60, deadline=None)
@given(f=smooth_kernels(), k=st.integers(0, 3))
def test_random_kernels(f: Function, k: int) -> None:
    f = prepare(f, Options(max_unroll=0))
    g = forward_mode(f, range(4), CHECKED)
    starts = list(start_values().values())
    changes = [random_like(a, 3 + i) for i, a in enumerate(starts)]
    got = [t.copy() for t in changes]
    run(g, [*(a.copy() for a in starts), k, *got], (1,))
    for t, expected in zip(got, moved_by(f, starts, changes, [k]), strict=True):
        np.testing.assert_allclose(t, expected, rtol=1e-6, atol=1e-6)

    back = adjoint(f, range(4), CHECKED)
    seeds = [random_like(a, 50 + i) for i, a in enumerate(starts)]
    adjoints = sweep_back(f, back, starts, seeds, k)
    forwards = sum(np.sum(s * t) for s, t in zip(seeds, got, strict=True))
    backwards = sum(np.sum(a * t) for a, t in zip(adjoints, changes, strict=True))
    assert forwards == pytest.approx(backwards, rel=1e-9, abs=1e-9)


def sweep_back(
    f: Function, back: Function, starts: list[np.ndarray], seeds: list[np.ndarray], k: int
) -> list[np.ndarray]:
    """The gradient with respect to all arrays before the launch."""
    after, adjoints = [a.copy() for a in starts], [s.copy() for s in seeds]
    run(f, [*after, k], (1,))
    run(back, [*after, k, *adjoints, *(starts[i].copy() for i in back.prelaunch_copies)], (1,))
    return adjoints


@settings(max_examples=40, deadline=None)
@given(f=smooth_kernels(), k=st.integers(0, 3))
def test_random_kernels_forward_over_reverse(f: Function, k: int) -> None:
    f = prepare(f, Options(max_unroll=0))
    back = adjoint(f, range(4), CHECKED)
    starts = list(start_values().values())
    changes = [random_like(a, 3 + i) for i, a in enumerate(starts)]
    seeds = [random_like(a, 50 + i) for i, a in enumerate(starts)]
    moved = [
        sweep_back(f, back, [a + h * t for a, t in zip(starts, changes, strict=True)], seeds, k) for h in (1e-6, -1e-6)
    ]

    old = [(starts[i].copy(), changes[i].copy()) for i in back.prelaunch_copies]
    after, after_changes = [a.copy() for a in starts], [t.copy() for t in changes]
    run(forward_mode(f, range(4), CHECKED), [*after, k, *after_changes], (1,))
    adjoints, products = [s.copy() for s in seeds], [np.zeros_like(s) for s in seeds]
    arrays = [*after, k, *adjoints, *(a for a, _ in old)]
    positions = [i for i in range(len(arrays)) if i != 4]
    second = forward_mode(back, positions, CHECKED)
    run(second, [*arrays, *after_changes, *products, *(t for _, t in old)], (1,))
    for got, p, m in zip(products, *moved, strict=True):
        np.testing.assert_allclose(got, (p - m) / 2e-6, rtol=1e-6, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(f=functions())
def test_the_primal_stays_what_it_is(f: Function) -> None:
    """Whatever a kernel does, its tangent does the same to the arrays, and prints the same."""
    f = prepare(f)
    wrt = [i for i, p in enumerate(f.params) if is_differentiable(p.type)]
    try:
        g = forward_mode(f, wrt, CHECKED)
    except wp.WarpCodegenError:
        return
    args = arguments()
    tangents = [random_like(args[i], i).astype(np.float32 if i != 3 else np.float64) for i in wrt]
    (wanted, told), (got, said) = outcome(f, args, DIMS), outcome(g, [*args, *tangents], DIMS)
    for a, b in zip(wanted, got, strict=False):
        np.testing.assert_array_equal(b, a)
    assert said == told
