"""A tape whose arrays lost their memory refuses to run backward."""

import numpy as np
import pytest

import warp_like as wp

torch = pytest.importorskip("torch")


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def record(x):
    y = wp.zeros(4, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[x, y])
    return tape, y


@pytest.mark.parametrize("change", [lambda t: t.resize_(1 << 20), lambda t: t.untyped_storage().resize_(0)])
@pytest.mark.parametrize("bound", [True, False])
def test_a_tensor_that_was_freed_or_resized(change, bound):
    t = torch.arange(4.0)
    tape, y = record(wp.from_torch(t, requires_grad=True) if bound else t)
    change(t)
    with pytest.raises(RuntimeError, match=r"the memory of array\(shape=\(4,\).* is gone: the tensor"):
        tape.backward(grads={y: wp.ones(4, dtype=float)})
    assert not y.grad.numpy().any()


def test_a_tensor_that_points_elsewhere_keeps_its_old_memory():
    t = torch.arange(4.0)
    x = wp.from_torch(t, requires_grad=True)
    tape, y = record(x)
    t.set_(torch.zeros(3))
    tape.backward(grads={y: wp.ones(4, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [0, 2, 4, 6])


def test_views_and_empty_tensors_are_fine():
    t = torch.arange(10.0)
    for source in (t[3:7], t[::2][:4]):
        x = wp.from_torch(source, requires_grad=True)
        tape, y = record(x)
        tape.backward(grads={y: wp.ones(4, dtype=float)})
        np.testing.assert_array_equal(x.grad.numpy(), 2 * source.numpy())
    with wp.Tape() as tape:
        wp.launch(square, 0, inputs=[torch.zeros(0), wp.zeros(0, dtype=float)])
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape.backward(loss=loss)


def test_numpy_does_not_resize_what_a_tape_holds():
    a = np.arange(4, dtype=np.float32)
    tape, _ = record(a)
    with pytest.raises(ValueError, match="resize"):
        a.resize(1 << 20)
    del tape
