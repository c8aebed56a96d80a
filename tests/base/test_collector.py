"""The garbage collector while kernels are compiled."""

import gc

import pytest

from warp_like.base.collector import RARELY, rare_collections


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_collections_are_rare_inside_and_usual_after(thresholds):
    gc.set_threshold(500, 11, 12)
    with rare_collections():
        assert gc.get_threshold() == (RARELY, 11, 12)
        with rare_collections():
            assert gc.get_threshold() == (RARELY, 11, 12)
        assert gc.get_threshold() == (RARELY, 11, 12)
    assert gc.get_threshold() == (500, 11, 12)


def test_after_an_exception(thresholds):
    gc.set_threshold(500, 11, 12)
    with pytest.raises(KeyError), rare_collections():
        raise KeyError
    assert gc.get_threshold() == (500, 11, 12)


@pytest.mark.parametrize("first", [0, 1_000_000])
def test_a_collector_that_is_off_or_rare_already_stays_so(thresholds, first):
    gc.set_threshold(first, 11, 12)
    with rare_collections():
        assert gc.get_threshold() == (first, 11, 12)
    assert gc.get_threshold() == (first, 11, 12)


def test_what_is_set_meanwhile_stays(thresholds):
    gc.set_threshold(500, 11, 12)
    with rare_collections():
        gc.set_threshold(900, 11, 12)
    assert gc.get_threshold() == (900, 11, 12)
