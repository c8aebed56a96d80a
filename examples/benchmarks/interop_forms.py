"""What the benchmarks of PyTorch's and Paddle's tensors share: a kernel, launches in each form, measuring the rows."""

from argparse import Namespace
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import reporting
import timing
from small_calls import FACTOR, SIZE, numbers
from timing import Program

Rows = dict[str, dict[str, Program]]
"""The programs by row, then by column."""


def make(wp):
    """Return the kernel of all rows."""

    @wp.kernel
    def scaled_square(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
        i = wp.tid()
        y[i] = a * x[i] * x[i]

    return scaled_square


def launches(
    wp: ModuleType, kernel: Any, convert: Callable[..., Any], x: Any, y: Any, direct: bool
) -> dict[str, Program]:
    """Return one launch on the tensors ``x`` and ``y``, in each of the forms.

    ``convert`` makes an array of a tensor; ``direct`` says whether tensors can be passed as they are.
    """
    ax, ay = convert(x), convert(y)
    recorded = wp.launch(kernel, dim=SIZE, inputs=[ax, ay, FACTOR], record_cmd=True)

    def converted() -> None:
        wp.launch(kernel, dim=SIZE, inputs=[convert(x), convert(y), FACTOR])

    def return_ctype() -> None:
        arguments = [convert(x, return_ctype=True), convert(y, return_ctype=True), FACTOR]
        wp.launch(kernel, dim=SIZE, inputs=arguments)

    forms: dict[str, timing.Run] = {
        "converted each time": converted,
        "converted, return_ctype": return_ctype,
        "tensors directly": lambda: wp.launch(kernel, dim=SIZE, inputs=[x, y, FACTOR]),
        "arrays made once": lambda: wp.launch(kernel, dim=SIZE, inputs=[ax, ay, FACTOR]),
        "recorded launch": recorded.launch,
    }
    if not direct:
        del forms["tensors directly"]
    return {name: Program(run, lambda: np.array(y.numpy())) for name, run in forms.items()}


def with_factor(operator: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return an operator made of the kernel as a function of one tensor."""
    return lambda x: operator(x, FACTOR)


def measure(forward: Rows, backward: Rows, options: Namespace) -> dict[str, dict[str, float]]:
    """Check and time the rows of launches, and those of a forward and a backward pass."""
    budget, x = reporting.budget(options), numbers()
    measured = {row: timing.measure_row(row, of, FACTOR * x * x, budget) for row, of in forward.items()}
    for row, programs in backward.items():
        measured[f"{row}, with backward"] = timing.measure_row(row, programs, 2.0 * FACTOR * x, budget)
    return measured
