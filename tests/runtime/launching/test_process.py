"""Interruption, Python threads, fork and exit, each in a process of its own."""

import os
import signal
import subprocess
import sys
import time

import pytest

HEAD = """
import signal, sys, time, threading, os
import numpy as np
import warp_like as wp

@wp.kernel
def spin(out: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = float(i)
    for _ in range(n):
        v = wp.sin(v) + 1.0
    wp.atomic_add(out, 0, v)

@wp.kernel
def add_one(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + 1.0

signal.signal(signal.SIGINT, signal.default_int_handler)  # which what runs in the background does not inherit
out = np.zeros(1, dtype=np.float32)
x = np.zeros(100_000, dtype=np.float32)
"""


def run(tmp_path, body, timeout=60):
    path = tmp_path / "program.py"
    path.write_text(HEAD + body)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_stops_a_long_launch(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        HEAD
        + """
wp.launch(spin, dim=1, inputs=[out, 1])
try:
    print("ready", flush=True)
    wp.launch(spin, dim=10_000_000, inputs=[out, 10_000])
except KeyboardInterrupt:  # of the launch, but on a machine that is so busy that it has not begun
    print("interrupted", flush=True)
wp.launch(add_one, dim=len(x), inputs=[x])
print(x.min(), x.max())
"""
    )
    p = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    time.sleep(0.3)
    start = time.monotonic()
    p.send_signal(signal.SIGINT)
    assert p.stdout.readline() == "interrupted\n"
    waited = time.monotonic() - start
    rest = p.stdout.read()  # by the same reader, which may have the next line already
    assert p.wait(timeout=30) == 0
    assert rest == "1.0 1.0\n"
    assert waited < 10  # the launch itself would take minutes


def test_eight_python_threads_launch_at_once(tmp_path):
    done = run(
        tmp_path,
        """
arrays = [np.zeros(50_000, dtype=np.float32) for _ in range(8)]

def work(a):
    for _ in range(50):
        wp.launch(add_one, dim=len(a), inputs=[a])

threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
for t in threads: t.start()
for t in threads: t.join()
print(all((a == 50).all() for a in arrays))
""",
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_launching_after_fork(tmp_path):
    done = run(
        tmp_path,
        """
wp.launch(spin, dim=10_000, inputs=[out, 100])
pid = os.fork()
wp.launch(spin, dim=10_000, inputs=[out, 100])
wp.launch(add_one, dim=len(x), inputs=[x])
ok = bool((x == 1).all())
if pid == 0:
    os._exit(0 if ok else 1)
_, status = os.waitpid(pid, 0)
print(ok, os.waitstatus_to_exitcode(status))
""",
    )
    assert done.stdout == "True 0\n", done.stderr


def test_forking_while_other_threads_compile_and_load(tmp_path):
    """The child launches what nobody compiles to an end there."""
    done = run(
        tmp_path,
        """
import signal


def compile_all(numbers):
    for n in numbers:
        for kernel in (spin, add_one):
            made = kernel.with_options(max_unroll=n)
            wp.launch(made, dim=1, inputs=[out, 1] if kernel is spin else [x])


threads = [threading.Thread(target=compile_all, args=(range(16 * k, 16 * k + 8),)) for k in (1, 2)]
for t in threads:
    t.start()
codes = []
while any(t.is_alive() for t in threads):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a lock that nobody lets go of
        wp.launch(add_one.with_options(max_unroll=1000), dim=len(x), inputs=[x])
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(set(codes))
""",
    )
    assert done.stdout == "{0}\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forking_during_the_first_launch_of_another_thread(tmp_path):
    """It imports the compiler. A module's lock that a child finds taken is never let go of.

    Patience is counted in short sleeps: an alarm would ring while a busy machine lets none of these processes run.
    """
    path = tmp_path / "program.py"
    path.write_text(
        HEAD
        + """
def work():
    wp.launch(add_one, dim=len(x), inputs=[x])
    a = wp.ones(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(spin, dim=16, inputs=[a, 1])
    tape.backward(grads={a: wp.ones(1, dtype=float)})

thread = threading.Thread(target=work)
thread.start()
time.sleep(float(sys.argv[1]))
pid = os.fork()
if pid == 0:
    work()
    os._exit(0)
for _ in range(600):
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        break
    time.sleep(0.1)
else:
    os.kill(pid, signal.SIGKILL)  # it waits for a lock that nobody lets go of
    _, status = os.waitpid(pid, 0)
thread.join()
print(os.waitstatus_to_exitcode(status))
"""
    )
    programs = [
        subprocess.Popen([sys.executable, str(path), str(delay)], stdout=subprocess.PIPE, text=True)
        for delay in (0.0, 0.04, 0.12)
    ]
    assert [p.communicate()[0] for p in programs] == ["0\n"] * len(programs)


def test_exit_with_arrays_tapes_and_views_alive(tmp_path):
    done = run(
        tmp_path,
        """
a = wp.zeros(1000, dtype=float, requires_grad=True)
view = a.numpy()
tape = wp.Tape()
with tape:
    wp.launch(spin, dim=1000, inputs=[a, 10])
sys.keep = (a, view, tape)
print("end")
""",
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_frameworks_are_not_imported_unless_used(tmp_path):
    done = run(
        tmp_path,
        """
wp.launch(add_one, dim=len(x), inputs=[x])
print([m for m in ("torch", "jax", "paddle", "cupy") if m in sys.modules])
""",
    )
    assert done.stdout == "[]\n", done.stderr
