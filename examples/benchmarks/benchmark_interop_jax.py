"""What a kernel costs inside a jitted JAX function, beside the same formula in JAX's own operations.

    python examples/benchmarks/benchmark_interop_jax.py --json interop_jax.json

The arrays are small, so that the call is all there is to time. The last row is the call without ``jit`` around it.
"""

import harness
import numpy as np

SIZE = 16
BATCH = 64
FACTOR = 2.0
COLUMNS = (*harness.WARPS, "JAX")


def make(wp):
    @wp.kernel
    def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = 2.0 * x[i]

    return scaled


def functions(frameworks) -> dict:
    """Return for each framework a function from a JAX array to a JAX array."""
    found = {"JAX": lambda x: FACTOR * x}
    for column in harness.WARPS:
        if wp := frameworks.get(column):
            kernel = wp.jax_kernel(make(wp), enable_backward=True)
            found[column] = lambda x, kernel=kernel: kernel(x)[0]
    return found


def program(f, x) -> harness.Program:
    return harness.Program(lambda: f(x).block_until_ready(), lambda: np.asarray(f(x)))


def main(argv: list[str] | None = None) -> dict:
    options = harness.arguments(__doc__.splitlines()[0], argv)
    frameworks = harness.find_frameworks(COLUMNS)
    jax = frameworks.get("JAX")
    if jax is None:
        raise SystemExit("this benchmark needs JAX: pip install jax")
    x = np.arange(SIZE, dtype=np.float32)
    batch = np.arange(BATCH * SIZE, dtype=np.float32).reshape(BATCH, SIZE)
    transformed = {
        "jit": (jax.jit, x, FACTOR * x),
        "jit of vmap": (lambda f: jax.jit(jax.vmap(f)), batch, FACTOR * batch),
        "jit of grad": (lambda f: jax.jit(jax.grad(lambda x: f(x).sum())), x, np.full(SIZE, FACTOR)),
        "no jit": (lambda f: f, x, FACTOR * x),
    }
    rows = {}
    for row, (transform, argument, expected) in transformed.items():
        programs = {
            column: program(transform(f), jax.numpy.asarray(argument)) for column, f in functions(frameworks).items()
        }
        rows[row] = harness.measure_row(row, programs, expected, harness.budget(options))
    harness.report("interop_jax", "one call, microseconds", list(COLUMNS), rows, 1.0e6, options)
    return rows


if __name__ == "__main__":
    main()
