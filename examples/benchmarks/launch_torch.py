"""The programs of ``benchmark_launch.py`` with PyTorch: conversions, and kernels under its autograd."""

from types import ModuleType
from typing import Any

from launch_programs import Kernels
from small_calls import FACTOR, SIZE, numbers, returning, torch_gradient
from timing import Program


def torch_rows(k: Kernels, torch: ModuleType) -> dict[str, Program]:
    """Return one Warp's programs with tensors, by row."""
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


def empty_function(torch: Any) -> Program:
    """Return an ``autograd.Function`` that computes as little as possible."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.empty_like(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return torch.full_like(x, FACTOR)

    return torch_gradient(torch, Function.apply)


def as_it_is(tensor: Any) -> Any:
    """Return a tensor for a launch that takes tensors."""
    return tensor


def kernel_function(k: Kernels, torch: Any) -> Program:
    """Return an ``autograd.Function`` as users write it around ``y = a * x``."""
    wp, kernel = k.wp, k.scale
    of = as_it_is if k.is_own else wp.from_torch
    no_adjoint = k.no_adjoint

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
            adjoints = [of(found), of(grad.contiguous()), no_adjoint]
            wp.launch(kernel, dim=SIZE, inputs=given, adj_inputs=adjoints, adjoint=True)
            return found

    return torch_gradient(torch, Function.apply)
