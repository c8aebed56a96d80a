"""Launch a kernel on the arrays of NumPy and PyTorch: no conversion call, no copy.

The kernel reads and writes the memory that the frameworks own, strided views included.
The last part launches the kernel's adjoint in the same way.
"""

import numpy as np
import torch

import warp_like as wp


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def scaled_square(x: wp.array(dtype=float), a: float, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = a * x[i] * x[i]


def numpy_arrays(n: int) -> None:
    x, y = np.arange(n, dtype=np.float32), np.ones(n, dtype=np.float32)
    wp.launch(saxpy, dim=n, inputs=[x, y, 2.0], device="cpu")
    print("NumPy arrays:    ", y)
    assert np.array_equal(y, 2.0 * np.arange(n) + 1.0)


def torch_tensors(n: int) -> None:
    x, y = torch.arange(n, dtype=torch.float32), torch.ones(n)
    wp.launch(saxpy, dim=n, inputs=[x, y, 2.0], device="cpu")
    print("PyTorch tensors: ", y)
    assert torch.equal(y, 2.0 * torch.arange(n) + 1.0)


def strided_and_mixed(n: int) -> None:
    every_second = np.arange(2 * n, dtype=np.float32)[::2]
    column = torch.ones(n, 3)[:, 1]
    wp.launch(saxpy, dim=n, inputs=[every_second, column, 0.5], device="cpu")
    print("strided views:   ", column)
    assert np.array_equal(column.numpy(), np.arange(n) + 1.0)


def adjoint(n: int) -> None:
    """With d(out) = 1, the adjoint launch adds 2 a x to the gradient of ``x``."""
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, dtype=np.float32)
    grad_x, grad_out = np.zeros(n, dtype=np.float32), np.ones(n, dtype=np.float32)
    wp.launch(
        scaled_square,
        dim=n,
        inputs=[x, 3.0],
        outputs=[out],
        adj_inputs=[grad_x, None],
        adj_outputs=[grad_out],
        adjoint=True,
        device="cpu",
    )
    print("adjoint:         ", grad_x)
    assert np.array_equal(grad_x, 6.0 * x)


def main(n: int = 8) -> None:
    numpy_arrays(n)
    torch_tensors(n)
    strided_and_mixed(n)
    adjoint(n)


if __name__ == "__main__":
    main()
