"""Parts of the benchmarks of single calls: 16 elements, so that the work itself is nothing."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from timing import Program

SIZE = 16
FACTOR = 2.0


def numbers() -> np.ndarray:
    """Return the input of a call."""
    return np.arange(SIZE, dtype=np.float32)


def zeros() -> np.ndarray:
    """Return an array for the output of a call."""
    return np.zeros(SIZE, dtype=np.float32)


def values_of(result: Any) -> np.ndarray:
    """Return a copy of what an array of any framework holds."""
    return np.array(result.numpy() if hasattr(result, "numpy") else result)


def returning(call: Callable[[], Any]) -> Program:
    """Return a program whose result is what the call returns."""
    return Program(call, lambda: values_of(call()))


def torch_gradient(torch: ModuleType, function: Callable[[Any], Any]) -> Program:
    """Return the program that differentiates a function of a tensor once."""
    x, seed = torch.from_numpy(numbers()).requires_grad_(), torch.ones(SIZE)

    def run() -> None:
        x.grad = None
        function(x).backward(seed)

    return Program(run, lambda: x.grad.numpy().copy())
