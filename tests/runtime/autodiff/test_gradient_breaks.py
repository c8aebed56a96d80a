"""A gradient that stops between two launches, at an array without one or with another: said once for each tape."""

import copy
import itertools
import warnings

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def count(x: wp.array(dtype=float), hits: wp.array(dtype=int), largest: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(hits, 0, 1)
    largest[i] = x[i]


def ones(n=3, grad=True):
    return wp.ones(n, dtype=float, requires_grad=grad)


def record(*arrays):
    with wp.Tape() as tape:
        for x, y in itertools.pairwise(arrays):
            wp.launch(double, 3, [x, y])
    return tape


def backward_twice(tape, y):
    for _ in range(2):
        tape.backward(grads={y: ones(grad=False)})


@pytest.mark.parametrize("times", [1, 2])
def test_a_chain_that_is_cut(times):
    for _ in range(times):  # the second time all adjoints are there already
        x, between, y = ones(), ones(grad=False), ones()
        tape = record(x, between, y)
        text = (
            "no gradient passes from kernel `double` back to kernel `double`: the array between them, `y` of `double` "
            "and `x` of `double`, has no gradient; make it with requires_grad=True, or ignore this if the gradient is "
            "meant to stop there"
        )
        with pytest.warns(UserWarning, match="no gradient passes") as caught:
            backward_twice(tape, y)
        assert [str(w.message) for w in caught] == [text]
        assert caught[0].filename == __file__
        assert not x.grad.numpy().any()


def through(make):
    """The gradient of what is doubled, copied and doubled again."""
    x, between, y = ones(4), ones(4), ones(4)
    with wp.Tape() as tape:
        wp.launch(double, 4, [x, between])
        wp.launch(double, 4, [make(between), y])
    tape.backward(grads={y: wp.array([1.0, 2.0, 3.0, 4.0], dtype=float)})
    return x.grad.list()


@pytest.mark.parametrize(
    ("make", "order"),
    [
        (lambda a: wp.array(a, requires_grad=True), [0, 1, 2, 3]),
        (lambda a: wp.array(a[::-1], requires_grad=True), [3, 2, 1, 0]),
        (lambda a: wp.array([a[:2], a[2:]], requires_grad=True).flatten(), [0, 1, 2, 3]),
        (lambda a: wp.array(a[wp.array([1, 0, 3, 2], dtype=int)], requires_grad=True), [1, 0, 3, 2]),
        (copy.deepcopy, [0, 1, 2, 3]),
    ],
)
def test_copies_pass_the_gradient_on(make, order):
    assert through(make) == [4.0 * (k + 1) for k in order]


@pytest.mark.parametrize(
    "make",
    [
        wp.array,
        lambda a: wp.array([a[:2], a[2:]]).flatten(),
        lambda a: wp.array(a[wp.array([1, 0, 3, 2], dtype=int)]),
        lambda a: a.to("cpu", requires_grad=False),
    ],
)
def test_copies_without_a_gradient_cut_the_chain(make):
    with pytest.warns(UserWarning, match="the copy, `x` of `double`, has no gradient"):
        assert through(make) == [0.0] * 4


def test_a_copy_of_another_dtype_can_not_pass_the_gradient_on():
    with pytest.raises(RuntimeError, match="they differ in dtype or shape; convert the elements with"):
        through(lambda a: wp.array(a, dtype=wp.float64, requires_grad=True))
    assert wp.array(ones(), dtype=wp.float64, requires_grad=True).list() == [1.0] * 3


def test_a_view_of_the_array_between():
    x, between, y = ones(), wp.zeros(6, dtype=float), ones(2)
    with wp.Tape() as tape:
        wp.launch(double, 3, [x, between[1:4]])
        wp.launch(double, 2, [between[2:], y])
    with pytest.warns(UserWarning, match="no gradient passes"):
        tape.backward(grads={y: ones(2, grad=False)})


@pytest.mark.filterwarnings("error")
def test_what_is_no_cut():
    x, y = ones(), ones()
    record(ones(grad=False), ones(grad=False), x, y).backward(grads={y: ones(grad=False)})  # begins without gradients
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, 0])  # what x held before had no influence
    record(x, y, ones(grad=False), ones(grad=False)).backward(grads={y: ones(grad=False)})  # nobody asks for the end's
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2, 2])
    shared = wp.zeros(6, dtype=float)
    with wp.Tape() as tape:
        wp.launch(double, 3, [x, shared[:3]])
        wp.launch(double, 3, [shared[3:], y])  # another half
        wp.launch(count, 3, [x, wp.zeros(1, dtype=int), wp.zeros(3, dtype=float)])
    for _ in range(2):
        tape.backward(grads={y: ones(grad=False)})


def test_a_tape_that_starts_again_warns_again():
    x, between, y = ones(), ones(grad=False), ones()
    tape = record(x, between, y)
    with pytest.warns(UserWarning, match="no gradient passes"):
        tape.backward(grads={y: ones(grad=False)})
    tape.reset()
    with tape:
        wp.launch(double, 3, [x, between])
        wp.launch(double, 3, [between, y])
    with pytest.warns(UserWarning, match="no gradient passes"):
        tape.backward(grads={y: ones(grad=False)})
    between.requires_grad = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record(x, between, y).backward(grads={y: ones(grad=False)})
    np.testing.assert_array_equal(x.grad.numpy(), [4, 4, 4])


