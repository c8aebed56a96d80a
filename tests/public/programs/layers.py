"""warp-nn: every activation, operator and pooling that takes one array, with its gradient."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.public.program import Stage

PACKAGE = "warp_nn"


ARGUMENTS: dict[str, dict[str, float]] = {"Threshold": {"threshold": 0.1, "value": 0.0}}
SHAPES = {"GlobalAvgPool": (2, 3, 4, 2), "GlobalMaxPool": (2, 3, 4, 2)}
RANGES = {"Acosh": (1.1, 2.5), "Log": (0.1, 2.0), "Sqrt": (0.1, 2.0)}
"""Where these are defined."""
OF_INTEGERS = ("BitwiseNot",)


def stages() -> Iterator[Stage]:
    """A stage for each class."""
    import warp_nn.nn as nn

    for name, made in sorted(vars(nn).items()):
        if not (inspect.isclass(made) and issubclass(made, nn.Module) and made is not nn.Module):
            continue
        required = [p for p in list(inspect.signature(made).parameters.values()) if p.default is p.empty and p.kind < 2]
        takes = [p for p in inspect.signature(made.__call__).parameters.values() if p.kind < 2]
        if not required and len(takes) == 2 and name not in OF_INTEGERS:
            between = RANGES.get(name, (-0.9, 0.95))
            layer = Layer(made, ARGUMENTS.get(name, {}), SHAPES.get(name, (6, 8)), between)
            yield Stage(name, layer.run, layer.results)


class Layer:
    """A layer, run forward and backward on numbers in the middle of what it takes."""

    def __init__(
        self, made: Any, arguments: dict[str, float], shape: tuple[int, ...], between: tuple[float, float]
    ) -> None:
        self.made, self.arguments = made, arguments
        self.x = np.linspace(*between, 48, dtype=np.float32).reshape(shape)
        self.layer: Any = None
        self.found: dict[str, Any] = {}

    def run(self) -> None:
        """Compute the result and the gradient."""
        import warp as wp

        if self.layer is None:
            np.random.seed(1)  # which seeds dropout
            self.layer = self.made(**self.arguments)
        x = wp.array(self.x, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            y = self.layer(x)
        tape.backward(grads={y: wp.full_like(y, 1.0)})
        self.found = {"y": y.numpy(), "gradient": x.grad.numpy()}

    def results(self) -> dict[str, Any]:
        """The result and the gradient."""
        return self.found
