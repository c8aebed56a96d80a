"""Operations on whole arrays: ``wp.utils`` beside warp-lang's and NumPy's; milliseconds.

    python examples/benchmarks/benchmark_utils.py --json utils.json

Sorts start from the same unsorted numbers each time, so their times include copying these in. A call that takes longer
than a second is timed once (warp-lang's sort in segments).
"""

from collections.abc import Callable
from types import ModuleType

import frameworks
import numpy as np
import reporting
import timing
from timing import Program

COLUMNS = [*frameworks.WARPS, "NumPy"]


class Data:
    """The numbers that all programs work on."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(0)
        self.n = n
        self.floats = rng.random(n, dtype=np.float32)
        self.grid = self.floats.reshape(n // 1000, 1000)
        self.vectors = self.floats[: n // 3 * 3].reshape(-1, 3)
        self.ints = rng.integers(-(2**31), 2**31, n).astype(np.int32)
        self.groups = np.sort(rng.integers(0, n // 100 + 1, n)).astype(np.int32)
        self.starts = np.arange(0, n + 1, 10, dtype=np.int32)


def warp_programs(wp: ModuleType, data: Data) -> dict[str, Program]:
    """Return the rows by ``wp.utils`` of one of the Warps."""
    n, u = data.n, wp.utils
    floats, grid, vectors = wp.array(data.floats), wp.array(data.grid), wp.array(data.vectors, dtype=wp.vec3)
    total, columns, rows = wp.zeros(1), wp.zeros((1, 1000)), wp.zeros((n // 1000, 1))
    sums, doubles, vector = wp.zeros(n), wp.zeros(n, dtype=wp.float64), wp.zeros(1, dtype=wp.vec3)
    keys, values = wp.zeros(2 * n, dtype=wp.int32), wp.zeros(2 * n, dtype=wp.int32)
    unsorted, places = wp.array(data.ints), wp.array(np.arange(n, dtype=np.int32))
    groups, starts = wp.array(data.groups), wp.array(data.starts)
    found, lengths = wp.zeros(n, dtype=wp.int32), wp.zeros(n, dtype=wp.int32)

    def sort() -> None:
        wp.copy(keys, unsorted, count=n)
        wp.copy(values, places, count=n)
        u.radix_sort_pairs(keys, values, n)

    def sort_segments() -> None:
        wp.copy(keys, unsorted, count=n)
        wp.copy(values, places, count=n)
        u.segmented_sort_pairs(keys, values, n, starts)

    return {
        "sum": Program(lambda: u.array_sum(floats, out=total), lambda: total.numpy()),
        "sum of columns": Program(lambda: u.array_sum(grid, out=columns, axis=0), lambda: columns.numpy()),
        "sum of rows": Program(lambda: u.array_sum(grid, out=rows, axis=1), lambda: rows.numpy()),
        "sum of vec3": Program(lambda: u.array_sum(vectors, out=vector), lambda: vector.numpy()[0]),
        "inner product": Program(lambda: u.array_inner(floats, floats, out=total), lambda: total.numpy()),
        "prefix sums": Program(lambda: u.array_scan(floats, sums), lambda: sums.numpy()),
        "cast to float64": Program(lambda: u.array_cast(floats, doubles), lambda: doubles.numpy()),
        "sort of pairs": Program(sort, lambda: values.numpy()[:n]),
        "sort in segments of 10": Program(sort_segments, lambda: values.numpy()[:n]),
        "runs of equal numbers": Program(
            lambda: u.runlength_encode(groups, found, lengths), lambda: lengths.numpy()[: len(np.unique(data.groups))]
        ),
    }


def numpy_programs(data: Data) -> dict[str, Program]:
    """Return the rows by NumPy, whose results the others have to agree with."""

    def segments() -> np.ndarray:
        parts = data.ints.reshape(-1, 10)
        return (np.argsort(parts, axis=1, kind="stable") + data.starts[:-1, None]).ravel()

    def runs() -> np.ndarray:
        changes = np.flatnonzero(np.diff(data.groups)) + 1
        return np.diff(changes, prepend=0, append=data.n)

    f = data.floats
    calls: dict[str, Callable[[], np.ndarray]] = {
        "sum": lambda: f.sum(keepdims=True),
        "sum of columns": lambda: data.grid.sum(0, keepdims=True),
        "sum of rows": lambda: data.grid.sum(1, keepdims=True),
        "sum of vec3": lambda: data.vectors.sum(0),
        "inner product": lambda: np.dot(f, f)[None],
        "prefix sums": lambda: np.cumsum(f),
        "cast to float64": lambda: f.astype(np.float64),
        "sort of pairs": lambda: np.argsort(data.ints, kind="stable"),
        "sort in segments of 10": segments,
        "runs of equal numbers": runs,
    }
    return {row: remembered(call) for row, call in calls.items()}


def remembered(call: Callable[[], np.ndarray]) -> Program:
    """Return a program whose result is that of its last run."""
    last: list[np.ndarray] = []

    def run() -> None:
        last[:] = [call()]

    return Program(run, lambda: last[0])


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS)
    data = Data(10_000 if options.quick else 1_000_000)
    programs = {column: warp_programs(found[column], data) for column in frameworks.WARPS if column in found}
    programs["NumPy"] = numpy_programs(data)
    budget, rows = reporting.budget(options, 1.0), {}
    for row, reference in programs["NumPy"].items():
        reference.run()
        of_row = {column: of[row] for column, of in programs.items()}
        rows[row] = timing.measure_row(row, of_row, reference.result(), budget, rtol=1.0e-3)
    reporting.report("utils", f"{data.n} elements, milliseconds", COLUMNS, rows, 1.0e3, options)
    return rows


if __name__ == "__main__":
    main()
