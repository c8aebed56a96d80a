"""Kernels on several devices with ``shard_map``: each device runs its part.

The CPU counts as four devices here; gradients of what all devices share are summed over
them by JAX.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import warp_like as wp


@wp.kernel
def multiply(
    a: wp.array(dtype=float), b: wp.array(dtype=float), c: wp.array(dtype=float)
):
    i = wp.tid()
    c[i] = a[i] * b[i]


@wp.kernel
def matmul(
    a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)
):
    i, j = wp.tid()
    total = float(0.0)  # noqa: UP018 -- a variable of the loop, and no constant
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


def main() -> int:
    """Run both kernels on all devices and return how many there are."""
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    n = mesh.size

    product = wp.jax_kernel(multiply)
    sharded = jax.jit(
        jax.shard_map(
            lambda a, b: product(a, b)[0],
            mesh=mesh,
            in_specs=P("rows"),
            out_specs=P("rows"),
        )
    )
    a, b = jnp.arange(8.0 * n), jnp.ones(8 * n)
    assert np.allclose(sharded(a, b), a * b)

    # Each device has two rows of the left matrix and all of the right one.
    rows = wp.jax_kernel(matmul, launch_dims=(2, 5), enable_backward=True)
    full = jax.jit(
        jax.shard_map(
            lambda a, b: rows(a, b)[0],
            mesh=mesh,
            in_specs=(P("rows"), P()),
            out_specs=P("rows"),
        )
    )
    a, b = jnp.arange(2.0 * n * 3).reshape(2 * n, 3), jnp.ones((3, 5))
    assert np.allclose(full(a, b), a @ b)
    gradient = jax.grad(lambda b: full(a, b).sum())(b)
    assert np.allclose(gradient, jax.grad(lambda b: (a @ b).sum())(b))
    print(f"{n} devices agree with one")
    return n


if __name__ == "__main__":
    main()
