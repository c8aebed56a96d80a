"""Kernels as operators of PyTorch, for the tests of ``wp.torch_op``: each is registered once a process."""

import pytest

import warp_like as wp
from tests.interop.operator_kernels import both, square, square_here, two_steps, wave, weighted

torch = pytest.importorskip("torch")
f64 = wp.float64


@wp.kernel
def stencil(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    n = x.shape[0]
    y[i] = x[i] * x[(i + 1) % n]


@wp.kernel
def replace_tail(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    if i > 0:
        x[i] = y[i]


@wp.kernel
def constant_tail(x: wp.array(dtype=f64)):
    i = wp.tid()
    if i > 0:
        x[i] = f64(3.0)


@wp.kernel
def relax(x: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(x, 0, x[i])


@wp.kernel
def turn(
    v: wp.array(dtype=wp.vec3d),
    m: wp.mat33d,
    axis: wp.vec3d,
    index: wp.array(dtype=wp.int32),
    out: wp.array(dtype=wp.vec3d),
    following: wp.array(dtype=wp.int32),
):
    i = wp.tid()
    out[i] = m * v[index[i]] + wp.cross(axis, v[index[i]])
    following[i] = index[i] + 1


@wp.kernel
def half(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 0.5 * x[i] + float(n)


@wp.kernel
def ramp(n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = float(i)


def square_twice(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    wp.launch(square_here, x.shape[0], [x])
    wp.launch(square, x.shape[0], [x], [y])


square_op = wp.torch_op(square)
wave_op = wp.torch_op(wave)
both_op = wp.torch_op(both, outputs=["y", "z"])
weighted_op = wp.torch_op(weighted, shapes={"total": 1})
stencil_op = wp.torch_op(stencil)
turn_op = wp.torch_op(
    turn,
    dim=lambda v, m, axis, index: len(index),
    shapes={"out": lambda *a: len(a[3])} | {"following": lambda v, m, axis, index: index.shape},
)
steps_op = wp.torch_op(two_steps, outputs="y")
half_op = wp.torch_op(half)


@wp.kernel
def oscillate(x: wp.array(dtype=f64), stiffness: f64, axis: wp.vec3d, n: int, y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = stiffness * wp.sin(x[i]) + wp.dot(axis, axis) * x[i] + f64(n)


@wp.kernel
def triple(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = f64(3.0) * x[i]


oscillate_op = wp.torch_op(oscillate, as_tensors=["stiffness", "axis", "n"])


def rand(*shape, grad=True):
    return torch.rand(*(shape or ((),)), dtype=torch.float64, requires_grad=grad)
