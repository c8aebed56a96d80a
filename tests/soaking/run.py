"""Run a soak: ``python -m tests.soaking.run --seconds 1800 --threads 4 --kinds tapes,graphs``.

Threads do work of random kinds and check every result. From time to time all of them wait while resident memory,
Python's objects, kernels, modules, cache entries, threads and files are counted. The exit status is 1 if a result was
wrong, or if memory or objects grow with the operations (``plateau.py``). Otherwise it is 0; the report says whether
the run was too short to tell.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import gc
import json
import os
import platform
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.soaking.kinds import Rng
from tests.soaking.plateau import LEAST_SAMPLES, Verdict, judge

BOUNDS = {"resident_kib": 0.1, "objects": 0.02}
"""How much each of these may grow with an operation: of memory, a tenth of a leak of 1 KiB in every operation."""


@dataclass
class Sample:
    """What was counted while no operation ran."""

    seconds: float
    operations: int
    resident_kib: int
    objects: int
    kernels: int
    modules: int
    cache_entries: int
    cache_kib: int
    threads: int
    files: int


@dataclass
class Soak:
    """The threads' common state.

    Attributes:
        kinds: What they do.
        counts: How often each kind was done.
        failures: What was raised, as text.
    """

    options: argparse.Namespace
    kinds: dict[str, Any]
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._idle = threading.Condition()
        self._running = 0
        self._paused = False
        self._over = False

    def run(self) -> None:
        """Work until the time is over and there are samples that a slope can be found in, or a result is wrong."""
        workers = [
            threading.Thread(target=self._work, args=(str(i),), name=f"soak {i}", daemon=True)
            for i in range(self.options.threads)
        ]
        for worker in workers:
            worker.start()
        every = max(0.2, self.options.seconds / self.options.samples)
        while not self._enough() and not self.failures:
            time.sleep(every)
            self._sample()
        self._over = True
        for worker in workers:
            worker.join(timeout=120)
            if worker.is_alive():
                self.failures.append(f"{worker.name} does not end: an operation hangs")

    def _enough(self) -> bool:
        """Whether it may end: where a sample takes long, the time alone would leave none in the second half."""
        over = time.monotonic() - self._began >= self.options.seconds
        return over and len(self.samples) >= 2 * LEAST_SAMPLES

    def _work(self, name: str) -> None:
        rng = Rng(name, self.options.seed)
        names = list(self.kinds)
        while not self._over and not self.failures:
            with self._idle:
                self._idle.wait_for(lambda: not self._paused)
                self._running += 1
            chosen = rng.choice(names)
            try:
                self.kinds[chosen](rng)
            except Exception:
                self.failures.append(f"{chosen}:\n{traceback.format_exc()}")
            finally:
                with self._idle:
                    self.counts[chosen] += 1
                    self._running -= 1
                    self._idle.notify_all()

    def _sample(self) -> None:
        """Count while all threads are between two operations."""
        with self._idle:
            self._paused = True
            if not self._idle.wait_for(lambda: not self._running, timeout=120):
                self.failures.append("an operation does not end within two minutes")
            else:
                self.samples.append(look(time.monotonic() - self._began, self.counts.total()))
            self._paused = False
            self._idle.notify_all()

    def verdicts(self) -> dict[str, Verdict]:
        """Judge what must not grow."""
        operations = [s.operations for s in self.samples]
        return {
            name: judge(operations, [getattr(s, name) for s in self.samples], bound) for name, bound in BOUNDS.items()
        }


def look(seconds: float, operations: int) -> Sample:
    """Count everything."""
    import warp_like as wp
    from warp_like.runtime.kernels import kernel, module

    gc.collect()
    _trim()
    files = [p for p in Path(wp.config.kernel_cache_dir).rglob("*") if p.is_file()]
    return Sample(
        seconds=round(seconds, 1),
        operations=operations,
        resident_kib=_resident(),
        objects=len(gc.get_objects()),
        kernels=len(kernel._kernels),
        modules=len(module._modules),
        cache_entries=len(files),
        cache_kib=sum(p.stat().st_size for p in files) // 1024,
        threads=len(os.listdir("/proc/self/task")),
        files=len(os.listdir("/proc/self/fd")),
    )


def _trim() -> None:
    """Give the pages of free memory back, so that holes between blocks do not look like a leak."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


