"""Launches that begin without Python: the native ``launch``, and launches that are recorded to run again."""

import copy
import enum
import gc
import inspect
import pickle
import pydoc
import threading
import weakref

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def place(v: wp.vec3, out: wp.array(dtype=float)):
    out[wp.tid()] = v[0]


@wp.struct
class Line:
    x: wp.array(dtype=float)
    slope: float


@wp.kernel
def on_line(line: Line, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = line.slope * line.x[i]


@wp.kernel
def generic_add(x: wp.array(dtype=wp.Any), y: wp.array(dtype=wp.Any)):
    i = wp.tid()
    y[i] = y[i] + x[i]


@wp.kernel
def repeat(out: wp.array(dtype=int), n: int):
    i = wp.tid()
    for _ in range(n):
        out[i] = out[i] + 1


def ones(n=5):
    return wp.array(np.ones(n), dtype=float)


# ---- the function


def test_launch_looks_like_the_function_that_it_stands_for():
    assert list(inspect.signature(wp.launch).parameters) == [
        *("kernel", "dim", "inputs", "outputs", "adj_inputs", "adj_outputs", "device", "stream"),
        *("adjoint", "record_tape", "record_cmd", "max_blocks", "block_dim", "options"),
    ]
    assert wp.launch.__name__ == "launch"
    assert wp.launch.__module__ == "warp_like.runtime.launching.launch"
    assert "Run ``kernel`` once for each thread of a grid." in inspect.getdoc(wp.launch)
    assert "record_cmd: 'bool' = False" in pydoc.render_doc(wp.launch, renderer=pydoc.plaintext)
    assert pickle.loads(pickle.dumps(wp.launch)) is wp.launch
    assert copy.deepcopy(wp.launch) is wp.launch


def test_launch_can_be_a_method():
    class Simulation:
        launch = wp.launch

    with pytest.raises(TypeError, match=r"launch\(\) takes a kernel made by @wp.kernel, got Simulation"):
        Simulation().launch(saxpy, 5)


def test_kernels_are_pickled_and_copied_by_name():
    assert pickle.loads(pickle.dumps(saxpy)) is saxpy
    assert copy.copy(saxpy) is saxpy
    assert copy.deepcopy([saxpy])[0] is saxpy


FORMS = [
    ((), {"kernel": saxpy, "dim": 5, "inputs": ["x", "y", 2.0]}),
    ((saxpy, 5, ["x", "y", 2.0]), {}),
    ((saxpy,), {"block_dim": 64, "outputs": ["y", 2.0], "dim": (5,), "inputs": ("x",), "max_blocks": 3}),
    ((saxpy, [5], ["x"], ["y", 2.0], [], [], "cpu", None, False, False, False, 0, None), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), FORMS)
def test_arguments_by_position_and_by_name(args, kwargs):
    x, y = ones(), ones()

    def given(value):
        names = {"x": x, "y": y}
        return type(value)(names.get(v, v) if isinstance(v, str) else v for v in value) if value else value

    args = [given(a) if isinstance(a, (list, tuple)) else a for a in args]
    kwargs = {k: given(v) if isinstance(v, (list, tuple)) else v for k, v in kwargs.items()}
    for _ in range(3):
        assert wp.launch(*args, **kwargs) is None
    np.testing.assert_array_equal(y.numpy(), 7)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing 2 required positional arguments: 'kernel' and 'dim'"),
        ((saxpy,), {}, "missing 1 required positional argument: 'dim'"),
        ((saxpy, 5), {"kernel": saxpy}, "multiple values for argument 'kernel'"),
        ((saxpy, 5), {"input": []}, "unexpected keyword argument 'input'"),
        ((saxpy, *range(13)), {}, "takes from 2 to 13 positional arguments but 14 were given"),
    ],
)
def test_calls_with_other_parameters_are_refused_as_python_does(args, kwargs, message):
    with pytest.raises(TypeError, match=message):
        wp.launch(*args, **kwargs)


def test_an_array_that_the_dispatcher_declines_is_still_checked():
    x, y = ones(), ones()
    wp.launch(saxpy, 5, [x, y, 1.0])
    with pytest.raises(TypeError, match=r"kernel `saxpy`, argument 2 `y`: expected array1d\[float32\]"):
        wp.launch(saxpy, 5, [x, wp.zeros(5, dtype=int), 1.0])


def test_generic_kernels_begin_at_their_latest_instance():
    x, y = ones(), ones()
    for _ in range(3):
        wp.launch(generic_add, 5, [x, y])
    assert generic_add.fast is None
    assert generic_add.latest.fast is not None
    wide = wp.zeros(5, dtype=wp.float64)
    wp.launch(generic_add, 5, [wide, wide])
    wp.launch(generic_add, 5, [x, y])
    np.testing.assert_array_equal(y.numpy(), 5)


