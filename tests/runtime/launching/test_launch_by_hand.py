"""Launches made by hand, and arguments set from what C is given."""

import ctypes

import pytest

import warp_like as wp


@wp.struct
class Scale:
    factor: float
    shift: wp.vec2


@wp.kernel
def fill(out: wp.array(dtype=float), first: float, n: wp.int64, v: wp.vec2, s: Scale):
    i = wp.tid()
    out[i] = first + float(n) + v[1] + s.factor + s.shift[0]


@wp.kernel
def generic(out: wp.array(dtype=wp.Any)):
    out[wp.tid()] = out.dtype(1)


def test_a_launch_made_by_hand():
    out = wp.zeros(3)
    command = wp.Launch(fill, "cpu")
    assert (command.kernel, command.dims, command.device) == (fill, (0,), wp.get_device("cpu"))
    command.launch()
    command.set_param_by_name("out", out)
    command.set_dim(2)
    command.launch()
    assert out.list() == [0.0, 0.0, 0.0]
    command.set_params([out, 1.0, 20, wp.vec2(0.0, 300.0), Scale(4000.0, wp.vec2(50000.0, 0.0))])
    command.launch()
    assert out.list() == [54321.0, 54321.0, 0.0]
    with pytest.raises(TypeError, match="kernel `generic` is generic"):
        wp.Launch(generic)


@wp.kernel
def last_components(v: wp.vec3, m: wp.mat22, q: wp.quat, t: wp.transform, out: wp.array(dtype=float)):
    out[0] = v[2]
    out[1] = m[1, 1]
    out[2] = q[3]
    out[3] = t[6]


def test_arguments_that_nobody_has_set_are_zero():
    """The rotation of a transform, too, though ``wp.transform()`` is the identity on the host."""
    out = wp.full(4, 5.0, dtype=float)
    command = wp.Launch(last_components, "cpu")
    command.set_param_by_name("out", out)
    command.set_dim(1)
    command.launch()
    assert out.list() == [0.0] * 4


@pytest.mark.parametrize("by_hand", [True, False])
def test_arguments_set_from_ctypes(by_hand):
    out, other = wp.zeros(3), wp.zeros(4)
    if by_hand:
        command = wp.Launch(fill)
        command.set_dim(3)
    else:
        given = [other, 0.0, 0, wp.vec2(), Scale()]
        command = wp.launch(fill, 3, inputs=given, record_cmd=True)
    scale = Scale(4000.0, wp.vec2(50000.0, 0.0)).__ctype__()
    command.set_params_from_ctypes([out.__ctype__(), ctypes.c_float(1.0), 20, (ctypes.c_float * 2)(0, 300), scale])
    command.launch()
    assert (out.list(), other.list()) == ([54321.0] * 3, [0.0] * 4)
    command.set_param_at_index_from_ctype(0, other.__ctype__())
    command.set_param_by_name_from_ctype("first", 2.0)
    command.launch()
    assert (out.list(), other.list()) == ([54321.0] * 3, [54322.0] * 3 + [0.0])
    with pytest.raises(IndexError, match="has 5 parameters, got index 5"):
        command.set_param_at_index_from_ctype(5, 1.0)
    with pytest.raises(KeyError, match="has no parameter `last`"):
        command.set_param_by_name_from_ctype("last", 1.0)
    with pytest.raises(TypeError, match="argument 1 `out`"):
        command.set_param_at_index_from_ctype(0, 1.0)


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def test_adjoints_set_from_ctypes():
    x, y = wp.array([1.0, 2.0], dtype=float), wp.zeros(2)
    adjoint, seed = wp.zeros(2), wp.ones(2)
    command = wp.launch(square, 2, [x], [y], [wp.zeros(2)], [seed], adjoint=True, record_cmd=True)
    command.set_param_at_index_from_ctype(0, adjoint.__ctype__(), adjoint=True)
    command.launch()
    assert adjoint.list() == [2.0, 4.0]
