"""Loops of one thread in lanes do what they did one iteration after the other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.ir_builder import start, tid
from tests.lane_interpreter import run_lanes
from tests.long_tail import crossed, tail
from tests.passes.spmd import random_loops
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import counted
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Lanes, float32, int32
from warp_like.ir.verify import verify
from warp_like.passes.spmd.choice import choose
from warp_like.passes.spmd.widen_loops import widen_loops


def product(m: int, k: int, n: int, dtype: Any, form: str) -> Any:
    """A kernel that multiplies two tiles; ``form`` says which of them is transposed."""

    @wp.kernel(module="unique")
    def multiplied(a: wp.array2d(dtype=dtype), b: wp.array2d(dtype=dtype), out: wp.array2d(dtype=dtype)):
        if wp.static(form == "tn"):
            x = wp.tile_load(a, shape=(k, m))
            wp.tile_store(out, wp.tile_matmul(wp.tile_transpose(x), wp.tile_load(b, shape=(k, n))))
        if wp.static(form == "nt"):
            y = wp.tile_load(b, shape=(n, k))
            wp.tile_store(out, wp.tile_matmul(wp.tile_load(a, shape=(m, k)), wp.tile_transpose(y)))
        if wp.static(form == "nn"):
            wp.tile_store(out, wp.tile_matmul(wp.tile_load(a, shape=(m, k)), wp.tile_load(b, shape=(k, n))))

    return multiplied


def arguments(m: int, k: int, n: int, dtype: Any, form: str) -> list[np.ndarray]:
    """Arrays for a product: one lacks a row, so that its tile is padded."""
    rng = np.random.default_rng(m * 100 + n)
    a = rng.normal(size=(k, m) if form == "tn" else (m, k)).astype(dtype)
    b = rng.normal(size=(n, k) if form == "nt" else (k, n)).astype(dtype)
    return [a, b[:-1] if m % 2 else b, np.zeros((m, n), dtype)]


def has_marked_loops(f: Function) -> bool:
    return any(isinstance(o, ops.For) and o.simd for o in f.body.walk())


SHAPES = [(4, 3, 16, "nn"), (5, 2, 17, "nn"), (3, 2, 40, "tn"), (6, 2, 33, "nt"), (9, 1, 31, "nn"), (1, 3, 16, "nt")]


@pytest.mark.parametrize(("shape", "bits", "registers"), crossed(SHAPES, [256, 512, 128], [16, 32], every=3))
def test_products_in_lanes(shape: tuple[int, int, int, str], bits: int, registers: int) -> None:
    *extents, form = shape
    f = optimised((kernel := product(*extents, wp.float32, form)).source, Signature(kernel.types))
    assert has_marked_loops(f) == (shape[0] > 1)
    wide = widen_loops(clone_function(f), bits, registers)
    assert not has_marked_loops(wide)
    verify(wide)
    expected, got = arguments(*extents, np.float32, form), arguments(*extents, np.float32, form)
    run(f, expected, (1,))
    run_lanes(wide, got, (1,))
    np.testing.assert_array_equal(got[2], expected[2], err_msg=print_function(wide))
    chosen = choose(f, bits, registers, 1).function
    run_lanes(chosen, again := arguments(*extents, np.float32, form), (1,))
    np.testing.assert_array_equal(again[2], expected[2])


def test_results_and_gradients_of_compiled_products() -> None:
    for m, k, n, dtype in [(7, 5, 19, wp.float64), (16, 16, 16, wp.float32), (3, 9, 50, wp.float16)]:
        kernel, numbers = product(m, k, n, dtype, "nn"), wp.dtype_to_numpy(dtype)
        a, b, _ = arguments(m, k, n, numbers, "nn")
        x, y = (wp.array(v, dtype=dtype, requires_grad=True) for v in (a, b))
        out = wp.zeros((m, n), dtype=dtype, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch_tiled(kernel, dim=1, inputs=[x, y], outputs=[out], block_dim=32)
        seed = np.random.default_rng(0).normal(size=(m, n)).astype(numbers)
        tape.backward(grads={out: wp.array(seed, dtype=dtype)})
        whole = np.zeros((k, n))
        whole[: len(b)] = b
        wide, tolerance = a.astype(np.float64), {"rtol": 0.02, "atol": 0.02} if dtype is wp.float16 else {"atol": 1e-4}
        np.testing.assert_allclose(out.numpy(), wide @ whole, **tolerance)
        np.testing.assert_allclose(x.grad.numpy(), seed.astype(np.float64) @ whole.T, **tolerance)
        np.testing.assert_allclose(y.grad.numpy(), (wide.T @ seed.astype(np.float64))[: len(b)], **tolerance)


@wp.func
def sigmoid(x: float):
    return 1.0 / (1.0 + wp.exp(-x))


@wp.kernel
def logistic(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    t = wp.tile_map(sigmoid, wp.tile_load(x, shape=40))
    wp.tile_store(out, t * wp.tile_sum(t)[0])


def test_loops_with_math_functions_run_in_lanes() -> None:
    x = np.linspace(-95.0, 120.0, 40, dtype=np.float32)
    f = optimised(logistic.source, Signature(logistic.types))
    wide = choose(f, 256, 16, 1).function
    assert any(isinstance(r.type, Lanes) for o in wide.body.walk() for r in o.results)
    expected, got = [x, np.zeros_like(x)], [x, np.zeros_like(x)]
    run(f, expected, (1,))
    run_lanes(wide, got, (1,))
    np.testing.assert_array_equal(got[1], expected[1])
    out = wp.zeros(40, dtype=float)
    wp.launch_tiled(logistic, dim=1, inputs=[wp.array(x, dtype=float), out], block_dim=32)
    y = 1.0 / (1.0 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(out.numpy(), y * y.sum(), rtol=1e-6, atol=1e-37)


def loop_over(columns: int, body: Callable[[Emitter, Value, Value, Value], None]) -> Function:
    """A function with a marked loop, whose ``body`` gets a parameter, an array of the thread's own, and the counter."""
    f, b = start(x=Array(float32, 1), y=Array(float32, 1))
    own = b.insert(ops.LocalArray((columns,)), Array(float32, 1)).result

    def column(j: Value) -> list[Value]:
        body(b, f.params[0], own, j)
        return []

    counted(b, 0, columns, [], column, simd=True)
    i = tid(b)
    b.store(f.params[1], [i], b.load(own, [i]))
    b.yield_()
    return f


