"""Local arrays that are too large for a thread's stack lie in the runtime's memory."""

import linecache
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import warp_like as wp
from warp_like.backend.llvm.writer import MOST_ON_STACK

ROOT = Path(__file__).resolve().parents[3]


def made(count, n):
    """A kernel with ``count`` local arrays of ``n`` floats, each with numbers of its own."""
    lines = ["@wp.kernel", "def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):", "    i = wp.tid()"]
    lines += [f"    a{c} = wp.zeros(shape=({n},), dtype=float)" for c in range(count)]
    lines += [f"    for j in range({n}):"]
    lines += [f"        a{c}[(j * 7 + i + {c}) % {n}] += float(j % 5 + {c}) * x[i]" for c in range(count)]
    lines += ["    s = float(0.0)", f"    for j in range({n}):"]
    lines += [f"        s += a{c}[j] * float((j + {c}) % 3)" for c in range(count)]
    lines += ["    y[i] = s"]
    text = "\n".join(lines) + "\n"
    name = f"<local memory {count} {n}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"wp": wp}
    exec(compile(text, name, "exec"), names)
    return names["k"]


def factors(count, n, threads):
    """What ``y[i] / x[i]`` is."""
    j, total = np.arange(n), np.zeros(threads)
    for i in range(threads):
        for c in range(count):
            a = np.zeros(n)
            np.add.at(a, (j * 7 + i + c) % n, j % 5 + c)
            total[i] += (a * ((j + c) % 3)).sum()
    return total


def calls_the_runtime(kernel):
    return "@wl_local_memory" in kernel.inspect("llvm")


@pytest.mark.parametrize("width", [0, 1, 4])
@pytest.mark.parametrize(("count", "n"), [(1, 16), (1, 5000), (3, 2000), (5, 33)])
def test_values_and_gradients(count, n, width):
    kernel = made(count, n).with_options(vector_width=width)
    threads = 21
    expected = factors(count, n, threads)
    for size in (1, threads):
        x = wp.array(np.linspace(1.0, 2.0, size), dtype=float, requires_grad=True)
        y = wp.zeros(size, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=size, inputs=[x, y])
        np.testing.assert_allclose(y.numpy(), expected[:size] * x.numpy(), rtol=1e-4)
        tape.backward(grads={y: wp.ones(size, dtype=float)})
        np.testing.assert_allclose(x.grad.numpy(), expected[:size], rtol=1e-4)


@pytest.mark.parametrize("fits", [True, False])
def test_the_limit_counts_all_arrays_together(fits):
    count = 4
    n = MOST_ON_STACK // 4 // count + (0 if fits else 16)
    kernel = made(count, n).with_options(vector_width=1)
    wp.launch(kernel, dim=2, inputs=[wp.ones(2), wp.zeros(2)])
    assert calls_the_runtime(kernel) != fits


def test_on_a_thread_with_a_small_stack():
    kernel, x, y = made(2, 30_000), wp.ones(64), wp.zeros(64)
    wp.launch(kernel, dim=1, inputs=[x, y])
    before = threading.stack_size(128 << 10)
    try:
        worker = threading.Thread(target=wp.launch, args=(kernel,), kwargs={"dim": 64, "inputs": [x, y]})
        worker.start()
        worker.join()
    finally:
        threading.stack_size(before)
    np.testing.assert_allclose(y.numpy()[:5], factors(2, 30_000, 5), rtol=1e-4)


INSIDE = """
import signal
import threading
import time
import numpy as np
import warp_like as wp

@wp.kernel
def slow(y: wp.array(dtype=float), rounds: int):
    i = wp.tid()
    a = wp.zeros(shape=(8000,), dtype=float)
    for r in range(rounds):
        for j in range(8000):
            a[j] = a[j] + float(i + 1)
    y[i] = a[17] + a[7999]

@wp.kernel
def other(y: wp.array(dtype=float)):
    i = wp.tid()
    a = wp.zeros(shape=(8000,), dtype=float)
    for j in range(8000):
        a[j] = 1000.0
    y[i] = a[17] + a[7999]

seen = []

def handle(number, frame):
    z = wp.zeros(2)
    wp.launch(other, dim=2, inputs=[z])
    seen.append(z.list())

signal.signal(signal.SIGINT, handle)
wp.config.num_threads = 1
y = wp.zeros(2)
wp.launch(slow, dim=2, inputs=[y, 1])
wp.launch(other, dim=2, inputs=[y])
timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
timer.start()
rounds = 20_000
wp.launch(slow, dim=2, inputs=[y, rounds])
timer.join()
while not seen:
    time.sleep(0.01)
print(y.list() == [2.0 * rounds, 4.0 * rounds], seen)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ on Windows")
def test_a_launch_inside_of_another_has_memory_of_its_own(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(INSIDE)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True [[2000.0, 2000.0]]", done.stdout + done.stderr


LITTLE = """
import resource
import sys
import warp_like as wp
from tests.backend.llvm.test_local_memory import made

wp.config.num_threads = 1
kernel, x, y = made(68, 65_000), wp.ones(3), wp.zeros(3)
wp.launch(made(1, 8), dim=3, inputs=[x, y])
if sys.argv[1] == "little":
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (12 << 20),) * 2)
try:
    wp.launch(kernel, dim=3, inputs=[x, y])
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_no_memory():
    """The first process compiles, the second one needs 17 MB and gets 12."""
    for memory, said in (
        ("much", ""),
        ("little", "kernel `k`: there is no memory for the local arrays of its threads"),
    ):
        done = subprocess.run([sys.executable, "-c", LITTLE, memory], capture_output=True, text=True, cwd=ROOT)
        assert done.stdout.strip() == said, done.stderr


def test_accesses_of_large_local_arrays_say_which_one_it_is() -> None:
    """The domain, and a scope for each large array; the small one has none."""

    @wp.kernel
    def local_arrays(out: wp.array(dtype=float)):
        i = wp.tid()
        a = wp.zeros(shape=(512,), dtype=float)
        b = wp.zeros(shape=(512,), dtype=float)
        small = wp.zeros(shape=(4,), dtype=float)
        a[i] = 1.0
        b[i] = 2.0
        small[i % 4] = 3.0
        out[i] = a[i] + b[i + 1] + small[0]

    text = local_arrays.inspect("llvm")
    accesses = [line for line in text.splitlines() if "!alias.scope" in line]
    assert len({line.partition("!alias.scope ")[2].partition(",")[0] for line in accesses}) == 2
    assert any("!noalias" in line for line in accesses)
    out = wp.zeros(4, dtype=float)
    wp.launch(local_arrays, dim=4, outputs=[out])
    assert out.numpy().tolist() == [4.0, 1.0, 1.0, 1.0]
