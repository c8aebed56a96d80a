"""Warnings of launches that write where that rarely does what it should."""

import warnings

import numpy as np
import pytest

import warp_like as wp


def fill(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 1.0


def add(x: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(x, i, 1.0)


def read(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


@pytest.fixture
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


LEAF = "argument 1 `x`: the kernel writes to a leaf tensor that requires a gradient"


@pytest.fixture(params=["torch", "paddle"])
def leaf(request):
    """A leaf tensor that requires a gradient, and what switches gradients off."""
    module = pytest.importorskip(request.param)
    if request.param == "torch":
        return module.zeros(3, requires_grad=True), module.no_grad
    return module.to_tensor(np.zeros(3, np.float32), stop_gradient=False), module.no_grad


def test_a_leaf_that_requires_a_gradient(leaf):
    t, _ = leaf
    with pytest.warns(UserWarning, match=LEAF) as caught:
        wp.launch(wp.kernel(fill), 3, [t])
    assert caught[0].filename == __file__
    assert t.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.usefixtures("silent")
def test_a_leaf_is_written_where_that_is_meant(leaf):
    t, no_grad = leaf
    with no_grad():
        wp.launch(wp.kernel(fill), 3, [t])
    wp.launch(wp.kernel(fill), 3, [t.detach()])
    with wp.Tape():
        wp.launch(wp.kernel(fill), 3, [t])
    wp.launch(wp.kernel(read), 3, [t, wp.zeros(3)])


@pytest.mark.usefixtures("silent")
def test_an_array_that_was_made_of_a_leaf_is_meant_to_be_written():
    torch = pytest.importorskip("torch")
    wp.launch(wp.kernel(fill), 3, [wp.from_torch(torch.zeros(3, requires_grad=True))])


SHARED = r"argument 1 `x`: the kernel stores to an array of shape \(3,\) with strides \(0,\), whose elements share"


def expanded(library):
    if library == "numpy":
        return np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (3,), (0,)), np.ascontiguousarray
    return pytest.importorskip("torch").zeros(1).expand(3), lambda t: t.contiguous()


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_elements_that_share_memory(library):
    x, copy = expanded(library)
    with pytest.warns(UserWarning, match=SHARED) as caught:
        wp.launch(wp.kernel(fill), 3, [x])
    assert caught[0].filename == __file__
    followed = copy(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wp.launch(wp.kernel(fill), 3, [followed])


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_elements_that_share_memory_are_read_and_added_to(library):
    x, _ = expanded(library)
    wp.launch(wp.kernel(add), 3, [x])
    assert x[0] == 3.0
    wp.launch(wp.kernel(read), 3, [x, wp.zeros(3)])
