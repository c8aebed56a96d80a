"""Let PyTorch's Adam minimise a function that is written as a kernel.

The tensors belong to PyTorch. ``from_torch`` makes arrays that share their memory,
gradients included, and a tape fills these gradients in. The loss is the sum of squares
of 100 points, so all points must end at the origin.
"""

import torch

import warp_like as wp


@wp.func
def square(v: float):
    return v * v


@wp.kernel
def loss(xs: wp.array2d[float], total: wp.array(dtype=float)):
    tid = wp.tid()
    wp.atomic_add(total, 0, square(xs[tid, 0]) + square(xs[tid, 1]))


def main(steps: int = 500) -> float:
    """Run the optimisation and return the final loss."""
    torch.manual_seed(0)
    xs = torch.randn(100, 2, requires_grad=True)
    total = torch.zeros(1, requires_grad=True)
    opt = torch.optim.Adam([xs], lr=0.1)
    wp_xs, wp_total = wp.from_torch(xs), wp.from_torch(total)

    tape = wp.Tape()
    with tape:
        wp.launch(
            loss, dim=len(xs), inputs=[wp_xs], outputs=[wp_total], device=wp_xs.device
        )
    print(f"loss at the start: {total.item():.3f}")

    for _ in range(steps):
        tape.zero()
        # xs.grad then holds the gradient, in the same memory as wp_xs.grad.
        tape.backward(loss=wp_total)
        assert torch.allclose(xs.grad, 2.0 * xs.detach())
        opt.step()
        wp_total.zero_()
        wp.launch(
            loss, dim=len(xs), inputs=[wp_xs], outputs=[wp_total], device=wp_xs.device
        )

    print(f"loss after {steps} steps: {total.item():.3e}")
    assert total.item() < 1.0e-6
    return total.item()


if __name__ == "__main__":
    main()
