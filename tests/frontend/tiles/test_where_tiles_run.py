"""Kernels with tiles under everything that runs kernels: operators of frameworks, tapes, graphs, modules, generics."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.base.errors import WarpCodegenError

N, ROWS, BLOCKS = 3, 8, 3
WIDTH = wp.constant(N)
SCALE = 2.0
Matrix = wp.array2d(dtype=wp.float64)


@wp.kernel
def solves(a: Matrix, b: Matrix, out: Matrix):
    """``(x x^T + 4)^-1 y`` of the rows of each block; the last one reaches beyond the arrays."""
    i = wp.tid()
    x = wp.tile_load(a, shape=(WIDTH, WIDTH), offset=(i * WIDTH, 0))
    y = wp.tile_load(b, shape=(WIDTH, 2), offset=(i * WIDTH, 0))
    m = wp.tile_diag_add(wp.tile_matmul(x, wp.tile_transpose(x)), wp.tile_full(WIDTH, 4.0, dtype=wp.float64))
    wp.tile_cholesky_inplace(m)
    y *= y
    wp.tile_cholesky_solve_inplace(m, y)
    wp.tile_store(out, y, offset=(i * WIDTH, 0))


def wanted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    made = []
    for i in range(BLOCKS):
        x, y = np.zeros((N, N)), np.zeros((N, 2))
        rows = a[i * N : (i + 1) * N]
        x[: len(rows)], y[: len(rows)] = rows, b[i * N : (i + 1) * N]
        made.append(np.linalg.solve(x @ x.T + 4.0 * np.eye(N), y * y))
    return np.concatenate(made)[:ROWS]


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.uniform(-1.0, 1.0, (ROWS, N)), rng.uniform(-1.0, 1.0, (ROWS, 2))


def slopes() -> list[np.ndarray]:
    """The gradient of the sum of the outputs, by central differences of NumPy."""
    given, found = arrays(), []
    for k in range(2):
        made = np.zeros_like(given[k])
        for at in np.ndindex(made.shape):
            plus, minus = [x.copy() for x in given], [x.copy() for x in given]
            plus[k][at] += 1e-6
            minus[k][at] -= 1e-6
            made[at] = (wanted(*plus) - wanted(*minus)).sum() / 2e-6
        found.append(made)
    return found


def on_device(*given: np.ndarray, **options: Any) -> list[wp.array]:
    return [wp.array(x, dtype=wp.float64, **options) for x in given]


def launch(inputs: Any, out: Any, **options: Any) -> Any:
    return wp.launch_tiled(solves, dim=BLOCKS, inputs=inputs, outputs=[out], block_dim=64, **options)


# --- tapes, recorded launches, graphs ---


def test_tapes():
    a, b = on_device(*arrays(), requires_grad=True)
    out = wp.zeros((ROWS, 2), dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        launch([a, b], out)
        launch([a, out], out)  # overwrites what the first one has written, which the gradient needs
    tape.backward(grads={out: wp.ones_like(out)})
    again = lambda x, y: wanted(x, wanted(x, y)).sum()  # noqa: E731
    x, y = arrays()
    for k, at in ((0, (4, 1)), (1, (7, 0))):
        change = [np.zeros_like(x), np.zeros_like(y)]
        change[k][at] = 1e-6
        slope = (again(x + change[0], y + change[1]) - again(x - change[0], y - change[1])) / 2e-6
        np.testing.assert_allclose((a, b)[k].grad.numpy()[at], slope, rtol=1e-5, atol=1e-9)


def test_recorded_launches_on_tapes_and_alone():
    a, b = on_device(*arrays(), requires_grad=True)
    out = wp.zeros((ROWS, 2), dtype=wp.float64, requires_grad=True)
    command = launch([a, b], out, record_cmd=True)
    with wp.Tape() as tape:
        command.launch()
    tape.backward(grads={out: wp.ones_like(out)})
    np.testing.assert_allclose(out.numpy(), wanted(*arrays()), rtol=1e-12)
    for got, slope in zip((a, b), slopes(), strict=True):
        np.testing.assert_allclose(got.grad.numpy(), slope, rtol=1e-6, atol=1e-8)


def test_graphs_with_gradients():
    a, b = on_device(*arrays(), requires_grad=True)
    out = wp.zeros((ROWS, 2), dtype=wp.float64, requires_grad=True)
    seed = wp.ones_like(out)
    with wp.ScopedCapture(device="cpu") as capture:
        with wp.Tape() as tape:
            launch([a, b], out)
        tape.backward(grads={out: seed})
    for _ in range(2):
        a.grad.zero_()
        b.grad.zero_()
        wp.capture_launch(capture.graph)
    np.testing.assert_allclose(out.numpy(), wanted(*arrays()), rtol=1e-12)
    for got, slope in zip((a, b), slopes(), strict=True):
        np.testing.assert_allclose(got.grad.numpy(), slope, rtol=1e-6, atol=1e-8)


# --- frameworks ---


def test_operators_of_pytorch():
    torch = pytest.importorskip("torch")
    a, b = (torch.tensor(x, requires_grad=True) for x in arrays())
    op = wp.torch_op(solves, dim=BLOCKS, shapes={"out": (ROWS, 2)})
    got = op(a, b)
    np.testing.assert_allclose(got.detach().numpy(), wanted(*arrays()), rtol=1e-12)
    got.sum().backward()
    for x, slope in zip((a, b), slopes(), strict=True):
        np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-6, atol=1e-8)


def test_second_derivatives_in_pytorch():
    torch = pytest.importorskip("torch")
    op = wp.torch_op(cubes, dim=2)
    a = torch.linspace(0.2, 1.4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(op, (a,))
    assert torch.autograd.gradgradcheck(op, (a,))


def test_functions_for_jax():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    try:
        a, b = (jax.numpy.asarray(x) for x in arrays())
        f = wp.jax_kernel(solves, launch_dims=BLOCKS, output_dims=(ROWS, 2), enable_backward=True)
        np.testing.assert_allclose(jax.jit(f)(a, b)[0], wanted(*arrays()), rtol=1e-12)
        got = jax.jit(jax.grad(lambda x, y: f(x, y)[0].sum(), argnums=(0, 1)))(a, b)
        for x, slope in zip(got, slopes(), strict=True):
            np.testing.assert_allclose(x, slope, rtol=1e-6, atol=1e-8)
    finally:
        jax.config.update("jax_enable_x64", False)


# --- generics, closures, constants ---


@wp.func
def scaled(t: Any, by: Any):
    t *= by
    return wp.tile_sum(t)[0]


@wp.kernel
def any_type(a: wp.array2d(dtype=Any), out: wp.array2d(dtype=Any)):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=wp.static(N + 1))
    total = scaled(t, a.dtype(wp.static(SCALE)))
    t += wp.tile_full(wp.static(N + 1), total)
    wp.tile_store(out[i], t)


@pytest.mark.parametrize("dtype", [wp.float16, wp.bfloat16, wp.float32, wp.float64, wp.int32, wp.uint64])
def test_generic_kernels(dtype: Any):
    a, out = wp.array([[1, 2, 3], [3, 4, 5]], dtype=dtype), wp.zeros((2, 3), dtype=dtype)
    wp.launch_tiled(any_type, dim=2, inputs=[a, out], block_dim=16)
    assert [float(x) for x in out.list()] == [14.0, 16.0, 18.0, 30.0, 32.0, 34.0]


def sized(rows: int, function: Any) -> Any:
    """A kernel for tiles of a size, with a function, both of its closure."""

    @wp.kernel(module="unique")
    def closure(a: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        t = wp.tile_map(function, wp.tile_load(a, shape=rows, offset=i * rows))
        wp.tile_store(out, wp.tile_sum(t), offset=i)

    return closure


@wp.func
def cubed(x: float):
    return x * x * x


@pytest.mark.parametrize("rows", [1, 4, 17])
def test_closures(rows: int):
    a = np.arange(2 * rows, dtype=np.float32)
    for function, power in ((cubed, 3), (wp.sin, 0)):
        out = np.zeros(2, np.float32)
        wp.launch_tiled(sized(rows, function), dim=2, inputs=[a, out], block_dim=16)
        whole = a.reshape(2, rows).astype(np.float64)
        np.testing.assert_allclose(out, (whole**power if power else np.sin(whole)).sum(axis=1), rtol=1e-5, atol=1e-5)


# --- modules that are compiled ahead of time ---

PROGRAM = """
import sys

