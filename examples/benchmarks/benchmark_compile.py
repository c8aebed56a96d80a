"""How compile time grows with the size of a kernel: cold, one kernel of 250 to 2,000 lines.

    python examples/benchmarks/benchmark_compile.py --json compile.json

Each kernel is generated, launched on a few elements and compared with the same function in NumPy; the time is that of
its first launch, and of the first launch of its adjoint, with an empty cache. The last column is the growth: the
microseconds that each line costs in the forward kernel; it stays the same where compile time is linear.

The last rows are kernels of a few lines on ever larger matrices and vectors. Their time is about the same for all that
have more than 64 components; growth is not shown.

A chain of ``elif`` is a nest as deep as it is long, since each branch stands in the ``else`` of the one before. Chains
are shorter: what nests too deeply is refused.
"""

import gc
import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import frameworks
import numpy as np
import reporting
import timing

SIZES = [250, 500, 1000, 2000]
CHAINS = [60, 120, 240]
MATRICES = [4, 8, 16, 32, 64]
VECTORS = [64, 128, 255]
COLUMNS = ["forward", "adjoint", "per line"]

HEAD = """import warp_like as wp

@wp.kernel
def kernel(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i]
    b = 0.5 * x[i]
"""


Values = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Kind:
    """A way to make a kernel as long as wanted, of parts.

    Attributes:
        lines: The lines of a part.
        part: Returns the text of a part from its number.
        reference: Returns the variables ``a`` and ``b`` after a part, from its number, the thread, and both before.
    """

    lines: int
    part: Callable[[int], str]
    reference: Callable[[int, np.ndarray, np.ndarray, np.ndarray], Values]


def straight_part(k: int) -> str:
    return f"    a = wp.sin(b) * {1 + k % 7 * 0.1:.1f} + 0.5 * a\n    b = 0.3 * a * b - {k % 5}.5\n"


def straight_reference(k: int, i: np.ndarray, a: np.ndarray, b: np.ndarray) -> Values:
    a = np.sin(b) * (1 + k % 7 * 0.1) + 0.5 * a
    return a, 0.3 * a * b - (k % 5 + 0.5)


def branch_part(k: int) -> str:
    return f"    if a > 0.{k % 10}:\n        b = 0.5 * b + a\n    else:\n        a = a + 0.25\n"


def branch_reference(k: int, i: np.ndarray, a: np.ndarray, b: np.ndarray) -> Values:
    above = a > np.float32(k % 10 / 10)
    return np.where(above, a, a + 0.25), np.where(above, 0.5 * b + a, b)


def chain_part(k: int) -> str:
    return f"    {'elif' if k else 'if'} i == {k}:\n        b = a * {k % 9}.5\n"


def chain_reference(k: int, i: np.ndarray, a: np.ndarray, b: np.ndarray) -> Values:
    return a, np.where(i == k, a * (k % 9 + 0.5), b)


def loop_part(k: int) -> str:
    body = "        a = 0.5 * a + 0.1 * b\n        b = 0.9 * b\n"
    return f"    for k{k} in range(i % {k % 3 + 2}):\n{body}    b = b + 0.125\n"


def loop_reference(k: int, i: np.ndarray, a: np.ndarray, b: np.ndarray) -> Values:
    for step in range(k % 3 + 1):
        runs = step < i % (k % 3 + 2)
        a, b = np.where(runs, 0.5 * a + 0.1 * b, a), np.where(runs, 0.9 * b, b)
    return a, b + 0.125


KINDS = {
    "straight line": Kind(2, straight_part, straight_reference),
    "branches": Kind(4, branch_part, branch_reference),
    "chain of elif": Kind(2, chain_part, chain_reference),
    "loops": Kind(4, loop_part, loop_reference),
}


def load(text: str, folder: Path, name: str) -> Any:
    """Return the kernel of a module with this source: kernels are read from files."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def seconds(run: timing.Run) -> float:
    """Return the time of one call."""
    gc.collect()  # the garbage of kernels before it does not count
    return timing.seconds_per_call(run, 1)


def measure(wp: ModuleType, kind: str, size: int, folder: Path) -> dict[str, float]:
    """Return the seconds of the first launch and the first adjoint launch of one kernel."""
    made = KINDS[kind]
    parts = range(size // made.lines)
    text = HEAD + "".join(map(made.part, parts)) + "    y[i] = a + b\n"
    kernel = load(text, folder, f"{kind.replace(' ', '_')}_{size}")
    x = np.linspace(0.0, 1.0, 8, dtype=np.float32)
    inputs, out = wp.array(x, requires_grad=True), wp.zeros(len(x), dtype=float, requires_grad=True)
    forward = seconds(lambda: wp.launch(kernel, len(x), [inputs, out]))
    a, b = x.astype(float), 0.5 * x.astype(float)
    for k in parts:
        a, b = made.reference(k, np.arange(len(x)), a, b)
    timing.check(f"{kind} {size}", "warp_like", out.numpy(), a + b, rtol=1.0e-3, atol=1.0e-3)
    adjoint = seconds(lambda: wp.launch(kernel, len(x), [inputs, out], adjoint=True))
    return {"forward": forward, "adjoint": adjoint, "per line": forward / size * 1.0e3}


LARGE = """import warp_like as wp

