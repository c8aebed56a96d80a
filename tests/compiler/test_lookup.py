"""What the compiler keeps in memory between two questions about one kernel."""

import numpy as np
import pytest

import warp_like as wp
from warp_like.compiler import lookup, pipeline


def declare(factor):
    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i] * factor

    return k


def test_drafts_that_are_never_compiled_do_not_pile_up(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(lookup, "_MAX_DRAFTS", 2)
    monkeypatch.setattr(lookup, "_drafts", {})
    kernels = [(factor, declare(factor)) for factor in (2.0, 3.0, 4.0, 5.0)]
    for _, kernel in kernels:
        assert kernel.program(kernel.types).facts.effects.writes == (1,)
    assert len(lookup._drafts) == 2
    for factor, kernel in kernels:  # the first two are made again
        x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
        y = wp.zeros(2, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=2, inputs=[x, y])
        tape.backward(grads={y: wp.ones(2, dtype=float)})
        np.testing.assert_allclose(x.grad.numpy(), [2.0 * factor, 4.0 * factor])
    assert not lookup._drafts


@pytest.mark.parametrize("strided", [False, True])
def test_passes_run_once_for_plain_and_for_atomic_additions(tmp_path, monkeypatch, strided):
    """The facts are for plain additions; whether a launch has room for these shows only when it runs."""

    @wp.kernel
    def weigh(x: wp.array(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * w[0]

    ran = []
    optimised = pipeline.optimised
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(pipeline, "optimised", lambda *a, **k: ran.append(a[1].wrt) or optimised(*a, **k))
    x = wp.array(np.arange(1.0, 7.0), dtype=float, requires_grad=True)[:: 2 if strided else 1]
    w, y = wp.array([2.0], dtype=float, requires_grad=True), wp.zeros(x.shape, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(weigh, dim=x.shape, inputs=[x, w, y])
    tape.backward(grads={y: wp.ones(x.shape, dtype=float)})
    np.testing.assert_allclose(y.numpy(), 2.0 * x.numpy())
    np.testing.assert_allclose(w.grad.numpy(), [x.numpy().sum()])
    expected = [None, (0, 1, 2)]
    assert sorted(set(ran), key=str) == sorted(expected, key=str)
    assert len(ran) == (4 if strided else 2)  # strided arrays have code of their own


def test_empty_grids_compile(tmp_path, monkeypatch):
    """So a program's first launches may be made early, and show errors whatever the size of its data is."""
    ran = []
    optimised = pipeline.optimised
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(pipeline, "optimised", lambda *a, **k: ran.append(1) or optimised(*a, **k))
    kernel, y = declare(7.0), wp.zeros(2, dtype=float)
    for dim, expected in ((0, [0.0, 0.0]), (2, [28.0, 63.0])):
        wp.launch(kernel, dim=dim, inputs=[wp.array([2.0, 3.0], dtype=float), y])
        assert (y.list(), len(ran)) == (expected, 1)
