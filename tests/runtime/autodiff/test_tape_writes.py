"""Writes to arrays that a tape's gradients need: recorded, not recorded, and by something that the tape can't see.

The gradient is that of the numbers that the recorded launches worked on, or the backward pass is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.runtime.memory.recorder import recorder

UNSEEN = r"kernel `square`: the gradient needs what `x` held .* array\(shape=.* has been written to since, unseen"


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def fill(x: wp.array(dtype=float), c: float):
    x[wp.tid()] = c


@wp.kernel
def largest(x: wp.array(dtype=float), c: float):
    wp.atomic_max(x, 0, c)


def full(value, n=4):
    return wp.full(n, value, dtype=float, requires_grad=True)


def gradient_of(tape, x, y):
    tape.backward(grads={y: wp.ones(len(y), dtype=float)})
    return x.grad.numpy()


# --- overwritten from sources without a gradient ---------------------------------------------------------------


@wp.kernel
def boundary(y: wp.array(dtype=float)):
    i = wp.tid()
    if i == 1:
        y[i] = 3.0


@wp.kernel
def data(y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = z[i]


def launch_bound(kernel, args):
    wp.launch(kernel, 3, args, record_cmd=True).launch()


def launch_strided(kernel, args):
    wp.launch(kernel, 3, [args[0][::-1][::-1], *args[1:]])


@pytest.mark.parametrize("launch", [lambda k, args: wp.launch(k, 3, args), launch_bound, launch_strided])
@pytest.mark.parametrize(
    "kernel, more, expected", [(boundary, 0, [2, 0, 2]), (fill, 3.0, [0] * 3), (data, None, [0] * 3)]
)
def test_what_is_overwritten_without_a_gradient_loses_its_gradient(launch, kernel, more, expected) -> None:
    given = {0: [], 3.0: [3.0], None: [wp.ones(3, dtype=float)]}[more]
    for _ in range(3):  # compiled at first, natively afterwards
        x, y = full(1.0, 3), full(0.0, 3)
        with wp.Tape() as tape:
            wp.launch(double, 3, [x, y])
            launch(kernel, [y, *given])
        np.testing.assert_array_equal(gradient_of(tape, x, y), expected)


def test_a_map_overwrites_without_a_gradient() -> None:
    @wp.func
    def plus_one(a: float) -> float:
        return a + 1.0

    x, y = full(1.0), full(0.0)
    with wp.Tape() as tape:
        wp.launch(double, 4, [x, y])
        wp.map(plus_one, wp.ones(2, dtype=float), out=y[1:3])
    np.testing.assert_array_equal(gradient_of(tape, x, y), [2, 0, 0, 2])


def test_a_maximum_with_a_number_takes_the_gradient_where_it_wins() -> None:
    for c, expected in ((9.0, [0, 2]), (-9.0, [2, 2])):
        x, y = full(1.0, 2), full(0.0, 2)
        with wp.Tape() as tape:
            wp.launch(double, 2, [x, y])
            wp.launch(largest, 1, [y, c])
        try:
            got = gradient_of(tape, x, y)
        except RuntimeError as error:
            assert "can't tell what they replaced" in str(error)  # noqa: PT017
        else:
            np.testing.assert_array_equal(got, expected)


def test_launches_that_overwrite_nothing_with_a_gradient_are_skipped() -> None:
    fresh = wp.kernel(fill.func)
    x, y, z = full(1.0), full(0.0), wp.zeros(4, dtype=float)
    with wp.Tape() as tape:
        wp.launch(double, 4, [x, y])
        wp.launch(fresh, 4, [z, 1.0])
    np.testing.assert_array_equal(gradient_of(tape, x, y), [2] * 4)
    assert all(p.wrt is None for p in fresh._programs.values())


def test_launches_with_gradients_switched_off_are_left_out_with_a_warning() -> None:
    off = wp.kernel(enable_backward=False)(double.func)
    x, y, z = full(1.0), full(0.0), full(0.0)
    for _ in range(2):
        with wp.Tape() as tape:
            wp.launch(off, 4, [x, y])
            wp.launch(double, 4, [y, z])
        with pytest.warns(UserWarning, match="kernel `double`: gradients are switched off .* launch out") as told:
            assert gradient_of(tape, x, z).tolist() == [0.0] * 4
        assert len(told) == 1
        assert y.grad.numpy().tolist() == [2.0] * 4
        y.grad.zero_()


def test_switched_off_gradients_are_told_where_elements_are_overwritten() -> None:
    off = wp.kernel(enable_backward=False)(fill.func)
    x, y = full(1.0), full(0.0)
    with wp.Tape() as tape:
        wp.launch(double, 4, [x, y])
        wp.launch(off, 4, [y, 1.0])
    with pytest.warns(UserWarning, match="gradients are switched off .* may be incomplete"):
        gradient_of(tape, x, y)


# --- overwritten by what is not recorded -----------------------------------------------------------------------


def by_launch(x: wp.array) -> None:
    wp.launch(fill, len(x), [x, 100.0], record_tape=False)


def by_bound_launch(x: wp.array) -> None:
    wp.launch(fill, len(x), [x, 100.0], record_tape=False, record_cmd=True).launch()


def by_the_same_kernel(x: wp.array) -> None:
    wp.launch(square, len(x), [wp.full(len(x), 10.0, dtype=float), x], record_tape=False)


def by_a_graph(x: wp.array) -> None:
    tape, recorder.active = recorder.active, None
    with wp.ScopedCapture() as capture:
        wp.launch(fill, len(x), [x, 100.0])
    recorder.active = tape
    wp.capture_launch(capture.graph)


@pytest.mark.parametrize("write", [by_launch, by_bound_launch, by_the_same_kernel, by_a_graph])
@pytest.mark.parametrize("part", [slice(None), slice(1, 3)])
def test_what_is_not_recorded_is_seen(write: Callable[[wp.array], None], part: slice) -> None:
    for _ in range(3):
        x, y = full(3.0), full(0.0)
        with wp.Tape() as tape:
            wp.launch(square, 4, [x, y])
            write(x[part])
        assert (x.numpy()[part] == 100).all()
        np.testing.assert_array_equal(gradient_of(tape, x, y), [6] * 4)


def test_numbers_that_are_written_unrecorded_pass_the_gradient_on() -> None:
    """As in PyTorch under no_grad: later launches read the new numbers, the gradient goes where it would have gone."""
    x, y, z = full(3.0), full(0.0), full(0.0)
    with wp.Tape() as tape:
        wp.launch(square, 4, [x, y])
        wp.launch(fill, 4, [y, 5.0], record_tape=False)
        wp.launch(square, 4, [y, z])
    np.testing.assert_array_equal(gradient_of(tape, x, z), [2 * 5 * 2 * 3] * 4)


def test_gradients_that_a_launch_reads_are_kept() -> None:
    w, loss, cost = full(2.0), full(0.0), full(0.0)
    with wp.Tape() as inner:
        wp.launch(square, 4, [w, loss])
    w.grad.fill_(3.0)
    w.grad.requires_grad = True
    with wp.Tape() as outer:
        wp.launch(square, 4, [w.grad, cost])
        inner.zero()
        gradient_of(inner, w, loss)
    with pytest.warns(UserWarning, match="back through the computation of a gradient"):
        outer.backward(grads={cost: wp.ones(4, dtype=float)})
    np.testing.assert_array_equal(w.grad.grad.numpy(), [6] * 4)


# --- written to by something that the tape can't see -------------------------------------------------------------


def of_warp(values: np.ndarray) -> tuple[Any, Callable[[], None]]:
    x = wp.array(values, dtype=float, requires_grad=True)

    def write() -> None:
        x.numpy()[:] = 5

    return x, write


def of_numpy(values: np.ndarray) -> tuple[Any, Callable[[], None]]:
    x = wp.from_numpy(values, dtype=float, requires_grad=True)
    if x.ptr != values.ctypes.data:
        x = wp.array(values, dtype=float, copy=False, requires_grad=True)

    def write() -> None:
        values[:] = 5

    return x, write


def of_torch(change: Callable[[Any], None], wrap: bool) -> Callable[[np.ndarray], tuple[Any, Callable[[], None]]]:
    def make(values: np.ndarray) -> tuple[Any, Callable[[], None]]:
        torch = pytest.importorskip("torch")
        t = torch.tensor(values, requires_grad=True)

        def write() -> None:
            with torch.no_grad():
                change(t)

        return (wp.from_torch(t) if wrap else t), write

    return make


def of_paddle(values: np.ndarray) -> tuple[Any, Callable[[], None]]:
    paddle = pytest.importorskip("paddle")
    t = paddle.to_tensor(values, stop_gradient=False)

    def write() -> None:
        with paddle.no_grad():
            t.multiply_(paddle.to_tensor(2.0))

    return t, write


MAKERS = {
    "warp": of_warp,
    "numpy": of_numpy,
    "torch": of_torch(lambda t: t.mul_(2), True),
    "torch data": of_torch(lambda t: t.data.fill_(7), True),
    "tensor": of_torch(lambda t: t.mul_(2), False),
    "tensor data": of_torch(lambda t: t.data.fill_(7), False),
    "paddle": of_paddle,
}


def numbers_of(x: Any) -> np.ndarray:
    return np.array(x.grad.numpy())


@pytest.mark.parametrize("size", [4, 5000])
@pytest.mark.parametrize("maker", MAKERS)
def test_a_write_between_two_launches_is_refused(maker: str, size: int) -> None:
    for _ in range(2):  # the second time natively
        x, write = MAKERS[maker](np.full(size, 3, np.float32))
        y, z = full(0.0, size), full(0.0, size)
        with wp.Tape() as tape:
            wp.launch(square, size, [x, y])
            write()
            wp.launch(square, size, [x, z])
        with pytest.raises(RuntimeError, match=UNSEEN):
            tape.backward(grads={y: wp.ones(size, dtype=float), z: wp.ones(size, dtype=float)})
        assert not y.grad.numpy().any()


@pytest.mark.parametrize("maker", MAKERS)
def test_a_write_after_the_recording_counts_where_no_gradient_needs_the_results(maker: str) -> None:
    x, write = MAKERS[maker](np.full(4, 3, np.float32))
    y = full(0.0)
    with wp.Tape() as tape:
        wp.launch(square, 4, [x, y])
    for _ in range(3):  # not launched again
        write()
        tape.zero()
        tape.backward(grads={y: wp.ones(4, dtype=float)})
        now = np.asarray(x.numpy() if isinstance(x, wp.array) else x.detach().numpy())
        np.testing.assert_array_equal(numbers_of(x), 2 * now)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_write_after_the_recording_is_refused_until_the_kernels_have_run_again(maker: str) -> None:
    for _ in range(2):
        x, write = MAKERS[maker](np.full(4, 3, np.float32))
        y, z = full(0.0), full(0.0)
        with wp.Tape() as tape:
            wp.launch(square, 4, [x, y])
            wp.launch(square, 4, [y, z])
        write()
        seed = {z: wp.ones(4, dtype=float)}
        with pytest.raises(RuntimeError, match=UNSEEN):
            tape.backward(grads=seed)
        wp.launch(square, 4, [x, y])
        wp.launch(square, 4, [y, z])
        tape.backward(grads=seed)
        now = np.asarray(x.numpy() if isinstance(x, wp.array) else x.detach().numpy())
        np.testing.assert_array_equal(numbers_of(x), 4 * now**3)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_write_before_a_copy_is_made_is_refused(maker: str) -> None:
    x, write = MAKERS[maker](np.full(4, 3, np.float32))
    y = full(0.0)
    with wp.Tape() as tape:
        wp.launch(square, 4, [x, y])
        write()
        wp.launch(fill, 4, [x, 1.0])  # copies what the first launch needs, too late
    with pytest.raises(RuntimeError, match=UNSEEN):
        tape.backward(grads={y: wp.ones(4, dtype=float)})


def test_a_write_that_no_gradient_needs_is_fine() -> None:
    x, y = full(3.0), full(0.0)
    with wp.Tape() as tape:
        wp.launch(double, 4, [x, y])
        x.numpy()[:] = 5
    np.testing.assert_array_equal(gradient_of(tape, x, y), [2] * 4)


def test_a_write_between_a_sum_and_the_end_of_the_recording_is_refused() -> None:
    x, y = full(3.0), full(0.0, 1)
    with wp.Tape() as tape:
        wp.utils.array_inner(x, x, out=y)
        x.numpy()[:] = 5
    with pytest.raises(RuntimeError, match="has been written to since, unseen by the tape"):
        gradient_of(tape, x, y)
    with wp.Tape() as tape:
        wp.utils.array_inner(x, x, out=y)
    np.testing.assert_array_equal(gradient_of(tape, x, y), [10] * 4)


def test_a_launch_of_another_thread_is_refused() -> None:
    x, y = full(3.0), full(0.0)
    with wp.Tape() as tape:
        wp.launch(square, 4, [x, y])
        other = threading.Thread(target=wp.launch, args=(fill, 4, [x, 5.0]))
        other.start()
        other.join()
    with pytest.raises(RuntimeError, match=UNSEEN):
        gradient_of(tape, x, y)


@pytest.mark.parametrize("again", ["launch", "bound", "graph"])
def test_a_tape_serves_other_numbers_when_its_launches_run_again(again: str) -> None:
    x, y, z = full(3.0), full(0.0), full(0.0)

    def forward() -> None:
        wp.launch(square, 4, [x, y])
        wp.launch(square, 4, [y, z])

    bound = [wp.launch(square, 4, args, record_cmd=True) for args in ([x, y], [y, z])]
    with wp.ScopedCapture() as capture:
        forward()
    with wp.Tape() as tape:
        forward()
    for value in (1.0, 2.0):
        x.fill_(value)
        {
            "launch": forward,
            "bound": lambda: [command.launch() for command in bound],
            "graph": lambda: wp.capture_launch(capture.graph),
        }[again]()
        tape.zero()
        np.testing.assert_array_equal(gradient_of(tape, x, z), [4 * value**3] * 4)


def test_strided_arrays_are_looked_at() -> None:
    memory = wp.zeros((6, 5), dtype=float, requires_grad=True)
    x, y = memory.transpose()[1, ::2], full(0.0, 3)
    for outside in (True, False):
        with wp.Tape() as tape:
            wp.launch(square, 3, [x, y])
            memory.numpy()[(1, 1) if outside else (2, 1)] += 1.0
        if outside:
            gradient_of(tape, x, y)
            continue
        with pytest.raises(RuntimeError, match=UNSEEN):
            gradient_of(tape, x, y)
