"""What is known of the elements of arrays."""

import gc
import weakref

import warp_like as wp
from warp_like.runtime.memory import allocation


def declared():
    @wp.struct
    class Pair:
        first: float
        second: int

    return Pair


def test_a_struct_that_is_declared_again_takes_the_place_of_the_old_one():
    wp.zeros(2, dtype=declared())
    known = len(allocation._elements)
    for _ in range(5):
        pair = declared()
        a = wp.zeros(2, dtype=pair)
        assert a.dtype is pair
        assert type(a[0]) is pair
    assert len(allocation._elements) == known


def test_old_classes_go_although_arrays_are_made_of_them():
    """As where several threads declare equal structs at a time: an array's class is not the last one then."""
    first, last = declared(), declared()
    known = len(allocation._elements)
    for pair in (last, first, last, first):
        assert wp.zeros(2, dtype=pair).shape == (2,)
    assert len(allocation._elements) <= known + 1
    gone = weakref.ref(first)
    del first, pair
    gc.collect()
    assert gone() is None


def test_an_array_of_the_old_class_stays_usable():
    old = declared()
    a = wp.zeros(2, dtype=old)
    new = declared()
    b = wp.zeros(2, dtype=new)
    a.fill_(old(first=1.0, second=2))
    wp.copy(b, a)
    assert (b[1].first, b[1].second) == (1.0, 2)
    assert wp.zeros_like(a).shape == (2,)