import numpy as np

import warp_like as wp

Matrix = wp.array2d(dtype=float)


@wp.kernel
def product(a: Matrix, out: Matrix):
    i = wp.tid()
    x = wp.tile_load(a, shape=(2, 2), offset=(2 * i, 0))
    wp.tile_store(out, wp.tile_matmul(x, wp.tile_transpose(x)), offset=(2 * i, 0))
"""
COMPILES = """
wp.compile_aot_module(product.module, device="cpu", module_dir=sys.argv[1])
"""
DECLARED = """
wp.load_aot_module(product.module, device="cpu", module_dir=sys.argv[1])
"""
BY_NAME = """
product = wp.load_aot_module("__main__", device="cpu", module_dir=sys.argv[1]).kernels["product"]
"""
RUNS = """
a = wp.array(np.arange(12.0).reshape(6, 2), dtype=float, requires_grad=True)
out = wp.zeros((6, 2), dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch_tiled(product, dim=3, inputs=[a], outputs=[out], block_dim=32)
tape.backward(grads={out: wp.ones_like(out)})
x = np.arange(12.0).reshape(3, 2, 2)
np.testing.assert_allclose(out.numpy(), (x @ x.transpose(0, 2, 1)).reshape(6, 2))
np.testing.assert_allclose(a.grad.numpy(), 2.0 * np.repeat(x.sum(axis=1), 2, axis=0))
"""


def run(path: Path, text: str, folder: Path) -> None:
    path.write_text(text)
    done = subprocess.run([sys.executable, path, folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_modules_compiled_ahead_of_time(tmp_path: Path):
    folder = tmp_path / "modules"
    folder.mkdir()
    run(tmp_path / "program.py", PROGRAM + COMPILES, folder)
    assert any(folder.iterdir())
    run(tmp_path / "program.py", PROGRAM + DECLARED + RUNS, folder)
    imports, _, _ = PROGRAM.partition("Matrix")
    run(tmp_path / "program.py", imports + BY_NAME + RUNS, folder)


# --- second derivatives ---


@wp.kernel
def cubes(a: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    t = wp.tile_load(a, shape=3, offset=3 * i)
    wp.tile_store(out, t * t * wp.tile_map(wp.sin, t), offset=3 * i)


def test_second_derivatives():
    x = np.linspace(0.2, 1.4, 6)
    d = np.linspace(-1.0, 1.0, 6)
    out = wp.zeros(6, dtype=wp.float64)
    ones = wp.ones(6, dtype=wp.float64)
    a, tangent = on_device(x, d)
    (got, *_) = wp.autograd.hvp(cubes, 2, [a], [out], tangents=[tangent], adj_outputs=[ones])
    second = 2.0 * np.sin(x) + 4.0 * x * np.cos(x) - x * x * np.sin(x)
    np.testing.assert_allclose(got.numpy(), second * d, rtol=1e-9)


def test_a_gradient_inside_of_a_kernel_of_a_function_with_tiles():
    @wp.func
    def length(x: wp.float64, y: wp.float64):
        t = wp.tile_full(shape=3, value=x)
        t *= y
        return wp.tile_sum(t * t)[0]

    @wp.kernel(module="unique")
    def inner(out: wp.array(dtype=wp.float64)):
        gx, gy = wp.grad(length)(wp.float64(2.0), wp.float64(3.0))
        out[0] = gx
        out[1] = gy

    out = np.zeros(2)
    wp.launch(inner, 1, [out])
    np.testing.assert_allclose(out, [108.0, 72.0])


# --- debug mode ---


@wp.kernel
def unchecked(a: wp.array(dtype=float), at: int):
    t = wp.tile_load(a, shape=2)
    wp.tile_store(a, t, offset=at, bounds_check=False)


@wp.kernel
def unchecked_load(a: wp.array(dtype=float), at: int):
    wp.tile_store(a, wp.tile_load(a, shape=2, offset=at, bounds_check=False))


@wp.kernel
def unchecked_sum(a: wp.array(dtype=float), at: int):
    wp.tile_atomic_add(a, wp.tile_load(a, shape=2), offset=at, bounds_check=False)


@pytest.mark.parametrize("at, index", [(3, 4), (-1, -1)])
@pytest.mark.parametrize("kernel", [unchecked, unchecked_load, unchecked_sum], ids=lambda k: k.key)
def test_a_promise_that_does_not_hold(kernel: Any, at: int, index: int):
    a = wp.zeros(4, dtype=float)
    wp.launch(kernel, 1, [a, 2], options={"mode": "debug"})
    with pytest.raises(IndexError, match=f"index {index} is out of range for array `a` .* line [0-9]+ of "):
        wp.launch(kernel, 1, [a, at], options={"mode": "debug"})


def test_tiles_are_no_parameters_of_kernels():
    def takes(t: wp.tile[float, 4]):
        wp.printf("%f", t[0])

    with pytest.raises(
        WarpCodegenError, match="argument `t` of kernel `takes`: a tile.4. of float32 is made by"
    ) as caught:
        wp.launch(wp.kernel(takes, module="unique"), 1, [np.zeros(4, np.float32)])
    assert caught.value.loc.line == takes.__code__.co_firstlineno
    assert "^" in str(caught.value)


@wp.kernel
def solves_of_a_grid(
    a: wp.array4d(dtype=wp.float64), b: wp.array3d(dtype=wp.float64), out: wp.array3d(dtype=wp.float64)
):
    i, j = wp.tid()
    m = wp.tile_load(a[i, j], shape=(WIDTH, WIDTH))
    y = wp.tile_load(b[i, j], shape=WIDTH)
    wp.tile_store(out[i, j], wp.tile_cholesky_solve(wp.tile_cholesky(m), y * y))


@pytest.mark.parametrize("dims", [(40, 1), (1, 3), (7, 5)])
def test_lanes_hold_blocks_of_several_rows(dims: tuple[int, int]):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1.0, 1.0, (*dims, N, N)), rng.uniform(-1.0, 1.0, (*dims, N))
    a = x @ x.swapaxes(-1, -2) + 4.0 * np.eye(N)
    given = wp.array(y, dtype=wp.float64, requires_grad=True)
    out = wp.zeros((*dims, N), dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(solves_of_a_grid, dim=dims, inputs=[wp.array(a), given], outputs=[out], block_dim=32)
    np.testing.assert_allclose(out.numpy(), np.linalg.solve(a, (y * y)[..., None])[..., 0], rtol=1e-12)
    tape.backward(grads={out: wp.ones_like(out)})
    slope = 2.0 * y * np.linalg.solve(a, np.ones((*dims, N, 1)))[..., 0]
    np.testing.assert_allclose(given.grad.numpy(), slope, rtol=1e-12)
    assert "of 64-bit numbers" in str(solves_of_a_grid.explain())
    assert "tid 0 of 1 : int64" in solves_of_a_grid.inspect("lanes")
