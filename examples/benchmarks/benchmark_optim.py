"""A step of an optimizer, beside warp-lang and PyTorch; milliseconds.

    python examples/benchmarks/benchmark_optim.py --json optim.json
    taskset -c 0 python examples/benchmarks/benchmark_optim.py --rows "Adam"

PyTorch's optimizers are the fused ones, and its columns have the number of threads of the others. Each first step is
checked against NumPy in float64 before it is timed. ``warp-lang`` has no AdamW, and no Adam of float64.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import frameworks
import numpy as np
import reporting
import timing
from timing import Program

COLUMNS = [*frameworks.WARPS, "PyTorch"]
Update = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: What the table says.
        name: The class.
        shapes: Those of the parameters.
        dtype: That of the parameters.
        expected: The parameters after the first step, of parameters and gradients in float64.
        settings: More arguments than ``lr``.
    """

    title: str
    name: str
    shapes: Sequence[int]
    dtype: str
    expected: Update
    settings: dict[str, Any] = field(default_factory=dict)

    def data(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return parameters and gradients."""
        rng = np.random.default_rng(0)
        return [tuple(rng.standard_normal((2, n)).astype(self.dtype)) for n in self.shapes]


RATE = 0.01


def adam(p: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the first step of Adam, which follows the signs."""
    return p - RATE * g / (np.abs(g) + 1.0e-8)


def momentum(p: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the first step of gradient descent."""
    return p - RATE * g


def rows(n: int) -> list[Row]:
    """Return all rows, for ``n`` parameters where nothing else is said."""
    decay = 1.0 - RATE * 0.01
    return [
        Row(f"Adam, {n} float32", "Adam", [n], "float32", adam),
        Row(f"Adam, {n} float64", "Adam", [n], "float64", adam),
        Row(f"AdamW, {n} float32", "AdamW", [n], "float32", lambda p, g: adam(p * decay, g), {"weight_decay": 0.01}),
        Row(f"SGD with momentum, {n} float32", "SGD", [n], "float32", momentum, {"momentum": 0.9}),
        Row("Adam, 20 arrays of 100 float32", "Adam", [100] * 20, "float32", adam),
        Row("Adam, 100 float32", "Adam", [100], "float32", adam),
    ]


def of_warp(wp: ModuleType, row: Row) -> Program | None:
    """Return the program of one of the Warps; None where it has no such optimizer."""
    optimizers = importlib.import_module(f"{wp.__name__}.optim")
    if wp.__name__ == "warp" and (row.name == "AdamW" or row.dtype == "float64"):
        return None
    pairs = [(wp.array(p), wp.array(g)) for p, g in row.data()]
    params, grads = [p for p, _ in pairs], [g for _, g in pairs]
    optimizer = getattr(optimizers, row.name)(params, lr=RATE, **row.settings)
    return Program(lambda: optimizer.step(grads), lambda: np.concatenate([p.numpy() for p in params]))


def of_torch(torch: ModuleType, row: Row) -> Program:
    """Return PyTorch's program."""
    params = []
    for p, g in row.data():
        params.append(torch.nn.Parameter(torch.tensor(p)))
        params[-1].grad = torch.tensor(g)
    optimizer = getattr(torch.optim, row.name)(params, lr=RATE, fused=True, **row.settings)
    return Program(optimizer.step, lambda: torch.cat([p.detach() for p in params]).numpy())


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--rows", nargs="+", default=[""], metavar="WORD", help="those with one of these words")
    options = parser.parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS)
    budget, table = reporting.budget(options, 2.0), {}
    for row in rows(10_000 if options.quick else 1 << 22):
        if not any(word in row.title for word in options.rows):
            continue
        expected = np.concatenate([row.expected(p.astype(float), g.astype(float)) for p, g in row.data()])
        programs = {c: of_torch(m, row) if c == "PyTorch" else of_warp(m, row) for c, m in found.items()}
        there = {column: program for column, program in programs.items() if program is not None}
        table[row.title] = timing.measure_row(row.title, there, expected, budget, rtol=1.0e-4, atol=1.0e-6)
    reporting.report("optim", "a step, milliseconds", COLUMNS, table, 1.0e3, options)
    return table


if __name__ == "__main__":
    main()
