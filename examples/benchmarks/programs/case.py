"""What a program of the throughput table is, and the list of all of them.

A program is a subclass of ``Case`` that says the same thing four times: as a kernel for both Warps, as a function of
whole arrays for JAX and PyTorch, as loops for numba, and as a C++ function in ``../cpp``. The function of whole arrays,
run by NumPy in float64, is what all of them are checked against, so that no column is checked against its own text.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import NumpyArrays

Real = type[np.float32] | type[np.float64]
SPECIAL = 20  # operations that a special function (sine, exponential, ...) counts as: about those of its polynomial


class Case:
    """One program with its data.

    A subclass sets the attributes in ``__init__(n, real)``, where ``real`` is ``numpy.float32`` or ``numpy.float64``,
    and defines the three static methods. These have no annotations, since their text is not Python alone: it is
    compiled by the Warps, traced by JAX and PyTorch, and compiled by numba.

    Attributes:
        title: The row's name, with the size.
        dim: The grid of the launch.
        inputs: Arrays and numbers, in the order in which a kernel takes them; the output follows.
        types: The names of the arrays' types in a kernel: those of ``inputs``, then that of the output.
        out: An array of the output's shape and type.
        zeroed: Whether the kernel adds to its output, which every column then sets to zero in its time.
        looped: Whether ``arrays`` uses ``xp.loop``, whose body is what PyTorch compiles.
        flops: Operations of one launch, as ``operations`` gives them; a sum, a product, a quotient and a root are one
            each.
        nbytes: Bytes that have to go between memory and processor in one launch, each array once.
        tolerance: Arguments of ``timing.check``.
    """

    title: str
    dim: int | tuple[int, ...]
    inputs: list[Any]
    types: list[str]
    out: np.ndarray
    flops: float
    nbytes: float
    zeroed = False
    looped = False
    tolerance: dict[str, float] = {}

    def __init__(self, n: int, real: Real) -> None:
        raise NotImplementedError

    @staticmethod
    def kernel(wp, real):
        """Return the kernel; ``real`` is a type of ``wp``."""
        raise NotImplementedError

    @staticmethod
    def arrays(xp, *inputs):
        """Return the output, computed on whole arrays; ``xp`` is one of ``arrays.py``."""
        raise NotImplementedError

    @staticmethod
    def loops(jit, prange, real):
        """Return numba's function of the inputs and the output; ``real`` is a type of NumPy."""
        raise NotImplementedError

    def operations(self) -> float:
        """Return the operations of one launch; overridden where they follow from the results."""
        return float(self.flops)

    def filled(self, arrays: Iterable[Any]) -> list[Any]:
        """Return the inputs with these arrays in place of NumPy's, and with Python's numbers."""
        rest = iter(arrays)
        return [next(rest) if isinstance(a, np.ndarray) else a.item() if hasattr(a, "item") else a for a in self.inputs]

    @property
    def input_arrays(self) -> list[np.ndarray]:
        return [a for a in self.inputs if isinstance(a, np.ndarray)]

    def expected(self) -> np.ndarray:
        """Return what the program has to compute, in float64."""
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in self.input_arrays]
        with np.errstate(all="ignore"):
            return self.arrays(NumpyArrays(), *self.filled(wide))

    @property
    def extents(self) -> tuple[int, ...]:
        """The sizes that the C++ function takes in front of the inputs."""
        return self.dim if isinstance(self.dim, tuple) else (self.dim,)


@dataclass(frozen=True)
class Entry:
    """A row of the table that has not got its data yet."""

    case: type[Case]
    real: Real
    full: int
    quick: int

    @property
    def name(self) -> str:
        """The name for ``--programs`` and of the C++ function."""
        return self.case.__name__.lower() + ("64" if self.real is np.float64 else "")

    def make(self, quick: bool) -> Case:
        return self.case(self.quick if quick else self.full, self.real)


ENTRIES: list[Entry] = []


def sizes(**by_real: tuple[int, int]) -> Callable[[type[Case]], type[Case]]:
    """Put a case on the list, for each type with its size and the one under ``--quick``."""

    def add(case: type[Case]) -> type[Case]:
        ENTRIES.extend(Entry(case, getattr(np, name), full, quick) for name, (full, quick) in by_real.items())
        return case

    return add


def random(real: Real, *shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(real)


def uniform(real: Real, low: float, high: float, *shape: int, seed: int = 0) -> np.ndarray:
    """Return numbers between ``low`` and ``high``."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(real)


def named(base: str, real: Real) -> str:
    """Return the name of a Warp type: ``vec3`` for float32 is ``vec3d`` for float64; ``real`` is the scalar."""
    if base == "real":
        return np.dtype(real).name
    return base + ("d" if real is np.float64 else "")


def labelled(title: str, real: Real) -> str:
    """Return a row's name with its type, which is float32 where it is not said."""
    return f"{title}, float64" if real is np.float64 else title
