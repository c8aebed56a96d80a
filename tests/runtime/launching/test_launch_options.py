"""Options of one launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def put(x: wp.array(dtype=float), i: int):
    x[i] = 1.0


@wp.kernel
def put_any(x: wp.array(dtype=Any), i: int):
    x[i] = x.dtype(1.0)


@wp.kernel
def product(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@pytest.mark.parametrize("kernel", [put, put_any])
@pytest.mark.parametrize("again", [1, 3])
def test_options_hold_for_one_launch(kernel, again):
    x = wp.zeros(3, dtype=float)
    wp.launch(kernel, dim=1, inputs=[x, 0])
    for _ in range(again):
        with pytest.raises(IndexError, match="index 5 is out of range for array `x`"):
            wp.launch(kernel, dim=1, inputs=[x, 5], options={"mode": "debug"})
    wp.launch(kernel, dim=1, inputs=[x, 1], options={"mode": "debug"})
    wp.launch(kernel, dim=0, inputs=[x, 5])
    assert x.list() == [1.0, 1.0, 0.0]
    assert kernel.option("mode") == "release"
    assert "mode" not in kernel.options


def test_a_kernel_with_options_is_made_once_and_compiled_apart():
    debug = put.with_options({"mode": "debug"}, max_unroll=3)
    assert debug is put.with_options(max_unroll=3, mode="debug")
    assert debug is not put.with_options(mode="debug")
    assert (debug.base, debug.key, debug.module) == (put, "put", put.module)
    assert (debug.option("mode"), debug.option("max_unroll"), put.option("max_unroll")) == ("debug", 3, 16)
    assert "@wl_fail" in debug.inspect_llvm()
    assert "@wl_fail" not in put.inspect_llvm()
    assert put.module.kernels["put"] is put


def test_instances_of_generic_kernels_have_options():
    instance = wp.overload(put_any, [wp.array(dtype=wp.float64), int])
    debug = instance.with_options(mode="debug")
    assert debug.declared == instance.declared
    x = wp.zeros(1, dtype=wp.float64)
    with pytest.raises(IndexError):
        wp.launch(debug, dim=1, inputs=[x, 1])
    wp.launch(put_any, dim=1, inputs=[x, 0])
    assert x.list() == [1.0]


def test_what_is_not_given_follows_the_kernel_its_module_and_config(monkeypatch):
    @wp.kernel(module="unique")
    def own(x: wp.array(dtype=float), i: int):
        x[i] = 1.0

    x = wp.zeros(1, dtype=float)
    fast = own.with_options(fast_math=True)
    wp.launch(fast, dim=1, inputs=[x, 0])
    for options in (own.options, own.module.options):
        options["mode"] = "debug"
        with pytest.raises(IndexError):
            wp.launch(fast, dim=1, inputs=[x, 1])
        options["mode"] = "release"
        wp.launch(fast, dim=1, inputs=[x, 0])
        options["mode"] = None
    monkeypatch.setattr(wp.config, "mode", "debug")
    with pytest.raises(IndexError):
        wp.launch(own, dim=1, inputs=[x, 1], options={"fast_math": True})


def test_options_of_an_option_s_kernel_are_added():
    both = put.with_options(mode="debug").with_options(fast_math=True)
    assert (both.option("mode"), both.option("fast_math")) == ("debug", True)


def test_recorded_launches_graphs_and_tapes_keep_a_launch_s_options():
    x = wp.array([3.0], dtype=float, requires_grad=True)
    y = wp.zeros(1, dtype=float, requires_grad=True)
    command = wp.launch(product, dim=1, inputs=[x, y], record_cmd=True, options={"mode": "debug"})
    assert command.kernel.option("mode") == "debug"
    command.launch()
    with wp.ScopedCapture() as capture:
        wp.launch(product, dim=1, inputs=[x, y], options={"fast_math": True})
    wp.capture_launch(capture.graph)
    with wp.Tape() as tape:
        wp.launch(product, dim=1, inputs=[x, y], options={"fast_math": True})
    assert tape.launches[0].kernel is product.with_options(fast_math=True)
    tape.backward(grads={y: wp.ones(1, dtype=float)})
    assert (y.list(), x.grad.list()) == ([9.0], [6.0])


def test_gradients_may_be_switched_off_for_one_launch():
    x = wp.array([3.0], dtype=float, requires_grad=True)
    y = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(product, dim=1, inputs=[x, y], options={"enable_backward": False})
    with pytest.warns(UserWarning, match="kernel `product`: gradients are switched off .*; the backward pass leaves"):
        tape.backward(grads={y: wp.ones(1, dtype=float)})
    assert x.grad.list() == [0.0]


def test_an_explicit_adjoint_launch_takes_options():
    x, y = wp.array([3.0], dtype=float), wp.zeros(1, dtype=float)
    dx, dy = wp.zeros(1, dtype=float), wp.ones(1, dtype=float)
    wp.launch(product, 1, [x], [y], [dx], [dy], adjoint=True, options={"mode": "debug"})
    assert dx.list() == [6.0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fastmath": True}, ValueError, "kernel `put` has no option `fastmath`; did you mean `fast_math`?"),
        ({"mode": "fast"}, ValueError, "setting `mode` is one of 'release', 'debug', got 'fast'"),
        ({"max_unroll": "3"}, TypeError, "setting `max_unroll` takes int, got str '3'"),
        ({"max_unroll": [3]}, TypeError, "setting `max_unroll` takes int, got list [3]"),
        (["mode"], TypeError, "kernel `put`: options is a dict, got list"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    put.with_options(max_unroll=3)
    x = np.zeros(3, dtype=np.float32)
    for _ in range(2):
        with pytest.raises(error) as caught:
            wp.launch(put, dim=1, inputs=[x, 0], options=options)
        assert str(caught.value) == message
    assert not x.any()
