"""The tape and explicit adjoint launches."""

import gc
import threading
import time

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def chain(n=4):
    x = wp.array(np.arange(n), dtype=float, requires_grad=True)
    y = wp.zeros(n, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(square, dim=n, inputs=[x], outputs=[y])
        wp.launch(total, dim=n, inputs=[y], outputs=[loss])
    return x, y, loss, tape


def test_two_launches_chain():
    x, _y, loss, tape = chain()
    assert loss.numpy()[0] == 14
    tape.backward(loss=loss)
    np.testing.assert_array_equal(x.grad.numpy(), [0, 2, 4, 6])


def test_zero_takes_back_all_that_backward_has_put_anywhere():
    """Of arrays that it started from, too; elements outside of recorded views stay."""
    x, y = (wp.zeros(5, requires_grad=True) for _ in range(2))
    x.grad.fill_(7.0)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x[1:3]], outputs=[y[:2]])
    for grads in ({y: wp.ones(5)}, {y[1:4]: wp.ones(3)}):
        tape.backward(grads=grads)
        tape.backward(grads=grads)
        tape.zero()
        assert y.grad.list() == [0.0] * 5
        assert x.grad.list() == [7.0, 0.0, 0.0, 7.0, 7.0]
    tape.backward(loss=y[4:])
    tape.reset()
    assert y.grad.list() == [0.0] * 5


def test_gradients_add_up_until_zero():
    x, _y, loss, tape = chain()
    tape.backward(loss)
    tape.zero()
    assert not x.grad.numpy().any()
    tape.backward(loss)
    np.testing.assert_array_equal(tape.gradients[x].numpy(), [0, 2, 4, 6])


def test_backward_reads_arrays_as_they_are_now():
    x, _y, loss, tape = chain()
    x.assign(np.array([1, 1, 1, 5], dtype=np.float32))
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2, 2, 10])


def test_backward_from_grads():
    x, y, _loss, tape = chain()
    seed = wp.array(np.array([1, 10, 100, 1000]), dtype=float)
    tape.launches = tape.launches[:1]
    tape.backward(grads={y: seed})
    np.testing.assert_array_equal(x.grad.numpy(), [0, 20, 400, 6000])
    np.testing.assert_array_equal(seed.numpy(), [1, 10, 100, 1000])


def test_backward_from_an_output_without_a_gradient():
    x, y = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(2, dtype=float)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
    for _ in range(2):
        tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert x.grad.list() == [4.0, 8.0]
    assert y.requires_grad
    with pytest.raises(ValueError, match="requires_grad=True, and one has it False"):
        tape.backward(grads={wp.zeros(2, dtype=float): wp.ones(2, dtype=float)})
    with pytest.raises(ValueError, match="requires_grad=True, and one has it False"):
        tape.backward(loss=wp.zeros(1, dtype=float))


@pytest.mark.parametrize("by_launch", [False, True])
def test_gradients_that_come_too_late_for_a_copy_are_refused(by_launch):
    x, y = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(2, dtype=float)
    w = wp.ones(2, dtype=float)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        if by_launch:
            wp.launch(square, dim=2, inputs=[w], outputs=[x])
        else:
            x.fill_(3.0)
    tape.backward()  # what has no gradient needs none
    with pytest.raises(RuntimeError, match="had no gradient .* no copy was made of `x` of kernel `square`, which the"):
        tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert x.grad.list() == [0.0, 0.0]


@pytest.mark.parametrize("again", [1, 2])
def test_late_gradients_that_need_no_copy_are_right(again):
    @wp.kernel
    def add_to(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = y[i] + 3.0 * x[i]

    x, y = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.ones(2, dtype=float)
    for _ in range(again):  # the second time it is recorded natively
        y.requires_grad = False
        x.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(add_to, dim=2, inputs=[x], outputs=[y])
            wp.launch(add_to, dim=2, inputs=[x], outputs=[y])
            x.fill_(7.0)
        tape.backward(grads={y: wp.ones(2, dtype=float)})
        assert x.grad.list() == [6.0, 6.0]


def test_gradients_that_come_too_late_for_the_launch_s_own_copy_are_refused():
    @wp.kernel
    def in_place(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
        i = wp.tid()
        z[i] = x[i]
        y[i] = x[i] * y[i]

    x, z = (wp.array([2.0], dtype=float, requires_grad=True) for _ in range(2))
    y = wp.array([3.0], dtype=float)
    with wp.Tape() as tape:
        wp.launch(in_place, dim=1, inputs=[x, y, z])
    with pytest.raises(RuntimeError, match="had no gradient when the tape recorded"):
        tape.backward(grads={y: wp.ones(1, dtype=float)})


def test_backward_from_the_gradients_that_arrays_hold():
    x, y, _loss, tape = chain()
    tape.launches = tape.launches[:1]
    y.grad = wp.array(np.array([1, 10, 100, 1000]), dtype=float)
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 20, 400, 6000])
    y.retain_grad = True
    y.grad.fill_(1.0)
    for _ in range(2):
        y.grad.fill_(1.0)
        x.grad.zero_()
        tape.backward()
        np.testing.assert_array_equal(x.grad.numpy(), [0, 2, 4, 6])
        np.testing.assert_array_equal(y.grad.numpy(), [1, 1, 1, 1])


