"""Every way to write the type of a parameter means what it says: in kernels, functions and structs."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from warp_like.frontend.parameters import parameters
from warp_like.frontend.source import parse
from warp_like.ir import types as ir

N = 5

F32, F64, VEC3 = ir.float32, ir.float64, ir.Vec(3, ir.float32)
FORMS = {
    "int": ir.int32,
    "float": F32,
    "bool": ir.bool_,
    "wp.int8": ir.int8,
    "wp.bfloat16": ir.bfloat16,
    "wp.handle": ir.uint64,
    "wp.vec3": VEC3,
    "wp.vec3d": ir.Vec(3, F64),
    "wp.mat22h": ir.Mat(2, 2, ir.float16),
    "wp.quat": ir.Quat(F32),
    "wp.transformd": ir.Transform(F64),
    "wp.spatial_vector": ir.Vec(6, F32),
    "wp.types.vector(length=5, dtype=wp.float16)": ir.Vec(5, ir.float16),
    "wp.types.vector(length=wp.static(N + 2), dtype=float)": ir.Vec(7, F32),
    "wp.types.matrix(shape=(3, 4), dtype=wp.int64)": ir.Mat(3, 4, ir.int64),
    "wp.types.quaternion(dtype=wp.float64)": ir.Quat(F64),
    "wp.types.transformation(dtype=wp.float16)": ir.Transform(ir.float16),
    "wp.array(dtype=float)": ir.Array(F32, 1),
    "wp.array(dtype=float, ndim=2)": ir.Array(F32, 2),
    "wp.array(dtype=wp.vec3, ndim=4)": ir.Array(VEC3, 4),
    "wp.array1d(dtype=int)": ir.Array(ir.int32, 1),
    "wp.array4d(dtype=wp.vec3)": ir.Array(VEC3, 4),
    "wp.array[float]": ir.Array(F32, 1),
    "wp.array[wp.vec3]": ir.Array(VEC3, 1),
    "wp.array[float, 3]": ir.Array(F32, 3),
    "wp.array2d[wp.types.vector(length=N, dtype=wp.float64)]": ir.Array(ir.Vec(5, F64), 2),
    "wp.indexedarray(dtype=float)": ir.indexed_array(F32, 1),
    "wp.indexedarray2d[wp.vec3]": ir.indexed_array(VEC3, 2),
    "wp.indexedarray(dtype=int, ndim=3)": ir.indexed_array(ir.int32, 3),
    "Any": None,
    "wp.Float": None,
    "wp.array": None,
    "wp.array(dtype=Any)": None,
    "wp.array2d(dtype=wp.Scalar)": None,
    "wp.array(dtype=float, ndim=Any)": None,
    "wp.types.vector(length=Any, dtype=wp.Float)": None,
}


@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize("quoted", [False, True])
def test_the_type_of_a_parameter(future, quoted):
    for text, expected in FORMS.items():
        annotation = repr(text) if quoted else text
        k = define(f"def k(x: {annotation}):\n    pass\n", eager=not future, N=N, Any=Any)["k"]
        assert parameters(parse(k, "kernel")) == [("x", expected)], text


def test_structs_take_the_concrete_ones():
    for text, expected in FORMS.items():
        source = f"@wp.struct\nclass S:\n    x: {text}\n"
        if expected is None:
            with pytest.raises(TypeError, match="struct S, field `x`: expected one concrete type"):
                define(source, N=N, Any=Any)
        else:
            assert define(source, N=N, Any=Any)["S"]._ir_type_.fields == (("x", expected),), text


def test_names_around_a_definition_are_seen_by_text():
    def make(length):
        size = length

        @wp.kernel
        def k(v: "wp.types.vector(length=size, dtype=float)", out: "wp.array(dtype=float)"):
            for i in range(wp.static(size)):
                out[i] = v[i]

        return k

    for n in (2, 4):
        out = np.zeros(4, np.float32)
        wp.launch(make(n), 1, inputs=[wp.types.vector(length=n, dtype=float)(3.0), out])
        assert out.sum() == 3.0 * n


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wp.array(dtype=float, ndim=9)", "an array has 1 to 8 dimensions, got 9"),
        ("wp.types.vector(length=256, dtype=float)", "256"),
        ("wp.types.matrix(shape=(2,), dtype=float)", "the shape of a matrix is a pair"),
        ("wp.types.quaternion(dtype=int)", "float"),
        ("wp.fixedarray(shape=(0,), dtype=float)", "the shape of a fixedarray is made of positive numbers"),
    ],
)
def test_annotations_that_mean_nothing_raise_where_they_stand(text, message):
    with pytest.raises((TypeError, ValueError), match=message):
        define(f"def k(x: {text}):\n    pass\n", eager=True)


def test_launches_give_no_vectors_without_components():
    k = define("def k(v: wp.types.vector(length=0, dtype=float)):\n    pass\n", eager=True)["k"]
    with pytest.raises(
        wp.WarpCodegenTypeError, match=r"`v` of kernel `k`: vec0\[float32\] has no components, so that no"
    ):
        parameters(parse(k, "kernel"))


def test_text_that_stands_for_text_is_no_type():
    k = define("loop = 'loop'\ndef k(x: loop):\n    pass\n")["k"]
    with pytest.raises(wp.WarpCodegenTypeError, match="argument `x` of kernel `k`: 'loop' is not a type"):
        parameters(parse(k, "kernel"))
