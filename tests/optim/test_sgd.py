"""SGD, beside PyTorch's."""

import numpy as np
import pytest

import warp_like as wp
from tests.optim.beside import compare

SETTINGS = [
    {"lr": 0.1},
    {"lr": 0.1, "weight_decay": 0.2},
    {"lr": 0.02, "momentum": 0.9},
    {"lr": 0.02, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.1},
    {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_beside_pytorch(settings):
    torch = pytest.importorskip("torch")

    def run(dtypes, shapes, steps, tolerance):
        ours, theirs = wp.optim.SGD, torch.optim.SGD
        compare(lambda p: ours(p, **settings), lambda p: theirs(p, **settings), dtypes, shapes, steps, tolerance)

    run([wp.float64, wp.vec3d, wp.float64, wp.float64], [(5, 7), (3,), (0,), (1,)], 40, 1e-12)
    run([wp.float32], [(9,)], 20, 2e-6)
    run([wp.float16, wp.bfloat16], [(9,), (3,)], 5, 3e-2)


def test_momentum_that_is_set_later():
    p, g = wp.zeros(2, dtype=wp.float64), wp.ones(2, dtype=wp.float64)
    optimizer = wp.optim.SGD([p], lr=1.0)
    optimizer.step([g])
    optimizer.momentum = 0.5
    optimizer.step([g])  # the momentum of the first step was not kept
    optimizer.step([g])
    assert p.list() == [-3.5, -3.5]
    assert optimizer.b[0].list() == [1.5, 1.5]


def test_step_detail_is_a_step():
    p, q, g = wp.ones(4, dtype=wp.float64), wp.ones(4, dtype=wp.float64), wp.full(4, 0.5, dtype=wp.float64)
    optimizer, b = wp.optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True), wp.zeros_like(q)
    for t in range(3):
        optimizer.step([g])
        wp.optim.SGD.step_detail(g, b, 0.1, 0.9, 0.0, 0.0, True, t, q)
    np.testing.assert_array_equal(p.numpy(), q.numpy())


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"momentum": -0.1}, "SGD `momentum` is at least 0, got -0.1"),
        ({"nesterov": True}, r"SGD `nesterov` needs momentum and no dampening, got momentum=0.0, dampening=0.0"),
        ({"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "got momentum=0.9, dampening=0.1"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        wp.optim.SGD(**settings)
