"""What the compiler keeps in memory between two questions about one kernel."""

import numpy as np

import warp_like as wp
from warp_like.compiler import lookup


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
    tapes = []
    for factor in (2.0, 3.0, 4.0, 5.0):
        x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
        y = wp.zeros(2, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(declare(factor), dim=2, inputs=[x, y])
        tapes.append((tape, x, y, factor))
    assert len(lookup._drafts) == 2
    for tape, x, y, factor in tapes:  # the first two are made again
        tape.backward(grads={y: wp.ones(2, dtype=float)})
        np.testing.assert_allclose(x.grad.numpy(), [2.0 * factor, 4.0 * factor])
    assert len(lookup._drafts) <= 2
