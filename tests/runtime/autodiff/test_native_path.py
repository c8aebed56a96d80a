"""Adjoint launches and tapes on the native path: the same gradients and refusals as on the checked one.

What the checked path has run once goes the native way from then on; ``natively`` fails where it does not.
"""

import gc

import numpy as np
import pytest

import warp_like as wp
from warp_like.runtime.autodiff import tape as tapes
from warp_like.runtime.launching import launch as launching

pytestmark = pytest.mark.on_cpu("what is tested is the CPU's native path")


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] * x[i]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


@wp.kernel
def triple(y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 3.0 * y[i]


@wp.struct
class Pair:
    x: wp.array(dtype=float)
    y: wp.array(dtype=float)
    unused: wp.array(dtype=float)
    a: float
    v: wp.vec3


@wp.kernel
def from_struct(i0: int, s: Pair):
    i = wp.tid() + i0
    s.y[i] = s.a * s.x[i] * s.x[i] * s.v[1]


@pytest.fixture
def natively(monkeypatch):
    """Return a context in which the checked path must not be entered."""

    class Native:
        def __enter__(self):
            def refuse(*args, **kwargs):
                raise AssertionError("the checked path was entered")

            self.patch = pytest.MonkeyPatch()
            self.patch.setattr(launching, "place_of_launch", refuse)  # the first that the checked path asks
            self.patch.setattr(tapes, "run_adjoint", refuse)

        def __exit__(self, *_):
            self.patch.undo()

    return Native()


def numbers(n, grad=False):
    return wp.array(np.arange(1, n + 1, dtype=np.float32), requires_grad=grad)


@pytest.mark.parametrize("n", [0, 1, 5, 1000])
@pytest.mark.parametrize("make", [np.asarray, lambda a: wp.array(a, dtype=float)], ids=["numpy", "array"])
def test_given_adjoints(natively, n, make):
    x, y, g = make(np.arange(n, dtype=np.float32)), make(np.zeros(n, np.float32)), make(np.full(n, 2, np.float32))

    def run(adj_x):
        wp.launch(square, n, [x], [y, 3.0], adj_inputs=[adj_x], adj_outputs=[g, None], adjoint=True)
        return adj_x.numpy() if isinstance(adj_x, wp.array) else adj_x

    first = run(make(np.zeros(n, np.float32)))
    with natively:
        second = run(make(np.zeros(n, np.float32)))
    np.testing.assert_array_equal(first, 12 * np.arange(n, dtype=np.float32))
    np.testing.assert_array_equal(second, first)
    assert (np.asarray(g) == 2).all()  # what the caller gave is not consumed


def test_own_gradients_are_consumed_unless_retained(natively):
    for retain in (False, True):
        x, y = numbers(3, grad=True), wp.zeros(3, dtype=float, requires_grad=True, retain_grad=retain)
        for checked in (True, False):
            x.grad.zero_()
            y.grad.fill_(1.0)
            if checked:
                wp.launch(square, 3, [x, y, 0.5], adjoint=True)
            else:
                with natively:
                    wp.launch(square, 3, [x, y, 0.5], adjoint=True)
            np.testing.assert_array_equal(x.grad.numpy(), [1, 2, 3])
            np.testing.assert_array_equal(y.grad.numpy(), [float(retain)] * 3)


def test_the_gradient_of_what_is_overwritten_in_place(natively):
    for own in (False, True):
        y = numbers(3, grad=own)
        for checked in (True, False):
            g = y.grad if own else wp.zeros(3, dtype=float)
            g.fill_(1.0)
            given = [None] if own else [g]
            if checked:
                wp.launch(triple, 3, [y], adj_inputs=given, adjoint=True)
            else:
                with natively:
                    wp.launch(triple, 3, [y], adj_inputs=given, adjoint=True)
            np.testing.assert_array_equal(g.numpy(), [3, 3, 3])


def test_structs(natively):
    s = Pair(x=numbers(4, grad=True), y=wp.zeros(4, dtype=float, requires_grad=True), a=2.0, v=wp.vec3(0.0, 5.0, 0.0))
    adj = Pair(x=wp.zeros(4, dtype=float), y=wp.ones(4, dtype=float))
    wp.launch(from_struct, 3, [1, s])
    wp.launch(from_struct, 3, [1, s], adj_inputs=[None, adj], adjoint=True)
    with natively:
        wp.launch(from_struct, 3, [1, s])
        wp.launch(from_struct, 3, [1, s], adj_inputs=[None, adj], adjoint=True)
    np.testing.assert_array_equal(s.y.numpy(), [0, 40, 90, 160])
    np.testing.assert_array_equal(adj.x.numpy(), [0, 80, 120, 160])
    s.y.grad.fill_(1.0)
    wp.launch(from_struct, 3, [1, s], adjoint=True)
    s.y.grad.fill_(1.0)
    with natively:
        wp.launch(from_struct, 3, [1, s], adjoint=True)
    np.testing.assert_array_equal(s.x.grad.numpy(), [0, 80, 120, 160])


def test_a_value_and_its_gradient(natively):
    x, y, g = (np.full(3, k, np.float32) for k in (2, 0, 1))
    found = []
    for _ in range(2):
        adj_a = np.zeros(1, np.float32)
        wp.launch(square, 3, [x, y, 1.0], adj_inputs=[None, g, adj_a], adjoint=True)
        found.append(adj_a[0])
    assert found == [12, 12]
    with natively:
        wp.launch(square, 3, [x, y, 1.0], adj_inputs=[None, g, adj_a], adjoint=True)
    assert adj_a[0] == 24


def test_refusals_are_those_of_the_checked_path(natively):
    x, y, g = (np.ones(3, np.float32) for _ in range(3))

    def adjoint(adj_x, args=(x, y, 1.0), adj_y=g):
        wp.launch(square, 3, list(args), adj_inputs=[adj_x, adj_y], adjoint=True)

    adjoint(np.zeros(3, np.float32))
    with natively:
        adjoint(np.zeros(3, np.float32))
    fixed = np.zeros(3, np.float32)
    fixed.flags.writeable = False
    for bad, error, text in (
        (
            np.zeros(3),
            TypeError,
            r"argument 1 `adj_x`: expected array1d\[float32\], got numpy.ndarray of dtype float64",
        ),
        (np.zeros(2, np.float32), ValueError, r"`adj_x` has shape \(2,\), its array \(3,\)"),
        (np.zeros((3, 1), np.float32), TypeError, r"`adj_x`: expected array1d\[float32\], got array2d"),
        (fixed, ValueError, "`adj_x`: the kernel writes this array, and the one given is read-only"),
        (1.0, TypeError, r"`adj_x`: expected array1d\[float32\], got float"),
    ):
        with pytest.raises(error, match=text):
            adjoint(bad)
    whole = np.ones(4, np.float32)
    with pytest.raises(RuntimeError, match="needs `x`, but the kernel wrote over its memory through `y`"):
        adjoint(np.zeros(3, np.float32), (whole[:3], whole[1:], 1.0))
    with pytest.raises(ValueError, match="adj_inputs has 4 entries for 3 arguments"):
        wp.launch(square, 3, [x, y, 1.0], adj_inputs=[None, g, None, None], adjoint=True)
    wp.config.enable_backward = False
    try:
        with pytest.raises(RuntimeError, match="gradients are switched off"):
            adjoint(np.zeros(3, np.float32))
    finally:
        wp.config.enable_backward = True


def one_launch(x, y, a=1.0):
    with wp.Tape() as tape:
        wp.launch(square, x.size, [x, y, a])
    return tape


def test_a_tape_runs_natively(natively):
    x, y, loss = numbers(5, True), wp.zeros(5, dtype=float, requires_grad=True), wp.zeros(1, float, requires_grad=True)

    def step():
        with wp.Tape() as tape:
            wp.launch(square, 5, [x], outputs=[y, 0.5])
            wp.launch(total, 5, [y, loss])
        tape.backward(loss)
        return tape

    step()
    step()
    x.grad.zero_()
    loss.zero_()
    with natively:
        tape = step()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 2, 3, 4, 5])
    assert loss.numpy()[0] == 27.5
    assert not y.grad.numpy().any()
    assert [r.kernel.key for r in tape.launches] == ["square", "total"]
    assert tape.launches[0].dims == (5,)
    with natively:
        tape.backward(loss)
        tape.backward(grads={y: wp.ones(5, dtype=float), loss: wp.zeros(1, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [3, 6, 9, 12, 15])


def test_a_native_record_keeps_what_a_later_launch_overwrites(natively):
    x, y = numbers(3, True), wp.zeros(3, dtype=float, requires_grad=True)
    z = wp.zeros(3, dtype=float, requires_grad=True)
    one_launch(x, y).backward(grads={y: wp.ones(3, dtype=float)})
    for _ in range(2):
        x.assign(np.array([1, 2, 3], np.float32))
        x.grad.zero_()
        with wp.Tape() as tape:
            with natively:
                wp.launch(square, 3, [x, y, 1.0])
                wp.launch(square, 3, [y, z, 1.0])
            wp.launch(square, 3, [z, x, 1.0])  # overwrites what the first launch's adjoint reads
        tape.backward(grads={x: wp.ones(3, dtype=float)})
        np.testing.assert_allclose(x.grad.numpy(), 8 * np.array([1, 2, 3.0]) ** 7)


def test_what_no_adjoint_reads_may_be_overwritten(natively):
    """Two launches add to one loss, and each round of a loop writes one array again: nothing needs a copy."""
    x, y, loss = numbers(3, True), wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(1, float, requires_grad=True)

    def record():
        with wp.Tape() as tape:
            for _ in range(3):
                wp.launch(total, 3, [x, loss])
        return tape

    record().backward(loss)
    x.grad.zero_()
    with natively:
        tape = record()
        tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), [3, 3, 3])
    assert not any(r.saved for r in tape.launches)
    del y


