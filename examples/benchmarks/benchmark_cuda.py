"""Kernels on a GPU beside CUDA C++ and other libraries: bandwidth, arithmetic, atomics, launches; in microseconds.

    python examples/benchmarks/benchmark_cuda.py --json docs/benchmarks/cuda.json

A call is one launch; calls are timed in batches that end with waiting for the device. Every result is checked before
it gets a time, and a program that fails says why and gets no time, while the others go on. The lines below the table
compare rows with their limits (``cuda_goals.py``): the bandwidth of a copy between two arrays of the device, and for
n-body the same loop in CUDA C++, compiled by NVRTC.

The file of ``--json`` is written after each row of each library, so that whatever ends the program early loses
nothing; ``--seconds`` ends it by itself. Libraries take turns as a whole, this one first: an error that makes the
device unusable for the rest of the process costs those that come later.

``--device cpu`` runs the same programs on the processor, which shows that they agree but times nothing of interest.
"""

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import cuda_peers
import frameworks
import numpy as np
import reporting
import timing
from cuda_goals import Rows, reached
from cuda_rows import ROWS, Data, Makers, expected
from cuda_warp import warp_programs
from timing import Program


@dataclass(frozen=True)
class Library:
    """A column: what to import, and the function that makes its programs of the module, the data and the device."""

    module: str
    make: Callable[[ModuleType, Data, str], Makers]
    on_cpu: bool = False


LIBRARIES = {
    "warp_like": Library("warp_like", warp_programs, on_cpu=True),
    "warp-lang": Library("warp", warp_programs, on_cpu=True),
    "CUDA C++": Library("warp_like", cuda_peers.cpp_programs),
    "PyTorch": Library("torch", cuda_peers.torch_programs, on_cpu=True),
    "Triton": Library("triton", cuda_peers.triton_programs),
    "CuPy": Library("cupy", cuda_peers.cupy_programs),
    "numba-cuda": Library("numba.cuda", cuda_peers.numba_programs),
}
"""In the table's order."""

COLUMNS = list(LIBRARIES)


def seconds_per_call(program: Program, quick: bool) -> float:
    """Return the best of several batches, each of as many calls as take about 20 ms."""
    program.run()
    program.wait()

    def batch(calls: int) -> float:
        return timing.seconds_per_call(program.run, calls, program.wait)

    calls = max(1, min(2000, int(0.02 / max(batch(1), 1.0e-6))))
    return min(batch(calls) for _ in range(1 if quick else 9))


def measure_program(row: str, column: str, program: Program, expected: np.ndarray, quick: bool) -> float:
    """Run a program, check its result, and return its seconds per call."""
    program.run()
    program.wait()
    timing.check(row, column, program.result(), expected, rtol=1.0e-3, atol=1.0e-3)
    return seconds_per_call(program, quick)


def measured(
    columns: list[str], data: Data, device: str, quick: bool, until: float, save: Callable[[Rows], None]
) -> Rows:
    """Make, check and time every program, library by library, as long as the clock shows less than ``until``.

    ``save`` gets all rows after each that is done.
    """
    right = expected(data)
    rows: Rows = {row: {} for row in ROWS}
    for column in columns:
        programs = found(column, data, device)
        for row in ROWS:
            if row not in programs:
                continue
            if time.monotonic() > until:
                print(f"{row}: {column} left out: the time is used up", file=sys.stderr)
                continue
            try:
                rows[row][column] = measure_program(row, column, programs[row](), right[row], quick)
            except Exception as error:  # whatever a library raises, the others go on
                print(f"{row}: {column} failed: {type(error).__name__}: {error}", file=sys.stderr)
            else:
                save(rows)
    return rows


def found(column: str, data: Data, device: str) -> Makers:
    """Return a library's programs; none, with the reason, where it is not here or can't use the device."""
    library = LIBRARIES[column]
    try:
        module = importlib.import_module(library.module)
        if column in frameworks.WARPS:
            frameworks.prepare_warp(module)
        return library.make(module, data, device)
    except Exception as error:
        print(f"{column}: not here: {type(error).__name__}: {error}", file=sys.stderr)
        return {}


def main(argv: list[str] | None = None) -> Rows:
    """Run the benchmark and return its rows."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--device", default="cuda:0", help="a CUDA device, or cpu to check the programs")
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=COLUMNS, help="the libraries")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no program after so many seconds")
    options = parser.parse_args(argv)
    columns = [c for c in options.columns if options.device != "cpu" or LIBRARIES[c].on_cpu]
    report = reporting.Report("cuda", "s", options)
    import warp_like as wp

    device = wp.get_device(options.device)
    name = {"device": {"name": str(getattr(device, "name", device))}}
    until = time.monotonic() + options.seconds
    data = Data(options.quick)
    rows = measured(columns, data, options.device, options.quick, until, lambda rows: report.save({**rows, **name}))
    report.table("microseconds", columns, rows, 1.0e6)
    for line in reached(rows, data):
        report.text(line)
    report.finish({**rows, **name})
    return rows


if __name__ == "__main__":
    main()