def both_over_one_buffer():
    buffer = np.zeros(3, np.float32)
    return [wp.array(buffer, copy=False, requires_grad=True) for _ in range(2)]


def one_by_the_address():
    y = wp.zeros(3, dtype=float, requires_grad=True)
    return y, wp.array(ptr=y.ptr, shape=3, dtype=float, requires_grad=True)


def one_that_was_sliced_before():
    y = wp.zeros(3, dtype=float, requires_grad=True)
    z = y[:]
    y.grad = wp.zeros(3, dtype=float)
    return y, z


@pytest.mark.parametrize("make", [both_over_one_buffer, one_by_the_address, one_that_was_sliced_before])
def test_two_arrays_with_a_gradient_each_over_one_memory(make):
    for _ in range(2):  # the second time all adjoints are there already
        x, (y, z), out = ones(), make(), ones()
        with wp.Tape() as tape:
            wp.launch(double, 3, [x, y])
            wp.launch(double, 3, [z, out])
        text = (
            "no gradient passes from kernel `double` back to kernel `double`: `y` of `double` and `x` of `double` are "
            "two arrays over the same memory, each with a gradient of its own; make one of the other by slicing, "
            "reshape or view, which share it, or ignore this if the gradient is meant to stop there"
        )
        with pytest.warns(UserWarning, match="no gradient passes") as caught:
            backward_twice(tape, out)
        assert [str(w.message) for w in caught] == [text]
        assert caught[0].filename == __file__
        assert not x.grad.numpy().any()


def test_two_gradients_over_one_memory_in_one_launch():
    y, z = both_over_one_buffer()
    with wp.Tape() as tape:
        wp.launch(double, 3, [y, z])
    with pytest.warns(UserWarning, match="`y` of `double` and `x` of `double` are two arrays over the same memory"):
        tape.backward(grads={z: ones(grad=False)})


def test_what_a_copy_of_the_host_left_in_one_memory():
    x, (y, z), out = ones(), both_over_one_buffer(), ones()
    with wp.Tape() as tape:
        wp.copy(y, x)
        wp.launch(double, 3, [z, out])
    with pytest.warns(UserWarning, match="from kernel `double` back to what was copied there: the array copied to and"):
        tape.backward(grads={out: ones(grad=False)})


@pytest.mark.filterwarnings("error")
def test_arrays_over_one_memory_that_cut_nothing():
    x, (y, z), out = ones(), both_over_one_buffer(), ones()
    with wp.Tape() as tape:
        wp.launch(double, 3, [x, y])
        wp.launch(double, 3, [y, out])
        wp.launch(double, 3, [x, z])  # the memory is used again
        wp.launch(double, 3, [z, out[:]])
    tape.backward(grads={out: ones(grad=False)})
    assert x.grad.list() == [4.0, 4.0, 4.0]
    strided = wp.array(np.zeros((3, 2), np.float32), copy=False, requires_grad=True)[:, 0]
    with wp.Tape() as tape:
        wp.launch(double, 3, [x, strided])
        wp.launch(double, 2, [strided[1:], out[1:]])
    tape.zero()
    tape.backward(grads={out: ones(grad=False)})
    assert x.grad.list() == [0.0, 4.0, 4.0]


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def by_an_inner_tape(x, y):
    with wp.Tape() as inner:
        wp.launch(square, 3, [x, y])
    inner.backward(grads={y: ones(grad=False)})
    return x.grad


def by_an_adjoint_launch(x, y):
    adjoint = ones()
    wp.launch(square, 3, [x], [y], adj_inputs=[adjoint], adj_outputs=[ones(grad=False)], adjoint=True)
    return adjoint


@pytest.mark.parametrize("gradient", [by_an_inner_tape, by_an_adjoint_launch])
def test_a_gradient_that_is_computed_is_not_differentiated_again(gradient):
    for _ in range(2):
        x, y, out = ones(), ones(), ones()
        with wp.Tape() as tape:
            wp.launch(square, 3, [gradient(x, y), out])
        with pytest.warns(UserWarning, match="through the computation of a gradient") as caught:
            backward_twice(tape, out)
        assert [str(w.message) for w in caught] == [
            "no gradient passes from kernel `square` back through the computation of a gradient: `x` of `square` is "
            "one, which a tape does not differentiate; use wp.autograd.hvp() for second derivatives, or ignore this if "
            "the gradient is meant to stop there"
        ]
        assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_a_gradient_that_is_only_used_up_warns_of_nothing():
    x, y, out = ones(), ones(), ones()
    with wp.Tape() as tape:
        gradient = by_an_inner_tape(x, y)
        wp.launch(double, 3, [gradient, wp.zeros(3, dtype=float)])
        gradient.zero_()
        wp.launch(double, 3, [x, out])
    tape.backward(grads={out: ones(grad=False)})
    assert x.grad.list() == [2.0, 2.0, 2.0]
