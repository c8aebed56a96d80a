"""A block's threads in plain Python, which wait for each other: the oracle of blocks on the CPU and on CUDA."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import warp_like as wp

f64 = wp.float64
A = wp.array(dtype=f64)
A2 = wp.array2d(dtype=f64)
COLUMNS = 40


class Team:
    """The threads of one block in plain Python: ``tid``, exchanges and barriers, under the names of builtins."""

    int = int
    float64 = float
    vec2d = staticmethod(lambda *x: np.array(x, float))
    sin = staticmethod(np.sin)
    where = staticmethod(lambda c, a, b: a if c else b)

    def __init__(self, count: int, dim: int) -> None:
        self.count, self.dim = count, dim
        self.barrier = threading.Barrier(count)
        self.slots: list[Any] = [None] * count
        self.local = threading.local()

    def all(self, value: Any) -> list[Any]:
        self.slots[self.local.number] = value
        self.barrier.wait()
        found = list(self.slots)
        self.barrier.wait()
        return found

    def tid(self) -> Any:
        return self.local.index

    def block_thread(self) -> int:
        return self.local.number

    def block_size(self) -> int:
        return self.count

    def block_dim(self) -> int:
        return self.dim

    def block_sync(self) -> None:
        self.barrier.wait()

    def block_sum(self, x: Any) -> Any:
        return sum(self.all(x))

    def block_min(self, x: Any) -> Any:
        return min(self.all(x))

    def block_max(self, x: Any) -> Any:
        return max(self.all(x))

    def block_any(self, x: bool) -> bool:
        return any(self.all(x))

    def block_all(self, x: bool) -> bool:
        return all(self.all(x))

    def warp_sum(self, x: Any) -> Any:
        return x

    def shared_array(self, shape: Any, dtype: Any) -> Any:
        return self.all(np.zeros(shape))[0]

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape)


def in_python(function: Callable[..., None], args: list[Any], dims: tuple[int, ...], block_dim: int) -> None:
    """Run a kernel's function once for each thread of the grid, block after block along its last dimension."""
    *outer, last = dims
    for row in np.ndindex(*outer):
        for first in range(0, last, block_dim):
            team = Team(min(block_dim, last - first), block_dim)
            code = types.FunctionType(function.__code__, {**function.__globals__, "wp": team, "f64": float})

            def one(k: int, team: Team = team, code: Any = code, at: Any = (*row, first)) -> None:
                team.local.number = k
                index = (*at[:-1], at[-1] + k)
                team.local.index = index if len(index) > 1 else index[0]
                code(*args)

            running = [threading.Thread(target=one, args=(k,)) for k in range(team.count)]
            for t in running:
                t.start()
            for t in running:
                t.join()


@wp.struct
class Pair:
    a: f64
    b: int
    v: wp.vec2d


def data(n: int) -> np.ndarray:
    return np.random.default_rng(n).uniform(-1.0, 1.0, n)


def expected(kernel: Any, x: np.ndarray, rounds: int, block_dim: int) -> np.ndarray:
    y = np.zeros((len(x), 6))
    in_python(kernel.func, [x, y, rounds], (len(x),), block_dim)
    return y


def slope(function: Any, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The derivative of ``(function(x) * weights).sum()``, by differences."""
    found = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[place] += 1e-6
        down[place] -= 1e-6
        found[place] = ((function(up) - function(down)) * weights).sum() / 2e-6
    return found
