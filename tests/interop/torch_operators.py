"""Kernels as operators of PyTorch, for the tests of ``wp.torch_op``: each is registered once a process."""

import pytest

import warp_like as wp

torch = pytest.importorskip("torch")
f64 = wp.float64


@wp.kernel
def square(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def wave(x: wp.array(dtype=f64), s: f64, y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * s


@wp.kernel
def both(x: wp.array(dtype=f64), s: f64, y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i] * s
    z[i] = y[i] * y[i]


@wp.kernel
def weighted(x: wp.array2d[f64], w: wp.array(dtype=f64), total: wp.array(dtype=f64)):
    i, j = wp.tid()
    wp.atomic_add(total, 0, x[i, j] * w[j] * w[j])


@wp.kernel
def stencil(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    n = x.shape[0]
    y[i] = x[i] * x[(i + 1) % n]


@wp.kernel
def square_here(x: wp.array(dtype=f64)):
    i = wp.tid()
    x[i] = x[i] * x[i]


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


def two_steps(x: wp.array(dtype=f64), s: f64, y: wp.array(dtype=f64)):
    between = wp.zeros_like(x, requires_grad=True)
    wp.launch(square, x.shape[0], [x], [between])
    wp.launch(wave, x.shape[0], [between, s], [y])


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

MATRIX = [0.5, -1.0, 2.0, 0.0, 1.0, 3.0, 1.5, 0.25, -2.0]


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