def shifted(b: Emitter, x: Value, own: Value, j: Value) -> None:
    """Each iteration reads the element that the one before has written."""
    before = b.select(b.gt(j, 0), b.sub(j, 1), j)
    b.store(own, [j], b.add(b.load(own, [before]), b.load(x, [j])))


def in_place(b: Emitter, x: Value, own: Value, j: Value) -> None:
    """An iteration that runs twice adds twice."""
    b.store(own, [j], b.add(b.load(own, [j]), b.load(x, [j])))


def of_parameters(b: Emitter, x: Value, own: Value, j: Value) -> None:
    """Elements of an argument may be one element, of an array with strides of zero: two stores have an order."""
    b.store(x, [j], b.cast(j, float32))
    b.store(x, [b.sub(15, j)], b.load(own, [j]))


def stored_once(b: Emitter, x: Value, own: Value, j: Value) -> None:
    """Lanes store in order, so the last one stays as well."""
    b.store(x, [j], b.cast(j, float32))


def with_the_thread(b: Emitter, x: Value, own: Value, j: Value) -> None:
    """The thread's index is the same in all iterations, wherever it is asked for."""
    sides = []
    for scale in (2.0, 3.0):
        with b.into(Block()) as block:
            b.yield_(b.mul(b.cast(tid(b), float32), scale))
        sides.append(block)
    (chosen,) = b.if_(b.gt(j, tid(b)), *sides)
    b.store(own, [j], b.add(b.add(b.load(x, [j]), b.cast(tid(b), float32)), chosen))


@pytest.mark.parametrize(
    ("body", "columns", "widened"),
    [
        (shifted, 16, False),
        (in_place, 16, True),
        (in_place, 20, True),
        (in_place, 21, False),
        (of_parameters, 16, False),
        (with_the_thread, 16, True),
        (with_the_thread, 21, True),
        (stored_once, 16, True),
    ],
)
def test_loops_run_in_lanes_only_where_that_is_proven(body: Any, columns: int, widened: bool) -> None:
    f = loop_over(columns, body)
    wide = widen_loops(clone_function(f), 128, 16)
    verify(wide)
    assert any(isinstance(r.type, Lanes) for o in wide.body.walk() for r in o.results) == widened
    made = []
    for g, interpret in ((f, run), (wide, run_lanes)):
        made.append([np.arange(columns, dtype=np.float32), np.zeros(columns, np.float32)])
        interpret(g, made[-1], (columns,))
    np.testing.assert_array_equal(made[1], made[0])


@pytest.mark.parametrize("seed", [0, *(tail(first) for first in range(6, 60, 6))])
def test_random_loops(seed: int) -> None:
    for k in range(seed, seed + 6):
        random_loops.check(k, compiled=False)


@wp.kernel
def stored(a: wp.array(dtype=float), out: wp.array(dtype=float), at: int):
    t = wp.tile_load(a, shape=70)
    wp.tile_store(out, wp.tile_map(wp.exp, t), offset=at)


