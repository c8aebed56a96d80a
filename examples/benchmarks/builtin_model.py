"""What a one-line kernel has to take: its memory traffic at the machine's bandwidth, and its operations.

Both are measured here, by copies of arrays and by kernels that repeat one operation. Traffic and arithmetic overlap in
good code; the model adds them, so a kernel that takes more than the sum does something that the model does not know.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import timing
from builtin_rows import Row, make_kernel

from warp_like.ir import types as ir

REPEATED = 16
"""How often a kernel repeats an operation whose cost is measured."""

OPERATIONS = {
    "arithmetic": ("x = wp.max(x * c, c)", 2),
    "root": ("x = c / (x + c)", 1),
    "function": ("x = wp.sin(x)", 1),
}
"""A line that does operations of each kind, and how many."""

FREE = frozenset(
    ("load", "store", "constant", "extract", "insert", "vec", "mat", "quat", "transform", "tid", "cast", "broadcast")
)
ROOTS = frozenset(("div", "sqrt", "mod"))
FUNCTIONS = {
    **dict.fromkeys(("exp", "log", "log2", "log10", "sin", "cos", "tan", "_asin", "_acos", "atan", "sinh", "cosh"), 1),
    "tanh": 1,
    "cbrt": 1,
    "erf": 1,
    "erfc": 2,
    "atan2": 2,
    "_pow": 3,
}
"""Functions of the mathematics library, and how many times a sine they may take."""


def elements(t: ir.Type) -> int:
    """Return how many numbers a value of a type has."""
    return math.prod(ir.element_shape(t))


def nbytes(t: ir.Type) -> int:
    """Return how many bytes a value of a type has."""
    scalar = ir.scalar_of(t)
    assert scalar is not None
    return elements(t) * scalar.bits // 8


def traffic(row: Row, backward: bool) -> int:
    """Return the bytes that a thread moves.

    A backward pass copies the adjoints of the results, takes them, leaves 0, and adds to those of the arguments.
    """
    if not backward:
        return sum(nbytes(t) for _, t in row.parameters)
    passed = [t for t in row.types if ir.is_differentiable(t)]
    seeds = [t for t in row.results if ir.is_differentiable(t)]
    return sum(map(nbytes, row.types)) + 2 * sum(map(nbytes, passed)) + 4 * sum(map(nbytes, seeds))


class Model:
    """The costs on this machine, each measured when it is first asked for."""

    def __init__(self, wp: ModuleType, count: int, seconds: float) -> None:
        self.wp, self.count, self.seconds = wp, count, seconds
        self.copies: dict[int, float] = {}
        self.costs: dict[tuple[str, ir.Type], float] = {}

    def explained(self, row: Row, kernel: Any, backward: bool, count: int) -> float:
        """Return the seconds that traffic and operations of ``count`` threads explain."""
        wrt = [name for name, t in row.parameters if ir.is_differentiable(t)] if backward else None
        text = kernel.inspect("optimised", wrt=wrt)
        costs = sum(n * self._cost(kind, bits) for (kind, bits), n in operations(text).items())
        return self.moved(traffic(row, backward) * count) + costs * count

    def moved(self, size: int) -> float:
        """Return the seconds in which a copy moves as many bytes, read and written ones together."""
        below = 1 << max(12, size.bit_length() - 1)
        return self._copy(below) * size / below

    def _copy(self, size: int) -> float:
        """The seconds of a copy that reads half of the bytes and writes the others."""
        if size not in self.copies:
            n = size // 8
            given = [("a", ir.float32), ("b", ir.float32)]
            copy = make_kernel(self.wp, "copy", given, ["b[i] = a[i]"])
            self.copies[size] = self._run(copy, n, np.ones(n, np.float32), np.ones(n, np.float32))
        return self.copies[size]

    def _cost(self, kind: str, bits: int) -> float:
        """The seconds of one operation in one thread, when all threads do nothing else."""
        t = ir.float64 if bits == 64 else ir.float32
        if (kind, t) not in self.costs:
            lines = ["c = b[0]", "x = a[i]", *[OPERATIONS[kind][0]] * REPEATED, "b[i] = x"]
            kernel = make_kernel(self.wp, f"{kind} of {t}", [("a", t), ("b", t)], lines)
            n = min(1 << 14, self.count)
            seconds = self._run(kernel, n, np.full(n, 0.5, str(t)), np.full(n, 0.7, str(t)))
            self.costs[kind, t] = seconds / (n * REPEATED * OPERATIONS[kind][1])
        return self.costs[kind, t]

    def _run(self, kernel: Any, n: int, *arrays: Any) -> float:
        def run() -> None:
            self.wp.launch(kernel, dim=n, inputs=arrays)

        return timing.measure({"": run}, rounds=3, seconds=self.seconds)[""]


def operations(text: str) -> Counter[tuple[str, int]]:
    """Return how often a thread does each kind of operation, by the number of bits, given a kernel's IR."""
    found: Counter[tuple[str, int]] = Counter()
    for name, shape, size, bits in re.findall(_RESULT, text, re.MULTILINE):
        n = {"": 1, "quat": 4, "transform": 7}.get(shape) or math.prod(map(int, size.split("x")))
        if name in FUNCTIONS:
            found["function", int(bits)] += n * FUNCTIONS[name]
        elif name not in FREE:
            found["root" if name in ROOTS else "arithmetic", int(bits or 8)] += n
    return found


_RESULT = r"= (\w+)\b.* : (?:(vec|mat|quat|transform)([\dx]*)\[)?[a-z]+(\d*)\]?$"
