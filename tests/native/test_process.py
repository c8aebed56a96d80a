"""Launches and the process around them: signals, time limits, forks, exit, floating-point modes."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from tests.native import support as s
from tests.native.support import native
from warp_like.base.contract import RunError


@pytest.fixture(autouse=True)
def default_threads():
    yield
    native.set_num_threads(0)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("n, us", [(10**7, 10), (10**5, 2000)])
def test_interrupt(threads: int, n: int, us: int, tmp_path: Path) -> None:
    counts = np.memmap(tmp_path / "counts", np.int32, "w+", shape=n)  # what the process shares
    code = f"""
    import signal, time, numpy as np
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which what runs in the background does not inherit
    native.set_num_threads({threads})
    d = dispatcher(param(ARRAY, I32, 1, True), param(SCALAR, I64), entry="count")
    counts = np.asarray(np.memmap({str(tmp_path / "counts")!r}, np.int32, "r+"))
    try:
        d.try_launch({n}, [counts, {us}], [], None)
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
    assert counts.any() and not counts.all()
    counts[:] = 0
    assert d.try_launch(1000, [counts, 0], [], None) and counts.sum() == 1000
    """
    prelude = f"import sys; sys.path.insert(0, {str(s.ROOT)!r})\nfrom tests.native.support import *\n"
    process = subprocess.Popen(
        [sys.executable, "-c", prelude + textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while not counts.any():
        assert process.poll() is None
        time.sleep(0.01)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    raised = float(process.stdout.readline())
    assert process.wait(60) == 0
    assert raised - sent < 10  # typically below 0.05, but the machine may be busy; the launch would take 25 and more


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n, first", [(1, 0), (10_000, 5000)])
def test_interrupt_of_threads_that_poll(threads: int, n: int, first: int) -> None:
    """From the first chunk on, which begins with the GIL; the signal comes from another Python thread."""
    s.run_python(
        f"""
        import os, signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)
        native.set_num_threads({threads})
        d = dispatcher(param(SCALAR, I64), param(SCALAR, I64), entry="hang")
        d.try_launch(8, [8, -1], [], None)  # quick ones
        for _ in range(3):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                d.try_launch({n}, [{first}, -1], [], None)
                raise AssertionError
            except KeyboardInterrupt:
                pass
            assert d.try_launch(100, [100, -1], [], None)
        """
    )


def test_a_time_limit() -> None:
    d = s.dispatcher(s.param(s.SCALAR, s.I64), s.param(s.SCALAR, s.I64), entry="hang")
    native.set_launch_timeout(0.05)
    try:
        for n, first in ((1, 0), (1000, 900), (10**7, 10**7)):
            with pytest.raises(s.KernelError) as info:
                d.try_launch(n, [first, -1], [], None)
            assert info.value.args == (RunError.TIMEOUT, 0, -1)
        assert d.try_launch(10, [10, -1], [], None)
    finally:
        native.set_launch_timeout(0)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError):
            native.set_launch_timeout(wrong)


def test_an_error_ends_threads_that_poll() -> None:
    native.set_num_threads(3)
    d = s.dispatcher(s.param(s.SCALAR, s.I64), s.param(s.SCALAR, s.I64), entry="hang")
    with pytest.raises(s.KernelError) as info:
        d.try_launch(1000, [999, 300], [], None)
    assert info.value.args == (17, 42, 300)


def test_signal_handler_may_launch() -> None:
    s.run_python(
        """
        import signal, numpy as np
        native.set_num_threads(2)
        d = dispatcher(param(ARRAY, I32, 1, True), param(SCALAR, I64), entry="count")
        inner = np.zeros(5000, np.int32)
        signal.signal(signal.SIGALRM, lambda *_: d.try_launch(5000, [inner, 10], [], None))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        outer = np.zeros(20000, np.int32)
        assert d.try_launch(20000, [outer, 20], [], None)
        assert (inner == 1).all() and (outer == 1).all()
        """
    )


def test_handlers_of_launches_in_handlers_are_bounded() -> None:
    s.run_python(
        """
        import os, signal, threading, time, numpy as np
        native.set_num_threads(1)
        d = dispatcher(param(ARRAY, I32, 1, True), param(SCALAR, I64), entry="count")
        counts, inside = [], 0  # of each launch, the last of which has begun last; handlers that began within one

        def launch():
            counts.append(np.zeros(5000, np.int32))
            assert d.try_launch(5000, [counts[-1], 10], [], None)

        def handler(*_):
            global inside
            inside += not counts[-1].all()
            launch()

        def signals():  # one for each launch, while it runs
            for k in range(1, 12):
                while len(counts) < k or not counts[k - 1].any():
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGALRM)

        signal.signal(signal.SIGALRM, handler)
        thread = threading.Thread(target=signals)
        thread.start()
        launch()
        thread.join()
        assert len(counts) == 12 and all((c == 1).all() for c in counts), len(counts)
        assert 1 <= inside <= 8, inside
        """
    )


def test_fork() -> None:
    s.run_python(
        """
        import os, threading, numpy as np
        native.set_num_threads(4)
        def check():
            counts = np.zeros(3000, np.int32)
            d = dispatcher(param(ARRAY, I32, 1, True), param(SCALAR, I64), entry="count")
            assert d.try_launch(3000, [counts, 5], [], None) and (counts == 1).all()
        check()
        stop = threading.Event()
        def loop():
            while not stop.is_set():
                check()
        busy = threading.Thread(target=loop)
        busy.start()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                check()
                check()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            check()
        stop.set()
        busy.join()
        """
    )


def test_exit_during_a_launch_of_a_daemon_thread() -> None:
    s.run_python(
        """
        import threading, time, numpy as np
        native.set_num_threads(3)
        d = dispatcher(param(ARRAY, I32, 1, True), param(SCALAR, I64), entry="count")
        counts = np.zeros(10**7, np.int32)
        threading.Thread(target=lambda: d.try_launch(10**7, [counts, 10], [], None), daemon=True).start()
        time.sleep(0.2)
        """
    )


@pytest.mark.parametrize("n, us", [(10**7, 0), (100, 10)])
def test_launch_after_the_exit_handler(n: int, us: int) -> None:
    result = s.run_python(
        f"""
        import atexit, numpy as np
        atexit.unregister(native._close)
        d = dispatcher(param(ARRAY, I32, 1, True), param(SCALAR, I64), entry="count")
        counts = np.zeros({n}, np.int32)
        def late():
            assert d.try_launch({n}, [counts, {us}], [], None)
            print(counts.min(), counts.max())
        atexit.register(late)
        atexit.register(native._close)  # handlers run in the reverse order
        """
    )
    assert result.stdout == "1 1\n"


def test_workers_take_the_callers_floating_point_modes() -> None:
    pytest.importorskip("torch")
    s.run_python(
        """
        import numpy as np, torch
        native.set_num_threads(4)
        n = 1 << 20
        x, y, z = torch.full((n,), 1e-41), torch.zeros(n), torch.ones(n)
        d = dispatcher(*[param(ARRAY, F32, 1, i == 2) for i in range(3)], entry="axpy")
        d.try_launch(n, [x, y], [z], None)
        assert (z != 0).all()
        if torch.set_flush_denormal(True):
            d.try_launch(n, [x, y], [z], None)
            torch.set_flush_denormal(False)
            assert (z == 0).all()
        d.try_launch(n, [x, y], [z], None)
        assert (z != 0).all()
        """
    )
