"""Annotations that are arrays."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import warp_like as wp


def test_an_annotation_is_an_instance_of_the_class_of_arrays():
    for made in (wp.array(dtype=float, ndim=2), wp.array2d(dtype=float), wp.fixedarray(shape=(3,), dtype=float)):
        assert isinstance(made, wp.array)
        assert wp.types.is_array(made)
    assert isinstance(wp.indexedarray(dtype=float), wp.indexedarray)
    assert isinstance(wp.indexedarray2d(dtype=float), wp.indexedarray)
    assert not isinstance(wp.indexedarray(dtype=float), wp.array)
    for other in (wp.array[float], wp.array2d[float], wp.array2d, float):
        assert not isinstance(other, wp.array)


def test_it_describes_an_array_without_elements():
    made = wp.array(dtype=float, ndim=2)
    assert (made.shape, made.ndim, made.strides, made.size, made.ptr or 0, len(made)) == ((0, 0), 2, (0, 0), 0, 0, 0)
    assert made.dtype is wp.float32
    assert not made.requires_grad
    assert made.grad is None
    assert made.numpy().shape == (0, 0)
    assert repr(made) == "array(ndim=2, dtype=float32)"
    assert wp.array(dtype=int).dtype is wp.int32
    assert wp.array(dtype=bool).dtype is wp.bool
    assert wp.array().dtype is Any
    indexed = wp.indexedarray(dtype=wp.vec3, ndim=3)
    assert (indexed.dtype, indexed.ndim, indexed.shape) == (wp.vec3, 3, (0, 0, 0))


@pytest.mark.parametrize("made", [wp.array(dtype=float, ndim=2), wp.indexedarray(dtype=float, ndim=2)])
def test_what_it_says_can_be_set(made):
    made.shape = ("nworld", "nq")
    made.strides = (4, 4)
    made.note = "a note"
    assert (made.shape, made.strides, made.note) == (("nworld", "nq"), (4, 4), "a note")
    made.dtype, made.ndim = wp.float64, 1
    assert wp.types.types_equal(made, type(made).__mro__[2](dtype=wp.float64))
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(again) is type(made)
        assert (again, again.shape, again.strides, again.note) == (made, made.shape, made.strides, made.note)


def test_annotations_are_equal_by_what_they_mean():
    assert wp.array(dtype=float) == wp.array(dtype=wp.float32) == wp.array[float]
    assert hash(wp.array(dtype=float)) == hash(wp.array(dtype=wp.float32))
    assert wp.array(dtype=float) != wp.array2d(dtype=float)
    assert wp.array(dtype=float) != wp.indexedarray(dtype=float)
    assert wp.fixedarray(dtype=float, shape=3) == wp.fixedarray(dtype=float, shape=(3,))
    assert wp.fixedarray(dtype=float, shape=3) != wp.fixedarray(dtype=float, shape=4)
    assert wp.fixedarray(dtype=float, shape=(3, 2)).shape == (3, 2)


Spec = wp.array(dtype=float)
Spec.shape = ("n",)


@wp.struct
class Holder:
    a: Spec


@wp.kernel
def extents(a: Spec, held: Holder, out: wp.array(dtype=int)):
    out[0] = a.shape[0]
    out[1] = held.a.shape[0]


def test_it_annotates_and_is_launched_with():
    out = np.zeros(2, np.int32)
    held = Holder()
    held.a = wp.zeros(4)
    wp.launch(extents, 1, inputs=[wp.zeros(3), held, out])
    assert out.tolist() == [3, 4]
    held.a = wp.array(dtype=float)
    wp.launch(extents, 1, inputs=[wp.array(dtype=float), held, out])
    assert out.tolist() == [0, 0]
    with pytest.raises(TypeError, match=r"argument 1 `a`: expected array1d\[float32\], got array1d\[int32\]"):
        wp.launch(extents, 1, inputs=[wp.array(dtype=int), held, out])


def test_it_holds_no_elements_and_makes_no_arrays():
    with pytest.raises(TypeError, match="is an annotation; make an array with wp.zeros"):
        wp.array(dtype=float)([1.0])
    with pytest.raises(IndexError, match="out of range"):
        wp.array(dtype=float)[0]
