"""Launches: the pool, errors, the adjoint stack, printing."""

from __future__ import annotations

import os
import threading
import time
import weakref

import numpy as np
import pytest

from tests.native import support as s
from tests.native.support import native
from warp_like.base.contract import ParamFlag, RunError


@pytest.fixture(autouse=True)
def default_threads():
    yield
    native.set_num_threads(0)


def counter():
    return s.dispatcher(s.param(s.ARRAY, s.I32, 1, True), s.param(s.SCALAR, s.I64), entry="count")


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 63, 64, 100, 1000, 4096, 1_000_003])
def test_every_thread_runs_once(threads: int, n: int) -> None:
    native.set_num_threads(threads)
    counts = np.zeros(n, np.int32)
    d = counter()
    for _ in range(3):
        assert d.try_launch(n, [counts, 0], [], None)
    assert (counts == 3).all()


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("n, us", [(40, 1000), (3, 20000), (2000, 20), (300, 200)])
def test_every_heavy_thread_runs_once(threads: int, n: int, us: int) -> None:
    native.set_num_threads(threads)
    counts = np.zeros(n, np.int32)
    s.variable("longest_chunk").value = 0
    d = counter()
    assert d.try_launch(n, [counts, us], [], None)
    assert (counts == 1).all()
    assert s.variable("longest_chunk").value * us < 20_000 or us >= 1000
    for again in (us, 0, 0, us):  # what they took the last time says how they are shared
        assert d.try_launch(n, [counts, again], [], None)
    assert (counts == 5).all()


