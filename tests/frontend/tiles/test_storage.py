"""Where tiles are: more of them than a block of a GPU could hold, and how often they are copied."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build
from tests.interpreter import run
from warp_like.ir import ops
from warp_like.ir.core import Block, Function
from warp_like.ir.types import Scalar
from warp_like.passes.pipeline import Options, finish, optimise, prepare

N = 96
Matrix = wp.array2d(dtype=wp.float64)


@wp.kernel
def layers(x: Matrix, v: Matrix, w: Matrix, out: Matrix):
    t = wp.tile_load(x, shape=(N, N))
    first, second = wp.tile_load(v, shape=(N, N)), wp.tile_load(w, shape=(N, N))
    hidden = wp.tile_map(wp.tanh, wp.tile_matmul(t, first))
    made = wp.tile_matmul(hidden, second)
    for _ in range(2):
        made *= t
    wp.tile_store(out, made + hidden)


def test_more_than_256_KiB_of_tiles_and_their_gradient():
    assert 5 * N * N * 8 > 256 * 1024
    rng = np.random.default_rng(4)
    x, v, w, seed = (rng.uniform(-0.3, 0.3, (N, N)) for _ in range(4))
    arrays = [wp.array(a, dtype=wp.float64, requires_grad=True) for a in (x, v, w)]
    out = wp.zeros((N, N), dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(layers, dim=1, inputs=arrays, outputs=[out], block_dim=64)
    tape.backward(grads={out: wp.array(seed, dtype=wp.float64)})
    hidden = np.tanh(x @ v)
    made = hidden @ w
    np.testing.assert_allclose(out.numpy(), made * x * x + hidden, rtol=1e-10, atol=1e-12)
    inner = ((seed * x * x) @ w.T + seed) * (1.0 - hidden**2)
    wanted = [inner @ v.T + 2.0 * seed * made * x, x.T @ inner, hidden.T @ (seed * x * x)]
    for a, slope in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), slope, rtol=1e-9, atol=1e-12)


# --- copies ---

ROWS, BLOCK = 32, 8


@wp.kernel
def blocked_cholesky(a: Matrix, out: Matrix):
    t = wp.tile_load(a, shape=(ROWS, ROWS))
    for j in range(0, ROWS, BLOCK):
        d = wp.tile_view(t, offset=(j, j), shape=(BLOCK, BLOCK))
        for k in range(0, j, BLOCK):
            left = wp.tile_view(t, offset=(j, k), shape=(BLOCK, BLOCK))
            wp.tile_matmul(left, wp.tile_transpose(left), d, alpha=-1.0)
        wp.tile_cholesky_inplace(d)
        for i in range(j + BLOCK, ROWS, BLOCK):
            b = wp.tile_view(t, offset=(i, j), shape=(BLOCK, BLOCK))
            for k in range(0, j, BLOCK):
                left = wp.tile_view(t, offset=(j, k), shape=(BLOCK, BLOCK))
                wp.tile_matmul(wp.tile_view(t, (i, k), (BLOCK, BLOCK)), wp.tile_transpose(left), b, alpha=-1.0)
            wp.tile_lower_solve_inplace(d, wp.tile_transpose(b))
    wp.tile_store(out, t)


@wp.kernel
def in_place(a: Matrix, out: Matrix):
    """Everything here changes ``t`` where it is."""
    t = wp.tile_load(a, shape=(ROWS, ROWS))
    s = wp.tile_load(out, shape=(BLOCK, ROWS))
    for k in range(3):
        row = t[k]
        row += s[k]
        t[k, 1] = 2.0 * t[k + 1, 2]
        part = wp.tile_view(t, offset=(BLOCK * k, 0), shape=(BLOCK, ROWS))
        wp.tile_axpy(0.5, s, part)
        wp.tile_matmul(s, wp.tile_full((ROWS, ROWS), 0.5, dtype=wp.float64), part)
        wp.tile_scatter_add(t, k, k, 1.0, True)
        t *= wp.float64(0.5)
    wp.tile_store(out, t)


def lowered(kernel: Any) -> Function:
    options = Options(verify=True)
    return finish(optimise(prepare(build(kernel.func), options), options), options)


def loops(block: Block) -> Iterator[ops.For]:
    """The loops that hold no others."""
    for o in block.ops:
        if isinstance(o, ops.For) and not any(isinstance(x, ops.For) for x in o.body.walk()):
            yield o
        for r in o.regions():
            yield from loops(r)


def is_copy(o: ops.For) -> bool:
    """Whether a loop takes numbers from arrays of the thread to others, and does nothing else."""
    stores = [x for x in o.body.ops if isinstance(x, ops.Store)]
    for x in o.body.ops:
        match x:
            case ops.Store(array=to, value=value):
                if not (isinstance(value.op, ops.Load) and _is_own(to) and _is_own(value.op.array)):
                    return False
            case ops.Apply():
                if not (isinstance(x.result.type, Scalar) and x.result.type.is_int):
                    return False
            case ops.Constant() | ops.Load() | ops.Yield():
                pass
            case _:
                return False
    return bool(stores)


def _is_own(array: Any) -> bool:
    return isinstance(array.op, ops.LocalArray)


def test_a_blocked_cholesky_has_one_buffer_for_the_matrix():
    """The matrix is never copied; blocks are, where a product, a factor or a solve takes them apart."""
    f = lowered(blocked_cholesky)
    x = np.random.default_rng(1).uniform(-1.0, 1.0, (ROWS, ROWS))
    m, out = x @ x.T + ROWS * np.eye(ROWS), np.zeros((ROWS, ROWS))
    wp.launch_tiled(blocked_cholesky, dim=1, inputs=[m, out], block_dim=64)
    np.testing.assert_allclose(np.tril(out), np.linalg.cholesky(m), rtol=1e-12)
    sizes = [o.shape[0] for o in f.body.walk() if isinstance(o, ops.LocalArray)]
    assert sum(n > ROWS * ROWS for n in sizes) == 1
    copies = [o for o in loops(f.body) if is_copy(o)]
    assert len(copies) <= 7


def test_changes_in_place_copy_nothing():
    f = lowered(in_place)
    x, out, again = np.ones((ROWS, ROWS)), np.full((ROWS, ROWS), 0.25), np.full((ROWS, ROWS), 0.25)
    wp.launch_tiled(in_place, dim=1, inputs=[x, out], block_dim=64)
    run(f, [x, again], (1,))
    np.testing.assert_allclose(out, again, rtol=1e-12)
    assert [o.loc.line for o in loops(f.body) if is_copy(o)] == []


@wp.kernel
def elementwise(a: Matrix, out: Matrix):
    """Each value takes the place of the one that it is made of."""
    t = wp.tile_load(a, shape=(ROWS, ROWS))
    for _k in range(9):
        t = wp.tile_map(wp.sin, t) * wp.float64(2.0)
        t += wp.tile_map(wp.min, t, wp.tile_full((ROWS, ROWS), 0.25, dtype=wp.float64))
    wp.tile_store(out, t)


def test_elements_overwrite_those_that_they_are_made_of():
    f = lowered(elementwise)
    assert [o.loc.line for o in loops(f.body) if is_copy(o)] == []
    assert sum(isinstance(o, ops.LocalArray) for o in f.body.walk()) <= 2
    x = np.random.default_rng(1).uniform(-1.0, 1.0, (ROWS, ROWS))
    out, wanted = np.zeros((ROWS, ROWS)), x
    wp.launch_tiled(elementwise, dim=1, inputs=[x, out], block_dim=64)
    for _ in range(9):
        wanted = np.sin(wanted) * 2.0
        wanted = wanted + np.minimum(wanted, 0.25)
    np.testing.assert_allclose(out, wanted, rtol=1e-8)


@wp.kernel
def needs_the_old_one(a: Matrix, out: Matrix):
    """None of these may overwrite what it reads."""
    t = wp.tile_load(a, shape=(ROWS, ROWS))
    turned = t + wp.tile_transpose(t)
    kept = t * t
    back = kept - t[::-1]
    for _ in range(3):
        new = back * wp.float64(0.5) + turned
        back = new + wp.tile_transpose(new) * back
    wp.tile_store(out, back + t)


def test_values_that_are_needed_stay():
    x = np.random.default_rng(1).uniform(-1.0, 1.0, (ROWS, ROWS))
    out, again = np.zeros((ROWS, ROWS)), np.zeros((ROWS, ROWS))
    wp.launch_tiled(needs_the_old_one, dim=1, inputs=[x, out], block_dim=64)
    run(lowered(needs_the_old_one), [x, again], (1,))
    turned, back = x + x.T, x * x - x[::-1]
    for _ in range(3):
        new = back * 0.5 + turned
        back = new + new.T * back
    np.testing.assert_allclose(out, back + x, rtol=1e-12)
    np.testing.assert_allclose(again, back + x, rtol=1e-12)


@wp.kernel
def transposed_variables(a: Matrix, b: Matrix, out: Matrix):
    x, y = wp.tile_load(a, shape=(BLOCK, ROWS)), wp.tile_load(b, shape=(BLOCK, ROWS))
    xt = wp.tile_transpose(x)
    yt = wp.tile_transpose(a=y)
    made = wp.tile_matmul(x, yt)
    x[0, 0] = 9.0  # the variable shows it, as every part of a tile does
    wp.tile_matmul(x, xt, made)
    wp.tile_store(out, made)


@wp.kernel
def transposed_in_the_call(a: Matrix, b: Matrix, out: Matrix):
    x, y = wp.tile_load(a, shape=(BLOCK, ROWS)), wp.tile_load(b, shape=(BLOCK, ROWS))
    made = wp.tile_matmul(x, wp.tile_transpose(y))
    x[0, 0] = 9.0
    wp.tile_matmul(x, wp.tile_transpose(x), made)
    wp.tile_store(out, made)


@wp.kernel
def variable_twice(a: Matrix, out: Matrix):
    x = wp.tile_load(a, shape=(BLOCK, BLOCK))
    xt = wp.tile_transpose(x)
    xtt = wp.tile_transpose(xt)
    made = wp.tile_matmul(xt, xt) - wp.tile_matmul(xt, wp.tile_transpose(xt))
    wp.tile_store(out, made + wp.tile_matmul(xtt, xt) + wp.tile_matmul(xt, xtt[0:BLOCK]))


def test_a_variable_that_holds_a_transposed_tile_is_not_copied():
    random = np.random.default_rng(7)
    x, y, out = random.random((BLOCK, ROWS)), random.random((BLOCK, ROWS)), np.zeros((BLOCK, BLOCK))
    wp.launch_tiled(transposed_variables, dim=1, inputs=[x, y, out], block_dim=64)
    changed = x.copy()
    changed[0, 0] = 9.0
    np.testing.assert_allclose(out, x @ y.T + changed @ changed.T, rtol=1e-12)
    kernels = (transposed_variables, transposed_in_the_call)
    copies = [sum(is_copy(o) for o in loops(lowered(kernel).body)) for kernel in kernels]
    assert copies[0] == copies[1]


def test_a_variable_that_holds_a_transposed_tile_as_both_factors():
    x, out = np.random.default_rng(8).random((BLOCK, BLOCK)), np.zeros((BLOCK, BLOCK))
    wp.launch_tiled(variable_twice, dim=1, inputs=[x, out], block_dim=64)
    np.testing.assert_allclose(out, x.T @ x.T + x @ x.T, rtol=1e-12, atol=1e-14)


def test_a_transposed_variable_of_a_tile_that_is_gone_is_refused():
    @wp.kernel
    def gone(a: Matrix, out: Matrix):
        x = wp.tile_load(a, shape=(BLOCK, BLOCK))
        xt = wp.tile_transpose(x)
        x = x + x
        wp.tile_store(out, wp.tile_matmul(x, xt))

    with pytest.raises(wp.WarpCodegenError, match="was assigned another one"):
        wp.launch_tiled(gone, dim=1, inputs=[np.zeros((BLOCK, BLOCK)), np.zeros((BLOCK, BLOCK))], block_dim=64)
