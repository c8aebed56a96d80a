"""Paddle's Adam and kernels: on Paddle's tensors, on our arrays, by an operator.

In the first two a tape fills in the gradients. The memory is one and the same for both
sides, so nothing is copied: in one direction the arrays look at the tensors, in the
other the tensors look at the arrays. In the third the kernel is a function of Paddle
like any other.
"""

import numpy as np
import paddle

import warp_like as wp


@wp.kernel
def loss_kernel(points: wp.array(dtype=wp.vec2), total: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(total, 0, wp.dot(points[i], points[i]))


@wp.kernel
def squares(points: wp.array(dtype=wp.vec2), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.dot(points[i], points[i])


def start() -> np.ndarray:
    return np.random.default_rng(42).normal(size=(100, 2)).astype(np.float32)


def minimise(points, tensor, steps: int) -> float:
    """Move ``points``, an array over the memory of ``tensor``, to the origin."""
    opt = paddle.optimizer.Adam(learning_rate=0.1, parameters=[tensor])
    total = wp.zeros(1, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(loss_kernel, dim=len(points), inputs=[points], outputs=[total])
    for _ in range(steps):
        tape.zero()
        tape.backward(loss=total)
        assert np.allclose(tensor.grad.numpy(), 2.0 * tensor.numpy())
        opt.step()
        total.zero_()
        wp.launch(loss_kernel, dim=len(points), inputs=[points], outputs=[total])
    return float(total.numpy()[0])


def optimise_tensors(steps: int) -> float:
    """The tensors are Paddle's; an array looks at them."""
    xs = paddle.to_tensor(start(), stop_gradient=False)
    return minimise(wp.from_paddle(xs, dtype=wp.vec2), xs, steps)


def optimise_arrays(steps: int) -> float:
    """The arrays are ours; a tensor looks at them."""
    points = wp.array(start(), dtype=wp.vec2, requires_grad=True)
    return minimise(points, wp.to_paddle(points), steps)


def optimise_with_operator(steps: int) -> float:
    """The kernel is an operator, and Paddle's own autograd does the rest."""
    operator = wp.paddle_op(squares)
    xs = paddle.to_tensor(start(), stop_gradient=False)
    opt = paddle.optimizer.Adam(learning_rate=0.1, parameters=[xs])
    for _ in range(steps):
        operator(xs).sum().backward()
        opt.step()
        opt.clear_grad()
    return float(operator(xs).sum())


def main(steps: int = 500) -> None:
    """Run all three."""
    for way in (optimise_tensors, optimise_arrays, optimise_with_operator):
        loss = way(steps)
        print(f"{way.__name__}: loss after {steps} steps {loss:.3e}")
        assert loss < 1.0e-6


if __name__ == "__main__":
    main()