def test_workers_keep_nothing_of_a_launch_that_is_over() -> None:
    """Copies of sums refer to the dispatcher, which may be gone as soon as the launch has returned."""
    native.set_num_threads(3)
    params = s.param(s.ARRAY, s.I32, 1, ParamFlag.WRITES + ParamFlag.SUMS), s.param(s.SCALAR, s.I64)
    for _ in range(50):
        d = s.dispatcher(*params, variants=(), non_associative=True, deterministic=True)
        d.install(1, 0, 1, s.address("count"), s.entries())
        counts = np.zeros(500, np.int32)
        assert d.try_launch(500, [counts, 2], [], None)
        del d
        assert (counts == 1).all()


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_each_thread_runs_once_however_long_halos_and_the_rest_are(threads: int) -> None:
    """Threads that take nothing run alone; what is left when some take long may be shorter than a chunk may be."""
    native.set_num_threads(threads)
    rng = np.random.default_rng(threads)
    for lanes in (1, 4, 16):
        for _ in range(12):
            n = int(rng.integers(280, 400) * lanes) if rng.random() < 0.8 else int(rng.integers(1, 6000))
            span = int(rng.integers(0, max(n // (8 * threads) - 64, 1)))
            x = ("x", s.ARRAY, s.I32, 1, ParamFlag.WRITES + ParamFlag.SUMS, None, (span,))
            d = s.dispatcher(x, s.param(s.SCALAR, s.I64), s.param(s.SCALAR, s.I64), variants=())
            d.install(1, 0, 1, s.address("count_late"), s.entries(), lanes)
            for first in (16 * lanes, n // 2, n - n // 16):
                counts = np.zeros(n, np.int32)
                assert d.try_launch(n, [counts, first, 1], [], None)
                assert (counts == 1).all(), (n, lanes, span, first)


@pytest.mark.parametrize("rows", [False, True])
def test_lanes_have_no_partial_sums_of_an_array_that_os_threads_share(rows: bool) -> None:
    """Such sums are added at a worker's end, when others still add to the array."""
    native.set_num_threads(2)
    flags = ParamFlag.WRITES + ParamFlag.SUMS
    x = ("x", s.ARRAY, s.F32, 1, flags, None, (3, -1) if rows else (3,))
    d = s.dispatcher(x, ("y", s.ARRAY, s.F32, 1, flags, None), s.param(s.SCALAR, s.I64), variants=())
    d.install(1, 0, 1, s.address("ask_for_partials"), s.entries())
    given = s.variable("partials_given", s.ctypes.c_longlong * 2)
    given[:] = 0, 0
    assert d.try_launch((2000, 2), [np.zeros(20_000, np.float32), np.zeros(4, np.float32), 2], [], None)
    assert given[0] == 0
    assert given[1] > 0


@pytest.mark.parametrize("threads, n", [(2, 30_000), (3, 30_001), (8, 50_000)])
def test_each_worker_has_a_part_of_the_grid(threads: int, n: int) -> None:
    """The parts begin at the same places in every launch, so that each processor finds its own in its caches."""
    native.set_num_threads(threads)
    begins = np.zeros(n, np.int32)
    d = s.dispatcher(s.param(s.ARRAY, s.I32, 1, True), entry="cut")
    for _ in range(3):
        begins[:] = -1
        assert d.try_launch(n, [begins], [], None)
        starts = np.unique(begins)
        assert (begins == starts[np.searchsorted(starts, np.arange(n), side="right") - 1]).all()
        assert {n // threads * k // 64 * 64 for k in range(threads)} <= set(starts.tolist())


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_go_together_are_not_cut(threads: int) -> None:
    native.set_num_threads(threads)
    begins = np.full(20_000, -1, np.int32)
    d = s.dispatcher(s.param(s.ARRAY, s.I32, 1, True))
    d.install(1, 0, 0, s.address("cut"), s.entries(), 1, 0, 0, 4)
    for _ in range(3):
        assert d.try_launch((400, 50), [begins], [], None)
        starts = np.unique(begins)
        assert (begins == starts[np.searchsorted(starts, np.arange(begins.size), side="right") - 1]).all()
        assert (starts[starts >= 200] % 200 == 0).all()  # before, it is the first threads that tell what one costs


@pytest.mark.parametrize("n", [1, 100, 30_000])
@pytest.mark.parametrize(("flags", "takes", "expected"), [(129, True, 1), (129, False, 0), (1, False, 0)])
def test_code_that_takes_elements_is_told_that_it_is_alone(n: int, flags: int, takes: bool, expected: int) -> None:
    native.set_num_threads(1)
    alone = np.full(n, -1, np.int32)
    d = s.dispatcher(s.param(s.ARRAY, s.I32, 1, flags), s.param(s.SCALAR, s.I64), entry="alone")
    d.install(1, 0, 0, s.address("alone"), s.entries(), 1, 0, 0, 1, b"", takes)
    for _ in range(3):
        assert d.try_launch(n, [alone, 0], [], None)
        assert (alone == expected).all()


def test_workers_are_not_alone() -> None:
    native.set_num_threads(2)
    alone = np.full(4000, -1, np.int32)
    d = s.dispatcher(s.param(s.ARRAY, s.I32, 1, 129), s.param(s.SCALAR, s.I64), entry="alone")
    d.install(1, 0, 0, s.address("alone"), s.entries(), 1, 0, 0, 1, b"", True)
    for _ in range(3):
        assert d.try_launch(4000, [alone, 5], [], None)
        assert alone[0] == 1
        assert not alone[2000:].any()


def test_who_is_slower_together_goes_on_alone() -> None:
    native.set_num_threads(2)
    d = s.dispatcher(s.param(s.ARRAY, s.I32, 1, 129), s.param(s.SCALAR, s.I64), entry="crowded")
    d.install(1, 0, 0, s.address("crowded"), s.entries(), 1, 0, 0, 1, b"", True)

    def is_called_off() -> bool:
        marks = np.zeros(20_000, np.int32)
        assert d.try_launch(marks.size, [marks, 1], [], None)
        assert set(marks.tolist()) <= {1, 100}  # each has run once
        return (marks == 1).sum() > 600 and marks[-1] == 100  # 256 may be a trial of one OS thread

    # A worker that gets no processor meanwhile disturbs nobody, and is not sent away.
    assert any(is_called_off() for _ in range(100))


def test_who_is_done_helps_with_the_rest() -> None:
    """All the work is in the first half of the grid, which is one part where there are two workers."""
    native.set_num_threads(2)
    d = s.dispatcher(s.param(s.ARRAY, s.I32, 1, True), s.param(s.SCALAR, s.I64), entry="who")

    def is_shared() -> bool:
        workers = np.zeros(4000, np.int32)
        assert d.try_launch(len(workers), [workers, 50], [], None)
        assert workers.all()
        return len(np.unique(workers[500:2000])) == 2  # the caller alone runs the first few

    assert any(is_shared() for _ in range(100))  # on a busy machine a worker may come too late


def test_number_of_threads() -> None:
    available = len(os.sched_getaffinity(0))
    assert native.num_threads() == available
    native.set_num_threads(3)
    assert native.num_threads() == 3
    native.set_num_threads(0)
    assert native.num_threads() == available
    for bad in (-1, 10**6):
        with pytest.raises(ValueError):
            native.set_num_threads(bad)


def test_affinity() -> None:
    s.run_python(
        "assert native.num_threads() == 1",
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads have no affinity here")
def test_workers_may_run_where_the_user_lets_them() -> None:
    """Workers are sent to other processors than the caller's when they are woken, for that moment alone."""
    s.run_python(
        """
        import os, time, numpy as np
        native.set_num_threads(4)
        d = dispatcher(param(ARRAY, I32, 1, True), param(SCALAR, I64), entry="count")

        def launch(times):
            for k in range(times):
                counts = np.zeros(400, np.int32)
                assert d.try_launch(400, [counts, 20], [], None) and (counts == 1).all()
                time.sleep(0.001 if k % 2 else 0.0)

        def come_back(wanted):  # one that was sent away and found no work comes back when it is woken again
            for _ in range(60):
                launch(60)
                time.sleep(0.1)
                if [os.sched_getaffinity(t) for t in workers] == wanted:
                    return True
            return False

        before = set(os.listdir("/proc/self/task"))
        launch(60)
        everywhere = os.sched_getaffinity(0)
        workers = [int(t) for t in set(os.listdir("/proc/self/task")) - before]
        assert workers
        assert come_back([everywhere] * len(workers))
        one = {min(everywhere)}
        os.sched_setaffinity(workers[0], one)
        assert come_back([one] + [everywhere] * (len(workers) - 1))
        """
    )


def test_launches_from_many_python_threads() -> None:
    native.set_num_threads(4)
    failures: list[object] = []

    def work(seed: int) -> None:
        d = counter()
        rng = np.random.default_rng(seed)
        for _ in range(150):
            n = int(rng.integers(1, 30_000))
            counts = np.zeros(n, np.int32)
            if not d.try_launch(n, [counts, 0], [], None) or not (counts == 1).all():
                failures.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_other_python_threads_run_during_a_long_launch() -> None:
    """More than once or twice, as they do between two launches; on a busy machine not in each launch."""
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    d, counts, during = counter(), np.zeros(300, np.int32), 0
    for _ in range(50):
        before = ticks
        d.try_launch(300, [counts, 1000], [], None)
        during = max(during, ticks - before)
        if during > 20:
            break
    stop.set()
    thread.join()
    assert during > 20


def test_arguments_live_until_the_launch_ends() -> None:
    """Another thread drops its references, and the code's, while the launch runs without the GIL."""
    arrays = [np.zeros(100, np.int32)]
    d = counter()
    result = arrays[0][:]

    def drop() -> None:
        time.sleep(0.02)
        arrays.clear()
        d.clear()

    thread = threading.Thread(target=drop)
    thread.start()
    arguments = [arrays[0], 1000]
    arrays.append(arguments)
    assert d.try_launch(100, arguments, [], None)
    thread.join()
    assert (result == 1).all()


class Kept:
    """What can be referred to weakly."""


def test_objects_are_kept_until_the_launches_in_flight_have_ended() -> None:
    def kept() -> weakref.ref[Kept]:
        object_ = Kept()
        native.keep_for_launches(object_)
        return weakref.ref(object_)

    d = counter()
    counts = {n: np.zeros(n, np.int32) for n in (1000, 100)}

    def launch(n: int) -> None:
        assert d.try_launch(n, [counts[n], 1000], [], None)

    def begin(thread: threading.Thread, n: int) -> None:
        thread.start()
        while not counts[n].any():
            time.sleep(0.001)

    assert kept()() is None  # no launch is in flight
    long, short = (threading.Thread(target=launch, args=(n,)) for n in counts)
    begin(long, 1000)
    first = kept()
    begin(short, 100)
    second = kept()
    short.join()
    assert first() is not None
    assert second() is not None
    long.join()
    assert first() is None
    assert second() is None


@pytest.mark.parametrize("batch", [False, True])
def test_a_write_hook_may_clear_the_table(batch: bool) -> None:
    torch = pytest.importorskip("torch")

    class Watched(torch.Tensor):  # type: ignore[name-defined,misc]
        pass

    d = s.dispatcher(s.param(s.ARRAY, s.F32, 1, True))
    native.set_write_hook(Watched, lambda _: d.clear())
    x = torch.zeros(1).as_subclass(Watched)
    s.variable("echo_calls").value = 0
    assert d.try_batch(1, [x], 1, [0]) if batch else d.try_launch(1, [x], [], None)
    assert s.variable("echo_calls").value == 1
    assert d.explain(1, [x], []) == ("the variant is not installed", None)


# ---- errors


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(
    "n, at, us", [(1, 0, 0), (1000, 0, 0), (1000, 999, 0), (4000, 1500, 20), (10**6, 10**6 - 1, 0)]
)
def test_error_is_raised(mode: int, n: int, at: int, us: int) -> None:
    native.set_num_threads(3)
    d = s.dispatcher(*[s.param(s.SCALAR, s.I64)] * 3, entry="fail")
    with pytest.raises(s.KernelError) as info:
        d.try_launch(n, [at, mode, us], [], None)
    code, where, thread = info.value.args
    assert (code, where) == (17, 42)
    assert at <= thread < n
    assert d.try_launch(n, [n, mode, 0], [], None)  # nothing of the error is left


def test_error_with_a_text() -> None:
    d = s.dispatcher(*[s.param(s.SCALAR, s.I64)] * 3, entry="fail")
    with pytest.raises(s.KernelError) as info:
        d.try_launch(1, [0, 2, 0], [], None)
    assert info.value.args == (17, 0, 0, "why", (0, -1))


def test_error_stops_the_launch() -> None:
    native.set_num_threads(2)
    d = s.dispatcher(*[s.param(s.SCALAR, s.I64)] * 3, entry="fail")
    for mode, most in ((0, 2000), (1, 1000)):
        s.variable("fail_ran").value = 0
        with pytest.raises(s.KernelError):
            d.try_launch(10**5, [100, mode, 20], [], None)
        assert s.variable("fail_ran").value < most


def test_error_handler_that_fails() -> None:
    params = [s.param(s.SCALAR, s.I64)] * 3
    for handler, error in ((lambda *_: 1 / 0, ZeroDivisionError), (lambda *_: "no exception", TypeError)):
        d = native.Dispatcher(s.spec(*params, on_error=handler))
        d.install(1, 0, 0, s.address("fail"), None)
        with pytest.raises(error):
            d.try_launch(10, [0, 0, 0], [], None)


# ---- the adjoint stack


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n, count", [(1, 1), (100, 10), (50, 20_000), (3, 3_000_000)])
def test_stack_grows(threads: int, n: int, count: int) -> None:
    native.set_num_threads(threads)
    bad = np.zeros(1, np.int32)
    d = s.dispatcher(s.param(s.SCALAR, s.I64), s.param(s.ARRAY, s.I32, 1), entry="push")
    for _ in range(2):
        assert d.try_launch(n, [count, bad], [], None)
    assert bad[0] == 0


def test_stack_limit() -> None:
    bad = np.zeros(1, np.int32)
    d = s.dispatcher(s.param(s.SCALAR, s.I64), s.param(s.ARRAY, s.I32, 1), entry="push")
    old = native.set_stack_cap(1 << 16)
    try:
        assert old == 256 << 20
        assert d.try_launch(1, [1 << 13, bad], [], None)
        for n in (1, 1000):
            with pytest.raises(s.KernelError) as info:
                d.try_launch(n, [(1 << 13) + 1, bad], [], None)
            assert info.value.args == (RunError.STACK_LIMIT, 0, -1)
        native.set_stack_cap(1000)
        with pytest.raises(s.KernelError):
            d.try_launch(1, [126, bad], [], None)
        assert d.try_launch(1, [125, bad], [], None)
        for wrong in (-1, 2**60):
            with pytest.raises(ValueError):
                native.set_stack_cap(wrong)
    finally:
        native.set_stack_cap(old)
    assert d.try_launch(1, [(1 << 13) + 1, bad], [], None)
    assert bad[0] == 0


def test_addresses_of_symbols() -> None:
    assert all(isinstance(a, int) and a for a in native.symbols().values())


# ---- printing


@pytest.mark.parametrize(
    "value, bits, text",
    [
        (0.1, 32, "0.1"),
        (0.1, 64, "0.1"),
        (float(np.float32(0.1)), 64, "0.10000000149011612"),
        (1.0, 32, "1.0"),
        (-2.5, 32, "-2.5"),
        (1e20, 32, "1e+20"),
        (123456.0, 32, "123456.0"),
        (1e-5, 64, "1e-05"),
        (0.001, 64, "0.001"),
        (1 / 3, 16, "0.3333"),
        (0.333984375, -16, "0.334"),
        (float("nan"), 32, "nan"),
        (float("-inf"), 32, "-inf"),
        (-0.0, 64, "-0.0"),
        (1.5e300, 64, "1.5e+300"),
        (5e-324, 64, "5e-324"),
        (1e16, 64, "1e+16"),
        (1e15, 64, "1000000000000000.0"),
        (16777216.0, 32, "16777216.0"),
        (1234.5678, 64, "1234.5678"),
    ],
)
def test_print(capfd: pytest.CaptureFixture[str], value: float, bits: int, text: str) -> None:
    d = s.dispatcher(s.param(s.SCALAR, s.F64), s.param(s.SCALAR, s.I64), entry="print")
    assert d.try_launch(2, [value, bits], [], None)
    out = capfd.readouterr().out
    assert out == f"thread 0 {2**64 - 1} True {text}\nthread 1 {2**64 - 1} False {text}\n"


def test_printed_floats_are_pythons(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    d = s.dispatcher(s.param(s.SCALAR, s.F64), s.param(s.SCALAR, s.I64), entry="print")
    values = np.ldexp(rng.normal(size=300), rng.integers(-80, 80, 300)).tolist()
    for v in values:
        assert d.try_launch(1, [v, 64], [], None)
        assert d.try_launch(1, [v, 32], [], None)
    words = [line.split()[-1] for line in capfd.readouterr().out.splitlines()]
    assert words[::2] == [repr(v) for v in values]
    assert [float(np.float32(w)) for w in words[1::2]] == [float(np.float32(v)) for v in values]


def test_lines_stay_whole_and_in_order_with_python() -> None:
    result = s.run_python(
        """
        native.set_num_threads(4)
        d = dispatcher(param(SCALAR, F64), param(SCALAR, I64), entry="print", prints=True)
        print("before")
        d.try_launch(20000, [1.0, 32], [], None)
        print("after")
        """
    )
    lines = result.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert sorted(int(line.split()[1]) for line in lines[1:-1]) == list(range(20000))
    assert all(line.endswith(" 1.0") and len(line.split()) == 5 for line in lines[1:-1])
