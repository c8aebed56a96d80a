"""Types as NumPy's dtypes, and values read from memory."""

import numpy as np
import pytest

import warp_like as wp

SCALARS = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]
takes_classes = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy asks classes from 2.4 on"
)


@wp.struct
class Particle:
    pos: wp.vec3
    mass: wp.float64


@takes_classes
@pytest.mark.parametrize("name", SCALARS)
def test_scalar_types_are_dtypes(name):
    t = getattr(wp, name) if name != "bool" else wp.types.vector(2, bool)._wp_scalar_type_
    assert np.dtype(t) == np.dtype(name)
    a = np.ones(3, dtype=t)
    assert a.dtype == np.dtype(name)
    assert wp.array(a, dtype=t, copy=False).ptr == a.ctypes.data
    assert np.arange(3).astype(t).dtype == np.dtype(name)


@takes_classes
def test_vectors_matrices_and_structs_are_dtypes():
    assert np.zeros(4, dtype=wp.vec3d).shape == (4, 3)
    assert np.zeros(4, dtype=wp.mat22h).dtype == np.float16
    assert np.zeros((2, 3), dtype=wp.quat).shape == (2, 3, 4)
    assert np.zeros(4, dtype=Particle).dtype == Particle.numpy_dtype()


@pytest.mark.parametrize("t", [wp.vec3, wp.vec2b, wp.mat22d, wp.quat, wp.transform, wp.types.vector(5, wp.bfloat16)])
def test_from_ptr_copies(t):
    values = t(*range(1, 1 + t._length_))
    a = wp.full(3, values, dtype=t)
    got = t.from_ptr(a.ptr + a.strides[0])
    assert got == values
    a.zero_()
    assert got == values
    with pytest.raises(RuntimeError, match=f"there is no {t.__name__} at address 0"):
        t.from_ptr(0)
