"""The rows of ``benchmark_launch.py`` that PyTorch takes part in: conversions, and kernels under its autograd."""

import numpy as np
from harness import Program

SIZE = 16
FACTOR = 2.0


def numbers() -> np.ndarray:
    return np.arange(SIZE, dtype=np.float32)


def returning(call) -> Program:
    """Return a program whose result is what the call returns."""
    return Program(call, lambda: np.array(call().numpy()))


def torch_rows(k, torch) -> dict[str, Program]:
    """Return one Warp's programs with tensors by row; ``k`` holds its kernels."""
    wp, array, tensor = k.wp, k.array(numbers()), torch.from_numpy(numbers())
    leaf = torch.from_numpy(numbers()).requires_grad_()
    leaf.grad = torch.zeros(SIZE)
    return {
        "from_torch": returning(lambda: wp.from_torch(tensor)),
        "from_torch, with gradient": returning(lambda: wp.from_torch(leaf)),
        "to_torch": returning(lambda: wp.to_torch(array)),
        "to_torch, fresh": returning(lambda: wp.to_torch(wp.zeros(SIZE, dtype=float))),
        "autograd.Function around a kernel": kernel_function(k, torch),
    }


def gradient(torch, function) -> Program:
    """Return the program that differentiates a function of a tensor once."""
    x, seed = torch.from_numpy(numbers()).requires_grad_(), torch.ones(SIZE)

    def run():
        x.grad = None
        function(x).backward(seed)

    return Program(run, lambda: x.grad.numpy().copy())


def plain_operation(torch) -> Program:
    return gradient(torch, lambda x: FACTOR * x)


def empty_function(torch) -> Program:
    """Return what an ``autograd.Function`` costs that computes as little as possible."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.empty_like(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return torch.full_like(x, FACTOR)

    return gradient(torch, Function.apply)


def kernel_function(k, torch) -> Program:
    """Return an ``autograd.Function`` as users write it around ``y = a * x``."""
    wp, kernel = k.wp, k.scale
    of = (lambda t: t) if wp.__name__ == "warp_like" else wp.from_torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            y = torch.empty_like(x)
            wp.launch(kernel, dim=SIZE, inputs=[of(x.detach()), of(y), FACTOR])
            return y

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            given = [of(x.detach()), of(torch.empty_like(x)), FACTOR]
            found = torch.zeros_like(x)
            none = None if wp.__name__ == "warp_like" else 0.0
            adjoints = [of(found), of(grad.contiguous()), none]
            wp.launch(kernel, dim=SIZE, inputs=given, adj_inputs=adjoints, adjoint=True)
            return found

    return gradient(torch, Function.apply)
