"""The work of a soak with other libraries; each library has kinds where it is installed."""

from __future__ import annotations

import importlib.util

import numpy as np

import warp_like as wp
from tests.soaking.kinds import FEW, N, Rng, cube, kind, numbers, require

if importlib.util.find_spec("torch") is not None:
    import torch

    @kind
    def torch_tensors(rng: Rng) -> None:
        """Launch on tensors, recorded and not, and exchange memory in both directions."""
        x, y = torch.from_numpy(numbers(rng)), torch.zeros(N)
        wp.launch(cube, dim=N, inputs=[x], outputs=[y])
        require(y.numpy(), x.numpy() ** 3)
        wp.launch(cube, dim=N, inputs=[y], outputs=[x], record_cmd=True).launch()
        require(x.numpy(), y.numpy() ** 3)
        a = wp.from_torch(x)
        a.fill_(2.0)
        require(wp.to_torch(wp.clone(a)).numpy(), x.numpy())

    @kind
    def torch_gradients(rng: Rng) -> None:
        """Go backward from an operator of a kernel that was made just now, and replaces the one before."""
        factor = float(1 + rng.randrange(FEW))

        @wp.kernel
        def weighted(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = factor * x[i] * x[i]

        op = wp.torch_op(weighted, name=f"soak::weighted_{rng.name}")
        x = torch.from_numpy(numbers(rng)).requires_grad_()
        op(x).sum().backward()
        require(x.grad.numpy(), 2.0 * factor * x.detach().numpy(), rtol=1e-4)

    @kind
    def lost_tensors(rng: Rng) -> None:
        """Refuse to write where a tensor had its memory."""
        t = torch.zeros(N)
        command = wp.launch(cube, dim=N, inputs=[torch.ones(N)], outputs=[t], record_cmd=True)
        t.untyped_storage().resize_(0)
        try:
            command.launch()
        except RuntimeError:
            return
        raise AssertionError("a launch wrote to memory that a tensor has given up")


if importlib.util.find_spec("jax") is not None:
    import jax

    _cubed = jax.jit(lambda x: wp.jax_kernel(cube)(x)[0])
    _slope = jax.jit(jax.grad(lambda x: wp.jax_kernel(cube, enable_backward=True)(x)[0].sum()))

    @kind
    def jax_calls(rng: Rng) -> None:
        """Call a kernel from JAX's programs, and differentiate it there."""
        x = numbers(rng)
        require(np.asarray(_cubed(x)), x**3)
        require(np.asarray(_slope(x)), 3.0 * x**2, rtol=1e-4)

    @kind
    def jax_functions(rng: Rng) -> None:
        """Make a function for JAX of a kernel and call it."""
        x = numbers(rng)
        require(np.asarray(wp.jax_kernel(cube)(x)[0]), x**3)

    @kind
    def dropped_jax_functions(rng: Rng) -> None:
        """Make a function for JAX of a kernel that was made just now, and drop both."""
        factor = float(rng.randrange(FEW))

        @wp.kernel
        def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = factor * x[i]

        x = numbers(rng)
        require(np.asarray(wp.jax_kernel(scaled)(x)[0]), np.float32(factor) * x)

    @kind
    def jax_arrays(rng: Rng) -> None:
        """Exchange memory with JAX."""
        a = wp.array(numbers(rng))
        require(np.asarray(wp.to_jax(a)), a.numpy())
        require(wp.from_jax(jax.numpy.asarray(a.numpy())).numpy(), a.numpy())


if importlib.util.find_spec("paddle") is not None:
    import paddle

    @kind
    def paddle_tensors(rng: Rng) -> None:
        """Launch on Paddle's tensors, and exchange memory in both directions."""
        x, y = paddle.zeros([N]), paddle.zeros([N])
        x.set_value(numbers(rng))  # each paddle.to_tensor leaves a list of the names of its arguments (Paddle 3.3.1)
        wp.launch(cube, dim=N, inputs=[x], outputs=[y])
        require(y.numpy(), x.numpy() ** 3)
        require(wp.to_paddle(wp.from_paddle(x)).numpy(), x.numpy())
