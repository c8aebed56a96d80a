"""Warnings point at the user's code."""

import linecache
import warnings

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, define


def place(caught):
    return caught[0].filename, linecache.getline(caught[0].filename, caught[0].lineno).strip()


def test_a_call_of_the_user():
    class Body:
        x = 1.0

    with pytest.warns(UserWarning, match="`x` has no annotation") as caught:
        wp.struct(Body)
    assert place(caught) == (__file__, "wp.struct(Body)")


def test_a_call_deep_inside():
    torch = pytest.importorskip("torch")

    @wp.kernel
    def put(x: wp.array(dtype=float)):
        x[0] = 1.0

    t = torch.ones(3, requires_grad=True) * 2.0
    with pytest.warns(UserWarning, match="the result of an operation") as caught:
        wp.from_torch(t)
    assert place(caught) == (__file__, "wp.from_torch(t)")
    with pytest.warns(UserWarning, match="the result of an operation") as caught, wp.Tape():
        wp.launch(put, 1, [t.detach().requires_grad_() * 2.0])
    assert place(caught) == (__file__, "wp.launch(put, 1, [t.detach().requires_grad_() * 2.0])")


def test_a_place_in_a_kernel():
    names = define("def k(x: wp.array(dtype=float)):\n    x[0] = float(1 / 2)\n", eager=True)
    with pytest.warns(UserWarning, match="divides integers") as caught:
        build(names["k"])
    assert place(caught) == (names["k"].__code__.co_filename, "x[0] = float(1 / 2)")
    assert str(caught[0].message) == (
        "kernel `k`: 1 / 2 divides integers, which gives 0 (help: write 1.0 / 2.0 for 0.5, or // if it is meant)"
    )


def test_a_place_in_a_kernel_is_named_once():
    k = define("def k(x: wp.array(dtype=float)):\n    x[0] = float(1 / 2)\n", eager=True)["k"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            build(k)
    assert len(caught) == 1


@pytest.mark.parametrize(("text", "value"), [("1.0 / 2.0", 0.5), ("1 // 2", 0.0), ("4 / 2", 2.0), ("1.0 / 2", 0.5)])
def test_divisions_of_which_nobody_warns(text, value):
    k = define(f"def k(x: wp.array(dtype=float)):\n    x[0] = float({text})\n", eager=True)["k"]
    x = np.ones(1, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wp.launch(wp.kernel(k), 1, [x])
    assert x[0] == value
