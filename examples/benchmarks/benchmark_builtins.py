"""A sweep of the builtins: which rows take longer than their bytes and operations explain, and for which arguments.

    python examples/benchmarks/benchmark_builtins.py --json builtins.json
    python examples/benchmarks/benchmark_builtins.py --only sin pow --dtypes float32 --all

Each overload is a kernel of one line over 2^20 elements, generated from its declaration. The first table has the rows
whose forward or backward pass takes more than ``LIMIT`` times what ``builtin_model.py`` explains, beside warp-lang,
whose CPU code uses one thread. The second has the functions of numbers for which some kind of arguments, such as
denormal or huge ones, takes more than ``SPREAD`` times as long as another kind. ``--all`` prints all rows, beside
warp-lang.
"""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import frameworks
import numpy as np
import reporting
import timing
from builtin_model import Model, nbytes
from builtin_rows import KINDS, Row, all_rows, dtype_of, make_kernel, usual, variants
from timing import Run

from warp_like.ir import types as ir

LIMIT, SPREAD, TRIES = 1.5, 3.0, 4
DTYPES = ("float32", "float64", "float16", "int32")
PASSES = ("forward", "backward")
MODELS = {"forward": "fwd model", "backward": "bwd model"}
WARPS = {"forward": "Warp fwd", "backward": "Warp bwd"}
"""The columns of the model and of warp-lang for each pass."""
MOST_BYTES = 1 << 26
"""The most bytes of one array: of larger elements there are fewer than 2^20."""

Times = dict[str, dict[str, Any]]


@dataclass
class Launches:
    """A row's passes on one of the Warps; ``backward`` is None where there is no gradient."""

    forward: Run
    backward: Run | None


def launches(wp: ModuleType, kernel: Any, row: Row, args: Sequence[np.ndarray]) -> Launches:
    """Return the launches of a row's kernel, the backward one from a tape that is recorded once."""
    count = len(args[0])
    inputs = [
        wp.array(a, dtype=dtype_of(wp, t), requires_grad=row.gradient and ir.is_differentiable(t))
        for a, t in zip(args, row.types, strict=True)
    ]
    outputs = [
        wp.zeros(count, dtype=dtype_of(wp, t), requires_grad=row.gradient and ir.is_differentiable(t))
        for t in row.results
    ]

    def forward() -> None:
        wp.launch(kernel, dim=count, inputs=inputs, outputs=outputs)

    if not row.gradient:
        return Launches(forward, None)
    tape, seeds = wp.Tape(), {}
    with tape:
        forward()
    for out, t in zip(outputs, row.results, strict=True):
        if ir.is_differentiable(t):
            seeds[out] = wp.zeros(count, dtype=dtype_of(wp, t))
            seeds[out].fill_(1.0)
    return Launches(forward, lambda: tape.backward(grads=seeds))