# ---- the report


def environment() -> dict[str, str]:
    """What it ran on."""
    found = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "python": platform.python_version()}
    found["processor"], found["cpus"] = _processor(), str(len(os.sched_getaffinity(0)))
    for name in ("numpy", "llvmlite", "torch", "jax", "paddlepaddle"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def as_json(soak: Soak) -> dict[str, Any]:
    """Everything that was found."""
    return {
        "environment": environment(),
        "options": vars(soak.options),
        "verdicts": {name: {**asdict(v), "verdict": v.words} for name, v in soak.verdicts().items()},
        "counts": dict(sorted(soak.counts.items())),
        "samples": [asdict(s) for s in soak.samples],
        "failures": soak.failures,
    }


def as_markdown(soak: Soak) -> str:
    """Tables for people: what was counted at a quarter, the half and the end, and how it was judged."""
    last = soak.samples[-1]
    moments = [min(soak.samples, key=lambda s: abs(s.operations - last.operations * q)) for q in (0.0, 0.25, 0.5, 0.75)]
    shown = [*moments, last]
    names = ["seconds", "operations", "resident_kib", "objects", "kernels", "modules", "cache_entries", "cache_kib"]
    lines = ["| | start | 1/4 | 1/2 | 3/4 | end |", "| - | - | - | - | - | - |"]
    for name in [*names, "threads", "files"]:
        lines.append(f"| {name.replace('_kib', ' (KiB)').replace('_', ' ')} | " + " | ".join(
            f"{getattr(s, name):,}" for s in shown) + " |")  # fmt: skip
    lines += ["", "| | growth in the second half, an operation | bound | verdict |", "| - | - | - | - |"]
    for name, v in soak.verdicts().items():
        unit = " KiB" if name.endswith("_kib") else ""
        lines.append(f"| {name.removesuffix('_kib')} | {v.growth:.4f}{unit} | {v.bound}{unit} | {v.words} |")
    return "\n".join(lines)


def options(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m tests.soaking.run", description=__doc__)
    p.add_argument("--seconds", type=float, default=1800)
    p.add_argument("--threads", type=int, default=4, help="how many work at a time")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--samples", type=int, default=120, help="how often to count")
    p.add_argument("--kinds", help="the kinds of work, separated by commas; all when left out")
    p.add_argument("--cache-limit", type=int, default=8, help="MiB that the cache of kernels may hold")
    p.add_argument("--out", type=Path, default=Path("build/soak"), help="the folder for soak.json and soak.md")
    return p.parse_args(given)


def main() -> int:
    """Run what the command line says."""
    given = options()
    with tempfile.TemporaryDirectory() as folder:
        import warp_like as wp

        wp.config.kernel_cache_dir = folder
        wp.config.kernel_cache_limit = given.cache_limit
        wp.config.quiet = True
        import tests.soaking.frameworks
        from tests.soaking.kinds import KINDS

        assert tests.soaking.frameworks
        gc.collect()
        gc.freeze()  # what the libraries have made stays: collections need not look at it each time
        chosen = given.kinds.split(",") if given.kinds else list(KINDS)
        soak = Soak(given, {name: KINDS[name] for name in chosen})
        soak.run()
    return finish(soak)


def finish(soak: Soak) -> int:
    """Write and print the report; return the exit status."""
    folder = soak.options.out
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "soak.json").write_text(json.dumps(as_json(soak), indent=1, default=str), encoding="utf-8")
    for failure in soak.failures:
        print(failure, file=sys.stderr)
    if not soak.samples:
        return 1
    text = as_markdown(soak)
    (folder / "soak.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    return int(bool(soak.failures) or any(v.grows for v in soak.verdicts().values()))


if __name__ == "__main__":
    sys.exit(main())
