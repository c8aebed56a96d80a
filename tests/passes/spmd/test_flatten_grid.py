"""Functions of grids of several dimensions do the same where their threads are numbered through the whole grid."""

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.long_tail import seeds
from tests.random_ir import own_arguments, own_function
from warp_like.ir.printer import print_function
from warp_like.ir.verify import verify
from warp_like.passes.pipeline import finish, optimise, prepare
from warp_like.passes.spmd.flatten_grid import flatten_grid
from warp_like.passes.spmd.values import NotWidenable
from warp_like.passes.spmd.widen import widen

DIMS = ((3, 7), (9, 1), (1, 5), (5, 3))


@pytest.mark.parametrize("seed", seeds(200, few=6))
def test_numbered_threads_do_what_they_did(seed: int) -> None:
    """The functions ask for their number in the grid as well as for both indices."""
    f = finish(optimise(prepare(own_function(seed))))
    flat, dims = flatten_grid(f, narrow=seed % 3 == 1), DIMS[seed % 4]
    verify(flat)
    wanted, got = own_arguments(seed, dims), own_arguments(seed, dims)
    run(f, wanted, dims)
    run(flat, got, dims)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(b, a, err_msg=f"{print_function(f)}\n{print_function(flat)}")
    try:
        wide = widen(flat, 4)
    except NotWidenable:
        return
    got = own_arguments(seed, dims)
    run_lanes(wide, got, dims)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(b, a, err_msg=f"{print_function(f)}\n{print_function(wide)}")


@wp.kernel
def places_from_a_counter(
    x: wp.array2d(dtype=wp.float64), y: wp.array(dtype=wp.float64), place: wp.array2d(dtype=int), n: wp.array(dtype=int)
):
    i, j = wp.tid()
    s = wp.tile_sum(wp.tile_load(x[i], shape=2, offset=2 * j))[0]
    at = wp.atomic_add(n, 0, 1)
    place[i, j] = at
    y[at] = s * s


def test_what_atomics_returned_is_found_again_by_numbered_threads() -> None:
    """The adjoint loads it by the thread's number, beside the indices that the kernel asks for."""
    given, weights = np.random.default_rng(0).normal(size=(3, 10)), np.random.default_rng(1).normal(size=15)
    x, y = wp.array(given, dtype=wp.float64, requires_grad=True), wp.zeros(15, dtype=wp.float64, requires_grad=True)
    place = wp.zeros((3, 5), dtype=int)
    wp.config.vector_width = 4
    try:
        with wp.Tape() as tape:
            wp.launch(places_from_a_counter, (3, 5), [x, y, place, wp.zeros(1, dtype=int)])
        tape.backward(grads={y: wp.array(weights, dtype=wp.float64)})
    finally:
        del wp.config.vector_width
    slope = 2.0 * given.reshape(3, 5, 2).sum(axis=2) * weights[place.numpy()]
    np.testing.assert_allclose(x.grad.numpy(), np.repeat(slope, 2, axis=1), rtol=1e-12)
