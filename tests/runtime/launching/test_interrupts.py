"""Ctrl-C and time limits end what does not end by itself, wherever it hangs; each test is a process of its own."""

import subprocess
import sys

import pytest

from tests.long_tail import crossed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")

HEAD = """
import os, signal, threading, time
import numpy as np
import warp_like as wp

signal.signal(signal.SIGINT, signal.default_int_handler)  # which what runs in the background does not inherit


def ends(launch, error=KeyboardInterrupt, after=0.1):
    # Whether the launch ends with `error`; for KeyboardInterrupt, another Python thread sends the signal.
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    if error is KeyboardInterrupt:
        timer.start()
    try:
        launch()
    except error:
        return True
    finally:
        timer.cancel()
    return False


@wp.kernel
def spin(x: wp.array(dtype=float), limit: float):
    i = wp.tid()
    while x[i] < limit:
        x[i] = x[i] * 1.0


@wp.kernel
def add_one(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + 1.0


def works():
    x = np.zeros(100_000, np.float32)
    wp.launch(add_one, dim=len(x), inputs=[x])
    return bool((x == 1).all())

"""


def run(tmp_path, body):
    path = tmp_path / "program.py"
    path.write_text(HEAD + body)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("width", "mode"), crossed([0, 1], ["release", "debug"], every=2))
def test_an_endless_while(tmp_path, mode, width):
    body = f"""
kernel = spin.with_options(mode={mode!r}, vector_width={width})
for dim in (1, 10_000):
    x = np.ones(dim, np.float32)
    wp.launch(kernel, dim, [x, 0.0])
    print(ends(lambda: wp.launch(kernel, dim, [x, 2.0])), works())
"""
    assert run(tmp_path, body) == ["True True"] * 2


def test_an_endless_loop_without_effects(tmp_path):
    """It neither returns nor vanishes."""
    body = """
@wp.kernel
def idle(x: wp.array(dtype=float), limit: float):
    i = wp.tid()
    v = x[i]
    while v < limit:
        v = v * 1.0
    x[0] = 7.0

for kernel in (idle, idle.with_options(mode="debug"), idle.with_options(vector_width=1)):
    x = np.ones(1, np.float32)
    wp.launch(kernel, 1, [x, 0.0])  # compiled before the clock starts
    x[0] = 1.0
    print(ends(lambda: wp.launch(kernel, 1, [x, 2.0])), x[0])
"""
    assert run(tmp_path, body) == ["True 1.0"] * 3


def test_the_first_compilation_after_an_interrupted_import(tmp_path):
    """An import of LLVM's package that Ctrl-C ends leaves its modules behind, and not the package."""
    body = """
import sys
import llvmlite.binding

del sys.modules["llvmlite.binding"]
import llvmlite.binding

print(hasattr(llvmlite.binding, "newpassmanagers"), works())
"""
    assert run(tmp_path, body) == ["False True"]


@pytest.mark.parametrize("width", [0, 1])
def test_counted_loops_that_take_for_ever(tmp_path, width):
    """Of a nest of short loops none is long by itself; one that LLVM vectorises runs in strips."""
    body = f"""
wp.config.vector_width = {width}

@wp.kernel
def nest(x: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    for _a in range(n):
        for _b in range(n):
            for _c in range(n):
                for _d in range(n):
                    for _e in range(n):
                        for _f in range(n):
                            s = wp.sin(s) + 1.0
    x[i] = s

@wp.kernel
def vectorised(x: wp.array(dtype=int), n: wp.int64):
    i = wp.tid()
    s = int(0)
    for k in range(n):
        s += x[int(k & wp.int64(7))] ^ int(k)
    x[i] = s

def long_nest():
    wp.launch(nest, 8, [x, 60])

x, y = np.zeros(8, np.float32), np.ones(8, np.int32)
wp.launch(nest, 8, [x, 1])
wp.launch(vectorised, 1, [y, 10])
print(ends(long_nest), works())
print(ends(lambda: wp.launch(vectorised, 1, [y, 1 << 60])), works())
"""
    assert run(tmp_path, body) == ["True True"] * 2


