"""Checking a program's result, and timing it: seconds per call, by turns of all programs of a row."""

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

Run = Callable[[], object]
Key = TypeVar("Key", bound=Hashable)


class WrongResultError(ValueError):
    """A result that differs from the expected one."""


def nothing() -> None:
    """Wait for nothing: a call is done when it returns."""


@dataclass
class Program:
    """One framework's program for one row.

    Attributes:
        run: Does the work, or starts it on a device.
        result: Returns the array that it computed.
        wait: Waits until all that ``run`` has started is done.
    """

    run: Run
    result: Callable[[], np.ndarray]
    wait: Run = nothing


def check(
    row: str,
    column: str,
    got: ArrayLike,
    expected: ArrayLike,
    rtol: float = 1.0e-4,
    atol: float = 1.0e-5,
    outliers: float = 0.0,
) -> None:
    """Raise unless a result agrees with the reference, so that nothing wrong gets a time.

    ``outliers`` is the share of elements that may differ, where rounding decides about them (a fractal's edge).
    """
    if np.shape(got) != np.shape(expected):
        raise WrongResultError(f"{row}: {column} has the shape {np.shape(got)} instead of {np.shape(expected)}")
    wrong = ~np.isclose(got, expected, rtol=rtol, atol=atol)
    if wrong.mean() > outliers:
        raise WrongResultError(f"{row}: {column} is wrong in {wrong.sum()} of {wrong.size} elements")


def seconds_per_call(run: Run, calls: int, wait: Run = nothing) -> float:
    """Return the mean time of calls in a row, the last of which is waited for."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (time.perf_counter() - start) / calls


def measure(
    runs: Mapping[Key, Run],
    rounds: int = 9,
    batches: int = 3,
    seconds: float = 0.01,
    budget: float = float("inf"),
) -> dict[Key, float]:
    """Return every program's seconds per call: the best of ``rounds`` medians over ``batches`` batches each.

    A batch repeats the call for about ``seconds``. The programs take turns, so that other work of the machine slows
    all of them. A program that has used ``budget`` seconds takes no further turns; one whose first call takes longer
    has the time of that call.
    """
    best = {column: seconds_per_call(run, 1) for column, run in runs.items()}
    calls, used = {column: max(1, int(seconds / first)) for column, first in best.items()}, dict(best)
    for turn in range(rounds):
        for column, run in runs.items():
            if used[column] > budget:
                continue
            run()  # and the threads of the program before come to rest
            times = [seconds_per_call(run, calls[column]) for _ in range(batches)]
            used[column] += sum(times) * calls[column]
            median = statistics.median(times)
            best[column] = median if turn == 0 else min(best[column], median)
    return best


def measure_row(
    row: str,
    programs: Mapping[str, Program],
    expected: ArrayLike,
    budget: float = float("inf"),
    **tolerance: float,
) -> dict[str, float]:
    """Run every program once, check its result, then time them all."""
    for column, program in programs.items():
        program.run()
        check(row, column, program.result(), expected, **tolerance)
    return measure({column: program.run for column, program in programs.items()}, budget=budget)
