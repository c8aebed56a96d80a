"""What Paddle's tensors cost in launches and in autograd: 16 elements, so that the work itself is nothing.

    python examples/benchmarks/benchmark_interop_paddle.py --json interop_paddle.json

The first rows are one launch on two tensors, by the ways in which a program can pass them. Paddle's tensors can't be
passed to warp-lang as they are: it writes to a copy. The last rows are a forward and a backward pass, through a
PyLayer that launches the adjoint for both libraries, through an operator made by ``paddle_op``, and by Paddle's own
arithmetic in the last column.
"""

import harness
import numpy as np
from benchmark_interop_torch import FACTOR, SIZE, make


def launches(wp, paddle, kernel, own: bool) -> dict[str, harness.Program]:
    """One launch on tensors, in each of the forms."""
    x, y = paddle.arange(SIZE, dtype="float32"), paddle.zeros([SIZE])
    ax, ay = wp.from_paddle(x), wp.from_paddle(y)
    recorded = wp.launch(kernel, dim=SIZE, inputs=[ax, ay, FACTOR], record_cmd=True)

    def converted():
        wp.launch(kernel, dim=SIZE, inputs=[wp.from_paddle(x), wp.from_paddle(y), FACTOR])

    def return_ctype():
        arguments = [wp.from_paddle(x, return_ctype=True), wp.from_paddle(y, return_ctype=True), FACTOR]
        wp.launch(kernel, dim=SIZE, inputs=arguments)

    forms = {
        "converted each time": converted,
        "converted, return_ctype": return_ctype,
        "arrays made once": lambda: wp.launch(kernel, dim=SIZE, inputs=[ax, ay, FACTOR]),
        "recorded launch": recorded.launch,
    }
    if own:
        forms["tensors directly"] = lambda: wp.launch(kernel, dim=SIZE, inputs=[x, y, FACTOR])
    return {name: harness.Program(run, y.numpy) for name, run in forms.items()}


def layer(wp, paddle, kernel):
    """A PyLayer around a launch and its adjoint, as both libraries take it."""

    class ScaledSquare(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            y = paddle.zeros_like(x)
            ctx.arrays = wp.from_paddle(x.detach()), wp.from_paddle(y.detach())
            wp.launch(kernel, dim=SIZE, inputs=[*ctx.arrays, FACTOR])
            return y

        @staticmethod
        def backward(ctx, grad_y):
            grad_x = paddle.zeros_like(grad_y)
            adjoints = [wp.from_paddle(grad_x.detach()), wp.from_paddle(grad_y.detach()), None]
            wp.launch(kernel, dim=SIZE, inputs=[*ctx.arrays, FACTOR], adj_inputs=adjoints, adjoint=True)
            return grad_x

    return ScaledSquare.apply


def both_passes(paddle, forward) -> harness.Program:
    x = paddle.arange(SIZE, dtype="float32")
    x.stop_gradient = False
    ones = paddle.ones([SIZE])

    def run():
        x.clear_gradient(False)
        forward(x).backward(ones)

    return harness.Program(run, lambda: x.grad.numpy())


def main(argv: list[str] | None = None) -> dict:
    options = harness.arguments(__doc__.splitlines()[0], argv)
    columns = [*harness.WARPS, "Paddle"]
    frameworks = harness.find_frameworks(columns)
    paddle = frameworks["Paddle"]
    x = np.arange(SIZE, dtype=np.float32)
    rows: dict[str, dict[str, harness.Program]] = {}
    passes: dict[str, dict[str, harness.Program]] = {"PyLayer": {}, "paddle_op": {}}
    for column in harness.WARPS:
        if wp := frameworks.get(column):
            kernel, own = make(wp), column == "warp_like"
            for name, program in launches(wp, paddle, kernel, own).items():
                rows.setdefault(name, {})[column] = program
            passes["PyLayer"][column] = both_passes(paddle, layer(wp, paddle, kernel))
            if own:
                operator = wp.paddle_op(kernel)
                passes["paddle_op"][column] = both_passes(paddle, lambda x, op=operator: op(x, FACTOR))
    passes["paddle_op"]["Paddle"] = both_passes(paddle, lambda x: FACTOR * x * x)
    budget = harness.budget(options)
    measured = {row: harness.measure_row(row, programs, FACTOR * x * x, budget) for row, programs in rows.items()}
    for row, programs in passes.items():
        measured[f"{row}, with backward"] = harness.measure_row(row, programs, 2.0 * FACTOR * x, budget)
    harness.report("interop_paddle", "microseconds", columns, measured, 1.0e6, options)
    return measured


if __name__ == "__main__":
    main()
