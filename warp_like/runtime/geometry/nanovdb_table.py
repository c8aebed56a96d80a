"""The table of a volume's tiles, in which kernels find a tile at once instead of walking down the tree.

It covers the box of all that is not background, and one tile more on each side, so that places beyond it are looked up
at its edge. Elements are int32: where the tile begins, in words of 4 bytes from the grid's beginning; or where the
value is that stands for it, with all bits turned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warp_like.runtime.arrays.array import new_array
from warp_like.runtime.geometry.nanovdb import Bytes, Grid
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import Device
from warp_like.values.dtypes import int32

_MOST_FOR_A_TILE = 64
"""Elements for each tile: an eighth of the memory that its voxels take, if they are float32."""
_MOST_BYTES = 2**33


class Table(NamedTuple):
    """The elements, and the tile that the first one is of: its coordinates, in tiles."""

    elements: Bytes
    first: Bytes


class _Blocks(NamedTuple):
    """Cubes of ``size`` tiles along an axis that values stand for: their places, and the first tile of each cube."""

    size: int
    places: Bytes
    first: Bytes


def table_of(grid: Grid) -> Table | None:
    """Return the table of a grid; None where it would take much memory beside the grid, or there is no tile."""
    tiles = grid.origins.astype(np.int64) >> 3
    if not len(tiles) or grid.data.size >= _MOST_BYTES:
        return None
    blocks = [b for b in _other_values(grid) if len(b.first)]
    low = np.min([tiles.min(0), *(b.first.min(0) for b in blocks)], axis=0) - 1
    high = np.max([tiles.max(0), *(b.first.max(0) + b.size - 1 for b in blocks)], axis=0) + 1
    shape = high - low + 1
    if np.prod(shape.astype(float)) > 4096 + _MOST_FOR_A_TILE * len(tiles):
        return None
    elements = np.full(shape, ~((grid.root + grid.layout.background) >> 2), np.int32)
    for of in blocks:
        for at, place in zip(of.first - low, of.places, strict=True):
            elements[tuple(slice(k, k + of.size) for k in at)] = ~(place >> 2)
    places = tuple((tiles - low).T)
    elements[places] = grid.leaves >> 2
    if (elements[places] != grid.leaves >> 2).any():  # two tiles at one place: the tree says which of them counts
        return None
    return Table(elements, low)


def table_words(grid: Grid, device: Device) -> dict[str, Any]:
    """Return what a descriptor says of the table, which is made on a device; nothing where there is none."""
    table = table_of(grid)
    if table is None:
        return {}
    elements = new_array(element_type(int32), (table.elements.size,), device, zero=False)
    elements.assign(table.elements.ravel())
    first, size = (zip("xyz", map(int, of), strict=True) for of in (table.first, table.elements.shape))
    places = {f"table_{axis}": at & 2**64 - 1 for axis, at in first}
    return {"table": elements, **places, **{f"table_n{axis}": n for axis, n in size}}


def _other_values(grid: Grid) -> list[_Blocks]:
    """The values that stand for cubes without tiles and are not the background."""
    it = grid.layout
    at = grid.root + it.background
    background = grid.data[at : at + it.value_size]
    places, first = grid.cubes
    other = (grid.data[places[:, None] + np.arange(it.value_size)] != background).any(1)
    found = [_Blocks(512, places[other], first[other] >> 3)]
    for (nodes, origins), (bits, mask, start, step) in zip(grid.levels, it.tables, strict=True):
        all_places, all_first = [np.zeros(0, np.int64)], [np.zeros((0, 3), np.int64)]
        for node, origin in zip(nodes, origins, strict=True):
            held, rows = grid.entries(node, bits, mask, start)
            n = np.flatnonzero((held == 0) & (rows[:, : it.value_size] != background).any(1))
            all_places.append(node + start + n * it.stride)
            side = (1 << bits) - 1
            all_first.append(origin + (np.stack([n >> 2 * bits, n >> bits & side, n & side], 1) << step))
        found.append(_Blocks(1 << step - 3, np.concatenate(all_places), np.concatenate(all_first) >> 3))
    return found