def test_vectors_are_recorded_as_they_were():
    @wp.kernel
    def scale(x: wp.array(dtype=float), v: wp.vec3, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * v[0]

    x, y = numbers(2, True), wp.zeros(2, dtype=float, requires_grad=True)
    for _ in range(3):  # checked, then natively
        x.grad.zero_()
        v = wp.vec3(4.0, 0.0, 0.0)
        with wp.Tape() as tape:
            wp.launch(scale, 2, [x, v, y])
        v[0] = 100.0
        tape.backward(grads={y: wp.ones(2, dtype=float)})
        np.testing.assert_array_equal(x.grad.numpy(), [4, 4])


def test_gradients_dropped_or_added_after_recording(natively):
    x, y = numbers(3, True), wp.zeros(3, dtype=float, requires_grad=True)
    one_launch(x, y).backward(grads={y: wp.ones(3, dtype=float)})
    tape = one_launch(x, y)
    x.requires_grad = False
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert x.grad is None
    x.requires_grad = True
    with natively:
        tape.backward(grads={y: wp.ones(3, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4, 6])


def test_settings_that_change_code_reach_recorded_launches():
    x, y = numbers(3, True), wp.zeros(3, dtype=float, requires_grad=True)
    one_launch(x, y).backward(grads={y: wp.ones(3, dtype=float)})
    tape = one_launch(x, y)
    wp.config.enable_backward = False
    try:
        with pytest.warns(UserWarning, match="gradients are switched off"):
            tape.backward(grads={y: wp.ones(3, dtype=float)})
    finally:
        wp.config.enable_backward = True
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [6, 12, 18])


def test_empty_grids_and_empty_arrays(natively):
    x, y = numbers(0, True), wp.zeros(0, dtype=float, requires_grad=True)
    one_launch(numbers(1, True), wp.zeros(1, float, requires_grad=True)).backward(loss=numbers(1, True))
    tape = one_launch(x, y)
    assert len(tape.launches) == 1
    with natively:
        tape.backward(grads={y: wp.zeros(0, dtype=float)})


def test_a_launch_that_fails_natively_is_not_recorded():
    @wp.kernel
    def far(x: wp.array(dtype=float), y: wp.array(dtype=float), at: int):
        y[at] = x[0]

    x, y = numbers(2, True), wp.zeros(2, dtype=float, requires_grad=True)
    wp.config.mode = "debug"
    try:
        with wp.Tape() as tape:
            wp.launch(far, 1, [x, y, 1])
            wp.launch(far, 1, [x, y, 0])
            with pytest.raises(IndexError, match="index 7 is out of range for array `y`"):
                wp.launch(far, 1, [x, y, 7])
    finally:
        wp.config.mode = "release"
    assert len(tape.launches) == 2


def test_records_free_what_they_hold():
    x, y = numbers(3, True), wp.zeros(3, dtype=float, requires_grad=True)
    one_launch(x, y).backward(grads={y: wp.ones(3, dtype=float)})
    tape = one_launch(x, y)
    tape.launches.append(tape)  # a cycle through the record's tape
    import weakref

    seen = weakref.ref(x)
    del x, tape
    gc.collect()
    assert seen() is None


def test_more_than_64_parameters():
    names = [f"a{k}" for k in range(70)]
    source = "@wp.kernel\ndef wide(" + ", ".join(f"{n}: wp.array(dtype=float)" for n in names)
    source += ", out: wp.array(dtype=float)):\n    out[0] = " + " + ".join(f"{n}[0]" for n in names) + "\n"
    import linecache

    linecache.cache["wide.py"] = (len(source), None, source.splitlines(True), "wide.py")
    scope = {"wp": wp}
    exec(compile(source, "wide.py", "exec"), scope)
    arrays = [wp.ones(1, dtype=float, requires_grad=True) for _ in names]
    out = wp.zeros(1, dtype=float, requires_grad=True)
    for k in range(2):
        with wp.Tape() as tape:
            wp.launch(scope["wide"], 1, [*arrays, out])
        tape.backward(out)
        assert all(a.grad.numpy()[0] == k + 1 for a in arrays)
