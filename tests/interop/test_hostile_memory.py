"""Objects that describe memory which is not there: they are refused, and nothing is read or written."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import warp_like as wp
from tests.interop.capsules import Capsule

LARGE = 1 << 62


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0


@pytest.mark.parametrize(
    ("capsule", "message"),
    [
        (Capsule(0, (3,)), "it has elements but no memory"),
        (Capsule(64, (-1,)), "extents and strides describe more memory than there can be"),
        (Capsule(64, (LARGE, LARGE)), "extents and strides describe more memory"),
        (Capsule(64, (LARGE,)), "extents and strides describe more memory"),
        (Capsule(64, (2,), (LARGE,)), "extents and strides describe more memory"),
        (Capsule(64, (3,), (-(1 << 60),)), "extents and strides describe more memory"),
        (Capsule(64, (100,), (-1,)), "extents and strides describe more memory"),
        (Capsule((1 << 64) - 64, (100,)), "extents and strides describe more memory"),
        (Capsule(64, (3,), byte_offset=(1 << 64) - 32), "extents and strides describe more memory"),
        (Capsule(64, (2, 2), (1 << 60, 1 << 60)), "extents and strides describe more memory"),
        (Capsule(64, (2,), (-(1 << 63),)), "extents and strides describe more memory"),
        (Capsule(64, (2,), ndim=-1), "it has -1 dimensions"),
        (Capsule(64, (2,), ndim=(1 << 31) - 1), "it has 2147483647 dimensions, and arrays have at most 8"),
        (Capsule(64, (1,) * 11), "it has 11 dimensions, and arrays have at most 8"),
        (Capsule(64, None, ndim=2), "it has 2 dimensions and does not say how large they are"),
        (Capsule(64, (2,), dtype=(0, 4, 1)), "elements of 4 bits"),
    ],
)
def test_capsules_that_can_not_be(capsule, message):
    with pytest.raises(BufferError, match=message):
        wp.from_dlpack(capsule)
    y = np.full(4, 7, np.float32)
    with pytest.raises((BufferError, TypeError), match=message):
        wp.launch(double, dim=2, inputs=[capsule, y])
    np.testing.assert_array_equal(y, 7)


def test_an_empty_capsule_needs_no_memory():
    assert wp.from_dlpack(Capsule(0, (0, 5))).shape == (0, 5)
    assert wp.from_dlpack(Capsule(0, (3, 0, 2))).shape == (3, 0, 2)


extents = st.one_of(st.integers(0, 3), st.sampled_from([-1, 1 << 31, 1 << 61, LARGE, (1 << 63) - 1, -(1 << 63)]))
steps = st.one_of(st.integers(-3, 3), st.sampled_from([1 << 31, 1 << 60, LARGE, (1 << 63) - 1, -(1 << 63)]))


@given(st.lists(st.tuples(extents, steps), min_size=1, max_size=4), st.sampled_from([8, 32, 64]), st.booleans())
def test_what_is_accepted_has_the_extents_and_strides_that_were_given(dims, bits, strided):
    """Against Python's integers, which don't overflow. Nothing is read: the elements may well not be there."""
    shape, strides = (tuple(part) for part in zip(*dims, strict=True))
    code = {8: 1, 32: 2, 64: 2}[bits]
    size, data = bits // 8, 1 << 20
    packed = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    if not strided:
        strides = packed
    capsule = Capsule(data, shape, strides if strided else None, (code, bits, 1))
    span = sum((n - 1) * abs(s) * size for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
    below = sum(-(n - 1) * s * size for n, s in zip(shape, strides, strict=True) if s < 0) if all(shape) else 0
    fits = min(shape) >= 0 and below <= data and max(span, math.prod(shape) * size) < 1 << 63
    try:
        a = wp.from_dlpack(capsule)
    except (BufferError, ValueError):
        assert not fits or not all(shape) or any(abs(s) * size >= 1 << 63 for s in strides)
        return
    assert fits
    assert a.shape == shape
    assert a.strides == tuple(s * size for s in strides)
    assert not all(shape) or a.ptr == data


class Interface:
    """An object with NumPy's array interface, as it is given."""

    def __init__(self, **interface):
        self.__array_interface__ = {"version": 3, "typestr": "<f4", **interface}


@pytest.mark.parametrize(
    "interface",
    [
        {"shape": (3,), "data": (0, False)},
        {"shape": (-1,), "data": (64, False)},
        {"shape": (LARGE, LARGE), "data": (64, False)},
        {"shape": (3,), "data": (64, False), "strides": (1 << 63,)},
        {"shape": (3,), "data": (64, False), "strides": (4, 4)},
        {"shape": (3,), "data": "text"},
        {"data": (64, False)},
        {"shape": "text", "data": (64, False)},
        {"shape": (3,), "data": (64, False), "typestr": "<x9"},
    ],
)
def test_array_interfaces_that_can_not_be(interface):
    y = np.full(4, 7, np.float32)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        wp.launch(double, dim=2, inputs=[Interface(**interface), y])
    np.testing.assert_array_equal(y, 7)
