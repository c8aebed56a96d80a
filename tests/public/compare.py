"""Runs the public programs with Warp and with warp_like, and compares what they compute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.public.compiling import missing_subject
from tests.public.packages import ROOT

PROGRAMS = ("layers", "humanoid", "pendulum", "examples", "lattice", "neighbours")
RESULTS = ROOT / "build" / "public-results"
LIBRARIES = ("warp", "warp_like")

TOLERANCE = {"pendulum": 2e-3, "examples": 1e-3}
"""The largest difference to Warp, and to what is expected, in units of the largest number of the array.

It is 1e-4 where none is given. A solver that divides differences of positions by a time step of 0.001 magnifies their
rounding.
"""

LEAST_UNIT = {"examples": 0.01}
"""The unit of arrays of smaller numbers; 1 where none is given."""

SHARE = {"examples": 0.99}
"""The share of an array's numbers that must be that near; all, where none is given.

Rounding decides whether two spheres touch, and whether a ray at a silhouette hits.
"""


@dataclass
class Outcome:
    """What came of a program.

    Attributes:
        name: Of the program.
        needs: The missing subsystem, by stage.
        wrong: What went wrong, a text each.
        agree: The stages that agree with Warp, and with what is expected.
        seconds: What these take with either library when they run again.
    """

    name: str
    needs: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    agree: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(LIBRARIES, 0.0))


def compared(name: str, limit: float) -> Outcome:
    """Run a program with both libraries and compare."""
    found = Outcome(name)
    told: dict[str, dict[str, Any]] = {}
    arrays: dict[str, dict[str, Any]] = {}
    for library in LIBRARIES:
        folder = RESULTS / library
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.public.program", name, library, str(folder)]
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, timeout=limit, capture_output=True, text=True
        )
        if done.returncode:
            found.wrong.append(f"{name} ends with {done.returncode} with {library}:\n{done.stderr[-2000:]}")
            return found
        told[library] = json.loads((folder / f"{name}.json").read_text())
        arrays[library] = dict(np.load(folder / f"{name}.npz"))
    for stage, of_warp in told["warp"].items():
        _compare(found, stage, of_warp, told["warp_like"][stage], arrays)
    return found


def _compare(
    found: Outcome, stage: str, of_warp: dict[str, Any], ours: dict[str, Any], arrays: dict[str, dict[str, Any]]
) -> None:
    where = f"{found.name}, {stage}"
    if "error" in of_warp:
        found.wrong.append(f"{where}: fails with Warp: {of_warp['error']}")
        return
    if "error" in ours:
        subject = missing_subject(ours["error"])
        if subject:
            found.needs[stage] = subject
        else:
            found.wrong.append(f"{where}: {ours['error']}")
        return
    wrong = []
    for key in (k for k in arrays["warp"] if k.startswith(f"{stage}/") and not k.endswith(" expected")):
        got = arrays["warp_like"][key]
        for source, wanted in (("Warp", arrays["warp"][key]), ("expected", arrays["warp_like"].get(f"{key} expected"))):
            if wanted is None:
                continue
            difference = _difference(got, wanted, found.name)
            if difference > TOLERANCE.get(found.name, 1e-4):
                wrong.append(f"{where}: {key} differs from {source} by {difference:g}")
    found.wrong += wrong
    if not wrong:
        found.agree.append(stage)
        for library, of in (("warp", of_warp), ("warp_like", ours)):
            found.seconds[library] += of["best"]


def _difference(a: Any, b: Any, program: str) -> float:
    """The difference that a program's share of the numbers keeps to, in units of the largest finite number.

    It is infinite for other shapes and NaNs.
    """
    if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    if not a.size:
        return 0.0
    a, b = np.nan_to_num(a.astype(np.float64)), np.nan_to_num(b.astype(np.float64))
    unit = max(LEAST_UNIT.get(program, 1.0), np.abs(b).max())
    return float(np.quantile(np.abs(a - b), SHARE.get(program, 1.0)) / unit)


def table(outcomes: list[Outcome]) -> str:
    """One line for each program."""
    lines = [
        f"{'program':<12}{'stages':>8}{'agree':>8}{'need what is missing':>22}{'wrong':>8}{'Warp':>11}{'here':>11}"
    ]
    for o in outcomes:
        counts = len(o.agree) + len(o.needs) + len(o.wrong), len(o.agree), len(o.needs), len(o.wrong)
        times = "".join(f"{1e3 * o.seconds[library]:>8.2f} ms" for library in LIBRARIES)
        lines.append(f"{o.name:<12}{counts[0]:>8}{counts[1]:>8}{counts[2]:>22}{counts[3]:>8}{times}")
    return "\n".join(lines)
