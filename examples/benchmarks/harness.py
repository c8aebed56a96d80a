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
        raise ValueError(f"{row}: {column} has the shape {np.shape(got)} instead of {np.shape(expected)}")
    wrong = ~np.isclose(got, expected, rtol=rtol, atol=atol)
    if wrong.mean() > outliers:
        raise ValueError(f"{row}: {column} is wrong in {wrong.sum()} of {wrong.size} elements")


def seconds_per_call(run: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def measure(runs: dict[Hashable, Callable[[], object]], rounds=9, batches=3, seconds=0.01) -> dict:
    """Return every program's seconds per call: the best of ``rounds`` medians over ``batches`` batches each.

    A batch repeats the call for about ``seconds``. The programs take turns, so that what else the machine
    does meets all of them.
    """
    calls = {column: max(1, int(seconds / seconds_per_call(run, 1))) for column, run in runs.items()}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for column, run in runs.items():
            median = statistics.median(seconds_per_call(run, calls[column]) for _ in range(batches))
            best[column] = min(best[column], median)
    return best


def measure_row(row: str, programs: dict[str, Program], expected, **tolerance) -> dict[str, float]:
    """Run every program once, check what it computed, then time them all."""
    for column, program in programs.items():
        program.run()
        check(row, column, program.result(), expected, **tolerance)
    return measure({column: program.run for column, program in programs.items()})


def three_digits(value: float) -> str:
    """Return a number with three significant digits and without an exponent."""
    if value == int(value):
        return str(int(value))
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def cell(value: float | str | None, scale: float) -> str:
    """Return what a table shows for a measured value, for a word in its place, or for nothing."""
    return "-" if value is None else value if isinstance(value, str) else three_digits(value * scale)


def print_table(title: str, columns: Sequence[str], rows: dict[str, dict], scale: float) -> None:
    """Print the values times ``scale``, one line a row."""
    width = max(map(len, [*rows, title])) + 2
    print()
    print(title.ljust(width) + "".join(column.rjust(12) for column in columns))
    for row, times in rows.items():
        cells = [cell(times.get(column), scale) for column in columns]
        print(row.ljust(width) + "".join(text.rjust(12) for text in cells), flush=True)


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


def arguments(description: str, argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write what was measured to this file")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run and agree?")
    return parser.parse_args(argv)


def finish(name: str, unit: str, rows: dict, path: Path | None) -> None:
    """Print the machine and the versions, and write the JSON file if one is asked for."""
    here = environment()
    packages = ", ".join(f"{package} {version}" for package, version in here["versions"].items())
    print(f"\n{here['processor']}, {here['cores']} cores, {here['system']}, {packages}, {here['date']}")
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"benchmark": name, "unit": unit, "environment": here, "rows": rows}
        path.write_text(json.dumps(record, indent=2) + "\n")


def report(name: str, title: str, columns: Sequence[str], rows: dict, scale: float, path: Path | None) -> None:
    """Print one table, and what ``finish`` adds."""
    print_table(title, columns, rows, scale)
    finish(name, "s", rows, path)
