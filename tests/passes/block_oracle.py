"""A block's threads in plain Python: the oracle of blocks on the CPU and on CUDA.

They take turns: one runs until it meets the others, then the next one does.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

import warp_like as wp

T = TypeVar("T")
f64 = wp.float64
A = wp.array(dtype=f64)
A2 = wp.array2d(dtype=f64)
COLUMNS = 40


class Team:
    """The threads of one block in plain Python under the names of builtins; one of them runs at a time."""

    int, float64, sin, floor = int, float, staticmethod(np.sin), staticmethod(np.floor)
    vec2d = staticmethod(lambda *x: np.array(x, float))
    where = staticmethod(lambda c, a, b: a if c else b)

    def __init__(self, count: int, dim: int) -> None:
        self.count, self.dim = count, dim
        self.turn = [threading.Semaphore(0) for _ in range(count)]
        self.here = [True] * count
        self.slots: list[Any] = [None] * count
        self.done = threading.Semaphore(0)
        self.local = threading.local()
        self.failed: list[BaseException] = []

    def run(self, code: Callable[..., None], args: Sequence[Any], indices: Sequence[Any]) -> None:
        def one(k: int) -> None:
            self.local.number, self.local.index = k, indices[k]
            self.turn[k].acquire()
            try:
                code(*args)
            except BaseException as e:
                self.failed.append(e)
            self.here[k] = False
            self.slots[k] = None
            self._next(k)

        running = [threading.Thread(target=one, args=(k,), daemon=True) for k in range(self.count)]
        for t in running:
            t.start()
        self.turn[0].release()
        self.done.acquire()
        if self.failed:
            raise self.failed[0]

    def _next(self, k: int) -> None:
        later = [j for j in (*range(k + 1, self.count), *range(k + 1)) if self.here[j]]
        if later:
            self.turn[later[0]].release()
        else:
            self.done.release()

    def block_sync(self) -> None:
        k = self.local.number
        self._next(k)
        self.turn[k].acquire()

    def all(self, value: Any) -> list[Any]:
        """What each thread gives; None for those that have left."""
        self.slots[self.local.number] = value
        self.block_sync()
        found = list(self.slots)
        self.block_sync()
        return found

    def one(self, value: T) -> T:
        """What the first of them gives."""
        found: T = next(v for v in self.all(value) if v is not None)
        return found

    def given(self, value: Any) -> list[Any]:
        return [v for v in self.all(value) if v is not None]

    def tid(self) -> Any:
        return self.local.index

    def block_thread(self) -> int:
        return self.local.number

    def block_size(self) -> int:
        return self.count

    def block_dim(self) -> int:
        return self.dim

    def block_sum(self, x: Any) -> Any:
        return sum(self.given(x))

    def block_min(self, x: Any) -> Any:
        return min(self.given(x))

    def block_max(self, x: Any) -> Any:
        return max(self.given(x))

    def block_any(self, x: bool) -> bool:
        return any(self.given(x))

    def block_all(self, x: bool) -> bool:
        return all(self.given(x))

    def warp_sum(self, x: Any) -> Any:
        return x

    def shared_array(self, shape: Any, dtype: Any) -> Any:
        return self.one(np.zeros(shape, dtype))

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    def atomic_add(self, array: Any, *at: Any) -> Any:
        before = array[at[:-1]]
        array[at[:-1]] += at[-1]
        return before

    def tile_full(self, shape: int, value: float, dtype: Any) -> Any:
        return self.one(Elements(self, np.full(shape, value, dtype)))

    def tile(self, x: Any) -> Any:
        values = [0.0 if v is None else v for v in self.all(x)]
        return self.one(Elements(self, np.array(values + [0.0] * (self.dim - self.count))))

    def tile_sum(self, t: Any) -> Any:
        return self.one([t.values.sum()])

    def untile(self, t: Any) -> Any:
        return t.values[self.local.number]


class Elements:
    """A tile: threads meet before one of them reads an element, and after one has changed it."""

    def __init__(self, team: Team, values: Any) -> None:
        self.team, self.values = team, values

    def __getitem__(self, at: int) -> Any:
        self.team.block_sync()
        return self.values[at]

    def __setitem__(self, at: int, value: Any) -> None:
        self.values[at] = value
        self.team.block_sync()


def teams(dims: tuple[int, ...], block_dim: int) -> Iterator[tuple[Team, list[Any]]]:
    """Give the blocks of a grid, along its last dimension, with the indices of their threads."""
    *outer, last = dims
    for row in np.ndindex(*outer):
        for first in range(0, last, block_dim):
            team = Team(min(block_dim, last - first), block_dim)
            yield team, [(*row, first + k) if row else first + k for k in range(team.count)]


def in_python(function: Callable[..., None], args: list[Any], dims: tuple[int, ...], block_dim: int) -> None:
    """Run a kernel's function once for each thread of the grid, block after block."""
    for team, indices in teams(dims, block_dim):
        space = {**function.__globals__, "wp": team, "f64": float}
        team.run(types.FunctionType(function.__code__, space), args, indices)


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
