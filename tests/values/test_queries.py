"""Questions about types and values, as facts about each kind."""

import ctypes
from typing import Any

import numpy as np
import pytest

import warp_like as wp


@wp.struct
class Particle:
    x: wp.vec3
    kind: wp.int8


TYPES = {
    "int": [int, wp.int8, wp.uint64, np.int16],
    "float": [float, wp.float16, wp.bfloat16, np.float64],
    "bool": [bool, wp.bool],
    "vector": [wp.vec3, wp.vec2i, wp.spatial_vector, wp.types.vector(Any, wp.Float)],
    "matrix": [wp.mat33, wp.types.matrix((2, 3), wp.float64), wp.types.matrix((2, Any), Any)],
    "quaternion": [wp.quat, wp.quatd],
    "transformation": [wp.transform, wp.types.transformation(wp.Float)],
    "struct": [Particle],
    "array": [wp.array, wp.array2d, wp.array(dtype=float), wp.indexedarray(dtype=int), wp.array(dtype=Any)],
    "none": [str, None, Any, wp.Float, 3, "float"],
}
VALUES = {
    "int": [3, wp.int8(3), wp.uint64(3)],
    "float": [2.5, wp.float16(2.5)],
    "bool": [True, wp.bool(True)],
    "vector": [wp.vec3(), wp.types.vector(5, wp.int8)()],
    "matrix": [wp.mat22()],
    "quaternion": [wp.quat()],
    "transformation": [wp.transform()],
    "struct": [Particle()],
    "array": [wp.zeros(2), wp.zeros(2)[::2], wp.zeros((2, 2))[wp.zeros(1, dtype=int)]],
    "none": ["x", None, [1.0], wp.vec3, np.ones(3)],
}
GROUPS = {
    "scalar": {"int", "float"},
    "composite": {"vector", "matrix", "quaternion", "transformation"},
    "value": {"int", "float", "bool", "vector", "matrix", "quaternion", "transformation"},
}
KINDS = ["int", "float", "vector", "matrix", "quaternion", "transformation", "struct", "array", *GROUPS]


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind):
    members = GROUPS.get(kind, {kind})
    for of, examples in TYPES.items():
        for t in examples:
            assert getattr(wp.types, f"type_is_{kind}")(t) is (of in members), t
    for of, examples in VALUES.items():
        for x in examples:
            assert getattr(wp.types, f"is_{kind}")(x) is (of in members), x


@pytest.mark.parametrize(
    ("t", "count", "size"),
    [
        (float, 1, 4),
        (wp.bool, 1, 1),
        (wp.bfloat16, 1, 2),
        (wp.vec3, 3, 12),
        (wp.types.matrix((2, 3), wp.float64), 6, 48),
        (wp.transformh, 7, 14),
        (Particle, 1, 16),
    ],
)
def test_sizes(t, count, size):
    assert (wp.types.type_size(t), wp.types.type_size_in_bytes(t)) == (count, size)
    assert wp.zeros(3, dtype=t).capacity == 3 * size


@pytest.mark.parametrize("t", [str, Any, wp.array(dtype=float), wp.types.vector(Any, float), 3])
def test_sizes_of_what_is_no_element(t):
    for ask in (wp.types.type_size, wp.types.type_size_in_bytes):
        with pytest.raises(TypeError, match="is no type of elements"):
            ask(t)


def test_equal_types():
    equal = wp.types.types_equal
    assert equal(int, wp.int32)
    assert equal(wp.vec3, wp.types.vector(3, float))
    assert equal(wp.array(dtype=float), wp.array1d[wp.float32])
    assert equal(wp.zeros(2), wp.array(dtype=float))
    assert equal(wp.types.vector(Any, wp.Float), wp.types.vector(Any, wp.Float))
    assert equal(Particle, Particle)
    assert not equal(wp.vec3, wp.vec3d)
    assert not equal(wp.quat, wp.vec4)
    assert not equal(wp.array(dtype=float), wp.array2d(dtype=float))
    assert not equal(wp.array(dtype=float), wp.indexedarray(dtype=float))
    assert not equal(wp.array(dtype=Any), wp.array(dtype=float))
    assert not equal(wp.Float, wp.float32)
    assert not equal(str, wp.float32)


def test_names_of_types():
    shown = [
        wp.types.type_repr(t) for t in (float, wp.vec3, Particle, wp.array2d[wp.vec3], wp.types.vector(Any, float))
    ]
    assert shown == ["float", "vec3f", "Particle", "array(ndim=2, dtype=vec3f)", "vector(length=Any, dtype=float32)"]


def test_the_types_of_ctypes():
    found = {t: wp.types.type_ctype(t) for t in (float, int, bool, wp.float16, wp.bfloat16, wp.uint64, wp.float64)}
    assert found == {
        float: ctypes.c_float,
        int: ctypes.c_int32,
        bool: ctypes.c_bool,
        wp.float16: ctypes.c_uint16,
        wp.bfloat16: ctypes.c_uint16,
        wp.uint64: ctypes.c_uint64,
        wp.float64: ctypes.c_double,
    }
    for t in (wp.int8, wp.uint8, wp.int16, wp.uint16, wp.int32, wp.uint32, wp.int64, wp.float32):
        assert t._type_ is wp.types.type_ctype(t)
        assert ctypes.sizeof(t._type_) == wp.types.type_size_in_bytes(t)
    for t in (wp.vec3, wp.mat22d, wp.quath, wp.transform):
        array = wp.types.type_ctype(t)
        assert (array._type_, array._length_) == (t._wp_scalar_type_._type_, t._length_)
        assert t._type_ is array._type_
    assert bytes(wp.types.type_ctype(wp.vec2)(1.0, 2.0)) == wp.vec2(1.0, 2.0)._bytes()
    with pytest.raises(TypeError, match="no type of ctypes"):
        wp.types.type_ctype(Particle)
    with pytest.raises(TypeError, match="no type of elements"):
        wp.types.type_ctype(wp.array)
