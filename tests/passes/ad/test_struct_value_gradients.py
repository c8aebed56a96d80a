"""``wp.grad`` of functions that take or return structs and tuples: results are formed like the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

import warp_like as wp
from tests.gradients import check
from warp_like.backend import libdevice
from warp_like.backend.nvptx import assemble


@wp.struct
class Pose:
    at: wp.vec3d


@wp.struct
class Spring:
    stiffness: wp.float64
    pose: Pose
    n: int


@wp.struct
class Loaded:
    weights: wp.array(dtype=wp.float64)
    scale: wp.float64


@wp.func
def energy(s: Spring, x: wp.float64):
    return s.stiffness * x * x * s.pose.at[1] + wp.float64(s.n)


@wp.func
def moved(x: wp.float64, by: tuple[wp.float64, wp.float64]):
    s = Spring()
    s.stiffness = x * x * by[0]
    s.pose.at = wp.vec3d(x, by[1], wp.float64(1.0))
    return s


@wp.func
def stored(s: Spring):
    return s.stiffness * s.stiffness * s.pose.at[0]


@wp.func
def weighted(load: Loaded, i: int):
    return load.weights[i] * load.scale * load.scale


@wp.kernel
def gradients(x: wp.array(dtype=wp.float64), weights: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    s = Spring(x[0], Pose(wp.vec3d(1.0, x[1], 3.0)), 7)
    g, gx = wp.grad(energy)(s, x[2])
    out[0] = g.stiffness
    out[1] = g.pose.at[1] + 10.0 * g.pose.at[0]
    out[2] = gx
    out[3] = wp.float64(g.n)  # an integer has none
    by_x, by = wp.grad(moved)(x[2], (x[0], x[1]))  # of the sum of all fields
    out[4] = by_x
    out[5] = by[0]
    out[6] = by[1]
    second = wp.grad(wp.grad(stored))(s)  # of the sum of all fields of the gradient
    out[7] = second.stiffness
    out[8] = second.pose.at[0]
    load, _ = wp.grad(weighted)(Loaded(weights, x[1]), 1)
    out[9] = load.scale + load.weights[0]  # an array is a constant, and stays what it is


def test_gradients_have_the_form_of_the_arguments():
    a, b, c = 2.0, 5.0, 3.0
    weights = np.array([100.0, 4.0])
    out = np.zeros(10)
    wp.launch(gradients, 1, inputs=[np.array([a, b, c]), weights, out])
    expected = [c * c * b, a * c * c, 2 * a * c * b, 0, 2 * c * a + 1, c * c, 1, 2 * 1 + 2 * a, 2 * a, 2 * 4 * b + 100]
    np.testing.assert_allclose(out, expected, rtol=1e-14)
    ptx = gradients.inspect("ptx", target="sm_80")
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, "sm_80")[:4] == b"\x7fELF"


def test_they_can_be_differentiated():
    check(gradients, 1, [np.array([2.0, 5.0, 3.0]), np.array([100.0, 4.0])], 10)


def test_functions_of_any_type():
    @wp.func
    def total(t: Any):
        return t[0] * t[1].stiffness

    @wp.kernel
    def k(out: wp.array(dtype=wp.float64)):
        s = Spring()
        s.stiffness = wp.float64(4.0)
        factor, by_s = wp.grad(total)((wp.float64(3.0), s))
        out[0] = factor
        out[1] = by_s.stiffness

    out = np.zeros(2)
    wp.launch(k, 1, inputs=[out])
    np.testing.assert_array_equal(out, [4.0, 3.0])
