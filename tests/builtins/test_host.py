"""Builtins called on the host compute what kernels do."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from warp_like.frontend.builtin import Builtin, public_builtins
from warp_like.values import dtypes, matrix, vector

vec2, vec3, vec3d, vec3i = vector(2, float), vector(3, float), vector(3, dtypes.float64), vector(3, int)
mat22 = matrix((2, 2), float)


def call(name: str, *args: object, **keywords: object) -> object:
    return Builtin(name)(*args, **keywords)


def test_numbers() -> None:
    assert call("sin", 0.5) == float(np.float32(math.sin(0.5)))
    assert call("sin", dtypes.float64(0.5)) == math.sin(0.5)
    assert call("clamp", 7, low=0, high=5) == 5
    assert call("max", 1, 2.5) == 2.5
    assert call("floordiv", -7, 2) == -4
    assert call("mod", -7, 2) == -1
    assert call("div", 7, 0) == 0
    assert call("isnan", math.nan) is True
    assert call("lt", 1, 2) is True


def test_the_result_keeps_its_type() -> None:
    assert type(call("add", dtypes.float64(1.0), 2)) is dtypes.float64
    assert type(call("abs", np.int64(-3))) is dtypes.int64
    assert type(call("abs", -3)) is int


def test_vectors_and_matrices() -> None:
    assert call("normalize", vec2(3.0, 4.0)) == vec2(0.6, 0.8)
    assert call("cross", vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0)) == vec3(0.0, 0.0, 1.0)
    assert call("dot", vec3i(1, 2, 3), vec3i(4, 5, 6)) == 32
    assert type(call("dot", vec3d(1.0), vec3d(1.0))) is dtypes.float64
    assert call("mul", mat22(1.0, 2.0, 3.0, 4.0), vec2(1.0, 1.0)) == vec2(3.0, 7.0)
    assert call("transpose", mat22(1.0, 2.0, 3.0, 4.0)) == mat22(1.0, 3.0, 2.0, 4.0)
    assert call("norm_huber", vec3(0.0, 3.0, 4.0)) == 4.5
    assert call("where", True, vec2(1.0, 2.0), vec2(3.0, 4.0)) == vec2(1.0, 2.0)


def test_what_the_host_refuses() -> None:
    with pytest.raises(TypeError, match=r"wp.tid\(\) is for kernels"):
        call("tid")
    with pytest.raises(TypeError, match="takes numbers, vectors and matrices on the host, got ndarray"):
        call("sin", np.zeros(3))
    with pytest.raises(TypeError, match=r"does not mix types: vec3\[float32\] and vec3\[float64\]"):
        call("dot", vec3(1.0), vec3d(1.0))


def test_the_object() -> None:
    sin = public_builtins()["sin"]
    assert sin.__name__ == sin.name == "sin"
    assert "Return the sine" in sin.__doc__
    assert pickle.loads(pickle.dumps(sin)) == sin
    assert repr(sin) == "<builtin wp.sin>"
    assert [r.params for r in Builtin("min").rows] == [("a", "b"), ("a", "b"), ("a", "b"), ("a",)]
