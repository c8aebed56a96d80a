"""Builtins called on the host compute what kernels do."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from tests.builtins.calls import Case, cases, has_reference, is_query, reference, smooth
from warp_like.builtins.patterns import TileOf
from warp_like.frontend.builtin import Builtin, public_builtins
from warp_like.ir.types import float64
from warp_like.values import dtypes, from_ir, matrix, vector

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
    with pytest.raises(RuntimeError, match="does not mix types"):  # Warp's class
        call("dot", vec3(1.0), vec3d(1.0))


def test_the_object() -> None:
    sin = public_builtins()["sin"]
    assert sin.__name__ == sin.name == "sin"
    assert "Return the sine" in sin.__doc__
    assert pickle.loads(pickle.dumps(sin)) == sin
    assert repr(sin) == "<builtin wp.sin>"
    assert [r.params for r in Builtin("min").rows] == [("a", "b"), ("a", "b"), ("a", "b"), ("a",)]


CALLED = [c for c in cases(float64) if has_reference(c) and not c.row.name.startswith("_") and c.which in (None, 0)]


@pytest.mark.parametrize("case", CALLED, ids=str)
def test_every_row_with_a_reference_can_be_called(case: Case) -> None:
    """It gives what the reference does; one that changes its argument changes it."""
    args = [given[3] for given in smooth(case, 4)]
    typed = [from_ir(t)(*np.ravel(a)) for t, a in zip(case.types, args, strict=True)]
    got = call(case.row.name, *typed)
    got = typed[case.row.params.index(case.row.assigns[0])] if got is None else got[0] if case.which == 0 else got
    expected = reference(case, [a[None] for a in args])[0]
    np.testing.assert_allclose(np.array(got, float), np.array(expected, float), rtol=1e-12)


def test_all_builtins_but_a_few_can_be_called() -> None:
    """The others take arrays, tiles, ids or objects, or draw in a loop that only the kernel language has."""
    rows = [row for name in public_builtins() for row in Builtin(name).rows if row.ref is None and row.group != "Tiles"]
    only_kernels = {row.name for row in rows if not (is_query(row) or any(isinstance(p, TileOf) for p in row.patterns))}
    atomics = {f"atomic_{kind}" for kind in ("add", "sub", "min", "max", "and", "or", "xor", "exch", "cas")}
    objects = {"mesh_get", "texture_sample", "volume_lookup", "volume_sample", "volume_store"}
    objects.add("volume_sample_grad")
    objects |= {
        "tile_bvh_query_next",
        "tile_mesh_query_aabb_next",
        "bvh_query_next_tiled",
        "mesh_query_aabb_next_tiled",
    }
    assert only_kernels == {"tid", "poisson", "sample_cdf", "address_of", "shared_array", *atomics, *objects}


def test_constructors() -> None:
    assert call("vector", 1.0, 2.0, 3.0) == vec3(1.0, 2.0, 3.0)
    assert type(call("vector", 1, 2, 3)) is vec3i
    assert call("vector", 2.5, length=3, dtype=dtypes.float64) == vec3d(2.5)
    assert call("matrix", 1.0, 2.0, 3.0, 4.0, shape=(2, 2)) == mat22(1.0, 2.0, 3.0, 4.0)
    assert call("matrix_from_rows", vec2(1.0, 2.0), vec2(3.0, 4.0)) == mat22(1.0, 2.0, 3.0, 4.0)
    assert call("matrix_from_cols", vec2(1.0, 2.0), vec2(3.0, 4.0)) == mat22(1.0, 3.0, 2.0, 4.0)
    assert call("matrix_from_cols", vec3(1.0), vec3(2.0)).numpy().shape == (3, 2)
    assert call("identity", n=2, dtype=float) == mat22(1.0, 0.0, 0.0, 1.0)
    scaled = call("matrix", vec3(1.0, 2.0, 3.0), call("quat_identity"), vec3(2.0))
    np.testing.assert_array_equal(scaled, [[2, 0, 0, 1], [0, 2, 0, 2], [0, 0, 2, 3], [0, 0, 0, 1]])
    assert call("cast", 1.0, int) == 0x3F800000
    assert call("cast", dtypes.int64(0x3FF0000000000000), dtypes.float64) == 1.0
    assert call("len", vec3()) == 3
    assert call("static", 2 + 3) == 5


def test_what_constructors_refuse() -> None:
    with pytest.raises(TypeError, match=r"wp.cast\(\) keeps the bits: float32 can't be float64"):
        call("cast", 1.0, dtypes.float64)
    with pytest.raises(TypeError, match=r"wp.matrix\(\) needs a shape, or a position, a rotation and a scale"):
        call("matrix", 1.0, 2.0)
    with pytest.raises(TypeError, match="a matrix is made of vectors of one type"):
        call("matrix_from_rows", vec2(), vec3())
    with pytest.raises(TypeError, match=r"wp.quaternion\(\) has no form with 1 arguments by position and y"):
        call("quaternion", 1.0, y=2.0)
