"""What a problem of the gradient tables is: kernels, the same function of whole arrays, and its gradient in NumPy."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from programs.case import random

Launch = Callable[[], object]


class Problem:
    """A differentiable function of some arrays, with its data.

    A subclass says the function three times. ``launches`` makes kernels that warp_like and warp-lang both compile;
    ``function`` is the peers' way, on whole arrays; ``gradient`` is derived by hand, in float64, and is the reference
    that every column must agree with before it gets a time. Programs of the throughput table are used as they are.

    Attributes:
        name: The row's name, with the size.
        inputs: The arrays, all of them differentiated.
        dtypes: The names of their types in a kernel.
        seed: The adjoint of the output; its shape is that of the output.
        tolerance: Arguments of ``timing.check``.
        cpp: The name of the C++ function that computes output and gradients; empty where there is none.
        numbers: What that function is given beside these arrays.
    """

    name: str
    inputs: list[np.ndarray]
    dtypes: list[str]
    seed: np.ndarray
    tolerance: dict[str, float] = {"rtol": 1.0e-3, "atol": 1.0e-3}
    cpp: str = ""
    numbers: tuple[Any, ...] = ()

    def launches(self, wp: ModuleType, inputs: list[Any], out: Any) -> tuple[Launch, list[Any]]:
        """Return a function that computes ``out`` by launches, and the arrays that have to be zero before."""
        raise NotImplementedError

    def function(self, xp: Any, *inputs: Any) -> Any:
        """Return the output, computed on whole arrays; ``xp`` is one of ``programs/arrays.py``."""
        raise NotImplementedError

    def gradient(self) -> np.ndarray:
        """Return the output and the gradients as one flat array."""
        raise NotImplementedError


def joined(*parts: Any) -> np.ndarray:
    """Return the elements of several arrays as one flat array."""
    return np.concatenate([np.ravel(part) for part in parts])


def normal(*shape: int) -> np.ndarray:
    """Return standard normal numbers in float32."""
    return random(np.float32, *shape)


def reversed_normal(*shape: int) -> np.ndarray:
    """Return the numbers of ``normal`` in the opposite order."""
    return normal(*shape)[::-1].copy()
