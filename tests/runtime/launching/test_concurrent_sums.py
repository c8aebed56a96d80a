"""Launches of several Python threads that add to one array: no addition is lost, whichever variants run."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import warp_like as wp

N = 60_000  # long enough for launches to let go of the GIL


@wp.kernel
def own(out: wp.array(dtype=int)):
    wp.atomic_add(out, wp.tid(), 1)


@wp.kernel
def summed(out: wp.array(dtype=int)):
    wp.atomic_add(out, wp.tid() % 1000, 1)


@wp.kernel
def neighbours(out: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(out, i, 1)
    wp.atomic_add(out, i + 1, 1)


@wp.kernel
def old_values(out: wp.array(dtype=int), last: wp.array(dtype=int)):
    """Adds atomically: what was there before is used."""
    i = wp.tid()
    last[i] = wp.atomic_add(out, i % 1000, 1)


def run_at_once(*launches):
    """Run functions on a thread each, all from the same moment."""
    barrier = threading.Barrier(len(launches))
    failed = []

    def work(launch):
        barrier.wait()
        try:
            for _ in range(30):
                launch()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(launch,)) for launch in launches]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def expected(kernel):
    out = np.zeros(N + 1, np.int64)
    i = np.arange(N)
    places = {own: [i], summed: [i % 1000], neighbours: [i, i + 1], old_values: [i % 1000]}
    for at in places[kernel]:
        np.add.at(out, at, 1)
    return out


@pytest.mark.parametrize(
    "kernels",
    [
        (own, own),
        (summed, summed),
        (own, summed, neighbours),
        (summed, old_values),
        (own, old_values, neighbours, summed),
    ],
    ids=lambda ks: "+".join(k.key for k in ks),
)
def test_no_addition_is_lost(kernels):
    out = np.zeros(N + 1, np.int32)

    def launch(kernel):
        args = [out, np.zeros(N, np.int32)] if kernel is old_values else [out]
        return lambda: wp.launch(kernel, N, args)

    for kernel in kernels:
        launch(kernel)()
    out[:] = 0
    run_at_once(*map(launch, kernels))
    np.testing.assert_array_equal(out, 30 * sum(expected(k) for k in kernels))


def test_short_launches_beside_a_long_one():
    out = np.zeros(N + 1, np.int32)

    def short():
        for _ in range(20):
            wp.launch(own, 16, [out])

    short()
    out[:] = 0
    run_at_once(lambda: wp.launch(own, N, [out]), short)
    assert (out[:16] == 30 * 21).all()
    assert (out[16:N] == 30).all()


def test_recorded_launches_and_adjoints():
    @wp.kernel
    def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i % 1000] * 3.0

    x = wp.zeros(1000, dtype=float, requires_grad=True)
    ys = [wp.zeros(N, dtype=float, requires_grad=True) for _ in range(2)]
    for y in ys:
        y.grad.fill_(1.0)

    def backward(y):
        return lambda: wp.launch(square, N, [x], [y], [x.grad], [y.grad], adjoint=True)

    for y in ys:
        backward(y)()
    x.grad.zero_()
    run_at_once(*map(backward, ys))
    np.testing.assert_array_equal(x.grad.numpy(), np.full(1000, 2 * 30 * 3.0 * N / 1000))

    out = np.zeros(N + 1, np.int32)
    commands = [wp.launch(own, N, [out], record_cmd=True) for _ in range(2)]
    run_at_once(*[c.launch for c in commands])
    assert (out[:N] == 60).all()


PROGRAM = """
import sys, threading, time
import numpy as np
import warp_like as wp

@wp.kernel
def slow(out: wp.array(dtype=float), n: int):
    v = float(wp.tid())
    for _ in range(n):
        v = wp.sin(v) + 1.0
    wp.atomic_add(out, 0, v)

out, other = np.zeros(1, np.float32), np.zeros(1, np.float32)
wp.launch(slow, 1, [out, 1])

def endless(array):
    try:
        wp.launch(slow, 10_000_000, [array, 100_000])
    except RuntimeError as e:
        pass

def start(array):
    t = threading.Thread(target=endless, args=(array,), daemon=True)
    t.start()
    time.sleep(0.2)
    return t
"""


@pytest.fixture
def run(tmp_path):
    def run(body):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM + body)
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


def test_launches_on_other_arrays_do_not_wait(run):
    body = """
t = start(out)
for _ in range(100):
    wp.launch(slow, 1000, [other, 10])
print(t.is_alive(), other[0] > 0)
"""
    assert run(body) == (0, "True True\n", "")


def test_exit_while_launches_wait_for_one_another(run):
    body = """
threads = [start(out) for _ in range(3)]
print([t.is_alive() for t in threads])
"""
    assert run(body) == (0, "[True, True, True]\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_while_waiting(run):
    body = """
import signal, os
signal.signal(signal.SIGINT, signal.default_int_handler)  # which what runs in the background does not inherit
start(out)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    wp.launch(slow, 1, [out, 1])
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(body) == (0, "interrupted\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_child_does_not_wait_for_launches_of_its_parent(run):
    body = """
import os
start(out)
pid = os.fork()
if pid == 0:
    wp.launch(slow, 1000, [out, 10])
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(body) == (0, "0\n", "")
