"""What ``benchmark_cuda.py`` has to reach on a GPU: a line for each goal, as ``docs/benchmarks/cuda.md`` has them."""

from collections.abc import Callable
from dataclasses import dataclass

from cuda_rows import COPY, GRAPH, GRAPH_NODES, KERNEL_COPY, NBODY, NBODY_FAST, SAXPY, SMALL, STENCIL, SUM, Data

Rows = dict[str, dict[str, float]]
OURS, CPP = "warp_like", "CUDA C++"


@dataclass(frozen=True)
class Goal:
    """A figure made of the times of some rows.

    Attributes:
        figure: What it is.
        bound: The least value, or the largest one if ``unit`` is a time.
        unit: ``""`` for a share of a limit, or ``"us"``.
        value: Computes the figure; raises KeyError if a row has no time.
    """

    figure: str
    bound: float
    unit: str
    value: Callable[[Rows, Data], float]

    def line(self, rows: Rows, data: Data) -> str | None:
        """Return a line with the figure and the goal, or None where a row has no time."""
        try:
            value = self.value(rows, data)
        except KeyError:
            return None
        shown, bound = (f"{v:.3g} {self.unit}" if self.unit else f"{v:.1%}" for v in (value, self.bound))
        side = "at most" if self.unit else "at least"
        met = "met" if (value <= self.bound if self.unit else value >= self.bound) else "not met"
        return f"{self.figure}: {shown} (goal: {side} {bound}, {met})"


def _bandwidth(what: str, row: str, least: float, moved: Callable[[Data], int]) -> Goal:
    """Return the goal for the bandwidth of a row, of which ``moved`` gives the bytes."""

    def share(rows: Rows, data: Data) -> float:
        return moved(data) / rows[row][OURS] / (32 * data.count / rows[COPY][OURS])

    return Goal(f"bandwidth of {what}, of a copy on the device", least, "", share)


def _bodies(function: str, row: str, least: float) -> Goal:
    """Return the goal for n-body beside CUDA C++ with a function for the inverse root."""
    return Goal(
        f"speed of n-body, of CUDA C++ with {function}", least, "", lambda rows, _: rows[row][CPP] / rows[NBODY][OURS]
    )


def _time(what: str, row: str, most: float, calls: int) -> Goal:
    """Return the goal for the microseconds of a call, of which a row has several."""
    return Goal(f"time of {what}", most, "us", lambda rows, _: 1.0e6 * rows[row][OURS] / calls)


GOALS = [
    _bandwidth("a copy of vec4 by a kernel", KERNEL_COPY, 0.95, lambda data: 32 * data.count),
    _bandwidth("saxpy", SAXPY, 0.92, lambda data: 48 * data.count),
    _bandwidth("the stencil", STENCIL, 0.90, lambda data: 8 * data.side**2),
    _bandwidth("a sum", SUM, 1.0 / 1.3, lambda data: 4 * data.summed),
    _bodies("1 / sqrtf", NBODY, 0.95),
    _bodies("rsqrtf", NBODY_FAST, 0.60),
    _time("a launch", SMALL, 3.0, 1),
    _time("a node of a graph", GRAPH, 1.0, GRAPH_NODES),
]


def reached(rows: Rows, data: Data) -> list[str]:
    """Return the lines of all goals whose rows have times."""
    return [line for goal in GOALS if (line := goal.line(rows, data)) is not None]
