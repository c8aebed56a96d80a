"""Runs one public program, in a process of its own, with Warp or with warp_like in its place.

``python -m tests.public.program NAME warp|warp_like FOLDER`` writes the results of every stage to ``FOLDER/NAME.npz``,
times and errors to ``FOLDER/NAME.json``. Nothing here imports warp_like before that is decided.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.public.packages import FOLDER, WARP_FOLDER

REPEATS = 10


@dataclass
class Stage:
    """A part of a program.

    Attributes:
        name: Its name.
        run: Runs it; it may run again, for the time that it takes.
        results: The arrays that it computes, by name.
        expected: What they should be, where another program says so.
        repeats: How often it runs again for its time.
    """

    name: str
    run: Callable[[], object]
    results: Callable[[], dict[str, Any]]
    expected: Callable[[], dict[str, Any]] = dict
    repeats: int = REPEATS


def prepare(library: str, package: str | None) -> None:
    """Import a package, or none, over Warp or over warp_like."""
    if library == "warp":
        sys.path[:0] = [str(WARP_FOLDER), str(FOLDER)]
        if package == "xlb":
            from tests.public import xlb_host

            xlb_host.install()
        importlib.import_module(package or "warp")
    elif package is None:
        sys.path.append(str(FOLDER))
        importlib.import_module("warp_like.as_warp")
    else:
        from tests.public.standing_in import imported

        if package == "xlb":
            from tests.public import xlb_host

            xlb_host.install()
        imported(package)
        if package == "newton":
            from tests.public import newton_host

            newton_host.install()


def run(stage: Stage) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a stage: what is said of it, and its arrays."""
    began = time.perf_counter()
    try:
        stage.run()
        first = time.perf_counter() - began
        arrays = {name: value.copy() for name, value in stage.results().items()}
        arrays |= {f"{name} expected": value for name, value in stage.expected().items()}
        best = min(_seconds(stage.run) for _ in range(stage.repeats))
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}\n{traceback.format_exc(limit=-3)}"}, {}
    return {"first": first, "best": best}, arrays


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main(name: str, library: str, folder: str) -> None:
    """Run the stages of a program."""
    program = importlib.import_module(f"tests.public.programs.{name}")
    prepare(library, program.PACKAGE)
    import warp

    warp.set_device("cpu")
    told, arrays = {}, {}
    for stage in program.stages():
        told[stage.name], found = run(stage)
        arrays |= {f"{stage.name}/{key}": value for key, value in found.items()}
    import numpy as np

    np.savez(Path(folder) / f"{name}.npz", **arrays)
    (Path(folder) / f"{name}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
