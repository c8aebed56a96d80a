"""A program that a type checker accepts as it stands; ``tests/test_stubs.py`` has it checked, and runs it."""

import numpy as np

import warp_like as wp


@wp.struct
class Spring:
    stiffness: float = 1.0
    rest: wp.vec3 = wp.vec3()


@wp.func
def wave(x: float, k: wp.float32) -> float:
    return wp.sin(x * k) + wp.max(x, 2.0)


@wp.func
def half(v: wp.vec3) -> wp.vec3:
    return 0.5 * v


@wp.kernel
def step(
    x: wp.array[wp.vec3],
    frames: wp.array2d[wp.mat33],
    out: wp.array[float],
    spring: Spring,
    n: int,
    q: wp.quat,
    xform: wp.transform,
):
    i = wp.tid()
    v = half(x[i]) + wp.vec3(1.0, 2.0, wp.length(x[i])) * spring.stiffness
    turned = frames[i, 0] * v
    u = wp.normalize(turned)
    moved = wp.quat_rotate(q, u) + wp.transform_point(xform, v) + xform.p - spring.rest
    normal = wp.cross(moved, v)
    k = wp.clamp(n, 0, 10)
    at: int = wp.abs(k) + wp.min(3, n)
    wp.atomic_add(out, at, normal.z)
    state = wp.rand_init(42, i)
    rotation, _scale, other = wp.svd3(frames[i, 0])
    wrench = wp.spatial_vector(rotation * v, normal)
    total = wp.dot(u, v) + wave(1.0, 2.0) + u.x + u[1] + float(n) + wp.determinant(other)
    total += wp.randf(state) + wp.randf(state, 0.0, 1.0) + wp.trace(wp.outer(u, v)) + wp.spatial_dot(wrench, wrench)
    out[i] += wp.where(n > 3, total, wp.pi)


def main() -> np.ndarray:
    """Launch it, with the arrays of the host's functions."""
    n = 2
    out = wp.zeros(10, dtype=float)
    frames = wp.full((n, 1), wp.mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), dtype=wp.mat33)
    points = wp.array(np.ones((n, 3)), dtype=wp.vec3)
    spring = Spring(stiffness=2.0)
    spring.rest = wp.vec3(1, 2, 3) * 0.0
    rotation, pose = wp.quat(0.0, 0.0, 0.0, 1.0), wp.transform()
    wp.launch(step, dim=n, inputs=[points, frames, out, spring, 3, rotation, pose], device="cpu")
    like: wp.array[float] = wp.ones_like(out)
    assert wp.utils.array_sum(like) == 10.0
    return out.numpy()
