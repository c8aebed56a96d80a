"""How long kernels of many kinds take, beside warp-lang, numba, JAX, PyTorch and C++; milliseconds a launch.

    python examples/benchmarks/benchmark_throughput.py --json throughput.json
    python examples/benchmarks/benchmark_throughput.py --programs sine nbody --peers numba C++

``programs/`` has the programs, ``cpp/`` the same in C++. Every result is checked against NumPy's, in float64, before it
is timed; a peer whose result is wrong, or that cannot run a program, gets that word in place of a time. Arrays are
float32 where the row does not say float64. The columns:

- warp-lang's CPU runs on one thread, all others use all cores;
- numba has ``parallel=True, fastmath=True``, JAX ``jit``, PyTorch ``torch.compile``;
- C++ is plain loops with OpenMP, by ``g++ -O3 -march=native``; "C++ fast" the same with ``-ffast-math``; "C++ lanes" is
  vectorised by hand with a thread of the grid in each lane, for programs where computing is the limit;
- "over C++" is warp_like's time over that of the best C++ column.

The last lines are geometric means: of each column's time over that of the best C++ column, of warp-lang's over
warp_like's, and of the best peer's over warp_like's.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import columns
import numpy as np
import reporting
import timing
from columns import COLUMNS, CPP, PEERS, Column
from programs import ENTRIES, Case, Entry

OVER = "over C++"
Row = dict[str, Any]
"""A program's operations (``flops``), its ``bytes``, and each column's seconds or the word in their place."""


def right_programs(
    entry: Entry, case: Case, table: Mapping[str, Column]
) -> tuple[dict[str, timing.Run], dict[str, str]]:
    """Run every column's program once; return those whose result is right, and a word for each other."""
    expected = case.expected()
    programs: dict[str, timing.Run] = {}
    words: dict[str, str] = {}
    for name, column in table.items():
        try:
            program = column.program(entry, case)
            if program is None:
                continue
            program.run()
            timing.check(case.title, name, program.result(), expected, **case.tolerance)
        except Exception as error:  # a peer may fail in any way; the row is about the others then
            if name == "warp_like" or name in CPP:
                raise
            print(f"{case.title}: {name}: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
            words[name] = "wrong" if isinstance(error, timing.WrongResultError) else "fails"
        else:
            programs[name] = program.run
    return programs, words


def measure(entry: Entry, table: Mapping[str, Column], quick: bool, budget: float) -> tuple[str, Row]:
    """Return the row's title, and the row."""
    case = entry.make(quick)
    print(f"measuring {case.title}", file=sys.stderr, flush=True)
    programs, words = right_programs(entry, case, table)
    seconds = timing.measure(programs, budget=budget)
    return case.title, {"flops": case.operations(), "bytes": float(case.nbytes), **words, **seconds}


def best(times: Row, names: Iterable[str]) -> float:
    """Return the least of the times that these columns have; NaN if there is none."""
    found = [times[name] for name in names if isinstance(times.get(name), float)]
    return min(found, default=float("nan"))


def shown(times: Row) -> Row:
    """Return a row as the table has it: with warp_like's time over that of the best C++ column."""
    ratio = best(times, ["warp_like"]) / best(times, CPP)
    return times | ({OVER: reporting.three_digits(ratio)} if np.isfinite(ratio) else {})


def mean_ratio(rows: Mapping[str, Row], above: Sequence[str], below: Iterable[str]) -> float | None:
    """Return the geometric mean of best(above) / best(below) over the rows that have both."""
    ratios = np.array([best(times, above) / best(times, below) for times in rows.values()])
    ratios = ratios[np.isfinite(ratios)]
    return float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else None


def means(rows: Mapping[str, Row]) -> dict[str, dict[str, float | None]]:
    """Return the table of geometric means."""
    return {
        "time / best C++": {c: mean_ratio(rows, [c], CPP) for c in COLUMNS},
        "time / warp_like": {c: mean_ratio(rows, [c], ["warp_like"]) for c in COLUMNS},
    }


def summary(rows: Mapping[str, Row]) -> str:
    """Return the line below the tables."""
    parts = {
        "warp_like / best C++": mean_ratio(rows, ["warp_like"], CPP),
        "warp-lang / warp_like": mean_ratio(rows, ["warp-lang"], ["warp_like"]),
        "best peer / warp_like": mean_ratio(rows, PEERS, ["warp_like"]),
        "best peer / best C++": mean_ratio(rows, PEERS, CPP),
    }
    return "geometric means: " + ", ".join(f"{name} {value:.3g}" for name, value in parts.items() if value)


def main(argv: list[str] | None = None) -> dict[str, Row]:
    """Run the benchmark and return its rows."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--programs", nargs="+", metavar="NAME", help="those whose names begin so (default: all)")
    parser.add_argument("--peers", nargs="*", metavar="COLUMN", choices=COLUMNS, help="columns beside warp_like's")
    options = parser.parse_args(argv)
    entries = [e for e in ENTRIES if not options.programs or e.name.startswith(tuple(options.programs))]
    wanted = COLUMNS if options.peers is None else ["warp_like", *options.peers]
    made = columns.make(wanted, entries)
    budget = reporting.budget(options, 0.4)
    rows = dict(measure(entry, made, options.quick, budget) for entry in entries)
    report = reporting.Report("throughput", "s", options)
    table = {title: shown(times) for title, times in rows.items()}
    report.table("one launch, milliseconds", [*COLUMNS, OVER], table, 1.0e3)
    report.table("geometric means", COLUMNS, means(rows))
    report.text(summary(rows))
    report.finish(rows)
    return rows


if __name__ == "__main__":
    main()
