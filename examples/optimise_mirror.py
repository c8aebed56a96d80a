"""``optimise_torch.py`` the other way round: PyTorch's Adam gets views of our arrays.

``to_torch`` makes a tensor that shares the array's memory and whose ``.grad`` shares
the array's gradient. The loss is the sum of squares of 100 points, so all points must
end at the origin.
"""

import numpy as np
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
    points = np.random.default_rng(0).standard_normal((100, 2))
    xs = wp.array(points, dtype=float, requires_grad=True, device="cpu")
    total = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    opt = torch.optim.Adam([wp.to_torch(xs)], lr=0.1)

    tape = wp.Tape()
    with tape:
        wp.launch(loss, dim=len(xs), inputs=[xs], outputs=[total], device=xs.device)
    print(f"loss at the start: {total.numpy()[0]:.3f}")

    for _ in range(steps):
        tape.zero()
        tape.backward(loss=total)
        assert np.allclose(xs.grad.numpy(), 2.0 * xs.numpy())
        opt.step()
        total.zero_()
        wp.launch(loss, dim=len(xs), inputs=[xs], outputs=[total], device=xs.device)

    final = float(total.numpy()[0])
    print(f"loss after {steps} steps: {final:.3e}")
    assert final < 1.0e-6
    return final


if __name__ == "__main__":
    main()
