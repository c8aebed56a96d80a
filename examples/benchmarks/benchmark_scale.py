"""How time grows with grid and threads, and memory with arrays: warp_like alone.

    python examples/benchmarks/benchmark_scale.py --json scale.json

Four tables. The time for each kernel thread, of grids from 1 to 2^31: of ten steps of an integer generator, whose
greatest number all threads find together, and of saxpy, as far as its arrays are not too large. The time of one launch
on one OS thread and on two. The time of a launch that is shared among up to 64 OS threads, however few processors there
are: how much longer it takes than with as many threads as processors is what each further worker costs. The greatest
resident memory of a process that runs a forward pass, or a forward and a backward pass, beyond that of one with small
arrays. A forward pass has three arrays; a backward pass has their gradients and a seed, too.
"""

import functools
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import frameworks
import numpy as np
import reporting
import timing
from gradient_columns import taped
from gradients import Problem
from gradients.elementwise import Saxpy
from gradients.loops import Pendulum, make_long_pendulum
from gradients.sums import Energy, Network
from programs import streaming

import warp_like as wp

STEPS = 10
MULTIPLIER, INCREMENT = 1664525, 1013904223  # Numerical Recipes' generator modulo 2**32
WORKERS = (1, 2, 4, 8, 16, 32, 64)
MIB = 1 << 20
Table = dict[str, dict[str, float]]


def make_kernels(wp):
    """Return a kernel that computes, and one that streams."""

    @wp.kernel
    def generate(greatest: wp.array(dtype=wp.uint32)):
        x = wp.uint32(wp.tid())
        for _ in range(STEPS):
            x = x * wp.uint32(MULTIPLIER) + wp.uint32(INCREMENT)
        wp.atomic_max(greatest, 0, x)

    @wp.kernel
    def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = a * x[i] + y[i]

    return generate, saxpy


generate, saxpy = make_kernels(wp)


def greatest_of(n: int) -> int:
    """Return what ``generate`` finds in a grid of ``n`` threads: the generator is one affine map modulo 2**32."""
    a, c = 1, 0
    for _ in range(STEPS):
        a, c = a * MULTIPLIER % 2**32, (c * MULTIPLIER + INCREMENT) % 2**32
    most, block = 0, 1 << 22
    for start in range(0, n, block):
        threads = np.arange(start, min(start + block, n), dtype=np.uint32)
        most = max(most, int((threads * np.uint32(a) + np.uint32(c)).max()))
    return most