def test_tapes_of_generic_kernels_and_adjoint_launches():
    x, y = ones(), ones()
    x.requires_grad = y.requires_grad = True
    for _ in range(3):
        with wp.Tape() as tape:
            wp.launch(generic_add, 5, [x, y])
        assert len(tape.launches) == 1
        x.grad.zero_()
        tape.backward(grads={y: ones()})
        np.testing.assert_array_equal(x.grad.numpy(), 1)
    gx, gy = wp.zeros(5, dtype=float), ones()
    for n in range(1, 4):
        wp.launch(generic_add, 5, [x, y], adj_inputs=[gx, gy], adjoint=True)
        np.testing.assert_array_equal(gx.numpy(), n)


def test_each_thread_has_its_own_tape():
    x, y = ones(), ones()
    x.requires_grad = y.requires_grad = True
    wp.launch(saxpy, 5, [x, y, 1.0])
    counts = {}

    def record(n):
        with wp.Tape() as tape:
            for _ in range(n):
                wp.launch(saxpy, 5, [x, y, 1.0])
        counts[n] = len(tape.launches)

    with wp.Tape() as outer:
        threads = [threading.Thread(target=record, args=(n,)) for n in (1, 2, 3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        wp.launch(saxpy, 5, [x, y, 1.0])
    assert counts == {1: 1, 2: 2, 3: 3}
    assert len(outer.launches) == 1


def test_a_launch_that_was_short_once_may_take_long_later():
    out = wp.zeros(3, dtype=int)
    for n in (1, 1, 1, 100_000, 1):
        wp.launch(repeat, 3, [out, n])
    np.testing.assert_array_equal(out.numpy(), 100_004)
    assert not repeat.fast.bounded
    assert saxpy.fast.bounded


# ---- recorded launches


def recorded(*args, **kwargs):
    return wp.launch(*args, record_cmd=True, **kwargs)


def test_a_recorded_launch_runs_when_told_to():
    x, y = ones(), ones()
    command = recorded(saxpy, 5, [x, y, 2.0])
    np.testing.assert_array_equal(y.numpy(), 1)
    for n in range(1, 5):
        command.launch()
        np.testing.assert_array_equal(y.numpy(), 1 + 2 * n)


def test_changes_of_a_recorded_launch_are_seen_by_the_next_run():
    x, y, z = ones(), ones(), ones()
    command = recorded(saxpy, 5, [x, y, 2.0])
    command.launch()
    command.launch()
    command.set_param_by_name("a", 10.0)
    command.launch()
    np.testing.assert_array_equal(y.numpy(), 15)
    command.set_dim(2)
    assert command.dims == (2,)
    command.set_param_at_index(1, z)
    command.launch()
    np.testing.assert_array_equal(z.numpy(), [11, 11, 1, 1, 1])
    command.set_params([y, z, -1.0])
    command.launch()
    np.testing.assert_array_equal(z.numpy(), [-4, -4, 1, 1, 1])
    with pytest.raises(TypeError, match="argument 1 `x`"):
        command.set_param_at_index(0, 1.0)
    command.launch()
    np.testing.assert_array_equal(z.numpy(), [-19, -19, 1, 1, 1])


def test_a_recorded_launch_sees_what_is_written_to_its_arguments():
    v, out = wp.vec3(1.0, 2.0, 3.0), wp.zeros(1, dtype=float)
    command = recorded(place, 1, [v, out])
    seen = []
    for x in (4.0, 5.0, 6.0):  # the first launch goes by Python, the others are native
        v[0] = x
        command.launch()
        seen += out.list()
    assert seen == [4.0, 5.0, 6.0]
    w = wp.vec3(7.0, 0.0, 0.0)
    command.set_param_at_index(0, w)
    for x in (8.0, 9.0):
        w[0], v[0] = x, -1.0
        command.launch()
        assert out.list() == [x]


def test_a_recorded_launch_sees_what_its_struct_holds():
    line, out = Line(), wp.zeros(1, dtype=float)
    line.x, line.slope = ones(1), 3.0
    command = recorded(on_line, 1, [line, out])
    seen = []
    for slope in (3.0, 4.0, 5.0):
        line.slope = slope
        command.launch()
        seen += out.list()
    line.x = wp.array([2.0], dtype=float)
    command.launch()
    assert [*seen, *out.list()] == [3.0, 4.0, 5.0, 10.0]
    other = Line()
    other.x, other.slope = ones(1), 6.0
    command.set_param_by_name("line", other)
    line.slope = 0.0
    command.launch()
    assert out.list() == [6.0]
    other.slope = 7.0
    command.set_dim(0)
    command.launch()
    assert out.list() == [6.0]
    assert command.device == wp.get_device("cpu")


def test_what_a_recorded_launch_s_struct_held_counts_for_a_tape_and_a_graph():
    line, out = Line(), wp.zeros(1, dtype=float, requires_grad=True)
    line.x, line.slope = wp.array([2.0], dtype=float, requires_grad=True), 3.0
    command = recorded(on_line, 1, [line, out])
    command.launch()
    with wp.Tape() as tape:
        command.launch()
    with wp.ScopedCapture() as capture:
        command.launch()
    line.slope = 5.0
    tape.backward(grads={out: ones(1)})
    assert line.x.grad.list() == [3.0]
    wp.capture_launch(capture.graph)
    assert out.list() == [6.0]


def test_a_recorded_launch_is_seen_by_a_tape():
    x, y = ones(), ones()
    x.requires_grad = y.requires_grad = True
    command = recorded(saxpy, 5, [x, y, 2.0])
    command.launch()
    with wp.Tape() as tape:
        command.launch()
        command.launch()
    command.launch()
    assert len(tape.launches) == 2
    tape.backward(grads={y: ones()})
    np.testing.assert_array_equal(x.grad.numpy(), 4)


def test_recorded_launches_are_seen_by_captures_timings_and_settings(capsys):
    x, y = ones(), ones()
    command = recorded(saxpy, 5, [x, y, 1.0])
    command.launch()
    command.launch()
    with wp.ScopedCapture() as capture:
        command.launch()
    np.testing.assert_array_equal(y.numpy(), 3)
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(y.numpy(), 4)
    wp.timing_begin()
    command.launch()
    assert [r.name for r in wp.timing_end()] == ["saxpy"]
    wp.config.print_launches = True
    try:
        command.launch()
    finally:
        wp.config.print_launches = False
    command.launch()
    assert capsys.readouterr().out == "kernel: saxpy dim: (5,) device: cpu\n"
    np.testing.assert_array_equal(y.numpy(), 7)


@pytest.mark.parametrize("replayed", [False, True])
def test_tensors_made_after_the_recording_are_told_of_writes(replayed):
    torch = pytest.importorskip("torch")
    x, y = ones(), ones()
    command = recorded(saxpy, 5, [x, y, 1.0])
    command.launch()
    if replayed:
        with wp.ScopedCapture() as capture:
            command.launch()
    t = wp.to_torch(y)
    before = t._version
    if replayed:
        wp.capture_launch(capture.graph)
    else:
        command.launch()
    assert t._version == before + 1
    weight = torch.ones(5, requires_grad=True)
    result = (weight * t).sum()
    command.launch()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_a_recorded_launch_keeps_its_arrays_and_lets_them_go():
    memory = np.ones(5, np.float32)
    gone = weakref.ref(memory)
    y = ones()
    command = recorded(saxpy, 5, [wp.from_numpy(memory), y, 1.0])
    command.launch()
    command.launch()
    del memory
    gc.collect()
    assert gone() is not None
    command.launch()
    command.set_param_at_index(0, y)
    gc.collect()
    assert gone() is None
    command.myself = command
    gone = weakref.ref(command)
    del command
    gc.collect()
    assert gone() is None


def test_recorded_launches_run_in_many_threads():
    outs = [wp.zeros(64, dtype=int) for _ in range(8)]
    commands = [recorded(repeat, 64, [out, 3]) for out in outs]

    def run(command):
        for _ in range(300):
            command.launch()

    threads = [threading.Thread(target=run, args=(c,)) for c in commands]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for out in outs:
        np.testing.assert_array_equal(out.numpy(), 900)


def test_an_empty_grid_and_a_wide_change_of_the_grid():
    out = wp.zeros(4, dtype=int)
    command = recorded(repeat, 0, [out, 1])
    command.launch()
    command.launch()
    command.set_dim((4, 1))
    command.launch()
    np.testing.assert_array_equal(out.numpy(), 1)


class Flag(enum.IntFlag):
    NONE = 0
    SOME = 4


@wp.kernel
def doubled_if(x: wp.array(dtype=float), condition: bool, out: wp.array(dtype=float)):
    t = wp.tile_load(x, shape=2)
    if condition:
        t = t + t
    wp.tile_store(out, t)


def test_tiled_launches_and_integers_for_a_bool_need_no_python(monkeypatch):
    x, out = wp.array([1.0, 2.0], dtype=float), wp.zeros(2, dtype=float)
    wp.launch_tiled(doubled_if, dim=1, inputs=[x, True], outputs=[out], block_dim=32)

    def refused(*_: object) -> None:
        raise AssertionError("the launch took the checked path")

    monkeypatch.setattr("warp_like.runtime.launching.launch.bind_arguments", refused)
    for given, factor in ((0, 1.0), (2**70, 2.0), (-1, 2.0), (Flag.NONE, 1.0), (Flag.SOME, 2.0), (np.int8(3), 2.0)):
        wp.launch_tiled(doubled_if, dim=1, inputs=[x, given], outputs=[out], block_dim=32)
        assert out.list() == [factor, 2.0 * factor]
    monkeypatch.undo()
    with pytest.raises(TypeError):
        wp.launch_tiled(doubled_if, dim=1, inputs=[x, 1.0], outputs=[out], block_dim=32)
