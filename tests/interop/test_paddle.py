"""Paddle: memory and gradients are shared."""

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

import warp_like as wp  # noqa: E402
from warp_like.interop.view import as_array  # noqa: E402


def test_tensor_is_shared():
    t = paddle.arange(6, dtype="float32").reshape([2, 3])
    w = wp.from_paddle(t)
    assert w.ptr == t.data_ptr()
    assert np.array_equal(w.numpy(), t.numpy())
    assert not w.requires_grad
    w.fill_(7)
    assert (t == 7).all()
    assert wp.from_paddle(t, dtype=wp.vec3).shape == (2,)
    assert as_array(paddle.zeros([2])).dtype is wp.float32
    with pytest.raises(TypeError, match="needs a Paddle tensor"):
        wp.from_paddle(np.zeros(3))


@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_every_dtype_both_ways(name):
    t = paddle.ones([3]).astype(name)
    w = wp.from_paddle(t)
    assert w.list() == [1, 1, 1]
    assert w.dtype is getattr(wp, name)
    assert wp.dtype_from_paddle(t.dtype) is w.dtype
    assert wp.dtype_to_paddle(w.dtype) == t.dtype
    back = wp.to_paddle(w)
    assert back.dtype == t.dtype
    assert back.data_ptr() == t.data_ptr()


def test_leaf_gradient_is_the_tensors():
    t = paddle.ones([3])
    t.stop_gradient = False
    w = wp.from_paddle(t)
    assert w.requires_grad
    assert w.grad.ptr == t.grad.data_ptr()
    w.grad.fill_(2)
    assert t.grad.numpy().tolist() == [2, 2, 2]
    opt = paddle.optimizer.SGD(learning_rate=0.5, parameters=[t])
    opt.step()
    assert w.list() == [0, 0, 0]
    opt.clear_grad()
    for drop in (lambda: t.clear_gradient(False), lambda: setattr(t, "grad", None)):
        drop()
        w._attach_grad()
        assert t.grad.numpy().tolist() == [0, 0, 0]
        w.grad.fill_(1)
        assert t.grad.numpy().tolist() == [1, 1, 1]
        assert t.grad.data_ptr() == w.grad.ptr
    w.requires_grad = False
    assert t.grad is None


def test_to_paddle():
    w = wp.array(np.arange(6).reshape(2, 3), dtype=wp.vec3, requires_grad=True)
    t = wp.to_paddle(w)
    assert t.data_ptr() == w.ptr
    assert t.shape == [2, 3]
    assert not t.stop_gradient
    assert t.grad.data_ptr() == w.grad.ptr
    with pytest.raises(ValueError, match="negative strides"):
        wp.to_paddle(wp.zeros(3)[::-1])


def test_devices():
    assert wp.device_from_paddle(paddle.CPUPlace()) is wp.get_device("cpu")
    assert wp.device_to_paddle("cpu") == "cpu"