def of_grids(sizes: Sequence[int], largest_array: int) -> Table:
    """Return nanoseconds a kernel thread, by the size of the grid."""
    table: Table = {}
    for n in sizes:
        greatest = wp.zeros(1, dtype=wp.uint32)
        runs = {"generator": functools.partial(wp.launch, generate, n, [greatest])}
        if n <= largest_array:
            x, y = wp.ones(n), wp.zeros(n)
            runs["saxpy"] = functools.partial(wp.launch, saxpy, n, [0.5, x, y])
        for run in runs.values():
            run()
        timing.check(f"{n} threads", "generator", greatest.numpy()[0], greatest_of(n), rtol=0.0, atol=0.0)
        if n <= largest_array:
            timing.check(f"{n} threads", "saxpy", y.numpy(), np.full(n, 0.5), rtol=0.0, atol=0.0)
        measured = timing.measure(runs, rounds=3, budget=2.0)
        name = str(n) if n < 1 << 20 else f"2^{n.bit_length() - 1}"
        table[name] = {column: seconds / n for column, seconds in measured.items()}
    return table


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Let launches use ``n`` OS threads."""
    saved = wp.config.num_threads
    wp.config.num_threads = n
    try:
        yield
    finally:
        wp.config.num_threads = saved


def on_threads(n: int, runs: Mapping[str, Callable[[], object]], quick: bool) -> dict[str, float]:
    """Return the seconds of ``runs`` on ``n`` OS threads."""
    with threads(n):
        return timing.measure(runs, rounds=1 if quick else 9, budget=0.0 if quick else float("inf"))


def problems(quick: bool) -> list[Problem]:
    """Return what is timed on one thread and on two."""
    if quick:
        return [Saxpy(1 << 10), Energy(64), Network(64), Pendulum(64, steps=16)]
    return [Saxpy(1 << 22), Energy(2048), Network(1 << 14), Pendulum(1 << 16, steps=16), Pendulum(1 << 10, steps=16)]


def of_threads(quick: bool) -> Table:
    """Return the seconds of forward and backward passes on one OS thread and on two."""
    table: Table = {}
    for problem in problems(quick):
        program = taped(wp, problem)
        program.both()
        timing.check(problem.name, "warp_like", program.result(), problem.gradient(), **problem.tolerance)
        runs = {part: getattr(program, part) for part in ("forward", "backward")}
        one, two = on_threads(1, runs, quick), on_threads(2, runs, quick)
        for part in runs:
            table[f"{problem.name}, {part}"] = {"1 thread": one[part], "2 threads": two[part]}
    return table


def of_workers(sizes: Sequence[int], quick: bool) -> Table:
    """Return the seconds of one launch, by the number of OS threads that share it.

    From few to many, since workers that were started stay, and offer their processor to others while they wait.
    """
    greatest = wp.zeros(1, dtype=wp.uint32)
    runs = {f"grid of {n}": functools.partial(wp.launch, generate, n, [greatest]) for n in sizes}
    columns = {str(w): on_threads(w, runs, quick) for w in WORKERS}
    return {name: {w: seconds[name] for w, seconds in columns.items()} for name in runs}


# --- memory ---------------------------------------------------------------------------------------------------

SMALL = 1 << 10
_CHILD = """
import sys
sys.path[:0] = sys.argv[1:3]
import benchmark_scale
benchmark_scale.run_child(sys.argv[3], int(sys.argv[4]), sys.argv[5])
"""


def saxpy_on(arrays: Sequence[Any]) -> None:
    """Launch saxpy on two arrays, into a third one."""
    x, y, out = arrays
    wp.launch(streaming.Saxpy.kernel(wp, wp.float32), dim=len(x), inputs=[x, y, 0.5], outputs=[out])


def loop_on(arrays: Sequence[Any]) -> None:
    """Launch 100 steps of pendulums: angles and speeds, into a third array."""
    kernel, more = make_long_pendulum(wp, 100)
    q, v, out = arrays
    wp.launch(kernel, dim=len(q), inputs=[q, v, *more], outputs=[out])


MEASURED: dict[str, Callable[[Sequence[Any]], None]] = {"saxpy": saxpy_on, "loop of 100 steps": loop_on}


def run_child(name: str, n: int, part: str) -> None:
    """Run a pass over three arrays of ``n`` floats, and print the greatest resident memory in KiB."""
    arrays = [wp.full(n, 0.5, requires_grad=part == "backward") for _ in range(3)]
    with wp.Tape() as tape:
        MEASURED[name](arrays)
    if part == "backward":
        tape.backward(grads={arrays[2]: wp.full(n, 1.0)})
    status = Path("/proc/self/status").read_text()  # getrusage's maximum would be inherited from the parent
    print(int(status.split("VmHWM:")[1].split()[0]))


def peak_memory(name: str, n: int, part: str) -> int:
    """Return the greatest resident memory of a process that runs a pass, in bytes."""
    here = Path(__file__).resolve().parent
    given = [str(here.parents[1]), str(here), name, str(n), part]
    made = subprocess.run([sys.executable, "-c", _CHILD, *given], capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(made.stderr)
    return int(made.stdout) * 1024


def of_memory(names: Sequence[str], sizes: Sequence[int]) -> Table:
    """Return how much more memory a process takes at most than with small arrays, over the bytes of one array."""
    table: Table = {}
    for name in names:
        for part in ("forward", "backward"):
            least = peak_memory(name, SMALL, part)
            columns = {f"{4 * n // MIB} MiB": n for n in sizes}
            table[f"{name}, {part}"] = {
                column: (peak_memory(name, n, part) - least) / (4.0 * n) for column, n in columns.items()
            }
    return table


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its tables."""
    options = reporting.parser(__doc__).parse_args(argv)
    frameworks.prepare_warp(wp)
    quick = options.quick
    made = reporting.Report("scale", "s (memory: times the bytes of one array)", options)
    grids = of_grids([1, 100, 5000] if quick else [4**k for k in range(16)] + [1 << 31], 1 << (12 if quick else 26))
    made.table("nanoseconds for each thread of the grid", ["generator", "saxpy"], grids, 1.0e9)
    one_and_two = of_threads(quick)
    made.table("milliseconds", ["1 thread", "2 threads"], one_and_two, 1.0e3)
    workers = of_workers([1 << 12] if quick else [1 << 16, 1 << 20, 1 << 24], quick)
    made.table("microseconds, by OS threads", [str(w) for w in WORKERS], workers, 1.0e6)
    memory: Table = {}
    if Path("/proc/self/status").exists():
        memory = of_memory(["saxpy"], [1 << 20]) if quick else of_memory(list(MEASURED), [1 << 20, 1 << 22, 1 << 24])
    made.table("greatest memory / bytes of one array", list(next(iter(memory.values()), {})), memory)
    rows = {"grids": grids, "threads": one_and_two, "workers": workers, "memory": memory}
    made.finish(rows)
    return rows


if __name__ == "__main__":
    main()
