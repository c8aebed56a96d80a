"""Threads that launch, compile, record, replace arrays and fork at one time, for the thread sanitizer.

``threads_program.py [SECONDS]`` runs until the time is over and exits with 0 if all results were right. Every thread
repeats each of ``WORK``; new kernels are compiled and installed all the time, while other threads launch them.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
import traceback
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.runtime.kernels.program import COMPILING

N = 100_000
THREADS = 4


@wp.struct
class Holder:
    """An element that holds an array."""

    values: wp.array(dtype=float)


@wp.kernel
def axpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float) -> None:  # noqa: D103
    i = wp.tid()
    y[i] = y[i] + a * wp.sin(x[i])


@wp.kernel
def total(x: wp.array(dtype=float), s: wp.array(dtype=float)) -> None:  # noqa: D103
    wp.atomic_add(s, 0, x[wp.tid()])


@wp.kernel
def histogram(x: wp.array(dtype=int), counts: wp.array(dtype=float)) -> None:  # noqa: D103
    wp.atomic_add(counts, x[wp.tid()], 1.0)


@wp.kernel
def neighbours(x: wp.array(dtype=float), y: wp.array(dtype=float)) -> None:  # noqa: D103
    i = wp.tid()
    wp.atomic_add(y, i, x[i])
    wp.atomic_add(y, i + 1, x[i])


@wp.kernel
def iterate(x: wp.array(dtype=float), y: wp.array(dtype=float)) -> None:  # noqa: D103
    i = wp.tid()
    s = x[i]
    for _ in range(int(x[i] * 10.0) + 3):
        s = wp.sin(s)
    y[i] = s


@wp.kernel
def through_elements(holders: wp.array(dtype=Holder), n: int) -> None:  # noqa: D103
    values = holders[wp.tid()].values
    for j in range(n):
        values[j % 64] = float(j)


@wp.kernel(module="unique", module_options={"mode": "debug"})
def failing(x: wp.array(dtype=float), n: int) -> None:  # noqa: D103
    x[wp.tid() + n] = 1.0


SHARED = wp.zeros(N + 1, dtype=float)
HOLDERS = wp.array([Holder(values=wp.zeros(64, dtype=float)) for _ in range(16)], dtype=Holder)
FACES = np.random.default_rng(0).permutation(3 * 12_000).astype(np.int32)
MESH = wp.array(np.random.default_rng(1).random((FACES.size, 3)), dtype=wp.vec3), wp.array(FACES)
TREE = wp.Mesh(*MESH)._tree.order.numpy()
MODES = ({"deterministic": False}, {"deterministic": True})


class Arrays:
    """What one thread works on."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.x = wp.array(rng.random(N), dtype=float, requires_grad=True)
        self.y = wp.zeros(N, dtype=float, requires_grad=True)
        self.bins = wp.array(rng.integers(0, 16, N), dtype=int)
        self.command = wp.launch(axpy, N, [self.x, self.y, 1.0], record_cmd=True)
        self.slow = wp.launch(through_elements, 16, [HOLDERS, 50_000], record_cmd=True)  # lets go of the GIL at once
        with wp.ScopedCapture(device="cpu") as capture:
            wp.launch(axpy, N, [self.x, self.y, 0.5])
        self.graph = capture.graph


def launch_all(a: Arrays) -> None:
    """Launch kernels whose sums take each of the runtime's routes."""
    s, counts = wp.zeros(1, dtype=float), wp.zeros(16, dtype=float)
    wp.launch(axpy, N, [a.x, a.y, 1.0])
    wp.launch(total, N, [a.x, s])
    wp.launch(histogram, N, [a.bins, counts])
    assert counts.numpy().sum() == N
    assert abs(s.numpy()[0] - a.x.numpy().sum()) < 1.0
    wp.launch(iterate, N, [a.x, a.y])


def share_sums(a: Arrays) -> None:
    """Add to one array from all threads, whose launches wait for each other."""
    wp.launch(neighbours, N, [a.x, SHARED])
    wp.launch(total, N, [a.x, SHARED])


def record(a: Arrays) -> None:
    """Record a launch, and run its adjoint."""
    with wp.Tape() as tape:
        wp.launch(iterate, N, [a.x, a.y])
    a.y.grad.fill_(1.0)
    tape.backward()
    tape.zero()


