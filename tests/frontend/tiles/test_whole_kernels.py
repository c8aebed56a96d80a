"""What kernels on tiles compute, and their gradients, against NumPy, the interpreter and finite differences."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import CudaKernel
from tests.frontend.support import build
from tests.frontend.tiles.programs import BLOCKS, PROGRAMS, ROWS, SHAPE, C, R, expected
from tests.gradients import check
from tests.interpreter import run
from tests.long_tail import crossed, tail
from warp_like.ir.core import Function
from warp_like.ir.types import Tile
from warp_like.passes.pipeline import Options, finish, optimise, prepare

NAMES = list(PROGRAMS)


def arrays(seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.0, 1.0, SHAPE), rng.uniform(-1.0, 1.0, SHAPE)


def launched(kernel: Any, **options: Any) -> np.ndarray:
    out = np.zeros(SHAPE)
    wp.launch_tiled(kernel, dim=BLOCKS, inputs=[*arrays(), out], block_dim=64, **options)
    return out


def lowered(f: Function) -> Function:
    """``f`` as backends take it, without tiles."""
    options = Options(verify=True)
    made = finish(optimise(prepare(f, options), options), options)
    assert not any(isinstance(r.type, Tile) for o in made.body.walk() for r in o.results)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_it_computes_what_numpy_does(name):
    wanted = expected(name, *arrays())
    np.testing.assert_allclose(launched(PROGRAMS[name][0]), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", crossed(NAMES, every=2))
def test_the_interpreter_agrees(name):
    """Before and after tiles are put into memory."""
    f = build(PROGRAMS[name][0].func)
    wanted = expected(name, *arrays())
    for g in (f, lowered(f)):
        args: list[Any] = [*arrays(), np.zeros(SHAPE)]
        run(g, args, (BLOCKS,))
        np.testing.assert_allclose(args[-1], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"), crossed(NAMES, [{"vector_width": 1}, {"vector_width": 4}, {"mode": "debug"}], every=6)
)
def test_lanes_and_debug_mode_agree(name, options):
    wanted = expected(name, *arrays())
    np.testing.assert_allclose(launched(PROGRAMS[name][0], options=options), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", crossed(NAMES, every=2))
def test_cuda_agrees(name):
    kernel = CudaKernel(lowered(build(PROGRAMS[name][0].func)))
    args = [*arrays(), np.zeros(SHAPE)]
    kernel(args, (BLOCKS,))
    np.testing.assert_allclose(args[-1], expected(name, *arrays()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", crossed(NAMES, every=2))
def test_the_gradient(name):
    check(PROGRAMS[name][0], BLOCKS, list(arrays()), SHAPE)


@pytest.mark.parametrize(
    "name", crossed(["operators", "rows_and_slices", "in_loops", "reductions", "products", "factors"], every=2)
)
def test_forward_mode(name):
    kernel = PROGRAMS[name][0]
    (a, b), (da, db) = arrays(), arrays(seed=6)
    eps = 1e-6
    wanted = (expected(name, a + eps * da, b + eps * db) - expected(name, a - eps * da, b - eps * db)) / (2.0 * eps)
    (got,) = wp.autograd.jvp(kernel, BLOCKS, [a, b], [np.zeros(SHAPE)], [da, db])
    np.testing.assert_allclose(got.numpy(), wanted, atol=1e-7)


SECOND = ["used_again_after_a_change", "factors"]


@pytest.mark.parametrize("name", [*SECOND, *(tail(name) for name in NAMES if name not in SECOND)])
def test_second_derivatives(name):
    """The product of the Hessian and a direction, against differences of the gradient."""
    kernel, eps = PROGRAMS[name][0], 1e-5
    given, along = arrays(), arrays(seed=6)
    weights = np.random.default_rng(8).uniform(0.3, 1.0, SHAPE)

    def slopes(sign: float) -> list[np.ndarray]:
        made = [
            wp.array(x + sign * eps * d, dtype=wp.float64, requires_grad=True)
            for x, d in zip(given, along, strict=True)
        ]
        out = wp.zeros(SHAPE, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch_tiled(kernel, dim=BLOCKS, inputs=made, outputs=[out], block_dim=64)
        tape.backward(grads={out: wp.array(weights, dtype=wp.float64)})
        return [x.grad.numpy() for x in made]

    of_float64 = [wp.array(x, dtype=wp.float64) for x in (*given, *along, weights)]
    out = wp.zeros(SHAPE, dtype=wp.float64)
    got = wp.autograd.hvp(kernel, BLOCKS, of_float64[:2], [out], tangents=of_float64[2:4], adj_outputs=of_float64[4:])
    for x, p, m in zip(got, slopes(1.0), slopes(-1.0), strict=True):
        np.testing.assert_allclose(x.numpy(), (p - m) / (2.0 * eps), rtol=1e-6, atol=1e-7)


def test_the_programs_reach_beyond_the_arrays():
    assert BLOCKS * R > ROWS
    assert C % 2 == 1
