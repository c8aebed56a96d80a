"""Reverse sweeps that are recorded once and run many times: ``wp.launch(..., adjoint=True, record_cmd=True)``."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp

N = 5


@wp.kernel
def scale(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] * x[i]


@wp.struct
class Pair:
    x: wp.array(dtype=float)
    a: float


@wp.kernel
def scale_pair(pair: Pair, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = pair.a * pair.x[i]


def arrays() -> tuple[wp.array, wp.array, np.ndarray]:
    values = np.arange(N, dtype=np.float32)
    return wp.array(values, dtype=float), wp.zeros(N, dtype=float), values


def test_it_runs_when_it_is_asked_to_and_not_before():
    x, y, values = arrays()
    adj_x, adj_y = wp.zeros(N, dtype=float), wp.ones(N, dtype=float)
    command = wp.launch(scale, N, [x, 3.0], [y], adj_inputs=[adj_x], adj_outputs=[adj_y], adjoint=True, record_cmd=True)
    assert isinstance(command, wp.Launch)
    assert not adj_x.numpy().any()
    for count in (1, 2, 3):
        command.launch()
        np.testing.assert_allclose(adj_x.numpy(), count * 6 * values)


def test_arguments_adjoints_and_grid_can_be_changed():
    x, y, values = arrays()
    adj_x, adj_y = wp.zeros(N, dtype=float), wp.ones(N, dtype=float)
    command = wp.launch(
        scale, N, [x, 3.0], [y], adj_inputs=[adj_x, None], adj_outputs=[adj_y], adjoint=True, record_cmd=True
    )
    command.set_param_by_name("a", 1.0)
    command.set_param_at_index(0, wp.full(N, 2.0))
    command.set_dim(2)
    command.launch()
    np.testing.assert_allclose(adj_x.numpy(), [4, 4, 0, 0, 0])
    other, weights = wp.zeros(N, dtype=float), wp.full(N, 0.5)
    command.set_param_by_name("x", other, adjoint=True)
    command.set_param_at_index(2, weights, adjoint=True)
    command.set_params([x, 2.0])
    command.set_dim(N)
    command.launch()
    np.testing.assert_allclose(other.numpy(), 2 * values)
    np.testing.assert_allclose(adj_x.numpy(), [4, 4, 0, 0, 0])


def test_arrays_use_their_own_gradients():
    x, y, values = arrays()
    x.requires_grad = y.requires_grad = True
    command = wp.launch(scale, N, [x, 1.0], [y], adjoint=True, record_cmd=True)
    y.grad.fill_(1.0)
    command.launch()
    np.testing.assert_allclose(x.grad.numpy(), 2 * values)


def test_structs():
    pair, adj = Pair(x=arrays()[0], a=3.0), Pair(x=wp.zeros(N, dtype=float))
    y = wp.zeros(N, dtype=float)
    command = wp.launch(
        scale_pair, N, [pair], [y], adj_inputs=[adj], adj_outputs=[wp.ones(N)], adjoint=True, record_cmd=True
    )
    command.launch()
    pair.a = 1.0  # a launch sees what has been written to its structs
    command.launch()
    np.testing.assert_allclose(adj.x.numpy(), 4.0)


def test_what_is_wrong_is_said_when_it_is_recorded():
    x, y, _ = arrays()
    with pytest.raises(ValueError, match=r"`adj_x` has shape \(2,\), its array \(5,\)"):
        wp.launch(scale, N, [x, 1.0], [y], adj_inputs=[wp.zeros(2)], adjoint=True, record_cmd=True)
    command = wp.launch(scale, N, [x, 1.0], [y], adj_inputs=[wp.zeros(N)], adjoint=True, record_cmd=True)
    with pytest.raises(IndexError, match="3 parameters, got index 3"):
        command.set_param_at_index(3, x, adjoint=True)
    with pytest.raises(TypeError, match="argument 2 `a`"):
        command.set_param_by_name("a", "no")
    forward = wp.launch(scale, N, [x, 1.0], [y], record_cmd=True)
    with pytest.raises(ValueError, match="this launch has no adjoints; record it with adjoint=True to set them"):
        forward.set_param_by_name("x", x, adjoint=True)
