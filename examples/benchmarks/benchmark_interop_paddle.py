"""The cost of Paddle's tensors in launches and in autograd: 16 elements, so that the work itself is nothing.

    python examples/benchmarks/benchmark_interop_paddle.py --json interop_paddle.json

The first rows are one launch on two tensors, by the ways in which a program can pass them. Paddle's tensors can't be
passed to warp-lang as they are: it writes to a copy. The last rows are a forward and a backward pass, through a
PyLayer that launches the adjoint for both libraries, through an operator made by ``paddle_op``, and by Paddle's own
arithmetic in the last column.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import frameworks
import interop_forms
import reporting
from small_calls import FACTOR, SIZE
from timing import Program

COLUMNS = [*frameworks.WARPS, "Paddle"]


def layer(wp, paddle, kernel):
    """Return a PyLayer around a launch and its adjoint, as both libraries take it."""

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


def both_passes(paddle: ModuleType, forward: Callable[[Any], Any]) -> Program:
    """Return the program that differentiates a function of a tensor once."""
    x = paddle.arange(SIZE, dtype="float32")
    x.stop_gradient = False
    ones = paddle.ones([SIZE])

    def run() -> None:
        x.clear_gradient(False)
        forward(x).backward(ones)

    return Program(run, lambda: x.grad.numpy())


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS)
    paddle = found["Paddle"]
    forward: interop_forms.Rows = {}
    backward: interop_forms.Rows = {"PyLayer": {}, "paddle_op": {}}
    for column in frameworks.WARPS:
        if wp := found.get(column):
            kernel, own = interop_forms.make(wp), column == "warp_like"
            x, y = paddle.arange(SIZE, dtype="float32"), paddle.zeros([SIZE])
            for row, program in interop_forms.launches(wp, kernel, wp.from_paddle, x, y, direct=own).items():
                forward.setdefault(row, {})[column] = program
            backward["PyLayer"][column] = both_passes(paddle, layer(wp, paddle, kernel))
            if own:
                operator = interop_forms.with_factor(wp.paddle_op(kernel))
                backward["paddle_op"][column] = both_passes(paddle, operator)
    backward["paddle_op"]["Paddle"] = both_passes(paddle, lambda x: FACTOR * x * x)
    rows = interop_forms.measure(forward, backward, options)
    reporting.report("interop_paddle", "microseconds", COLUMNS, rows, 1.0e6, options)
    return rows


if __name__ == "__main__":
    main()
