"""Time a step of each example of the gallery beside Warp, and write ``speed.json``.

    python examples/gallery/compare.py --warp-path FOLDER

``FOLDER`` holds the package ``warp``, where this Python does not find it by itself. An
example runs with Warp as it is written, with ``warp`` in place of ``warp_like`` in its
imports. Each framework runs in a process of its own; the processes take
turns, and the median of their times counts. The gallery's pages show the ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FRAMEWORKS = ("warp_like", "warp")
ROUNDS = 7
SECONDS = 0.3  # at least, of steps in each round


def work(framework: str, name: str) -> None:
    """Answer each line of the input with the milliseconds of a step.

    The framework's own prints go to stderr.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, str(HERE))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        text = (HERE / f"{name}.py").read_text(encoding="utf-8")
        imports = re.compile(r"^(import|from) warp_like\b", re.MULTILINE)
        path.write_text(imports.sub(rf"\1 {framework}", text), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        scene = module.Scene()
        scene.step()  # compiles
        answers.write(f"{module.wp.__version__}\n")
        answers.flush()
        for _ in sys.stdin:
            answers.write(f"{time_step(scene)}\n")
            answers.flush()


def time_step(scene) -> float:
    """Return the milliseconds of one step, on average over a round."""
    steps, begin = 0, time.perf_counter()
    while (taken := time.perf_counter() - begin) < SECONDS or steps == 0:
        scene.step()
        steps += 1
    return 1e3 * taken / steps


def compare(
    name: str, warp_path: str | None, rounds: int
) -> tuple[dict[str, float], str]:
    """Return median milliseconds of a step with the load, and Warp's version."""
    paths = [
        str(HERE.parents[1]),
        *([warp_path] if warp_path else []),
        os.environ.get("PYTHONPATH", ""),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
    with contextlib.ExitStack() as stack:
        workers = {}
        for framework in FRAMEWORKS:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            worker = subprocess.Popen(
                [*command, framework, name], text=True, env=environment, **pipes
            )
            workers[framework] = stack.enter_context(worker)
        versions = {name: w.stdout.readline().strip() for name, w in workers.items()}
        times: dict[str, list[float]] = {framework: [] for framework in FRAMEWORKS}
        for _ in range(rounds):
            for framework, worker in workers.items():
                worker.stdin.write("go\n")
                worker.stdin.flush()
                times[framework].append(float(worker.stdout.readline()))
    medians = {name: round(statistics.median(t), 4) for name, t in times.items()}
    return {**medians, "load": round(os.getloadavg()[0], 1)}, versions["warp"]


def processor() -> str:
    """Return the processor's name and how many cores this process may use."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next(
        line.partition(": ")[2] for line in lines if line.startswith("model name")
    )
    return f"{len(os.sched_getaffinity(0))} cores of {model}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warp-path", help="folder that holds the package warp")
    parser.add_argument("--examples", nargs="+", help="only these")
    few = "how often to time each (default: %(default)s)"
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=few)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(*options.worker)
    path = HERE / "speed.json"
    record = {"examples": {}}
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
    everything = [
        p.stem
        for p in sorted(HERE.glob("*.py"))
        if "\nclass Scene" in p.read_text(encoding="utf-8")
    ]
    for name in options.examples or everything:
        times, record["warp"] = compare(name, options.warp_path, options.rounds)
        record["examples"][name] = times
        record |= {"machine": processor(), "date": datetime.date.today().isoformat()}
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        print(
            f"{name}: {times['warp_like']:.3f} ms, Warp {times['warp']:.3f} ms: "
            f"{times['warp'] / times['warp_like']:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
