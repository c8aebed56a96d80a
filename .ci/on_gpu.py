"""What ``make test-cuda`` runs on a machine with an NVIDIA GPU: the most telling first, inside of a time limit.

    on_gpu.py [--seconds 480] [--sanitize memcheck] [--list] [ARGUMENT OF PYTEST ...]

1. ``programs``: whole programs and the runtime's calls on the device (the tests that are marked ``cuda``), under a tool
   of compute-sanitizer if one is named, and then nothing else
2. ``benchmark``: ``examples/benchmarks/benchmark_cuda.py``
3. ``suite``: tests of the language, gradients, builtins, structs and utilities with each launch done on the device

Each stage gets what is left of the time, and ends cleanly when it is used up: tests that were not reached are
skipped, and rows of the benchmark left out. ``build/benchmarks/cuda_tests.json`` is written after each stage and says
how long it took and how it ended; ``cuda.json`` beside it is written after each row. The exit status is that of the
first stage that failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "benchmarks"
ON_DEVICE = (
    "tests/frontend",
    "tests/builtins",
    "tests/passes/ad",
    "tests/runtime/autodiff",
    "tests/runtime/arrays/test_indexed_fields.py",
    "tests/runtime/arrays/test_nested.py",
    "tests/runtime/operations/test_reduce.py",
    "tests/runtime/operations/test_sort.py",
    "tests/values/test_struct.py",
)
GRACE = 60.0
"""Seconds after the limit at which a stage that does not end by itself is killed."""


def stages(sanitizer: list[str], more: list[str]) -> dict[str, list[str]]:
    """Return the commands by name, in order; ``{seconds}`` in them stands for the time that is left."""
    pytest = [sys.executable, "-m", "pytest", "-rs", "--seconds={seconds}"]
    programs = [*sanitizer, *pytest, "-m", "cuda", "tests/runtime/cuda", *more]
    if sanitizer:
        return {"programs": programs}
    workers = min(8, os.cpu_count() or 1)
    side_by_side = ["-n", str(workers)] if importlib.util.find_spec("xdist") else []
    bench = [sys.executable, "examples/benchmarks/benchmark_cuda.py", "--json", str(RESULTS / "cuda.json")]
    return {
        "programs": programs,
        "benchmark": [*bench, "--seconds={seconds}"],
        "suite": [*pytest, "--device", "cuda:0", "-m", "not cuda", *side_by_side, *ON_DEVICE, *more],
    }


def sanitizer(tool: str) -> list[str]:
    """Return the command that runs a program under a tool of compute-sanitizer.

    Raises:
        SystemExit: It is not installed.
    """
    roots = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    places = os.pathsep.join([os.environ.get("PATH", ""), *(os.path.join(r, "bin") for r in roots if r)])
    found = shutil.which("compute-sanitizer", path=places)
    if found is None:
        raise SystemExit(
            "compute-sanitizer was not found; it is part of the CUDA Toolkit: put its folder bin on PATH, or name the "
            "toolkit by CUDA_HOME"
        )
    return [found, "--tool", tool, "--error-exitcode", "1"]


def run(commands: dict[str, list[str]], seconds: float, record: Path) -> int:
    """Run the commands, one after the other, and return the exit status of the first that failed."""
    end = time.monotonic() + seconds
    done: list[dict[str, object]] = []
    status = 0
    for name, command in commands.items():
        left = end - time.monotonic()
        if left < 1.0:
            print(f"{name}: not run, the {seconds:g} seconds are used up", flush=True)
            done.append({"stage": name, "seconds": 0.0, "status": None, "said": "no time left"})
        else:
            done.append(run_stage(name, [part.replace("{seconds}", f"{left:.0f}") for part in command], left + GRACE))
            status = status or int(str(done[-1]["status"]))
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"limit": seconds, "stages": done}, indent=2) + "\n")
    return status


def run_stage(name: str, command: list[str], limit: float) -> dict[str, object]:
    """Run one command, its output shown as it comes, and return what there is to say of it."""
    print(f"{name}: {' '.join(command)}", flush=True)
    start, last = time.monotonic(), ""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, errors="replace")
    assert process.stdout is not None
    killer = threading.Timer(limit, process.kill)
    killer.start()
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
        status = process.wait()
    finally:
        killer.cancel()
    said = re.sub(r"^=+ | =+$", "", last)
    return {"stage": name, "seconds": round(time.monotonic() - start, 1), "status": status, "said": said}


def main(argv: list[str] | None = None) -> int:
    """Run the stages, or list them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=480.0, help="the time limit")
    parser.add_argument("--sanitize", default="", metavar="TOOL", help="memcheck, racecheck, initcheck or synccheck")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    options, more = parser.parse_known_args(argv)
    commands = stages(sanitizer(options.sanitize) if options.sanitize else [], more)
    if options.list:
        for name, command in commands.items():
            print(f"{name}: {' '.join(command)}")
        return 0
    return run(commands, options.seconds, RESULTS / "cuda_tests.json")


if __name__ == "__main__":
    sys.exit(main())