M, V = wp.types.matrix(({n}, {n}), wp.{scalar}), wp.types.vector({n}, wp.{scalar})

@wp.kernel
def product(x: wp.array(dtype=M), y: wp.array(dtype=M)):
    i = wp.tid()
    y[i] = x[i] * x[i]

@wp.kernel
def linear(x: wp.array(dtype=M), y: wp.array(dtype=M)):
    i = wp.tid()
    m = x[i]
    y[i] = wp.transpose(m) * wp.{scalar}(wp.trace(m)) + wp.outer(m[0], m * m[1])

@wp.kernel
def sum_and_dot(x: wp.array(dtype=V), y: wp.array(dtype=V)):
    i = wp.tid()
    y[i] = (x[i] + x[i]) * wp.dot(x[i], x[i])

@wp.kernel
def carried(x: wp.array(dtype=V), y: wp.array(dtype=V)):
    i = wp.tid()
    v = x[i]
    for k in range(x.shape[0]):
        v = v * wp.{scalar}(0.5) + x[k]
    y[i] = v

kernel = {name}
"""


def carried_reference(x: np.ndarray) -> np.ndarray:
    v = x
    for row in x:
        v = v * 0.5 + row
    return v


def linear_reference(x: np.ndarray) -> np.ndarray:
    trace = np.trace(x, axis1=1, axis2=2)[:, None, None]
    return x.transpose(0, 2, 1) * trace + np.einsum("ij,ik->ijk", x[:, 0], np.einsum("ijk,ik->ij", x, x[:, 1]))


LARGE_KINDS: dict[str, tuple[list[int], Callable[[np.ndarray], np.ndarray]]] = {
    "product": (MATRICES, lambda x: x @ x),
    "linear": (MATRICES, linear_reference),
    "sum_and_dot": (VECTORS, lambda x: 2.0 * x * np.sum(x * x, axis=-1, keepdims=True)),
    "carried": (VECTORS, carried_reference),
}


def measure_large(wp: ModuleType, name: str, n: int, scalar: str, folder: Path) -> dict[str, float]:
    """Return the seconds of the first launches of a kernel on matrices or vectors of ``n`` rows."""
    kernel = load(LARGE.format(n=n, name=name, scalar=scalar), folder, f"{name}_{n}_{scalar}")
    shape = (n, n) if LARGE_KINDS[name][0] is MATRICES else (n,)
    x = np.random.default_rng(n).uniform(-1.0, 1.0, (4, *shape)).astype(scalar)
    t = wp.types.matrix(shape, getattr(wp, scalar)) if len(shape) == 2 else wp.types.vector(n, getattr(wp, scalar))
    inputs, out = wp.array(x, dtype=t, requires_grad=True), wp.zeros(4, dtype=t, requires_grad=True)
    forward = seconds(lambda: wp.launch(kernel, 4, [inputs, out]))
    wanted = LARGE_KINDS[name][1](x.astype(float))
    timing.check(f"{name} {n}", "warp_like", out.numpy(), wanted, rtol=1.0e-3, atol=1.0e-3)
    adjoint = seconds(lambda: wp.launch(kernel, 4, [inputs, out], adjoint=True))
    return {"forward": forward, "adjoint": adjoint}


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    wp = frameworks.find_frameworks(["warp_like"])["warp_like"]
    with tempfile.TemporaryDirectory() as cache:
        wp.config.kernel_cache_dir = cache
        measure(wp, "straight line", 8, Path(cache))  # LLVM is loaded once
        rows = {
            f"{kind}, {size} lines": measure(wp, kind, size, Path(cache))
            for kind in KINDS
            for size in ([40, 80] if options.quick else CHAINS if kind == "chain of elif" else SIZES)
        }
        for name, (sizes, _) in LARGE_KINDS.items():
            for scalar in ["float32"] if options.quick else ["float32", "float64"]:
                for n in sizes[-1:] if options.quick else sizes:
                    rows[f"{name}, {n} rows, {scalar}"] = measure_large(wp, name, n, scalar, Path(cache))
    reporting.report("compile", "milliseconds; per line microseconds", COLUMNS, rows, 1.0e3, options)
    return rows


if __name__ == "__main__":
    main()
