"""Launches beside the threads of other libraries: from their workers and forked processes, and how many there are."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import warp_like as wp

@wp.kernel
def smooth(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = wp.sin(v)
    y[i] = v

@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()])

N = 20_000

def compute(seed):
    x, y, out = np.full(N, 1.0 + seed, np.float32), np.zeros(N, np.float32), np.zeros(1, np.float32)
    wp.launch(smooth, N, [x, y, 20])
    wp.launch(total, N, [np.ones(N, np.float32), out])
    wanted = np.float64(1.0 + seed)
    for _ in range(20):
        wanted = np.sin(wanted)
    return bool(np.allclose(y, wanted, rtol=1e-5)) and float(out[0]) == N
"""


@pytest.fixture
def run(tmp_path):
    def run(body):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM + body)
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_all_launches_share_one_pool(run):
    out = run("""
def threads():
    return len(os.listdir("/proc/self/task"))

wp.config.num_threads = 3
before = threads()
with ThreadPoolExecutor(8) as pool:
    print(all(pool.map(compute, range(80))))
    callers = len(pool._threads)
    print(threads() - before - callers <= 2)
""")
    assert out == "True\nTrue\n"


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_forked_workers(run):
    out = run("""
import multiprocessing
if __name__ == "__main__":
    print(compute(0))
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(all(pool.map(compute, range(30))))
    print(compute(1))
""")
    assert out == "True\nTrue\nTrue\n"


def test_beside_and_inside_pytorch(run):
    pytest.importorskip("torch")
    out = run("""
import torch

class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        wp.launch(smooth, len(x), [x, y, 20])
        return y

    @staticmethod
    def backward(ctx, g):  # on a thread of PyTorch's, where there are several devices; from a hook in any case
        assert compute(2)
        return g

def train(seed):
    w = torch.randn(300, 300)
    x = torch.ones(N, requires_grad=True)
    for _ in range(5):
        (Smooth.apply(x * 1.0).sum() + (w @ w).sum()).backward()
    return compute(seed) and bool((x.grad == 5).all())

with ThreadPoolExecutor(4) as pool:
    print(all(pool.map(train, range(12))))

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return compute(i)

print(all(bool(b.all()) for b in torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context="fork")))
""")
    assert out == "True\nTrue\n"


def test_inside_workers_of_xla(run):
    pytest.importorskip("jax")
    out = run("""
import jax
import jax.numpy as jnp

def host(x):
    assert compute(3)
    y = np.empty_like(x)
    wp.launch(smooth, len(x), [np.array(x), y, 20])
    return y

@jax.jit
def f(x):
    called = jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return called + jnp.sin(x @ jnp.ones((x.shape[0], 1)))

x = jnp.ones(2000)
with ThreadPoolExecutor(3) as pool:
    print(all(np.isfinite(r).all() for r in pool.map(lambda _: np.asarray(f(x)), range(9))))
""")
    assert out == "True\n"


SHARED = """
import time

@wp.kernel
def into_row(v: wp.vec2, n: int, y: wp.array2d(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for _ in range(n):
        s = wp.sin(s)
    y[int(v[0]), i] = v[1] + s

M = 4096
v, y = wp.vec2(0.0, 1.0), wp.zeros((2, M), dtype=float)
command = wp.launch(into_row, dim=M, inputs=[v, 100_000, y], record_cmd=True)
command.launch()
"""


def test_threads_share_a_recorded_launch(run):
    """One changes a vector and launches while the launch of another is in the middle of its work."""
    out = run(
        SHARED
        + """
for _ in range(5):
    v[0], v[1] = 0.0, 1.0
    y.zero_()
    other = threading.Thread(target=command.launch)
    other.start()
    time.sleep(0.02)
    v[0], v[1] = 1.0, 2.0
    command.launch()
    other.join()
    print(len(set(y.numpy()[0].tolist())), set(y.numpy()[1].tolist()))  # zeros, if the other began late
"""
    )
    assert out == "1 {2.0}\n" * 5


def test_what_is_set_while_a_launch_is_bound_counts(run):
    """A launch that began before an argument was set does not bring the old one back."""
    out = run(
        SHARED
        + """
bind = wp._native.bind_launch

def bind_late(*args):
    bound = bind(*args)
    command.set_param_by_name("v", wp.vec2(1.0, 3.0))  # as another thread may, just now
    return bound

command.set_dim(M)
wp._native.bind_launch = bind_late
command.launch()
wp._native.bind_launch = bind
command.launch()
print(y.numpy()[1, 0])
"""
    )
    assert out == "3.0\n"


def test_few_long_threads_begin_together(run):
    """The first launch times one alone. The next one does not: its two threads wait for each other."""
    out = run("""
@wp.kernel
def meet(arrived: wp.array(dtype=int), met: wp.array(dtype=int), polls: int):
    i = wp.tid()
    wp.atomic_add(arrived, i, 1)
    for _ in range(polls):
        if wp.atomic_add(arrived, 1 - i, 0) > 0:
            met[i] = 1
            break

wp.config.num_threads = 2
for polls in (100_000, 1_000_000_000):
    met = wp.zeros(2, dtype=int)
    wp.launch(meet, 2, [wp.zeros(2, dtype=int), met, polls])
print(met.list())
""")
    assert out == "[1, 1]\n"
