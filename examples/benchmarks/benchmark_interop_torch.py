"""The cost of PyTorch's tensors in launches and in autograd: 16 elements, so that the work itself is nothing.

    python examples/benchmarks/benchmark_interop_torch.py --json interop_torch.json

The first rows are one launch on two tensors, by the ways in which a program can pass them. The last ones are a forward
and a backward pass, through the same autograd.Function for both libraries, through an operator made by ``torch_op``,
and by PyTorch's own arithmetic in the last column.
"""

import frameworks
import interop_forms
import reporting
from small_calls import FACTOR, SIZE, numbers, torch_gradient

COLUMNS = [*frameworks.WARPS, "PyTorch"]


def function(wp, torch, kernel):
    """Return an autograd.Function around a launch and its adjoint, as both libraries take it."""

    class ScaledSquare(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            ctx.arrays = wp.from_torch(x.detach()), wp.from_torch(y)
            wp.launch(kernel, dim=SIZE, inputs=[*ctx.arrays, FACTOR])
            return y

        @staticmethod
        def backward(ctx, grad_y):
            grad_x = torch.zeros_like(grad_y)
            adjoints = [wp.from_torch(grad_x), wp.from_torch(grad_y.contiguous()), None]
            wp.launch(kernel, dim=SIZE, inputs=[*ctx.arrays, FACTOR], adj_inputs=adjoints, adjoint=True)
            return grad_x

    return ScaledSquare.apply


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS)
    torch = found["PyTorch"]
    forward: interop_forms.Rows = {}
    backward: interop_forms.Rows = {"autograd.Function": {}, "torch_op": {}}
    for column in frameworks.WARPS:
        if wp := found.get(column):
            kernel = interop_forms.make(wp)
            x, y = torch.from_numpy(numbers()), torch.zeros(SIZE)
            for row, program in interop_forms.launches(wp, kernel, wp.from_torch, x, y, direct=True).items():
                forward.setdefault(row, {})[column] = program
            backward["autograd.Function"][column] = torch_gradient(torch, function(wp, torch, kernel))
            if hasattr(wp, "torch_op"):
                operator = interop_forms.with_factor(wp.torch_op(kernel))
                backward["torch_op"][column] = torch_gradient(torch, operator)
    backward["torch_op"]["PyTorch"] = torch_gradient(torch, lambda x: FACTOR * x * x)
    rows = interop_forms.measure(forward, backward, options)
    reporting.report("interop_torch", "microseconds", COLUMNS, rows, 1.0e6, options)
    return rows


if __name__ == "__main__":
    main()