def repeat(a: Arrays) -> None:
    """Run what is prepared: a recorded launch, and a graph."""
    a.command.launch()
    wp.capture_launch(a.graph)


def compute_with_arrays(a: Arrays) -> None:
    """Call the algorithms over whole arrays."""
    wp.utils.array_sum(a.x)
    wp.utils.array_scan(a.bins, wp.empty_like(a.bins), True)
    keys = wp.array(np.arange(2 * 1000)[::-1].copy(), dtype=int)
    wp.utils.radix_sort_pairs(keys, wp.zeros_like(keys), 1000)


def build_trees(a: Arrays) -> None:
    """Build and refit trees, which are the same whatever the number of threads."""
    mesh = wp.Mesh(*MESH)
    mesh.refit()
    assert (mesh._tree.order.numpy() == TREE).all()


def replace_elements(a: Arrays) -> None:
    """Replace the arrays in elements, while other threads launch on them."""
    if random.random() < 0.5:
        HOLDERS.assign([Holder(values=wp.zeros(64, dtype=float)) for _ in range(16)])
    wp.launch(through_elements, 16, [HOLDERS, 50_000])


def install_again(a: Arrays) -> None:
    """Install code that is there already, in dispatchers that other threads launch at the moment."""
    with COMPILING:
        for program in (a.command.program, a.slow.program):
            for signature in list(program.signatures.values()):
                program.device.backend.programs.install(program, signature)


def change_options(a: Arrays) -> None:
    """Launch with other options, and so by other dispatchers; and with strides, and so other variants."""
    wp.set_module_options(random.choice(MODES))
    wp.launch(axpy, N, [a.x, a.y, 1.0])
    wp.launch(total, N, [a.x, SHARED])
    wp.launch(axpy, N, [a.x, wp.zeros(2 * N, dtype=float)[::2], 1.0])


def fail(a: Arrays) -> None:
    """End a launch by an error."""
    try:
        wp.launch(failing, N, [a.y, N // 2])
    except IndexError:
        return
    raise RuntimeError("the launch did not fail")


def change_threads(a: Arrays) -> None:
    """Change how many threads launches use."""
    wp.config.num_threads = random.choice((1, 2, 4))


WORK = (
    launch_all, share_sums, record, repeat, compute_with_arrays, build_trees, replace_elements, install_again,
    change_options, fail, change_threads,
)  # fmt: skip


def work(seed: int, ends: float, failures: list[str]) -> None:
    """What each thread does."""
    try:
        arrays = Arrays(seed)
        while time.monotonic() < ends and not failures:
            for step in random.sample(WORK, len(WORK)):
                step(arrays)
    except BaseException:
        failures.append(traceback.format_exc())


def fork(failures: list[str]) -> None:
    """Launch in a child of this process, whose threads it does not have."""
    pid = os.fork()
    if pid == 0:
        z = wp.zeros(N, dtype=float)
        wp.launch(axpy, N, [z, z, 1.0])
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        failures.append(f"a child ended with status {status}")


def install_during_launches(a: Arrays, seconds: float) -> None:
    """Install code while two threads launch it, which let go of the GIL at once."""
    ends = time.monotonic() + seconds

    def launch() -> None:
        while time.monotonic() < ends:
            wp.launch(through_elements, 16, [HOLDERS, 50_000])

    threads = [threading.Thread(target=launch) for _ in range(2)]
    for t in threads:
        t.start()
    while time.monotonic() < ends:
        install_again(a)
        time.sleep(0.001)
    for t in threads:
        t.join()


def main(seconds: float) -> int:
    """Run all threads, and fork meanwhile."""
    wp.config.num_threads = THREADS
    wp.config.cache_kernels = False
    failures: list[str] = []
    first = Arrays(0)
    for step in WORK:  # a child can't import what another thread was importing when it forked
        step(first)
    install_during_launches(first, seconds / 6)
    ends = time.monotonic() + seconds
    threads: list[Any] = [threading.Thread(target=work, args=(k, ends, failures)) for k in range(THREADS)]
    for t in threads:
        t.start()
    forks = 0
    while any(t.is_alive() for t in threads):
        time.sleep(1.0)
        fork(failures)
        gc.collect()
        forks += 1
    print(f"{forks} forks", *failures, sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
