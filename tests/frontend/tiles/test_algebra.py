"""What debug mode finds in factorisations and solves."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp

N = 3
A = wp.array3d(dtype=wp.float64)


@wp.kernel
def cholesky(a: A, out: A):
    i = wp.tid()
    wp.tile_store(out[i], wp.tile_cholesky(wp.tile_load(a[i], shape=(N, N))))


@wp.kernel
def cholesky_inplace(a: A, out: A):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=(N, N))
    wp.tile_cholesky_inplace(t, fill_mode="upper")
    wp.tile_store(out[i], t)


@wp.kernel
def lower_solve(a: A, out: A):
    i = wp.tid()
    wp.tile_store(out[i], wp.tile_lower_solve(wp.tile_load(a[i], shape=(N, N)), wp.tile_ones((N, N), wp.float64)))


@wp.kernel
def upper_solve_inplace(a: A, out: A):
    i = wp.tid()
    y = wp.tile_ones(N, wp.float64)
    wp.tile_upper_solve_inplace(wp.tile_load(a[i], shape=(N, N)), y)
    wp.tile_store(out[i, 0], y)


@wp.kernel
def cholesky_solve(a: A, out: A):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=(N, N))
    wp.tile_store(out[i], wp.tile_cholesky_solve(t, wp.tile_ones((N, N), wp.float64)))


POSITIVE = "the matrix is not positive definite, pivot {} is not positive"
SINGULAR = "the matrix is singular, element {} of the diagonal of `{}` is 0"
FACTORS = {cholesky: "tile_cholesky", cholesky_inplace: "tile_cholesky_inplace"}
SOLVES = {lower_solve: "L", upper_solve_inplace: "U", cholesky_solve: "L"}


def launched(kernel: Any, matrices: np.ndarray, **options: Any) -> None:
    out = np.zeros_like(matrices)
    wp.launch_tiled(kernel, dim=len(matrices), inputs=[matrices, out], block_dim=32, options=options)


def diagonals(at: int, value: float) -> np.ndarray:
    """Nine matrices, of which the sixth has a wrong number on its diagonal."""
    made = np.stack([np.diag([4.0, 3.0, 2.0]) for _ in range(9)])
    made[5, at, at] = value
    return made


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("at", range(N))
@pytest.mark.parametrize("kernel", FACTORS, ids=lambda k: k.key)
def test_a_pivot_that_is_not_positive(kernel: Any, at: int, value: float, width: int):
    with pytest.raises(ArithmeticError) as caught:
        launched(kernel, diagonals(at, value), mode="debug", vector_width=width)
    assert f"{FACTORS[kernel]}(): {POSITIVE.format(at)} in thread 5" in str(caught.value)
    line = next(k for k, text in enumerate(kernel.source.text.splitlines()) if "tile_cholesky" in text)
    assert f"line {kernel.func.__code__.co_firstlineno + line} of {__file__}" in str(caught.value)


@pytest.mark.parametrize("at", range(N))
@pytest.mark.parametrize("kernel", SOLVES, ids=lambda k: k.key)
def test_a_singular_matrix(kernel: Any, at: int):
    with pytest.raises(ArithmeticError) as caught:
        launched(kernel, diagonals(at, 0.0), mode="debug")
    assert SINGULAR.format(at, SOLVES[kernel]) in str(caught.value)


@pytest.mark.parametrize("kernel", [*FACTORS, *SOLVES], ids=lambda k: k.key)
def test_other_matrices_pass(kernel: Any):
    launched(kernel, diagonals(0, 5.0), mode="debug")
    launched(kernel, diagonals(0, 0.0))  # in release mode, nobody looks


def test_gradients_in_debug_mode():
    a = wp.array(diagonals(1, 7.0), dtype=wp.float64, requires_grad=True)
    out = wp.zeros_like(a)
    with wp.Tape() as tape:
        wp.launch_tiled(cholesky, dim=9, inputs=[a], outputs=[out], block_dim=32, options={"mode": "debug"})
    tape.backward(grads={out: wp.ones_like(out)})
    np.testing.assert_allclose(a.grad.numpy()[5, 1, 1], 0.5 / np.sqrt(7.0))
