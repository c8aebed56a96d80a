"""Operators of whole arrays, against NumPy, and their gradients."""

import operator

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed, name

X = np.array([[1.5, -2.0, 3.25], [4.0, 0.5, -6.0]])
Y = np.array([[2.0, 3.0, -1.5], [0.5, 2.0, 4.0]])
MEANINGS = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
    operator.floordiv: lambda a, b: np.floor(a / b),
    operator.mod: np.fmod,  # C's remainder, as in kernels
    operator.pow: np.power,
}
IN_PLACE = {getattr(operator, f"i{op.__name__}"): meaning for op, meaning in MEANINGS.items()}


@pytest.mark.parametrize(("dtype", "op"), crossed([wp.float32, wp.float64], MEANINGS, every=2), ids=name)
def test_arrays_and_numbers(op, dtype):
    d = np.dtype(f"float{8 * wp.types.type_size_in_bytes(dtype)}")
    a, b = wp.array(np.abs(X), dtype=dtype), wp.array(Y, dtype=dtype)
    x, y, f = np.abs(X).astype(d), Y.astype(d), MEANINGS[op]
    for found, expected in [
        (op(a, b), f(x, y)),
        (op(a, 2), f(x, d.type(2))),
        (op(2.0, a), f(d.type(2), x)),
        (op(a, dtype(0.5)), f(x, d.type(0.5))),
        (op(a, Y.astype(d)), f(x, y)),
        (op(a, b[1]), f(x, y[1])),
        (op(a[:, ::2], 3.0), f(x[:, ::2], d.type(3))),
    ]:
        assert found.dtype is dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
def test_in_place(op):
    a = wp.array(np.abs(X), dtype=wp.float64)
    same, view = a, a[0]
    a = op(a, wp.array(Y, dtype=wp.float64))
    assert a is same
    np.testing.assert_allclose(a.numpy(), IN_PLACE[op](np.abs(X), Y))
    view = op(view, 1.0)
    np.testing.assert_allclose(same.numpy()[0], view.numpy())


def test_signs_integers_and_empty_arrays():
    a = wp.array([5, -7, 0], dtype=wp.int8)
    assert ((-a).list(), (+a).list()) == ([-5, 7, 0], [5, -7, 0])
    assert ((a / 2).list(), (a // 2).list(), (a % 2).list()) == ([2, -3, 0], [2, -4, 0], [1, -1, 0])
    assert (a * 100).list() == np.array([500, -700, 0]).astype(np.int8).tolist()
    assert (wp.zeros(0) + 1.0).shape == (0,)
    assert (wp.zeros((3, 0)) * wp.zeros((3, 1))).shape == (3, 0)


def test_vectors_matrices_and_values():
    v = wp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=wp.vec3)
    offset = wp.vec3(1.0, 0.0, -1.0)
    np.testing.assert_array_equal((v + offset).numpy(), np.add(v.numpy(), [1, 0, -1]))
    np.testing.assert_array_equal((offset - v).numpy(), np.subtract([1, 0, -1], v.numpy()))
    m = wp.array([np.arange(9.0).reshape(3, 3)] * 2, dtype=wp.mat33)
    np.testing.assert_array_equal((m * v).numpy(), np.einsum("nij,nj->ni", m.numpy(), v.numpy()))
    q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5)
    turned = wp.array([q, q], dtype=wp.quat) * q
    np.testing.assert_allclose(turned.numpy()[1], q * q, rtol=1e-6)


def test_indexed_arrays():
    a = wp.array([1.0, 2.0, 3.0], dtype=float)
    part = wp.indexedarray(a, [wp.array([2, 0], dtype=int)])
    assert (part * 2.0).list() == [6.0, 2.0]
    part += 10.0
    assert a.list() == [11.0, 2.0, 13.0]


def test_gradients():
    x = wp.array([1.0, 2.0, 3.0], dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        y = x * x + 2.0 * x
        y *= x
        z = 1.0 / x - y
    tape.backward(grads={z: wp.ones(3, dtype=wp.float64)})
    at = x.numpy()
    np.testing.assert_allclose(x.grad.numpy(), -1 / at**2 - (3 * at**2 + 4 * at))


def test_what_is_no_operand():
    a = wp.zeros(2)
    for other in ("x", None, [1.0, 2.0], object()):
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'array' and"):
            a + other
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for @"):
        a @ a
    with pytest.raises(wp.WarpCodegenTypeError, match=r"add\(\) does not mix types: float32 and float64"):
        a + wp.zeros(2, dtype=wp.float64)
    with pytest.raises(ValueError, match=r"the shapes \(2,\), \(3,\) do not broadcast"):
        a + wp.zeros(3)
    with pytest.raises(TypeError, match=r"out has shape \(2, 2\), got \(2,\)"):
        a += wp.zeros((2, 2))
