"""What a gradient costs, beside warp-lang, JAX and PyTorch: forward, backward, and the two together.

    python examples/benchmarks/benchmark_backward.py --json backward.json

Every gradient is compared with NumPy's, in float64, before anything is timed, and a framework whose gradient
is wrong gets that word in place of a time; the arrays are float32. For warp-lang the backward pass is
``tape.zero(); tape.backward(...)`` of a tape recorded once, for warp_like ``tape.backward(..., zero=True)``. It
computes again what it needs of the forward pass. PyTorch keeps its graph, and only its backward is timed. JAX does
both in one compiled function, so that its backward time is the difference to the forward one. warp-lang's CPU runs on
one thread, the others use all cores.

C++ is derived and vectorised by hand (``cpp/gradients.cpp``): a floor.

The last table is the memory that the gradient needs on the stack of saved values for each thread of a
kernel. It is measured: the smallest ``wp.config.adjoint_stack_limit`` under which the backward pass of the
kernels succeeds.
"""

from argparse import Namespace
from types import ModuleType
from typing import Any

import cpp_reference
import frameworks
import reporting
import timing
from gradient_columns import COLUMNS, MAKERS, Differentiated, taped
from gradients import Problem, all_problems

LARGEST_STACK = 1 << 26
PASSES = ("forward", "backward", "both")
Times = dict[str, dict[str, Any]]
"""For each of ``PASSES`` the seconds of each column, the ``ratio`` of backward to forward, the bytes of ``stack``."""


def stack_bytes(wp: ModuleType, problem: Problem) -> int | None:
    """Return the least limit of the stack under which the gradient can be computed, by bisection."""
    backward = taped(wp, problem).backward
    assert backward is not None
    limit = wp.config.adjoint_stack_limit

    def fits(nbytes: int) -> bool:
        wp.config.adjoint_stack_limit = nbytes
        try:
            backward()
        except MemoryError:
            return False
        return True

    low, high = -1, LARGEST_STACK  # does not fit, fits
    try:
        if fits(0):
            return 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
    finally:
        wp.config.adjoint_stack_limit = limit
    return high


def right_programs(
    problem: Problem, programs: dict[str, Differentiated]
) -> tuple[dict[str, Differentiated], dict[str, str]]:
    """Return the programs whose gradient is right, and for the others, the reason that they get no time."""
    expected = problem.gradient()
    right: dict[str, Differentiated] = {}
    reasons: dict[str, str] = {}
    for column, program in programs.items():
        program.both()
        try:
            timing.check(problem.name, column, program.result(), expected, **problem.tolerance)
        except ValueError as error:
            if column in ("warp_like", "C++"):
                raise
            print(error)
            reasons[column] = "wrong"
        else:
            right[column] = program
    return right, reasons


def measure_problem(problem: Problem, found: dict[str, Any], budget: float) -> Times:
    """Return a row: what each of the frameworks and libraries that were found needs."""
    made = {column: MAKERS[column](found[column], problem) for column in COLUMNS if column in found}
    programs = {column: program for column, program in made.items() if program is not None}
    right, reasons = right_programs(problem, programs)
    runs = {(c, part): run for c, p in right.items() for part in PASSES if (run := getattr(p, part)) is not None}
    seconds = timing.measure(runs, budget=budget)
    times: Times = {part: dict(reasons) for part in (*PASSES, "ratio")}
    for (column, part), value in seconds.items():
        times[part][column] = value
    for column in right:
        if (column, "forward") not in seconds:
            continue
        if (column, "backward") not in seconds:
            times["backward"][column] = max(0.0, times["both"][column] - times["forward"][column])
        times["ratio"][column] = times["backward"][column] / times["forward"][column]
    if "warp_like" in found:
        times["stack"] = {"warp_like": stack_bytes(found["warp_like"], problem)}
    return times


TABLES = {
    "both": ("value and gradient, milliseconds", 1.0e3),
    "forward": ("forward, milliseconds", 1.0e3),
    "backward": ("backward, milliseconds", 1.0e3),
    "ratio": ("backward / forward", 1.0),
}
"""The titles and the units of the tables of times."""


def print_tables(measured: dict[str, Times], options: Namespace) -> None:
    """Print the tables, and write the JSON file if one is asked for."""
    report = reporting.Report("backward", "s (ratio: 1, stack: bytes)", options)
    for part, (title, scale) in TABLES.items():
        report.table(title, COLUMNS, {row: times[part] for row, times in measured.items()}, scale)
    stack = {row: times.get("stack", {}) for row, times in measured.items()}
    report.table("saved values, bytes a thread", ["warp_like"], stack)
    report.finish(measured)


def main(argv: list[str] | None = None) -> dict[str, Times]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    found: dict[str, Any] = {**frameworks.find_frameworks([c for c in COLUMNS if c in frameworks.FRAMEWORKS])}
    if (library := cpp_reference.load(cpp_reference.FAST, files="gradients")) is not None:
        found["C++"] = library
    budget = reporting.budget(options)
    measured = {p.name: measure_problem(p, found, budget) for p in all_problems(options.quick)}
    print_tables(measured, options)
    return measured


if __name__ == "__main__":
    main()