def test_loops_of_an_adjoint(tmp_path):
    body = """
@wp.kernel
def total(x: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        s += wp.sin(x[i] * float(k))
    out[i] = s

@wp.kernel
def halve(x: wp.array(dtype=float), limit: float, out: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    while v > limit:
        v = v * wp.min(v, 1.0)
    out[i] = v

x, out = wp.ones(4, requires_grad=True), wp.zeros(4, requires_grad=True)
for kernel, short, long in ((total, 1, 2**31 - 1), (halve, 2.0, 0.5)):
    def adjoint(n):
        wp.launch(kernel, 4, [x, n], [out], adj_inputs=[x.grad, None], adj_outputs=[out.grad], adjoint=True)
    adjoint(short)
    print(ends(lambda: adjoint(long)), works())
"""
    assert run(tmp_path, body) == ["True True"] * 2


def test_other_threads_run_meanwhile(tmp_path):
    """The launch is the first one of its kernel that takes long, so that it begins with the GIL."""
    body = """
ticks = []

def tick():
    while len(ticks) < 20:
        ticks.append(time.monotonic())
        time.sleep(0.002)
    os.kill(os.getpid(), signal.SIGINT)

x = np.ones(8, np.float32)
wp.launch(spin, 8, [x, 0.0])
threading.Thread(target=tick).start()
try:
    wp.launch(spin, 8, [x, 2.0])
except KeyboardInterrupt:
    print(len(ticks), works())
"""
    assert run(tmp_path, body) == ["20 True"]


def test_a_launch_of_another_thread(tmp_path):
    """As in a notebook: the main thread is interrupted, the launch ends with the process."""
    body = """
x, y = np.ones(8, np.float32), np.ones(8, np.float32)
wp.launch(spin, 8, [x, 0.0])
thread = threading.Thread(target=lambda: wp.launch(spin, 8, [x, 2.0]), daemon=True)
thread.start()
print(ends(lambda: wp.launch(spin, 8, [y, 2.0])), ends(lambda: time.sleep(60)), works(), thread.is_alive())
"""
    assert run(tmp_path, body) == ["True True True True"]


def test_with_workers_sums_and_forks(tmp_path):
    """Sums go to copies of each worker's, or in deterministic mode of each chunk's. A child launches afterwards."""
    body = """
@wp.kernel
def sums(x: wp.array(dtype=float), limit: float, out: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    while v < limit:
        v = v * 1.0
    wp.atomic_add(out, i % 7, v)

wp.config.num_threads = 4
x, out = np.ones(50_000, np.float32), np.zeros(7, np.float32)
x[:20_000] = 4.0
for deterministic in (False, True):
    wp.config.deterministic = deterministic
    wp.launch(sums, len(x), [x, 0.0], [out])
    for _ in range(2):
        out[:] = 0
        hung = ends(lambda: wp.launch(sums, len(x), [x, 2.0], [out]))
        fine = 0 <= out.sum() <= x.sum()
        out[:] = 0
        wp.launch(sums, len(x), [x, 0.0], [out])
        print(hung, fine, out.sum() == x.sum(), works())
    pid = os.fork()
    if pid == 0:
        os._exit(0 if works() else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(tmp_path, body) == ["True True True True", "True True True True", "0"] * 2


def test_a_long_deterministic_launch_without_loops(tmp_path):
    """Its chunks are as long as the grid says, however long that takes."""
    body = """
@wp.kernel
def swing(x: wp.array(dtype=float)):
    i = wp.tid()
    v = wp.sin(wp.exp(wp.sin(float(i % 1000))))
    if v > 2.0:
        x[0] = v

wp.config.deterministic = True
x = np.zeros(1, np.float32)
wp.launch(swing, 1000, [x])
print(ends(lambda: wp.launch(swing, 2**40, [x])), works())
"""
    assert run(tmp_path, body) == ["True True"]


def test_time_limits(tmp_path):
    """Of a launch, a recorded launch, a graph's, a batch's; one that waits for another counts its waiting."""
    body = """
x = wp.ones(8)
wp.launch(spin, 8, [x, 0.0])
command = wp.launch(spin, 8, [x, 2.0], record_cmd=True)
with wp.ScopedCapture(device="cpu") as capture:
    wp.launch(spin, 8, [x, 2.0])
wp.config.launch_timeout = 0.2
for launch in (lambda: wp.launch(spin, 8, [x, 2.0]), command.launch, lambda: wp.capture_launch(capture.graph)):
    start = time.monotonic()
    print(ends(launch, TimeoutError), time.monotonic() - start > 0.19, works())
try:
    command.launch()
except TimeoutError as error:
    print(error)
