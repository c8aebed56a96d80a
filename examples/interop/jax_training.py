"""A training loop in JAX whose model is a kernel: radial basis functions."""

import jax
import jax.numpy as jnp

import warp_like as wp


@wp.kernel
def basis(
    x: wp.array(dtype=float),
    centres: wp.array(dtype=float),
    widths: wp.array(dtype=float),
    weights: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018 -- a variable of the loop, and no constant
    for k in range(centres.shape[0]):
        d = (x[i] - centres[k]) / widths[k]
        total += weights[k] * wp.exp(-d * d)
    y[i] = total


model = wp.jax_kernel(basis, enable_backward=True)


def loss_of(params: dict[str, jax.Array], x: jax.Array, target: jax.Array) -> jax.Array:
    """The mean squared error."""
    (y,) = model(x, params["centres"], params["widths"], params["weights"])
    return jnp.mean((y - target) ** 2)


@jax.jit
def train(
    params: dict[str, jax.Array], x: jax.Array, target: jax.Array, steps: int
) -> tuple:
    """Adam, as one compiled loop."""
    zeros = jax.tree.map(jnp.zeros_like, params)

    def step(i: jax.Array, state: tuple) -> tuple:
        params, m, v = state
        grads = jax.grad(loss_of)(params, x, target)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)
        fix_m, fix_v = 1.0 - 0.9 ** (i + 1.0), 1.0 - 0.99 ** (i + 1.0)
        params = jax.tree.map(
            lambda p, m, v: p - 0.02 * (m / fix_m) / (jnp.sqrt(v / fix_v) + 1e-8),
            params,
            m,
            v,
        )
        return params, m, v

    params, _, _ = jax.lax.fori_loop(0, steps, step, (params, zeros, zeros))
    return params, loss_of(params, x, target)


def main(steps: int = 500) -> float:
    """Fit a curve and return the final error."""
    x = jnp.linspace(-3.0, 3.0, 400)
    target = jnp.sin(2.0 * x) * jnp.exp(-0.1 * x * x)
    params = {
        "centres": jnp.linspace(-3.0, 3.0, 12),
        "widths": jnp.full(12, 0.5),
        "weights": jnp.zeros(12),
    }
    params, loss = train(params, x, target, steps)
    print(f"mean squared error after {steps} steps: {float(loss):.2e}")
    return float(loss)


if __name__ == "__main__":
    main()
