"""Adam and AdamW, beside PyTorch's."""

import numpy as np
import pytest

import warp_like as wp
from tests.optim.beside import compare, numbers

SETTINGS = [
    ("Adam", {}),
    ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3}),
    ("AdamW", {}),
]


@pytest.mark.parametrize("name, settings", SETTINGS)
def test_float64_and_vectors_of_any_size(name, settings):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(wp.optim, name), getattr(torch.optim, name)
    dtypes = [wp.float64, wp.vec3d, wp.mat22d, wp.quatd, wp.float64, wp.float64]
    shapes = [(5, 7), (3,), (1,), (2, 3), (0,), (1,)]
    compare(lambda p: ours(p, **settings), lambda p: theirs(p, **settings), dtypes, shapes, 60, 1e-12)


def test_other_floats():
    """Means of short floats are kept in float32; a step rounds the parameter once."""
    torch = pytest.importorskip("torch")
    settings = {"lr": 0.01, "weight_decay": 0.01}
    for dtype, tolerance in ((wp.float32, 2e-6), (wp.float16, 6e-3), (wp.bfloat16, 5e-2), (wp.vec3h, 6e-3)):
        made = compare(
            lambda p: wp.optim.Adam(p, **settings),
            lambda p: torch.optim.Adam(p, **settings),
            [dtype],
            [(9,)],
            20,
            tolerance,
        )
        assert made.m[0].dtype is (wp.vec3 if dtype is wp.vec3h else wp.float32)
        assert made.v[0].shape == (9,)


def test_small_gradients_of_short_floats():
    """The square of a gradient of 1e-4 is no float16, so the moments must not be kept in it."""
    p, g = wp.zeros(3, dtype=wp.float16), wp.full(3, 1e-4, dtype=wp.float16)
    optimizer = wp.optim.Adam([p], lr=0.01)
    for _ in range(3):
        optimizer.step([g])
    np.testing.assert_allclose(numbers(p), -0.03, rtol=2e-3)


def test_step_detail_is_a_step():
    rng = np.random.default_rng(1)
    p, q, g = (wp.array(rng.standard_normal(4), dtype=wp.float64) for _ in range(3))
    q.assign(p)
    optimizer = wp.optim.Adam([p], lr=0.1)
    m, v = wp.zeros_like(p), wp.zeros_like(p)
    for t in range(3):
        optimizer.step([g])
        wp.optim.Adam.step_detail(g, m, v, 0.1, 0.9, 0.999, t, 1e-8, q)
    np.testing.assert_array_equal(p.numpy(), q.numpy())
    with pytest.raises(TypeError, match="Adam gradient dtype must match parameter dtype float64, got float32"):
        wp.optim.Adam.step_detail(wp.zeros(4), m, v, 0.1, 0.9, 0.999, 0, 1e-8, q)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"lr": -0.1}, "Adam `lr` is at least 0, got -0.1"),
        ({"lr": float("nan")}, "Adam `lr` is at least 0, got nan"),
        ({"betas": (1.0, 0.9)}, r"Adam `betas\[0\]` is at least 0 and below 1, got 1.0"),
        ({"betas": (0.9, -1.0)}, r"Adam `betas\[1\]` is at least 0 and below 1, got -1.0"),
        ({"eps": -1.0}, "Adam `eps` is at least 0, got -1.0"),
        ({"weight_decay": -1.0}, "Adam `weight_decay` is at least 0, got -1.0"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        wp.optim.Adam(**settings)
