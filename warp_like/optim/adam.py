"""Adam and AdamW.

Source: D. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015; I. Loshchilov, F. Hutter, "Decoupled
weight decay regularization", ICLR 2019.
"""

from __future__ import annotations

from typing import Any, ClassVar

import warp_like as wp
from warp_like.optim.arguments import require_like
from warp_like.optim.launches import Kernels
from warp_like.optim.optimizer import COEFFICIENTS, Optimizer, advance, step_alone
from warp_like.optim.rates import rate_of, require_in


@wp.func
def _update(p: Any, g: Any, m: Any, v: Any, k: wp.array[wp.float64]) -> Any:
    """Return a parameter and both moments after a step, computed in the moments' type."""
    T = type(m)
    g += T(k[1]) * p
    p *= T(k[2])
    m += T(k[3]) * (g - m)
    v = T(k[4]) * v + T(k[5]) * g * g
    return p - T(k[6]) * m / (wp.sqrt(v) * T(k[7]) + T(k[8])), m, v


@wp.kernel(enable_backward=False)
def _adam_line(
    p: wp.array[Any],
    g: wp.array[Any],
    m: wp.array[Any],
    v: wp.array[Any],
    k: wp.array[wp.float64],
) -> None:
    i = wp.tid()
    new, m_new, v_new = _update(m.dtype(p[i]), m.dtype(g[i]), m[i], v[i], k)
    p[i] = p.dtype(new)
    m[i] = m_new
    v[i] = v_new


@wp.kernel(enable_backward=False)
def _adam_block(
    p: wp.array4d[Any],
    g: wp.array4d[Any],
    m: wp.array4d[Any],
    v: wp.array4d[Any],
    k: wp.array[wp.float64],
) -> None:
    a, b, c, d = wp.tid()
    new, m_new, v_new = _update(m.dtype(p[a, b, c, d]), m.dtype(g[a, b, c, d]), m[a, b, c, d], v[a, b, c, d], k)
    p[a, b, c, d] = p.dtype(new)
    m[a, b, c, d] = m_new
    v[a, b, c, d] = v_new


@wp.kernel(enable_backward=False)
def _adam_coefficients(
    lr: wp.float64,
    beta1: wp.float64,
    beta2: wp.float64,
    eps: wp.float64,
    weight_decay: wp.float64,
    decoupled: wp.bool,
    k: wp.array[wp.float64],
) -> None:
    one = wp.float64(1.0)
    rate = rate_of(lr, k)
    t = k[0] + one
    k[0] = t
    k[1] = wp.where(decoupled, wp.float64(0.0), weight_decay)
    k[2] = wp.where(decoupled, one - rate * weight_decay, one)
    k[3] = one - beta1
    k[4] = beta2
    k[5] = one - beta2
    k[6] = rate / (one - wp.pow(beta1, t))
    k[7] = one / wp.sqrt(one - wp.pow(beta2, t))
    k[8] = eps


KERNELS = Kernels(_adam_line, _adam_block)


class Adam(Optimizer):
    """Adam: steps by the running mean of the gradient over the root of that of its square.

    ``m = beta1 m + (1 - beta1) g``, ``v = beta2 v + (1 - beta2) g^2``, and with the means' bias at step ``t`` removed,
    ``p -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)``, for each component of each element. The means of
    16-bit floats are kept and computed in float32.

    Args:
        params: A list of arrays of floats, of vectors and matrices, or of structs, of any library. None to set them
            later.
        lr: The length of steps. An array of one element is read at each step, also by replays of a graph.
        betas: How much of both means is kept from one step to the next: 0 to less than 1.
        eps: Added to the root.
        weight_decay: This times the parameter is added to its gradient.

    Attributes:
        m: The first mean, for each parameter an array of its shape; for structs one for each field of floats, by name.
        v: The mean of squares.

    Raises:
        TypeError: A parameter is no array of floats.
        ValueError: A number is out of its range, or a parameter is read-only.

    Example:
        >>> p = wp.array([1.0, 2.0])
        >>> optimizer = wp.optim.Adam([p], lr=0.1)
        >>> optimizer.step([wp.array([0.5, -0.5])])
        >>> p.numpy().round(3)
        array([0.9, 2.1])
    """

    _buffers = ("m", "v")
    _numbers = ("lr", "beta1", "beta2", "eps", "weight_decay")
    _decoupled: ClassVar[bool] = False

    m: list[Any]
    v: list[Any]

    def __init__(
        self,
        params: Any = None,
        lr: float | wp.array = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
    ) -> None:
        name = type(self).__name__
        self.lr = lr
        self.beta1, self.beta2 = betas
        self.eps = eps
        self.weight_decay = weight_decay
        require_in(name, "lr", lr)
        require_in(name, "betas[0]", self.beta1, below=1.0)
        require_in(name, "betas[1]", self.beta2, below=1.0)
        require_in(name, "eps", eps)
        require_in(name, "weight_decay", weight_decay)
        super().__init__(params)

    def _kernels(self) -> Kernels:
        return KERNELS

    def _advance(self, k: wp.array) -> None:
        numbers = [self.beta1, self.beta2, self.eps, self.weight_decay, self._decoupled]
        advance(_adam_coefficients, self.lr, numbers, k, type(self).__name__)

    @staticmethod
    def step_detail(
        g: wp.array,
        m: wp.array,
        v: wp.array,
        lr: float,
        beta1: float,
        beta2: float,
        t: int,
        eps: float,
        params: wp.array,
    ) -> None:
        """Change one array by step ``t``, which counts from 0, with the means ``m`` and ``v``; as ``warp.optim``."""
        g = require_like(g, params, "Adam")
        k = wp.full(COEFFICIENTS, float(t), dtype=wp.float64, device=params.device)
        advance(_adam_coefficients, lr, [beta1, beta2, eps, 0.0, False], k, "Adam")
        step_alone(KERNELS, params, g, [m, v], k)


class AdamW(Adam):
    """Adam with weight decay apart from the gradient: ``p *= 1 - lr weight_decay`` before each step.

    Args:
        params: As for ``Adam``.
        lr: As for ``Adam``.
        betas: As for ``Adam``.
        eps: As for ``Adam``.
        weight_decay: The share of a parameter that a step of length 1 takes away.

    Example:
        >>> p = wp.array([1.0, 2.0])
        >>> wp.optim.AdamW([p], lr=0.1, weight_decay=0.5).step([wp.zeros_like(p)])
        >>> p.numpy().round(3)
        array([0.95, 1.9 ])
    """

    _decoupled = True

    def __init__(
        self,
        params: Any = None,
        lr: float | wp.array = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