def test_reset_forgets():
    x, _y, loss, tape = chain()
    tape.backward(loss)
    tape.reset()
    assert tape.launches == []
    assert not x.grad.numpy().any()


def test_record_tape_false_records_nothing():
    x = wp.ones(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x, x], record_tape=False)
    assert tape.launches == []


def test_own_adjoint():
    x = wp.ones(2, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        tape.record_func(lambda: x.grad.fill_(float(loss.grad.numpy()[0]) * 7), [x, loss])
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), [7, 7])


def test_tapes_nest():
    x, y, z = (wp.ones(2, dtype=float, requires_grad=True) for _ in range(3))
    with wp.Tape() as outer:
        with wp.Tape() as inner:
            wp.launch(square, dim=2, inputs=[x, y])
        wp.launch(square, dim=2, inputs=[y, z])
    assert len(inner.launches) == len(outer.launches) == 1


def test_a_tape_stops_recording_when_its_block_raises():
    with pytest.raises(ZeroDivisionError), wp.Tape():
        _ = 1 / 0
    x = wp.ones(2, dtype=float)
    wp.launch(square, dim=2, inputs=[x, wp.zeros(2, dtype=float)])


def test_bad_backward():
    x, _y, _loss, tape = chain()
    with pytest.raises(ValueError, match=r"loss of one element, got shape \(4,\)"):
        tape.backward(x)
    with pytest.raises(TypeError, match="starts from arrays, and float in `loss` is none"):
        tape.backward(1.0)
    with pytest.raises(ValueError, match="requires_grad"):
        tape.backward(wp.zeros(1, dtype=float))
    with pytest.raises(ValueError, match=r"adjoint of shape \(3,\) was given for an array of shape \(4,\)"):
        tape.backward(grads={x: wp.zeros(3, dtype=float)})
    with tape, pytest.raises(RuntimeError, match="recording already"):
        tape.__enter__()


def test_backward_inside_of_the_block_that_records():
    x = wp.array(np.arange(4), dtype=float, requires_grad=True)
    y = wp.zeros(4, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as outer, wp.Tape() as tape:
        wp.launch(square, dim=4, inputs=[x], outputs=[y])
        wp.launch(total, dim=4, inputs=[y], outputs=[loss])
        tape.backward(loss)
        np.testing.assert_array_equal(x.grad.numpy(), [0, 2, 4, 6])
        tape.reset()
        x.numpy()[:] = 3.0
        wp.launch(square, dim=4, inputs=[x], outputs=[y])
        wp.launch(total, dim=4, inputs=[y], outputs=[loss])
    assert not outer.launches
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), [6, 6, 6, 6])


def test_adjoint_launch():
    x = np.array([1, 2, 3], dtype=np.float32)
    y, adj_x, adj_y = np.zeros(3, np.float32), np.zeros(3, np.float32), np.array([1, 10, 100], np.float32)
    for _ in range(2):
        wp.launch(square, dim=3, inputs=[x], outputs=[y], adj_inputs=[adj_x], adj_outputs=[adj_y], adjoint=True)
    np.testing.assert_array_equal(adj_x, [4, 80, 1200])
    np.testing.assert_array_equal(adj_y, [1, 10, 100])
    assert not y.any()


def test_bad_adjoint_launch():
    x, y, g = (np.ones(3, np.float32) for _ in range(3))
    with pytest.raises(
        TypeError, match="argument 1 `adj_x`: expected array1d\\[float32\\], got numpy.ndarray of dtype float64"
    ):
        wp.launch(square, 3, [x], [y], adj_inputs=[g.astype(np.float64)], adj_outputs=[g], adjoint=True)
    with pytest.raises(ValueError, match="`adj_x` has shape \\(2,\\), its array \\(3,\\)"):
        wp.launch(square, 3, [x], [y], adj_inputs=[g[:2]], adj_outputs=[g], adjoint=True)
    with pytest.raises(ValueError, match="adj_inputs has 2 entries for 1 arguments"):
        wp.launch(square, 3, [x], [y], adj_inputs=[g, g], adj_outputs=[g], adjoint=True)


def test_arrays_live_as_long_as_the_tape():
    x, _y, loss, tape = chain()
    grad = x.grad
    del x, _y
    gc.collect()
    tape.backward(loss)
    np.testing.assert_array_equal(grad.numpy(), [0, 2, 4, 6])


