"""What the benchmarks share: find the peers, check a result, time it, print a table, write JSON.

A column of a table is a framework, and one that is not installed shows "-". A kernel is written once, in a
factory ``make(wp)``, and both warp_like and warp-lang compile this same text.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

# The columns: what to import, and the package that it comes from where the name differs.
MODULES = {
    "warp_like": "warp_like",
    "warp-lang": "warp",
    "numba": "numba",
    "NumPy": "numpy",
    "JAX": "jax",
    "PyTorch": "torch",
    "Paddle": "paddle",
}
PACKAGES = MODULES | {"warp-lang": "warp-lang", "Paddle": "paddlepaddle"}
WARPS = ("warp_like", "warp-lang")  # the columns that compile the same kernels


class WrongResultError(ValueError):
    """A result that differs from the expected one."""


@dataclass
class Program:
    """One framework's program for one row: ``run`` does the work, ``result`` gives what it computed."""

    run: Callable[[], object]
    result: Callable[[], np.ndarray]


def find_frameworks(columns: Sequence[str]) -> dict[str, ModuleType]:
    """Import what is installed of these columns' frameworks, each ready to run on the CPU."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found = {}
    for column in columns:
        try:
            found[column] = importlib.import_module(MODULES[column])
        except ImportError as error:
            print(f"{column}: not here ({error})", file=sys.stderr)
            continue
        if column.startswith("warp"):
            prepare_warp(found[column])
    return found


def prepare_warp(wp) -> None:
    """Make the CPU the default device, and have no messages between the tables."""
    if hasattr(wp, "LOG_ERROR") and hasattr(wp.config, "log_level"):
        wp.config.log_level = wp.LOG_ERROR
    if hasattr(wp, "init"):
        wp.init()
    if hasattr(wp, "set_device"):
        wp.set_device("cpu")


def check(row, column, got, expected, rtol=1.0e-4, atol=1.0e-5, outliers=0.0) -> None:
    """Raise unless a result agrees with NumPy's, so that nothing wrong gets a time.

    ``outliers`` is the share of elements that may differ, where rounding decides about them (a fractal's
    edge).
    """
    if np.shape(got) != np.shape(expected):
        raise WrongResultError(f"{row}: {column} has the shape {np.shape(got)} instead of {np.shape(expected)}")
    wrong = ~np.isclose(got, expected, rtol=rtol, atol=atol)
    if wrong.mean() > outliers:
        raise WrongResultError(f"{row}: {column} is wrong in {wrong.sum()} of {wrong.size} elements")


def seconds_per_call(run: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def measure(runs: dict[Hashable, Callable[[], object]], rounds=9, batches=3, seconds=0.01, budget=float("inf")) -> dict:
    """Return every program's seconds per call: the best of ``rounds`` medians over ``batches`` batches each.

    A batch repeats the call for about ``seconds``. The programs take turns, so that what else the machine
    does meets all of them. A program that has used ``budget`` seconds takes no further turns; one whose first
    call takes longer has the time of that call.
    """
    best = {column: seconds_per_call(run, 1) for column, run in runs.items()}
    calls, used = {column: max(1, int(seconds / first)) for column, first in best.items()}, dict(best)
    for turn in range(rounds):
        for column, run in runs.items():
            if used[column] > budget:
                continue
            run()  # and what the program before has left running comes to rest
            times = [seconds_per_call(run, calls[column]) for _ in range(batches)]
            used[column] += sum(times) * calls[column]
            median = statistics.median(times)
            best[column] = median if turn == 0 else min(best[column], median)
    return best


def measure_row(row: str, programs: dict[str, Program], expected, budget=float("inf"), **tolerance) -> dict[str, float]:
    """Run every program once, check what it computed, then time them all."""
    for column, program in programs.items():
        program.run()
        check(row, column, program.result(), expected, **tolerance)
    return measure({column: program.run for column, program in programs.items()}, budget=budget)


def three_digits(value: float) -> str:
    """Return a number with three significant digits and without an exponent."""
    if value == int(value):
        return str(int(value))
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def cell(value: float | str | None, scale: float) -> str:
    """Return what a table shows for a measured value, for a word in its place, or for nothing."""
    return "-" if value is None else value if isinstance(value, str) else three_digits(value * scale)


def processor() -> str:
    """Return the kind of the processor, as the system names it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the version of every package that takes part."""
    found = {"Python": platform.python_version()}
    for column, package in PACKAGES.items():
        try:
            found[column] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            module = sys.modules.get(MODULES[column])
            found[column] = getattr(module, "__version__", "-") if module else "-"
    return found


def environment() -> dict:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor(),
        "cores": cores,
        "system": platform.system(),
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the options that all benchmarks have."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="PATH", help="write what was measured to this file")
    made.add_argument("--markdown", action="store_true", help="print the tables as docs/benchmarks.md has them")
    made.add_argument("--quick", action="store_true", help="small sizes: does everything run and agree?")
    return made


def arguments(description: str, argv: list[str] | None = None) -> argparse.Namespace:
    return parser(description).parse_args(argv)


class Report:
    """What a benchmark prints, as text or as Markdown, and the JSON file that it writes."""

    def __init__(self, name: str, unit: str, options: argparse.Namespace) -> None:
        self.name, self.unit = name, unit
        self.path, self.markdown = options.json, options.markdown

    def table(self, title: str, columns: Sequence[str], rows: dict[str, dict], scale: float) -> None:
        """Print the values times ``scale``, one line a row; ``title`` heads the column of the rows' names.

        A column that no row has is left out.
        """
        columns = [column for column in columns if any(times.get(column) is not None for times in rows.values())]
        cells = {row: [cell(times.get(column), scale) for column in columns] for row, times in rows.items()}
        print()
        if self.markdown:
            print(f"| {' | '.join([title, *columns])} |\n|---|{'---:|' * len(columns)}")
            for row, of in cells.items():
                print(f"| {' | '.join([row, *of])} |")
            return
        width = max(map(len, [*rows, title])) + 2
        for row, of in {title: columns, **cells}.items():
            print(row.ljust(width) + "".join(text.rjust(12) for text in of), flush=True)

    def text(self, line: str) -> None:
        print("\n" + line)

    def save(self, rows: dict) -> None:
        """Write the JSON file if one is asked for; what was there before stays until the new one is whole."""
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            record = {"benchmark": self.name, "unit": self.unit, "environment": environment(), "rows": rows}
            draft = self.path.with_suffix(".part")
            draft.write_text(json.dumps(record, indent=2) + "\n")
            draft.replace(self.path)

    def finish(self, rows: dict) -> None:
        """Print the machine and the versions, and write the JSON file if one is asked for."""
        here = environment()
        packages = ", ".join(f"{package} {version}" for package, version in here["versions"].items() if version != "-")
        self.text(f"{here['processor']}, {here['cores']} cores, {here['system']}, {packages}, {here['date']}")
        self.save(rows)


def budget(options: argparse.Namespace, seconds: float = float("inf")) -> float:
    """Return the ``budget`` of ``measure``: none with ``--quick``, where one call of each program is enough."""
    return 0.0 if options.quick else seconds


def report(name: str, title: str, columns: Sequence[str], rows: dict, scale: float, options) -> None:
    """Print one table, and what ``Report.finish`` adds."""
    made = Report(name, "s", options)
    made.table(title, columns, rows, scale)
    made.finish(rows)