class Sweep:
    """The measurements, one row after the other."""

    def __init__(self, wp: ModuleType, warp: ModuleType | None, options: Namespace) -> None:
        self.wp, self.warp, self.quick, self.all = wp, warp, options.quick, options.all
        self.count = 1 << (10 if options.quick else 20)
        self.seconds = 1e-4 if options.quick else 4e-3
        self.model = Model(wp, self.count, self.seconds)

    def size(self, row: Row) -> int:
        """Return how many elements a row's arrays have."""
        return min(self.count, MOST_BYTES // max(nbytes(t) for _, t in row.parameters))

    def measured(
        self, runs: Mapping[str, Run | None], count: int, is_slow: Callable[[Mapping[str, float]], bool] | None = None
    ) -> dict[str, float]:
        """Return the nanoseconds of an element for each run that there is.

        Where the times are slow, they are taken again, since something else may have run meanwhile.
        """
        there = {name: run for name, run in runs.items() if run is not None}
        best: dict[str, float] = {}
        for _ in range(1 if self.quick else TRIES):
            for name, seconds in timing.measure(there, rounds=3, batches=1, seconds=self.seconds).items():
                best[name] = min(best.get(name, float("inf")), seconds / count * 1e9)
            if is_slow is None or not is_slow(best):
                break
        return best

    def row(self, row: Row) -> dict[str, Any]:
        """Return the times of a row at usual arguments, what explains them, and warp-lang's where they are shown."""
        count = self.size(row)
        kernel, args = make_kernel(self.wp, row.title, row.parameters, row.lines), usual(row, count)
        made = launches(self.wp, kernel, row, args)
        runs = {part: run for part in PASSES if (run := getattr(made, part)) is not None}
        models = {
            MODELS[part]: self.model.explained(row, kernel, part == "backward", count) / count * 1e9 for part in runs
        }
        found: dict[str, Any] = {
            **self.measured(runs, count, lambda times: over({**times, **models}) > LIMIT),
            **models,
        }
        if self.warp is not None and (self.all or over(found) > LIMIT):
            found |= self.of_warp(self.warp, row, args)
        return found

    def of_warp(self, warp: ModuleType, row: Row, args: Sequence[np.ndarray]) -> dict[str, Any]:
        """Return the times of warp-lang; nothing where it does not have the row."""
        try:
            kernel = make_kernel(warp, row.title, row.parameters, row.lines)
            made = launches(warp, kernel, row, args)
            times = self.measured({p: getattr(made, p) for p in PASSES}, len(args[0]))
        except Exception as error:  # of its code generator, which raises many kinds
            return {"warp-lang": str(error)[:200]}
        return {WARPS[part]: value for part, value in times.items()}

    def ranges(self, row: Row) -> dict[str, dict[str, Any]]:
        """Return for each pass the time of the slowest arguments of each kind."""
        kernel, args = make_kernel(self.wp, row.title, row.parameters, row.lines), usual(row, self.count)
        runs: dict[str, Run | None] = {}
        with np.errstate(all="ignore"):
            for kind in KINDS:
                for k, given in enumerate(variants(kind, args)):
                    made = launches(self.wp, kernel, row, given)
                    runs |= {f"forward {kind} {k}": made.forward, f"backward {kind} {k}": made.backward}
        times = self.measured(
            runs, self.count, lambda times: any(t["spread"] > SPREAD for t in by_kind(times).values())
        )
        return by_kind(times)


def by_kind(times: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return for each pass the slowest time of each kind, and how many times the least of them the greatest is."""
    found = {}
    for part in {name.split()[0] for name in times}:
        slowest = {k: max(t for name, t in times.items() if name.split()[:2] == [part, k]) for k in KINDS}
        found[part] = {**slowest, "spread": max(slowest.values()) / min(slowest.values())}
    return found


def over(times: Mapping[str, Any]) -> float:
    """Return how many times as long as explained a row's slower pass takes."""
    return max(times[part] / times[MODELS[part]] for part in PASSES if part in times)


COLUMNS = ("forward", "fwd model", "backward", "bwd model", "Warp fwd", "Warp bwd", "over")


def worst_first(rows: Times, key: str, limit: float = 0.0) -> Times:
    """Return the rows with more than ``limit`` of ``key``, those with most first."""
    return dict(sorted(((r, t) for r, t in rows.items() if t[key] > limit), key=lambda row: -row[1][key]))


def report(rows: Times, ranges: Times, options: Namespace) -> None:
    """Print the tables, and write the JSON file if one is asked for."""
    made = reporting.Report("builtins", "ns an element", options)
    slow, uneven = worst_first(rows, "over", LIMIT), worst_first(ranges, "spread", SPREAD)
    for found, shown, title, columns, what in (
        (rows, slow, "nanoseconds an element", COLUMNS, f"over {LIMIT} times the model"),
        (ranges, uneven, "kinds of arguments", [*KINDS, "spread"], f"over {SPREAD} times the fastest kind"),
    ):
        if shown or (options.all and found):
            made.table(title, columns, worst_first(found, columns[-1]) if options.all else shown)
        if found:
            made.text(f"{len(found)} rows, {len(shown)} of them {what}")
    made.finish({"rows": rows, "ranges": ranges})


def main(argv: list[str] | None = None) -> dict[str, Times]:
    """Run the benchmark and return its rows."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="rows with one of these in their titles")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), help="types of the numbers")
    parser.add_argument("--all", action="store_true", help="print all rows, not only the slow ones")
    parser.add_argument("--parts", nargs="+", choices=["rows", "ranges"], default=["rows", "ranges"])
    parser.add_argument("--no-warp", action="store_true", help="leave warp-lang out, which compiles for long")
    options = parser.parse_args(argv)
    found = frameworks.find_frameworks(["warp_like"] if options.no_warp else frameworks.WARPS)
    sweep = Sweep(found["warp_like"], found.get("warp-lang"), options)
    rows: Times = {}
    ranges: Times = {}
    for row in all_rows(options.dtypes, options.only):
        if "rows" in options.parts:
            rows[row.title] = sweep.row(row)
            rows[row.title]["over"] = over(rows[row.title])
        if "ranges" in options.parts and row.scalar in (ir.float32, ir.float64):
            ranges |= {f"{row.title} {part}": times for part, times in sweep.ranges(row).items()}
    report(rows, ranges, options)
    return {"rows": rows, "ranges": ranges}


if __name__ == "__main__":
    main()
