"""Captures: nothing runs while one records, and a graph repeats what was recorded."""

import copy
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def add(x: wp.array(dtype=float), a: float):
    i = wp.tid()
    x[i] = x[i] + a


@wp.kernel
def count_down(n: wp.array(dtype=int)):
    n[0] = n[0] - 1


@wp.kernel
def square(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


@wp.kernel
def descend(x: wp.array(dtype=float), g: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] - 0.25 * g[i]


def raised(kind: type[Exception], f: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as caught:
        f(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("warm", [False, True])
def test_launches_run_when_the_graph_does(warm: bool) -> None:
    x = wp.zeros(1000)
    if warm:
        wp.launch(add, dim=1000, inputs=[x, 0.0])
    with wp.ScopedCapture() as capture:
        for k in range(3):
            wp.launch(add, dim=1000, inputs=[x, 10.0**k], record_tape=False)
        command = wp.launch(add, dim=1000, inputs=[x, 1000.0], record_cmd=True)
        command.launch()
        assert not x.numpy().any()
    assert not x.numpy().any()
    assert len(capture.graph) == 4
    for k in range(1, 4):
        wp.capture_launch(capture.graph)
        assert set(x.list()) == {1111.0 * k}


def test_writes_of_the_host() -> None:
    x, y, v = wp.zeros(3), wp.array([1.0, 2.0, 3.0], dtype=float), wp.zeros(2, dtype=wp.vec2)
    data = np.array([7.0, 8.0, 9.0], np.float32)
    with wp.ScopedCapture() as capture:
        x.fill_(5.0)
        wp.copy(x[:2], y[1:])
        x[2] = 4.0
        y.assign(data)
        v[0] = wp.vec2(1.0, 2.0)
        y.zero_()
        wp.copy(y, x)
        total = wp.clone(y)
    data[:] = 0
    y.assign([10.0, 20.0, 30.0])
    assert x.list() == [0.0] * 3
    wp.capture_launch(capture.graph)
    assert x.list() == [20.0, 30.0, 4.0]  # what `y` held when the graph ran
    assert y.list() == total.list() == x.list()
    assert v.numpy().tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_copies_are_made_when_the_graph_runs() -> None:
    """Of views that are not contiguous, too, and of indexed arrays, also with a gradient."""
    x, g = wp.zeros((3, 4)), wp.zeros(3, requires_grad=True)
    rows = wp.array([2, 0], dtype=int)
    with wp.ScopedCapture() as capture:
        turned, column, deep = x.transpose().contiguous(), x[:, 1].contiguous(), copy.deepcopy(x)
        selected, some = wp.indexedarray(x, [rows, None]).contiguous(), wp.clone(wp.indexedarray(g, [rows]))
    x.assign(numbers := np.arange(12.0).reshape(3, 4))
    g.assign([1.0, 2.0, 4.0])
    for _ in range(2):
        wp.capture_launch(capture.graph)
        for found, expected in ((turned, x.numpy().T), (column, x.numpy()[:, 1]), (deep, x.numpy())):
            np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal(selected.numpy(), x.numpy()[[2, 0]])
        assert some.list() == [4.0, 1.0]
        assert some.requires_grad
        x.assign(2.0 * numbers)


def test_arrays_of_arrays_are_made_when_the_graph_runs() -> None:
    """``wp.array`` of an array, in its dtype or another, of indexed ones and of lists; repeated elements, too."""
    x = wp.zeros(4)
    selected, rows = wp.indexedarray(x, wp.array([3, 1], dtype=int)), wp.zeros((2, 4))
    target = wp.zeros(2)
    makers: dict[str, tuple[Any, Any]] = {
        "same": (lambda: wp.array(x), lambda a: a),
        "strided": (lambda: wp.array(x[::-2]), lambda a: a[::-2]),
        "vectors": (lambda: wp.array(x, dtype=wp.vec2, shape=2), lambda a: a.reshape(2, 2)),
        "another shape": (lambda: wp.array(x[::-1], shape=(2, 2)), lambda a: a[::-1].reshape(2, 2)),
        "float64": (lambda: wp.array(x, dtype=wp.float64), lambda a: a),
        "integers": (lambda: wp.array(x, dtype=wp.int8), lambda a: a),
        "indexed": (lambda: wp.array(selected), lambda a: a[[3, 1]]),
        "a list": (lambda: wp.array([x, x]), lambda a: np.stack([a, a])),
        "a tensor's like": (lambda: wp.array(np.asarray(x)), lambda a: 0.0 * a),  # NumPy's are read at the capture
    }
    with wp.ScopedCapture() as capture:
        made = {name: make() for name, (make, _) in makers.items()}
        target.assign(selected)
        rows[:] = x
        rows[1, 1:3] = selected
    for numbers in (np.arange(1.0, 5.0), np.arange(4.0, 0.0, -1.0)):
        x.assign(numbers)
        wp.capture_launch(capture.graph)
        for name, (_, expected) in makers.items():
            np.testing.assert_array_equal(made[name].numpy(), expected(numbers), err_msg=name)
        np.testing.assert_array_equal(target.numpy(), numbers[[3, 1]])
        np.testing.assert_array_equal(rows.numpy()[0], numbers)
        np.testing.assert_array_equal(rows.numpy()[1], numbers[[0, 3, 1, 3]])


@pytest.mark.parametrize("data", [np.float32([1.0, 2.0]), [1.0, 2.0]])
def test_arrays_of_host_data_are_made_anew_each_time(data: Any) -> None:
    with wp.ScopedCapture() as capture:
        x = wp.array(data, dtype=float)
        assert x.list() == [1.0, 2.0]
        wp.launch(add, dim=2, inputs=[x, 10.0])
    for _ in range(2):
        wp.capture_launch(capture.graph)
        assert x.list() == [11.0, 12.0]


def python_calls(graph: wp.Graph) -> int:
    """How many Python functions a replay calls."""
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(event) if event == "call" else None)
    try:
        graph._replay.run(True)
    finally:
        sys.setprofile(None)
    return len(calls)


@pytest.mark.parametrize("n", [1, 7, 40_000])
def test_writes_run_without_python(n: int) -> None:
    """Each write does in a graph what it does at once, whatever the layout."""
    random = np.random.default_rng(n)

    def arrays() -> dict[str, wp.array]:
        made = {
            "a": wp.array(random.random((n, 3)), dtype=float),
            "b": wp.array(random.random((3, n)), dtype=float),
            "v": wp.array(random.random((n, 3)), dtype=wp.vec3d),
            "i": wp.array(random.integers(-9, 9, n), dtype=wp.int8),
            "f": wp.array(random.random(n) < 0.5, dtype=bool),
            "h": wp.array(random.random(n), dtype=wp.float16),
        }
        return made

    def write(a: Any, b: Any, v: Any, i: Any, f: Any, h: Any) -> None:
        v.fill_(wp.vec3d(1.0, 2.0, 3.0))
        i.fill_(-3)
        f.fill_(True)
        h.zero_()
        a[:, 1] = 5.0
        a[:, 2] = random_row
        wp.copy(b[0], a[:, 0])
        wp.copy(a[:, 0], b[1])
        b[2] = random_row
        wp.copy(v[: n // 2], v[n - n // 2 :])
        b.transpose().assign(a)
        a[n // 2] = np.array([1.0, 2.0, 3.0], np.float32)
        wp.copy(a.flatten()[: n - 1], a.flatten()[1:n])

    random_row = random.random(n).astype(np.float32)
    now = arrays()
    later = {name: wp.clone(x) for name, x in now.items()}
    with wp.ScopedCapture() as capture:
        write(**later)
    write(**now)
    assert python_calls(capture.graph) == 0
    for name, x in now.items():
        np.testing.assert_array_equal(later[name].numpy(), x.numpy(), err_msg=name)
    x = later["a"].flatten()[::-1]
    with wp.ScopedCapture() as capture:
        wp.copy(x[: n - 1], x[1:n])  # it overlaps itself and is not contiguous: that is NumPy's
        x[::2] = 1.0
    wanted = x.numpy().copy()
    wanted[: n - 1] = wanted[1:n].copy()
    wanted[::2] = 1.0
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_steps_and_conditions_run_without_python() -> None:
    """Forward, backward, seeds, copies with gradients, loops and inner graphs."""
    x, y, z = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(3))
    loss, left = wp.zeros(1, requires_grad=True), wp.array([2], dtype=int)
    seed = wp.ones(2)
    with wp.ScopedCapture() as inner:
        loss.zero_()
        with wp.Tape() as tape:
            wp.launch(square, dim=2, inputs=[x], outputs=[loss])
            wp.copy(y, x)
            wp.copy(z, y)
        tape.zero()
        tape.backward(loss, grads={z: seed})
    with wp.ScopedCapture() as outer:
        wp.capture_while(left, lambda: (wp.capture_launch(inner.graph), wp.launch(count_down, dim=1, inputs=[left])))
        wp.capture_if(left, on_false=lambda: y.fill_(-1.0))
    assert python_calls(outer.graph) == 0
    assert (left.list(), loss.list(), x.grad.list()) == ([0], [5.0], [3.0, 5.0])
    assert (y.list(), z.list(), y.grad.list()) == ([-1.0, -1.0], [1.0, 2.0], [0.0, 0.0])


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise, also in what runs in the background, which begins with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_endless_loop_is_interrupted() -> None:
    flag, x = wp.ones(1, dtype=int), wp.zeros(1)
    with wp.ScopedCapture() as capture:
        wp.capture_while(flag, lambda: wp.launch(add, dim=1, inputs=[x, 1.0]))
    timer = threading.Timer(0.1, lambda: wp.launch(count_down, dim=1, inputs=[flag]))
    timer.start()  # another thread gets its turn
    wp.capture_launch(capture.graph)
    assert x.list()[0] > 0.0
    flag.fill_(1)
    timer = threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        wp.capture_launch(capture.graph)


def test_a_graph_takes_over_another_one_where_it_is_a_part() -> None:
    x = wp.zeros(1)
    graphs = []
    for a in (1.0, 10.0):
        with wp.ScopedCapture() as capture:
            wp.launch(add, dim=1, inputs=[x, a])
        graphs.append(capture.graph)
    with wp.ScopedCapture() as outer:
        wp.capture_launch(graphs[0])
    graphs[0].update(graphs[1])
    wp.capture_launch(outer.graph)
    assert x.list() == [10.0]
    graphs[0].update(outer.graph)  # a graph that would run itself
    with pytest.raises(RecursionError):
        wp.capture_launch(outer.graph)


def test_what_numbers_were_is_kept() -> None:
    x, data = wp.zeros(3), np.array([7.0, 8.0, 9.0], np.float32)
    with wp.ScopedCapture() as capture:
        x.assign(data)
    data[:] = 0
    wp.capture_launch(capture.graph)
    assert x.list() == [7.0, 8.0, 9.0]


def test_arrays_made_in_a_capture_are_zero_each_time() -> None:
    out = wp.zeros(1)
    with wp.ScopedCapture() as capture:
        loss = wp.zeros(1)
        wp.launch(square, dim=3, inputs=[wp.full(3, 2.0), loss])
        wp.copy(out, loss)
    del loss
    for _ in range(2):
        wp.capture_launch(capture.graph)
        assert out.list() == [12.0]


def test_a_tape_and_its_backward_pass() -> None:
    x, loss = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    wanted = x.numpy().astype(np.float64).copy()
    with wp.ScopedCapture() as capture:
        tape = wp.Tape()
        loss.zero_()
        with tape:
            wp.launch(square, dim=2, inputs=[x], outputs=[loss])
        tape.backward(loss)
        wp.launch(descend, dim=2, inputs=[x, x.grad])
        tape.zero()
    assert x.list() == [1.0, 2.0]
    for _ in range(4):
        wp.capture_launch(capture.graph)
        wanted -= 0.25 * 2 * wanted
        np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-6)
        assert x.grad.list() == [0.0, 0.0]


def test_a_tape_that_keeps_copies() -> None:
    """The first launch's adjoint needs `x` from before the second one overwrote it: the copy is part of the graph."""
    x, loss = wp.array([3.0], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.ScopedCapture() as capture:
        loss.zero_()
        with wp.Tape() as tape:
            wp.launch(square, dim=1, inputs=[x], outputs=[loss])
            x.fill_(100.0)
        x.grad.zero_()
        tape.launches.pop()  # the write's adjoint would end the chain
        tape.backward(loss)
    for value in (3.0, 4.0):
        x.fill_(value)
        wp.capture_launch(capture.graph)
        assert x.grad.list() == [2 * value]


def test_conditions() -> None:
    x, n = wp.zeros(1), wp.array([3], dtype=int)

    def body(step: float) -> None:
        wp.launch(add, dim=1, inputs=[x, step])
        wp.launch(count_down, dim=1, inputs=[n])

    with wp.ScopedCapture() as capture:
        wp.capture_while(n, body, step=1.0)
        wp.capture_if(n, on_true=lambda: x.fill_(-1.0), on_false=lambda: wp.launch(add, dim=1, inputs=[x, 100.0]))
    assert x.list() == [0.0]
    for start, wanted in ((3, 103.0), (0, 203.0)):
        n.fill_(start)
        wp.capture_launch(capture.graph)
        assert x.list() == [wanted]
    n.fill_(2)
    wp.capture_while(n, body, step=0.5)
    assert x.list() == [204.0]
    wp.capture_if(n, on_true=None, on_false=capture.graph)
    assert x.list() == [304.0]


def test_graphs_in_graphs() -> None:
    x, n = wp.zeros(1), wp.array([2], dtype=int)
    with wp.ScopedCapture() as inner:
        wp.launch(add, dim=1, inputs=[x, 1.0])
        wp.launch(count_down, dim=1, inputs=[n])
    with wp.ScopedCapture() as outer:
        wp.capture_launch(inner.graph)
        wp.capture_while(n, inner.graph)
    assert x.list() == [0.0]
    wp.capture_launch(outer.graph)
    assert x.list() == [2.0]


def test_utils() -> None:
    x, total, scanned = wp.zeros(3, dtype=int), wp.zeros(1, dtype=int), wp.zeros(3, dtype=int)
    keys, values, count = wp.zeros(3, dtype=int), wp.zeros(3, dtype=int), wp.zeros(1, dtype=int)
    with wp.ScopedCapture() as capture:
        wp.utils.array_sum(x, out=total)
        wp.utils.array_scan(x, scanned)
        wp.utils.radix_sort_pairs(x, values, 3)
        wp.utils.runlength_encode(x, keys, values, run_count=count)
        wp.utils.segmented_sort_pairs(x, values, 3, wp.array([0, 4], dtype=int))
        message = raised(RuntimeError, wp.utils.array_sum, x)
    assert message == (
        "array_sum() without `out` needs results at once, which a capture does not give; do it outside of the capture"
    )
    x.assign(np.array([2, 1, 2], np.int32))
    with pytest.raises(ValueError, match=r"segment 0, \[0, 4\), is not in \[0, 3\)"):
        wp.capture_launch(capture.graph)
    assert (total.list(), scanned.list(), x.list()) == ([5], [2, 3, 5], [1, 2, 2])
    assert (keys.list()[:2], values.list()[:2], count.list()) == ([1, 2], [1, 2], [2])


def test_other_libraries_arrays_and_write_hooks() -> None:
    torch = pytest.importorskip("torch")
    x, t = np.zeros(4, np.float32), torch.zeros(4)
    with wp.ScopedCapture() as capture:
        wp.launch(add, dim=4, inputs=[x, 1.0])
        wp.launch(add, dim=4, inputs=[t, 2.0])
    version = t._version
    for _ in range(2):
        wp.capture_launch(capture.graph)
    assert x.tolist() == [2.0] * 4
    assert t.tolist() == [4.0] * 4
    assert t._version == version + 2


def test_other_threads_go_on_launching() -> None:
    x, y = wp.zeros(1), wp.zeros(1)
    with wp.ScopedCapture() as capture:
        other = threading.Thread(target=lambda: wp.launch(add, dim=1, inputs=[y, 1.0]))
        other.start()
        other.join()
        wp.launch(add, dim=1, inputs=[x, 1.0])
    assert (x.list(), y.list()) == ([0.0], [1.0])
    wp.capture_launch(capture.graph)
    assert (x.list(), y.list()) == ([1.0], [1.0])


def test_errors_end_a_replay() -> None:
    x = wp.zeros(2)
    wp.config.mode = "debug"
    try:
        with wp.ScopedCapture() as capture:
            wp.launch(add, dim=1, inputs=[x, 1.0])
            wp.launch(add, dim=3, inputs=[x, 1.0])
            wp.launch(add, dim=1, inputs=[x, 1.0])
        with pytest.raises(IndexError, match="kernel `add`"):
            wp.capture_launch(capture.graph)
    finally:
        wp.config.mode = "release"
    assert x.numpy()[0] <= 2.0


def test_a_block_that_raises_leaves_nothing() -> None:
    x = wp.zeros(1)
    capture = wp.ScopedCapture()

    def fail() -> None:
        with capture:
            wp.launch(add, dim=1, inputs=[x, 1.0])
            raise KeyError("stop")

    assert raised(KeyError, fail) == "'stop'"
    assert capture.graph is None
    wp.launch(add, dim=1, inputs=[x, 1.0])
    assert x.list() == [1.0]


def test_messages() -> None:
    assert raised(RuntimeError, wp.capture_end) == (
        "no capture is running in this thread; begin one with wp.capture_begin()"
    )
    with wp.ScopedCapture():
        assert raised(RuntimeError, wp.capture_begin) == (
            "a capture is running in this thread already; end it with wp.capture_end()"
        )
    with wp.Tape():
        assert raised(RuntimeError, wp.capture_begin) == (
            "a tape is recording; begin the capture outside of its `with` block"
        )
    assert raised(TypeError, wp.capture_launch, None) == (
        "capture_launch() takes a graph made by wp.capture_end(), got NoneType"
    )
    assert raised(TypeError, wp.capture_while, wp.zeros(1), None) == (
        "capture_while() takes an array of int32 as condition, got array(shape=(1,), dtype=float32)"
    )
    assert raised(ValueError, wp.capture_if, wp.zeros(0, dtype=int)) == (
        "capture_if() looks at the first element of its condition, got array(shape=(0,), dtype=int32)"
    )
    x = wp.zeros(2)
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match="a capture does not take what the host writes to"):
        wp.indexedarray(x, wp.array([1], dtype=int)).fill_(1.0)
    with wp.ScopedCapture(), pytest.raises(RuntimeError, match="forward mode needs results at once"):
        wp.autograd.jvp(add, 2, [x, 1.0], tangents=[wp.ones(2)])


def test_picture(tmp_path: Path) -> None:
    x = wp.zeros(2)
    with wp.ScopedCapture() as capture:
        wp.launch(add, dim=2, inputs=[x, 1.0])
        x.zero_()
    wp.capture_debug_dot_print(capture.graph, tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == (
        'digraph {\n  node [shape=box];\n  n0 [label="add (2,)"];\n'
        '  n1 [label="write array(shape=(2,), dtype=float32)"];\n  n0 -> n1;\n}\n'
    )
    assert repr(capture.graph) == "<warp_like graph of 2 operations on cpu>"
