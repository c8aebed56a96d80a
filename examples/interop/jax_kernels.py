"""Kernels called from JAX: grids, shapes, numbers, in-out arguments, batches."""

import jax
import jax.numpy as jnp
import numpy as np

import warp_like as wp


@wp.kernel
def project(
    points: wp.array(dtype=wp.vec3),
    camera: wp.mat33,
    focal: float,
    pixels: wp.array(dtype=wp.vec2),
    depths: wp.array(dtype=float),
):
    i = wp.tid()
    p = camera * points[i]
    depths[i] = p[2]
    pixels[i] = wp.vec2(focal * p[0] / p[2], focal * p[1] / p[2])


@wp.kernel
def matmul(
    a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)
):
    i, j = wp.tid()
    total = float(0.0)  # noqa: UP018 -- a variable of the loop, and no constant
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@wp.kernel
def move(velocity: wp.array(dtype=float), position: wp.array(dtype=float), dt: float):
    i = wp.tid()
    position[i] += dt * velocity[i]


def main() -> None:
    """Call each kernel and compare with the same in NumPy."""
    # Trailing dimensions are the components of vectors and matrices. The focal length
    # is traced.
    view = jax.jit(wp.jax_kernel(project, num_outputs=2))
    points = jnp.array([[0.0, 0.0, 2.0], [1.0, 2.0, 4.0]])
    pixels, depths = view(points, jnp.eye(3), 100.0)
    assert np.allclose(pixels, [[0.0, 0.0], [25.0, 50.0]])
    assert np.allclose(depths, [2.0, 4.0])

    # One camera for all rows of a batch, or a batch of cameras for one set of points.
    cameras = jnp.stack([jnp.eye(3), 2.0 * jnp.eye(3)])
    _, batch = jax.vmap(view, in_axes=(None, 0, None))(points, cameras, 100.0)
    assert np.allclose(batch, [[2.0, 4.0], [4.0, 8.0]])

    # The first array has another shape than the grid and the result.
    product = wp.jax_kernel(matmul, launch_dims=(2, 4))
    a, b = jnp.arange(6.0).reshape(2, 3), jnp.arange(12.0).reshape(3, 4)
    (c,) = product(a, b)
    assert np.allclose(c, a @ b)

    # An argument that the kernel changes is returned; a donated one, in place.
    step = jax.jit(wp.jax_kernel(move, in_out_argnames=["position"]), donate_argnums=1)
    position = jnp.zeros(3)
    for _ in range(10):
        (position,) = step(jnp.arange(3.0), position, 0.1)
    assert np.allclose(position, [0.0, 1.0, 2.0])
    print("every kernel agrees with NumPy")


if __name__ == "__main__":
    main()
