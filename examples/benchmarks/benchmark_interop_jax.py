"""The cost of a kernel inside a jitted JAX function, beside the same formula in JAX's own operations.

    python examples/benchmarks/benchmark_interop_jax.py --json interop_jax.json

The arrays are small, so that the call is all there is to time. The last row is the call without ``jit`` around it.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import frameworks
import numpy as np
import reporting
import timing
from small_calls import FACTOR, SIZE, numbers
from timing import Program

BATCH = 64
COLUMNS = [*frameworks.WARPS, "JAX"]
Function = Callable[[Any], Any]


def make(wp):
    """Return the kernel of all rows."""

    @wp.kernel
    def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = 2.0 * x[i]

    return scaled


def functions(found: dict[str, ModuleType]) -> dict[str, Function]:
    """Return for each framework a function from a JAX array to a JAX array."""
    made: dict[str, Function] = {"JAX": lambda x: FACTOR * x}
    for column in frameworks.WARPS:
        if wp := found.get(column):
            made[column] = first_result(wp.jax_kernel(make(wp), enable_backward=True))
    return made


def first_result(function: Callable[[Any], Any]) -> Function:
    """Return a function of one result in place of one that returns a list of it."""
    return lambda x: function(x)[0]


def program(f: Function, x: Any) -> Program:
    """Return the call of a function, with what it computes."""
    return Program(lambda: f(x).block_until_ready(), lambda: np.asarray(f(x)))


def transformed(jax: ModuleType) -> dict[str, tuple[Callable[[Function], Function], np.ndarray, np.ndarray]]:
    """Return by row: what becomes of the function, its argument, and the result."""
    x, batch = numbers(), np.arange(BATCH * SIZE, dtype=np.float32).reshape(BATCH, SIZE)
    return {
        "jit": (jax.jit, x, FACTOR * x),
        "jit of vmap": (lambda f: jax.jit(jax.vmap(f)), batch, FACTOR * batch),
        "jit of grad": (lambda f: jax.jit(jax.grad(lambda x: f(x).sum())), x, np.full(SIZE, FACTOR)),
        "no jit": (lambda f: f, x, FACTOR * x),
    }


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS)
    jax = found.get("JAX")
    if jax is None:
        raise SystemExit("this benchmark needs JAX: pip install jax")
    budget, rows = reporting.budget(options), {}
    for row, (transform, x, expected) in transformed(jax).items():
        argument = jax.numpy.asarray(x)
        programs = {column: program(transform(f), argument) for column, f in functions(found).items()}
        rows[row] = timing.measure_row(row, programs, expected, budget)
    reporting.report("interop_jax", "one call, microseconds", COLUMNS, rows, 1.0e6, options)
    return rows


if __name__ == "__main__":
    main()
