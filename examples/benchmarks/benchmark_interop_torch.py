"""What PyTorch's tensors cost in launches and in autograd: 16 elements, so that the work itself is nothing.

    python examples/benchmarks/benchmark_interop_torch.py --json interop_torch.json

The first rows are one launch on two tensors, by the ways in which a program can pass them. The last ones are a forward
and a backward pass, through the same autograd.Function for both libraries, through an operator made by ``torch_op``,
and by PyTorch's own arithmetic in the last column.
"""

import harness
import numpy as np

SIZE = 16
FACTOR = 2.0


def make(wp):
    @wp.kernel
    def scaled_square(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
        i = wp.tid()
        y[i] = a * x[i] * x[i]

    return scaled_square


def launches(wp, torch, kernel) -> dict[str, harness.Program]:
    """One launch on tensors, in each of the forms."""
    x, y = torch.arange(SIZE, dtype=torch.float32), torch.zeros(SIZE)
    ax, ay = wp.from_torch(x), wp.from_torch(y)
    recorded = wp.launch(kernel, dim=SIZE, inputs=[x, y, FACTOR], record_cmd=True)

    def converted():
        wp.launch(kernel, dim=SIZE, inputs=[wp.from_torch(x), wp.from_torch(y), FACTOR])

    def return_ctype():
        arguments = [wp.from_torch(x, return_ctype=True), wp.from_torch(y, return_ctype=True), FACTOR]
        wp.launch(kernel, dim=SIZE, inputs=arguments)

    forms = {
        "converted each time": converted,
        "converted, return_ctype": return_ctype,
        "tensors directly": lambda: wp.launch(kernel, dim=SIZE, inputs=[x, y, FACTOR]),
        "arrays made once": lambda: wp.launch(kernel, dim=SIZE, inputs=[ax, ay, FACTOR]),
        "recorded launch": recorded.launch,
    }
    return {name: harness.Program(run, y.numpy().copy) for name, run in forms.items()}


def function(wp, torch, kernel):
    """An autograd.Function around a launch and its adjoint, as both libraries take it."""

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


def both_passes(torch, forward) -> harness.Program:
    x = torch.arange(SIZE, dtype=torch.float32).requires_grad_()
    ones = torch.ones(SIZE)

    def run():
        x.grad = None
        forward(x).backward(ones)

    return harness.Program(run, lambda: x.grad.numpy().copy())


def main(argv: list[str] | None = None) -> dict:
    options = harness.arguments(__doc__.splitlines()[0], argv)
    columns = [*harness.WARPS, "PyTorch"]
    frameworks = harness.find_frameworks(columns)
    torch = frameworks["PyTorch"]
    x = np.arange(SIZE, dtype=np.float32)
    rows: dict[str, dict[str, harness.Program]] = {}
    for column in harness.WARPS:
        if wp := frameworks.get(column):
            kernel = make(wp)
            for name, program in launches(wp, torch, kernel).items():
                rows.setdefault(name, {})[column] = program
    passes: dict[str, dict[str, harness.Program]] = {"autograd.Function": {}, "torch_op": {}}
    for column in harness.WARPS:
        if wp := frameworks.get(column):
            kernel = make(wp)
            passes["autograd.Function"][column] = both_passes(torch, function(wp, torch, kernel))
            if hasattr(wp, "torch_op"):
                operator = wp.torch_op(kernel)
                passes["torch_op"][column] = both_passes(torch, lambda x, op=operator: op(x, FACTOR))
    passes["torch_op"]["PyTorch"] = both_passes(torch, lambda x: FACTOR * x * x)
    budget = harness.budget(options)
    measured = {row: harness.measure_row(row, programs, FACTOR * x * x, budget) for row, programs in rows.items()}
    for row, programs in passes.items():
        measured[f"{row}, with backward"] = harness.measure_row(row, programs, 2.0 * FACTOR * x, budget)
    harness.report("interop_torch", "microseconds", columns, measured, 1.0e6, options)
    return measured


if __name__ == "__main__":
    main()
