"""Gradient descent with momentum.

Source: I. Sutskever, J. Martens, G. Dahl, G. Hinton, "On the importance of initialization and momentum in deep
learning", ICML 2013, in PyTorch's form, where the step length is no part of the momentum.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.optim.arguments import require_like
from warp_like.optim.launches import Kernels
from warp_like.optim.optimizer import COEFFICIENTS, Optimizer, advance, step_alone
from warp_like.optim.rates import rate_of, require_in


@wp.func
def _update(p: Any, g: Any, b: Any, k: wp.array[wp.float64]) -> Any:
    """Return a parameter and its momentum after a step, computed in the momentum's type."""
    T = type(b)
    g += T(k[1]) * p
    if k[0] > wp.float64(1.0):
        b = T(k[2]) * b + T(k[3]) * g
    else:  # momentum begins as the gradient
        b = g
    way = b
    if k[4] != wp.float64(0.0):  # Nesterov
        way = g + T(k[2]) * b
    return p - T(k[5]) * way, b


@wp.kernel(enable_backward=False)
def _sgd_line(p: wp.array[Any], g: wp.array[Any], b: wp.array[Any], k: wp.array[wp.float64]) -> None:
    i = wp.tid()
    new, b_new = _update(b.dtype(p[i]), b.dtype(g[i]), b[i], k)
    p[i] = p.dtype(new)
    b[i] = b_new


@wp.kernel(enable_backward=False)
def _sgd_block(p: wp.array4d[Any], g: wp.array4d[Any], b: wp.array4d[Any], k: wp.array[wp.float64]) -> None:
    i, j, m, n = wp.tid()
    new, b_new = _update(b.dtype(p[i, j, m, n]), b.dtype(g[i, j, m, n]), b[i, j, m, n], k)
    p[i, j, m, n] = p.dtype(new)
    b[i, j, m, n] = b_new


@wp.kernel(enable_backward=False)
def _plain_line(p: wp.array[Any], g: wp.array[Any], b: wp.array[Any], k: wp.array[wp.float64]) -> None:
    i = wp.tid()
    x = b.dtype(p[i])
    p[i] = p.dtype(x - b.dtype(k[5]) * (b.dtype(g[i]) + b.dtype(k[1]) * x))


@wp.kernel(enable_backward=False)
def _plain_block(p: wp.array4d[Any], g: wp.array4d[Any], b: wp.array4d[Any], k: wp.array[wp.float64]) -> None:
    i, j, m, n = wp.tid()
    x = b.dtype(p[i, j, m, n])
    p[i, j, m, n] = p.dtype(x - b.dtype(k[5]) * (b.dtype(g[i, j, m, n]) + b.dtype(k[1]) * x))


@wp.kernel(enable_backward=False)
def _sgd_coefficients(
    lr: wp.float64,
    momentum: wp.float64,
    dampening: wp.float64,
    weight_decay: wp.float64,
    nesterov: wp.bool,
    k: wp.array[wp.float64],
) -> None:
    k[0] = k[0] + wp.float64(1.0)
    k[1] = weight_decay
    k[2] = momentum
    k[3] = wp.float64(1.0) - dampening
    k[4] = wp.where(nesterov, wp.float64(1.0), wp.float64(0.0))
    k[5] = rate_of(lr, k)


MOMENTUM = Kernels(_sgd_line, _sgd_block)
PLAIN = Kernels(_plain_line, _plain_block)
"""Without momentum: these leave the buffer alone."""


class SGD(Optimizer):
    """Gradient descent, with momentum and weight decay.

    With ``g`` the gradient plus ``weight_decay`` times the parameter, ``b = momentum b + (1 - dampening) g``, or
    ``b = g`` in the first step. A step is ``p -= lr b``, or ``p -= lr (g + momentum b)`` with ``nesterov``.

    Args:
        params: A list of arrays of floats, of vectors and matrices, or of structs, of any library. None to set them
            later.
        lr: The length of steps. An array of one element is read at each step, also by replays of a graph.
        momentum: How much of a step the next one goes on with.
        dampening: How much of the gradient is left out of the momentum.
        weight_decay: This times the parameter is added to its gradient.
        nesterov: Look ahead along the momentum.

    Attributes:
        b: The momentum, for each parameter an array of its shape, or for structs one for each field of floats, by name.

    Raises:
        TypeError: A parameter is no array of floats.
        ValueError: A number is out of its range, a parameter is read-only, or ``nesterov`` has no momentum.

    Example:
        >>> p = wp.array([1.0, 2.0])
        >>> optimizer = wp.optim.SGD([p], lr=0.1, momentum=0.9)
        >>> for _ in range(2):
        ...     optimizer.step([wp.array([1.0, 2.0])])
        >>> p.numpy().round(3)
        array([0.71, 1.42])
    """

    _buffers = ("b",)
    _numbers = ("lr", "momentum", "dampening", "weight_decay", "nesterov")

    b: list[Any]

    def __init__(
        self,
        params: Any = None,
        lr: float | wp.array = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        self.lr = lr
        self.momentum = momentum
        self.dampening = dampening
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        for name in ("lr", "momentum", "weight_decay"):
            require_in("SGD", name, getattr(self, name))
        if nesterov and (momentum <= 0.0 or dampening != 0.0):
            raise ValueError(
                f"SGD `nesterov` needs momentum and no dampening, got momentum={momentum!r}, dampening={dampening!r}"
            )
        super().__init__(params)

    def _kernels(self) -> Kernels:
        return MOMENTUM if self.momentum else PLAIN

    def _advance(self, k: wp.array) -> None:
        numbers = [self.momentum, self.dampening, self.weight_decay, bool(self.nesterov)]
        advance(_sgd_coefficients, self.lr, numbers, k, "SGD")

    @staticmethod
    def step_detail(
        g: wp.array,
        b: wp.array,
        lr: float,
        momentum: float,
        dampening: float,
        weight_decay: float,
        nesterov: bool,
        t: int,
        params: wp.array,
    ) -> None:
        """Change one array by step ``t``, which counts from 0, with the momentum ``b``; as ``warp.optim``."""
        g = require_like(g, params, "SGD")
        k = wp.full(COEFFICIENTS, float(t), dtype=wp.float64, device=params.device)
        advance(_sgd_coefficients, lr, [momentum, dampening, weight_decay, bool(nesterov)], k, "SGD")
        step_alone(MOMENTUM if momentum else PLAIN, params, g, [b], k)