@wp.kernel
def divided(a: wp.array(dtype=float), out: wp.array(dtype=float), at: int):
    t = wp.tile_load(a, shape=70)
    wp.tile_store(out, wp.tile_map(wp.div, t, out[0]), offset=at)


@wp.kernel
def moved(a: wp.array(dtype=float), out: wp.array(dtype=float), at: int):
    wp.tile_store(out, wp.tile_load(a, shape=40), offset=at)


@wp.kernel
def copied(a: wp.array(dtype=float), out: wp.array(dtype=float), at: int):
    for j in range(at):
        out[j] = wp.exp(a[j])  # which may be the element that the last iteration stored


def test_a_part_of_an_array_that_iterations_read_is_no_other_array() -> None:
    f, b = start(x=Array(float32, 1), n=int32)
    own = b.insert(ops.LocalArray((2, 40)), Array(float32, 2)).result
    row = b.insert(ops.View(own, (b.index(0),)), Array(float32, 1)).result
    j, zero = Value(int32), b.index(0)
    with b.into(Block([j])) as body:
        before = b.load(own, [zero, b.select(b.gt(j, 0), b.sub(j, 1), j)])
        b.store(row, [j], b.exp(b.mul(before, 0.5)))
        b.yield_()
    b.for_(zero, b.min(f.params[1], 40), b.index(1), (), body)
    b.store(f.params[0], [zero], b.load(row, [b.index(30)]))
    b.yield_()
    wide = widen_loops(clone_function(f), 512, 32)
    assert not is_wide(wide)
    made = [np.zeros(1, np.float32), np.zeros(1, np.float32)]
    for g, x in zip((f, wide), made, strict=True):
        run(g, [x, 40], (1,))
    np.testing.assert_array_equal(*made)


def test_stores_know_the_index_of_their_thread() -> None:
    f, b = start(x=Array(float32, 1), n=int32)
    own = b.insert(ops.LocalArray((40,)), Array(float32, 1)).result
    j = Value(int32)
    with b.into(Block([j])) as body:
        b.store(f.params[0], [j], b.add(b.exp(b.load(own, [j])), b.cast(tid(b), float32)))
        b.yield_()
    b.for_(b.index(0), b.min(f.params[1], 40), b.index(1), (), body)
    b.yield_()
    wide = widen_loops(clone_function(f), 256, 32)
    assert is_wide(wide)
    for n in (3, 37, 40):  # the last thread's numbers stay
        got = np.zeros(40, np.float32)
        run_lanes(wide, [got, n], (3,))
        np.testing.assert_array_equal(got, np.where(np.arange(40) < n, 3.0, 0.0))


def is_wide(f: Function) -> bool:
    return any(isinstance(r.type, Lanes) for o in f.body.walk() for r in o.results)


@pytest.mark.parametrize(
    "kernel, bits", [(stored, 256), (stored, 512), (divided, 512), (moved, 256)], ids=lambda x: str(x)[-9:]
)
def test_stores_of_any_number_of_elements_run_in_lanes(kernel: Any, bits: int) -> None:
    f = optimised(kernel.source, Signature(kernel.types))
    wide = widen_loops(clone_function(f), bits, 32)
    verify(wide)
    assert is_wide(wide)
    for at in (-(2**31), -75, -69, -60, -3, 0, 5, 63, 64, 79, 90, 2**31 - 1):
        a = np.random.default_rng(1).normal(size=75).astype(np.float32)
        expected, got = [a, np.ones(80, np.float32), at], [a, np.ones(80, np.float32), at]
        run(f, expected, (1,))
        run_lanes(wide, got, (1,))
        np.testing.assert_array_equal(got[1], expected[1])


@pytest.mark.filterwarnings("ignore:.*elements share memory")
def test_the_last_of_several_stores_to_one_element_stays() -> None:
    a = np.linspace(0.0, 1.0, 70, dtype=np.float32)
    for stride in (0, -4, 8):
        memory = np.zeros(300, np.float32)
        out = np.lib.stride_tricks.as_strided(memory[80:], (70,), (stride,))
        wp.launch_tiled(stored, dim=1, inputs=[a, out, 0], block_dim=1)
        expected = np.exp(a) if stride else np.exp(a[-1:])
        np.testing.assert_allclose(out[: len(expected)], expected, rtol=1e-6)


def test_loops_whose_loads_and_stores_may_meet_stay_as_they_are() -> None:
    for kernel, bits in ((copied, 512), (divided, 256)):
        f = optimised(kernel.source, Signature(kernel.types))
        assert not is_wide(widen_loops(clone_function(f), bits, 32))
