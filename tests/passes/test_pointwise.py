"""Which loops may overwrite what they read."""

from typing import Any

import pytest

import warp_like as wp
from tests.frontend.support import build
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Tile
from warp_like.passes.pipeline import Options, optimise, prepare
from warp_like.passes.pointwise import overwritable

N = 12
Numbers = wp.array2d(dtype=float)
KERNELS: list[tuple[Any, int]] = []


def reads(count: int) -> Any:
    """Note a kernel: the tile that its first map makes may overwrite ``count`` of those that it is made of."""

    def note(f: Any) -> Any:
        KERNELS.append((f, count))
        return f

    return note


@wp.func
def third(x: float, y: float, z: float):
    return x * y + z


@reads(1)
def of_itself(a: Numbers):
    t = wp.tile_load(a, shape=(N, N))
    wp.tile_store(a, wp.tile_map(wp.sin, t))


@reads(1)
def of_it_twice(a: Numbers):
    t = wp.tile_load(a, shape=(N, N))
    wp.tile_store(a, wp.tile_map(third, t, t, 2.0))


@reads(2)
def of_two(a: Numbers):
    t, s = wp.tile_load(a, shape=(N, N)), wp.tile_load(a, shape=(N, N), offset=(1, 1))
    wp.tile_store(a, wp.tile_map(wp.min, t, s))


@reads(0)
def of_another_place(a: Numbers):
    t = wp.tile_load(a, shape=(N, N))
    wp.tile_store(a, wp.tile_transpose(t))
    wp.tile_store(a, wp.tile_reshape(wp.tile_transpose(t) * 2.0, shape=(N, N)))


@reads(0)
def of_a_gather(a: Numbers):
    t = wp.tile_load(a, shape=(N, N))
    down = wp.tile_arange(N - 1, -1, -1, dtype=int)
    wp.tile_store(a, t[down, :])


@reads(0)
def of_what_is_written_already(a: Numbers):
    t = wp.tile_load(a, shape=(N, N))
    wp.tile_store(a, wp.tile_scan_exclusive(t[::-1, :]))


def made_from_nothing(f: Any) -> list[ops.For]:
    """The loops that make a tile which nothing is in before."""
    options = Options(verify=True)
    body = optimise(prepare(build(f), options), options).body
    return [
        o
        for o in body.walk()
        if isinstance(o, ops.For) and any(isinstance(v.type, Tile) and isinstance(v.op, ops.Empty) for v in o.init)
    ]


def overwritten(o: ops.For) -> list[Value]:
    return [v for k, r in enumerate(o.results) if isinstance(r.type, Tile) for v in overwritable(o, k)]


@pytest.mark.parametrize("f, count", KERNELS, ids=lambda x: getattr(x, "__name__", ""))
def test_overwritable(f: Any, count: int):
    loops = made_from_nothing(f)
    assert loops
    assert len(overwritten(loops[0])) == count