wp.config.launch_timeout = None
print(ends(command.launch), works())
wp.config.launch_timeout = 60
wp.launch(spin, 8, [x, 0.0])
print(works())
"""
    message = (
        "kernel `spin`: the launch took longer than wp.config.launch_timeout = 0.2 seconds; its arrays are as its "
        "threads have left them"
    )
    assert run(tmp_path, body) == ["True True True"] * 3 + [message, "True True", "True"]


def test_time_limits_of_gradients(tmp_path):
    body = """
@wp.kernel
def total(x: wp.array(dtype=float), n: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for k in range(n[0]):
        s += wp.sin(x[i] * float(k))
    out[i] = s

x, out, n = wp.ones(4, requires_grad=True), wp.zeros(4, requires_grad=True), wp.ones(1, dtype=int)
with wp.Tape() as tape:
    wp.launch(total, 4, [x, n], [out])
tape.backward(grads={out: wp.ones(4)})
n.numpy()[0] = 2**31 - 1  # behind the tape's back
wp.config.launch_timeout = 0.2
try:
    tape.backward(grads={out: wp.ones(4)})
except TimeoutError as error:
    print(error)
print(works())
"""
    first, last = run(tmp_path, body)
    assert first.startswith("the adjoint of kernel `total`: the launch took longer than ")
    assert last == "True"


def test_a_launch_that_waits_for_another(tmp_path):
    """Both add without atomics to one array: the second one waits, and can be ended meanwhile."""
    body = """
@wp.kernel
def adds(x: wp.array(dtype=float), limit: float, begun: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    if limit > 1.0:
        begun[0] = 1
    v = x[i]
    while v < limit:
        v = v * 1.0
    wp.atomic_add(out, 0, v)

x, begun, out = np.ones(100, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
wp.launch(adds, 100, [x, 0.0, begun], [out])
threading.Thread(target=lambda: wp.launch(adds, 100, [x, 2.0, begun], [out]), daemon=True).start()
while not begun[0]:
    time.sleep(0.01)
print(ends(lambda: wp.launch(adds, 100, [x, 0.0, begun], [out])))
wp.config.launch_timeout = 0.1
print(ends(lambda: wp.launch(adds, 100, [x, 0.0, begun], [out]), TimeoutError), works())
"""
    assert run(tmp_path, body) == ["True", "True True"]


def test_an_argument_that_is_read_when_ctrl_c_comes(tmp_path):
    lines = run(
        tmp_path,
        """
class Interrupted:
    calls = 0

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **wanted):
        self.calls += 1
        if self.calls == 1:
            signal.raise_signal(signal.SIGINT)
        return np.zeros(3, np.float32).__dlpack__(**wanted)


@wp.kernel
def copy(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


y, given = np.full(3, 5, np.float32), Interrupted()
wp.launch(copy, 3, [np.zeros(3, np.float32), np.zeros(3, np.float32)])
try:
    wp.launch(copy, 3, [given, y])
except KeyboardInterrupt:
    print(y.tolist())
wp.launch(copy, 3, [given, y])
print(y.tolist())
""",
    )
    assert lines == ["[5.0, 5.0, 5.0]", "[0.0, 0.0, 0.0]"]


def test_a_signal_handler_that_launches_during_the_first_launch(tmp_path):
    """Signals come with each import that the first launch, of a recorded kernel, and its gradient make."""
    body = """
wp.config.cache_kernels = False
calls = 0
y = np.zeros(9, np.float32)


def handler(*_):
    global calls
    calls += 1
    wp.launch(add_one, dim=9, inputs=[y])


def send(event, args):
    if event == "import" and args[0].startswith("warp_like.") and threading.current_thread() is threading.main_thread():
        signal.raise_signal(signal.SIGUSR1)


@wp.kernel
def square(x: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    z[i] = wp.exp(x[i]) * x[i]


x, z = wp.ones(9, dtype=float, requires_grad=True), wp.zeros(9, dtype=float, requires_grad=True)
signal.signal(signal.SIGUSR1, handler)
sys.addaudithook(send)
with wp.Tape() as tape:
    wp.launch(square, dim=9, inputs=[x, z])
tape.backward(grads={z: wp.ones(9, dtype=float)})
print(calls > 0, bool((y == calls).all()), bool(np.allclose(x.grad.numpy(), 2 * np.e)))
signal.signal(signal.SIGUSR1, signal.SIG_DFL)
"""
    assert run(tmp_path, "import sys\n" + body) == ["True True True"]
