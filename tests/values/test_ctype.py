"""Arrays and structs for C, and back."""

import ctypes

import numpy as np
import pytest

import warp_like as wp
from warp_like.values.ctype import array_t, ctype_of, from_ctype


@wp.struct
class Inner:
    half: wp.float16
    brain: wp.bfloat16
    on: bool


@wp.struct
class Outer:
    mass: wp.float64
    at: wp.vec3
    inner: Inner
    forces: wp.array(dtype=wp.vec3, ndim=2)


@wp.struct
class Selecting:
    a: wp.indexedarray(dtype=float)


def test_an_array_is_described_to_c():
    a = wp.zeros((2, 3), dtype=wp.vec3)
    described = a.transpose().__ctype__()
    assert isinstance(described, ctypes.Structure)
    assert (described.data, described.grad, described.ndim) == (a.ptr, 0, 2)
    assert (list(described.shape), list(described.strides)) == ([3, 2, 0, 0], [12, 36, 0, 0])
    a.requires_grad = True
    assert a.__ctype__().grad == a.grad.ptr
    assert ctypes.sizeof(described) == 56
    empty = wp.array(dtype=float, ndim=2)
    empty.shape = ("n", "m")
    assert (empty.__ctype__().data, empty.__ctype__().ndim, list(empty.__ctype__().shape)) == (0, 2, [0, 0, 0, 0])
    with pytest.raises(OverflowError, match=f"of 32 bits, the array has {2**31}"):
        wp.array(ptr=a.ptr, dtype=float, shape=(1,), strides=(2**31,)).__ctype__()


def test_a_struct_is_described_to_c_and_read_back():
    forces = wp.zeros((2, 2), dtype=wp.vec3)
    value = Outer(mass=2.5, at=wp.vec3(1, 2, 3), inner=Inner(half=0.5, brain=1.5, on=True), forces=forces)
    c = value.__ctype__()
    assert type(c) is type(Outer().__ctype__()) is ctype_of(Outer._ir_type_)
    assert (c.mass, list(c.at), c.inner.on) == (2.5, [1.0, 2.0, 3.0], True)
    assert c.inner.half == int(np.float16(0.5).view(np.uint16))
    assert (c.forces.data, list(c.forces.shape[:2])) == (forces.ptr, [2, 2])
    assert Outer().__ctype__().forces.data == 0
    back = from_ctype(c, Outer._ir_type_, lambda at, t: forces if at.data == forces.ptr else None)
    assert back == value
    with pytest.raises(TypeError, match="no type of ctypes"):
        Selecting().__ctype__()


def test_what_is_no_object_of_ctypes_is_left_as_it_is():
    def refuse(at, t):
        raise AssertionError("there is no array to make")

    t = Outer._ir_type_
    assert from_ctype(2.5, t.field_type("mass"), refuse) == 2.5
    assert from_ctype(ctypes.c_double(2.5), t.field_type("mass"), refuse) == 2.5
    assert from_ctype(wp.vec3(1, 2, 3), t.field_type("at"), refuse) == wp.vec3(1, 2, 3)
    assert from_ctype((ctypes.c_float * 3)(1, 2, 3), t.field_type("at"), refuse) == wp.vec3(1, 2, 3)
    assert from_ctype(array_t(), t.field_type("forces"), refuse) is None
    assert from_ctype(ctypes.c_uint16(0x3800), Inner._ir_type_.field_type("half"), refuse) == 0.5
