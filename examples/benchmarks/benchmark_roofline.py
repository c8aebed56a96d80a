"""How close the throughput programs come to what the machine can do: a picture, and its numbers.

    python examples/benchmarks/benchmark_roofline.py --picture docs/images/roofline.png

A program lies under two lines: it can't compute faster than the processor multiplies and adds, and not faster than
memory delivers the bytes that each of its operations needs. Both are measured by C++ on all cores: the bandwidth by a
triad over arrays far larger than the caches and over some that fit, the operations by chains of multiply-adds in
registers. What a program computes and moves is written with it in ``programs/`` (a special function counts as 20
operations). Times come from ``benchmark_throughput.py``: from the JSON file that it wrote (``--throughput``), or from a
run of warp_like's column now. Programs that only move memory have no operations, and no place in the picture.
"""

import json
from pathlib import Path

import benchmark_throughput
import cpp_reference
import numpy as np
import reporting
import timing
from roofline_picture import draw

LARGE, SMALL = 2**26, 2**18  # float32 elements of each of the triad's three arrays: far above the caches, and 1 MiB


def measure_machine(quick: bool) -> dict[str, float]:
    """Return operations and bytes a second, the most of several runs."""
    library = cpp_reference.load(files="machine")
    if library is None:
        raise SystemExit("the machine is measured by C++: install g++ with OpenMP, or set CXX")
    runs: dict[str, timing.Run] = {}
    amounts: dict[str, np.ndarray] = {}
    for bits in (32, 64):
        out, repeats = np.zeros(2), 2_000 if quick else 2_000_000
        runs[f"float{bits}"] = cpp_reference.call(library.find(f"multiply_add{bits}"), repeats, out)
        amounts[f"float{bits}"] = out
    for name, n in (("memory", 2**16 if quick else LARGE), ("cache", 2**14 if quick else SMALL)):
        x, y, result = (np.ones(n, np.float32) for _ in range(3))
        runs[name] = cpp_reference.call(library.find("triad"), n, x, y, result)
        amounts[name] = np.array([3.0 * x.nbytes])
    seconds = timing.measure(runs, budget=0.0 if quick else 2.0)
    return {name: float(amounts[name][0] / seconds[name]) for name in runs}


def place(row: dict[str, float], machine: dict[str, float], is_wide: bool) -> dict[str, float]:
    """Return where a program lies, and the least share of the machine that it reaches.

    ``share`` is that of the lower line at the program's intensity; where arrays stay in the cache it may exceed 1.
    """
    intensity, rate = row["flops"] / row["bytes"], row["flops"] / row["warp_like"]
    roof = min(machine["float64" if is_wide else "float32"], intensity * machine["memory"])
    return {
        "intensity": intensity,
        "GFlop/s": rate / 1e9,
        "GB/s": row["bytes"] / row["warp_like"] / 1e9,
        "share": rate / roof,
    }


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return each program's place."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--throughput", type=Path, metavar="JSON", help="the file that benchmark_throughput.py wrote")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw the picture to this file (needs matplotlib)")
    options = parser.parse_args(argv)
    machine = measure_machine(options.quick)
    if options.throughput:
        rows = json.loads(options.throughput.read_text())["rows"]
    else:
        rows = benchmark_throughput.main(["--peers", *(["--quick"] if options.quick else [])])
    places = {name: place(row, machine, "float64" in name) for name, row in rows.items() if row["flops"]}
    report = reporting.Report("roofline", "operations a second, bytes a second", options)
    report.table("the machine", ["G/s"], {name: {"G/s": value} for name, value in machine.items()}, 1.0e-9)
    report.table("program", ["intensity", "GFlop/s", "GB/s", "share"], places)
    if options.picture:
        draw(places, machine, options.picture)
    report.finish({"machine": machine, "programs": places})
    return places


if __name__ == "__main__":
    main()
