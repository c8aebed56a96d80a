"""Frozen records behave as frozen dataclasses do."""

import copy
import functools
import pickle

import pytest

from warp_like.base.frozen import Frozen


class Point(Frozen):
    """A point."""

    x: float
    y: float = 0.0


class Named(Point):
    """A point with a name."""

    name: str = "origin"


def test_fields_defaults_and_keywords():
    assert Point(1.0).as_tuple() == (1.0, 0.0)
    assert Point(y=2.0, x=1.0) == Point(1.0, 2.0)
    assert Named(1.0, name="p").as_tuple() == (1.0, 0.0, "p")
    assert repr(Point(1.0)) == "Point(x=1.0, y=0.0)"


def test_equality_and_hash_follow_the_content_and_the_class():
    assert Point(1.0) == Point(1.0, 0.0)
    assert hash(Point(1.0)) == hash(Point(1.0, 0.0))
    assert Point(1.0) != Point(2.0)
    assert Point(1.0) != Named(1.0)
    assert Point(1.0) != (1.0, 0.0)
    assert len({Point(1.0), Point(1), Point(2.0)}) == 2


class Measured(Point):
    """A point that knows its size once it was asked for."""

    @functools.cached_property
    def size(self) -> float:
        return abs(self.x) + abs(self.y)


def test_what_was_computed_meanwhile_does_not_count():
    first, second = Measured(1.0, 2.0), Measured(1.0, 2.0)
    assert first.size == 3.0
    assert first == second == Measured(1.0, 2.0)
    assert first != Measured(1.0, 3.0)
    assert second.size == 3.0
    assert first == second


def test_matching_by_position():
    match Named(1.0, 2.0):
        case Named(x, y, name):
            assert (x, y, name) == (1.0, 2.0, "origin")


def test_other_values():
    p = Named(1.0, 2.0)
    assert p.replace(y=3.0) == Named(1.0, 3.0)
    assert p == Named(1.0, 2.0)


def test_copies_and_pickles():
    p = Named(1.0, 2.0)
    hash(p)
    assert copy.copy(p) == copy.deepcopy(p) == pickle.loads(pickle.dumps(p)) == p
    assert "_hash" not in repr(pickle.dumps(p))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Point(), "Point() lacks `x`"),
        (lambda: Point(1.0, 2.0, 3.0), "Point() takes x, y; got 3 and []"),
        (lambda: Point(1.0, z=2.0), "Point() takes x, y; got 1 and ['z']"),
        (lambda: Point(1.0, x=2.0), "Point() takes x, y; got 1 and ['x']"),
    ],
)
def test_wrong_calls(call, message):
    with pytest.raises(TypeError) as e:
        call()
    assert str(e.value) == message


def test_nothing_can_be_assigned():
    p = Point(1.0)
    with pytest.raises(AttributeError, match="Point is immutable: `x` can't be assigned"):
        p.x = 2.0
    with pytest.raises(AttributeError, match="Point is immutable: `x` can't be deleted"):
        del p.x