@pytest.mark.parametrize("target_has_one", [False, True])
def test_without_gradients_no_adjoint_is_compiled(target_has_one):
    @wp.kernel
    def fresh(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i]

    x, y = wp.ones(2, dtype=float), wp.zeros(2, dtype=float, requires_grad=target_has_one)
    with wp.Tape() as tape:
        wp.launch(fresh, dim=2, inputs=[x, y])
    tape.backward(grads={y: wp.ones(2, dtype=float)} if target_has_one else None)
    # What is overwritten loses its gradient.
    assert any(p.wrt is not None for p in fresh._programs.values()) == target_has_one
    assert y.grad is None or not y.grad.numpy().any()


def test_a_launch_that_fails_is_not_recorded():
    x = wp.ones(2, dtype=float, requires_grad=True)
    read_only = np.ones(2, dtype=np.float32)
    read_only.flags.writeable = False
    tape = wp.Tape()
    with tape, pytest.raises(ValueError, match="read-only"):
        wp.launch(square, dim=2, inputs=[x, read_only])
    assert tape.launches == []


def test_a_launch_that_runs_elsewhere():
    x, y = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True), wp.zeros(3, requires_grad=True)

    @wp.kernel
    def squares(x: wp.array(dtype=float), scale: float, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = scale * x[i] * x[i]

    tape = wp.Tape()
    tape.record_launch(squares, 3, 0, [x, 2.0], [y], "cpu", metadata={"where": "elsewhere"})
    assert not y.numpy().any()
    assert "elsewhere" in tape.visualize()
    tape.backward(grads={y: wp.ones(3)})
    assert x.grad.list() == [4.0, 8.0, 12.0]
    assert list(tape.gradients) == [x, y]
    with pytest.raises(TypeError, match="kernel `squares`.* argument 2 `scale`: expected float32"):
        tape.record_launch(squares, 3, 0, [x, "2"], [y], "cpu")
    assert len(tape.launches) == 1


def test_the_adjoint_of_an_argument():
    @wp.struct
    class Inner:
        data: wp.array(dtype=float)
        count: int

    @wp.struct
    class Outer:
        inner: Inner
        plain: wp.array(dtype=float)

    x, plain = wp.zeros(3, requires_grad=True), wp.zeros(2)
    tape = wp.Tape()
    assert tape.get_adjoint(x) is x.grad
    assert tape.get_adjoint(plain) is None
    assert tape.get_adjoint(2.0) is None
    found = tape.get_adjoint(Outer(inner=Inner(data=x, count=7), plain=plain))
    assert type(found) is Outer
    assert found.inner.data is x.grad
    assert found.inner.count == 7
    assert found.plain is None
    given = Outer(inner=Inner(data=x, count=7), plain=plain)
    assert tape.gradients[given].inner.data is x.grad
    assert tape.gradients[given].plain is None
    assert dict(tape.gradients) == {}


def test_backward_notes_changed_arrays_once():
    """An energy's gradient moves its points, again and again: each pass takes the numbers as they are then."""
    x, y = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
    for k in range(3):
        x.assign([1.0 + k, 2.0 + k])
        assert tape.launches[0].changed() == ([0] if k else [])
        tape.zero()
        tape.backward(grads={y: wp.ones(2, dtype=float)})
        np.testing.assert_array_equal(x.grad.numpy(), [2.0 + 2 * k, 4.0 + 2 * k])
        assert tape.launches[0].changed() == []


@wp.kernel(module="unloaded_during_backward")
def square_in_module(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def slow_sum(y: wp.array(dtype=wp.float64), n: int, z: wp.array(dtype=wp.float64)):
    i = wp.tid()
    s = wp.float64(0.0)
    for k in range(n):
        s += wp.sin(y[i] * wp.float64(k))
    z[i] = s


def test_code_that_another_thread_unloads_meanwhile_is_loaded_again():
    """Adjoints run without the GIL; those of earlier launches may be gone when their turn comes."""
    x = wp.array([1.0, 2.0, 3.0], dtype=wp.float64, requires_grad=True)
    y, z = (wp.zeros(3, dtype=wp.float64, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(square_in_module, dim=3, inputs=[x], outputs=[y])
        wp.launch(slow_sum, dim=3, inputs=[y, 5_000_000], outputs=[z])
    seeds = {z: wp.ones(3, dtype=wp.float64)}
    tape.backward(grads=seeds)
    expected = x.grad.numpy().copy()
    tape.zero()
    began = threading.Event()

    def unload():
        began.wait()
        time.sleep(0.05)  # the slow adjoint runs by then, for some tenths of a second
        square_in_module.module.unload()

    other = threading.Thread(target=unload)
    other.start()
    began.set()
    tape.backward(grads=seeds)
    other.join()
    np.testing.assert_array_equal(x.grad.numpy(), expected)
