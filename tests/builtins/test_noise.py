"""Noise: Warp's values, periods, smoothness, and gradients against differences of the reference in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import examples, more, sampled
from warp_like.builtins.noise import _curl, _jet

P = (1.25, 3.5, 0.75, 2.1)
STATE = wp.rand_init(42)
V = (float, float, wp.vec2, wp.vec3, wp.vec4)


def point(n: int, sign: float = 1.0) -> Any:
    return sign * P[0] if n == 1 else V[n](*(sign * x for x in P[:n]))


WARP = [
    ("noise", 1.0, (), [-0.14374232292, 0.29212769866, 0.00836462528, -0.30854445696]),
    ("noise", -1.0, (), [-0.24116231502, 0.29264003038, -0.00356186414, 0.30998238921]),
    ("pnoise", 1.0, (3, 4, 5, 6), [-0.14374232292, -0.21221025288, 0.09943056107, -0.29065489769]),
]
"""What warp-lang 1.19 gives for 1 to 4 dimensions."""


@pytest.mark.parametrize(("name", "sign", "period", "expected"), WARP)
def test_values_are_those_of_warp(name: str, sign: float, period: tuple[int, ...], expected: list[float]) -> None:
    found = [getattr(wp, name)(STATE, point(n, sign), *period[:n]) for n in (1, 2, 3, 4)]
    np.testing.assert_allclose(found, expected, atol=2e-7)


def test_curls_are_those_of_warp() -> None:
    np.testing.assert_allclose(wp.curlnoise(STATE, point(2)), [-0.371358007, 0.114948377], atol=1e-6)
    fine = wp.curlnoise(STATE, point(3), 3, 2.1, 0.6)
    np.testing.assert_allclose(fine, [0.54212904, -0.44705248, -2.1410375], atol=2e-6)
    moving = wp.curlnoise(STATE, point(4), octaves=2)
    np.testing.assert_allclose(moving, [-0.12814948, 0.61258435, -0.44724774], atol=2e-6)


@wp.kernel
def sample(p: wp.array(dtype=wp.vec4), out: wp.array2d(dtype=float)):
    i = wp.tid()
    s = wp.rand_init(42, i)
    x = p[i]
    out[i, 0] = wp.noise(s, x[0])
    out[i, 1] = wp.noise(s, wp.vec2(x[0], x[1]))
    out[i, 2] = wp.noise(s, wp.vec3(x[0], x[1], x[2]))
    out[i, 3] = wp.noise(s, x)
    out[i, 4] = wp.pnoise(s, x[0], 3)
    out[i, 5] = wp.pnoise(s, wp.vec2(x[0], x[1]), 3, 4)
    out[i, 6] = wp.pnoise(s, wp.vec3(x[0], x[1], x[2]), 3, 4, 5)
    out[i, 7] = wp.pnoise(s, x, 3, 4, 5, 6)


@wp.kernel
def curl_2(p: wp.array(dtype=wp.vec4), out: wp.array2d(dtype=float)):
    i = wp.tid()
    c = wp.curlnoise(wp.rand_init(42, i), wp.vec2(p[i][0], p[i][1]), wp.uint32(3), 2.1, 0.6)
    for k in range(2):
        out[i, k] = c[k]


@wp.kernel
def curl_3(p: wp.array(dtype=wp.vec4), out: wp.array2d(dtype=float)):
    i = wp.tid()
    c = wp.curlnoise(wp.rand_init(42, i), wp.vec3(p[i][0], p[i][1], p[i][2]), octaves=wp.uint32(2))
    for k in range(3):
        out[i, k] = c[k]


def noises(state: int, x: np.ndarray) -> np.ndarray:
    values = [_jet(state, x[:n])[0] for n in (1, 2, 3, 4)]
    return np.array(values + [_jet(state, x[:n], (3, 4, 5, 6))[0] for n in (1, 2, 3, 4)])


KERNELS = [
    (sample, 8, noises),
    (curl_2, 2, lambda s, x: _curl(s, x[:2], 3, 2.1, 0.6)),
    (curl_3, 3, lambda s, x: _curl(s, x[:3], 2, 2.0, 0.5)),
]


@more
@pytest.mark.parametrize(
    ("kernel", "width", "reference"), sampled(KERNELS, every=3), ids=["noise", "curl of 2", "curl of 3"]
)
def test_values_and_gradients(kernel: Any, width: int, reference: Callable[..., Any]) -> None:
    count = examples(40, few=16)
    rng = np.random.default_rng(4)
    points = rng.uniform(-6.0, 6.0, (count, 4)).astype(np.float32)
    weights = rng.normal(size=(count, width)).astype(np.float32)
    p = wp.array(points, dtype=wp.vec4, requires_grad=True)
    out = wp.zeros((count, width), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=count, inputs=[p], outputs=[out])
    tape.backward(grads={out: wp.array(weights, dtype=float)})
    states = [wp.rand_init(42, i) for i in range(count)]
    expected = [reference(s, x) for s, x in zip(states, points.astype(np.float64), strict=True)]
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-5)
    slopes, h = np.zeros((count, 4)), 1e-5
    for i, k in np.ndindex(count, 4):
        up, down = points[i].astype(np.float64), points[i].astype(np.float64)
        up[k] += h
        down[k] -= h
        slopes[i, k] = np.dot(weights[i], reference(states[i], up) - reference(states[i], down)) / (2 * h)
    np.testing.assert_allclose(p.grad.numpy(), slopes, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_periods_hold_on_both_sides_of_zero(n: int) -> None:
    period = (3, 4, 5, 6)[:n]
    rng = np.random.default_rng(n)
    for x in rng.uniform(-1.0, 1.0, (20, n)):
        here = _jet(7, x, period)
        np.testing.assert_allclose(_jet(7, x - period, period), here, atol=1e-12)
        got = wp.pnoise(7, float(x[0]) if n == 1 else V[n](*x), *period)
        beyond = x + period
        there = wp.pnoise(7, float(beyond[0]) if n == 1 else V[n](*beyond), *period)
        np.testing.assert_allclose([got, there], here[0], atol=4e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_jets_hold_the_slopes(n: int) -> None:
    """Also across the borders of cells, and 0 is the value at the lattice."""
    rng = np.random.default_rng(n)
    points = [*rng.uniform(-4, 4, (20, n)), np.zeros(n), np.full(n, -2.0)]
    for x in points:
        slopes = [(_jet(3, x + e)[0] - _jet(3, x - e)[0]) / 2e-6 for e in np.eye(n) * 1e-6]
        np.testing.assert_allclose(_jet(3, x)[1:], slopes, atol=1e-7)
    assert _jet(3, np.zeros(n))[0] == 0


def test_curls_have_no_divergence() -> None:
    rng = np.random.default_rng(9)
    for n in (2, 3):
        for x in rng.uniform(-4, 4, (20, n)):
            ends = [(_curl(5, x + e, 2, 2.0, 0.5), _curl(5, x - e, 2, 2.0, 0.5)) for e in np.eye(n) * 1e-5]
            assert abs(sum((a[k] - b[k]) / 2e-5 for k, (a, b) in enumerate(ends))) < 1e-6


def test_noise_without_octaves_is_zero() -> None:
    assert wp.curlnoise(STATE, point(3), 0) == wp.vec3()
