"""What JAX has compiled for a kernel goes when the program drops the kernel and what it made of it."""

import gc
import weakref

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from warp_like.interop.jaxffi import kernel as functions  # noqa: E402

X = np.array([1.0, 3.0], np.float32)


def once(factor, backward=False):
    @wp.kernel(module="unique")
    def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = factor * x[i]

    f = wp.jax_kernel(scaled, enable_backward=backward)
    np.testing.assert_allclose(f(X)[0], factor * X)
    if backward:
        np.testing.assert_allclose(jax.grad(lambda x: f(x)[0].sum())(X), [factor, factor])
    return [weakref.ref(f), weakref.ref(scaled)]


def test_kernels_and_their_functions_go(monkeypatch):
    monkeypatch.setattr(functions, "_recent", {})
    refs = [*once(2.0), *once(3.0), once(2.0, backward=True)[0]]  # the traces of the last gradients are kept
    gc.collect()
    assert [ref() is None for ref in refs] == [False] * 5  # the ones that were asked for last stay
    functions._recent.clear()
    for _ in range(3):  # JAX's caches let go of what a collection has found
        gc.collect()
    assert [ref() for ref in refs] == [None] * 5


def test_the_functions_that_were_asked_for_last_stay(monkeypatch):
    monkeypatch.setattr(functions, "_recent", {})
    monkeypatch.setattr(functions, "_RECENT", 2)
    made = [once(factor)[0] for factor in (4.0, 5.0, 6.0)]
    gc.collect()
    assert [ref() is None for ref in made] == [True, False, False]
    assert len(functions._recent) == 2
