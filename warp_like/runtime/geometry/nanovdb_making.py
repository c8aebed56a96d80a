"""Making grids of NanoVDB: the bytes of a tree for given tiles or voxels (``nanovdb.py`` has the layout)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from warp_like.runtime.geometry.nanovdb import (
    GRID_MAGIC,
    INDEX,
    LAYOUTS,
    ON_INDEX,
    TREE,
    VERSION,
    Bytes,
    Layout,
    Values,
)

_FLAGS = 1 << 1 | 1 << 5
"""The grid has a box, and its nodes lie level by level."""
_INDEX_CLASS = 8


def of_tiles(tiles: Bytes, values: Values, background: Any, matrix: Any, translation: Any) -> Bytes:
    """Return the bytes of a grid with ``tiles``, each given by a voxel of it; all voxels have the background.

    The map to the world is ``matrix`` times the voxel, plus ``translation``. An index grid has a number for each voxel.
    """
    leaves = np.unique(np.asarray(tiles, np.int64).reshape(-1, 3) >> 3 << 3, axis=0)
    data, tail = _tree(leaves, (leaves, leaves + 7), 512 * len(leaves), values, background, (matrix, translation))
    tail[:, 16:80] = 255
    if values.number == INDEX:
        tail[:, 80:88] = (1 + 512 * np.arange(len(leaves), dtype=np.uint64))[:, None].view(np.uint8)
    else:
        value, it = _value(values, background), LAYOUTS[values.number]
        _values(tail[:, 80:], value, 2)
        _values(tail[:, it.leaf_values :], value, 512)
    return data


def of_voxels(voxels: Bytes, matrix: Any, translation: Any) -> Bytes:
    """Return the bytes of an index grid that has a number for each of ``voxels``, and for no other."""
    given = np.unique(np.asarray(voxels, np.int64).reshape(-1, 3), axis=0)
    leaves, of = _unique(given >> 3 << 3)
    low, high = leaves + 7, leaves.copy()
    np.minimum.at(low, of, given)
    np.maximum.at(high, of, given)
    data, tail = _tree(leaves, (low, high), len(given), LAYOUTS[ON_INDEX].values, 0, (matrix, translation))
    x, y, z = (given & 7).T
    held = np.zeros((len(leaves), 512), bool)
    held[of, x << 6 | y << 3 | z] = True
    tail[:, 16:80] = np.packbits(held, axis=1, bitorder="little")
    counts = np.cumsum(held.reshape(-1, 8, 64).sum(2), 1).astype(np.uint64)
    sums = (counts[:, :7] << np.arange(0, 63, 9, dtype=np.uint64)).sum(1, dtype=np.uint64)
    first = 1 + np.cumsum(counts[:, 7]) - counts[:, 7]
    tail[:, 80:88], tail[:, 88:96] = (n.astype(np.uint64)[:, None].view(np.uint8) for n in (first, sums))
    return data


def _unique(rows: Bytes) -> tuple[Bytes, Bytes]:
    """The different rows in order, and the place of each row among them."""
    found, of = np.unique(rows, axis=0, return_inverse=True)
    return found, of.reshape(-1)


def _value(values: Values, number: Any) -> bytes:
    return np.broadcast_to(np.asarray(number, values.scalar), (values.length,)).tobytes()


def _tree(
    leaves: Bytes,
    box: tuple[Bytes, Bytes],
    voxel_count: int,
    values: Values,
    background: Any,
    to_world: tuple[Any, Any],
) -> tuple[Bytes, Bytes]:
    """The bytes of a grid with empty tiles, and these tiles: ``box`` has the first and last voxel of each."""
    it, low, high = LAYOUTS[values.number], *box
    lowers, of_leaf = _unique(leaves >> 7 << 7)
    uppers = np.unique(lowers >> 12 << 12, axis=0)
    keys = _keys(uppers)
    uppers, keys = uppers[np.argsort(keys)], np.sort(keys)
    of_lower = np.searchsorted(keys, _keys(lowers))
    counts = len(leaves), len(lowers), len(uppers)
    at_root = TREE + 64
    at_upper = at_root + it.root_size + len(uppers) * it.tile_size
    at_lower = at_upper + len(uppers) * it.upper_size
    at_leaf = at_lower + len(lowers) * it.lower_size
    data = np.zeros(at_leaf + len(leaves) * it.leaf_size, np.uint8)
    value = _value(values, background)
    _write_header(data, it, _box(low, high), voxel_count, *to_world)
    starts = (at_leaf - TREE, at_lower - TREE, at_upper - TREE, 64)
    _put(data, TREE, "<4q3I3IQ", *starts, *counts, 0, 0, 0, voxel_count)
    _put(data, at_root, "<6iI", *_box(low, high), len(uppers))
    _values(data[at_root + it.background :][None], value, 3)
    for n, key in enumerate(keys):
        row = at_root + it.root_size + n * it.tile_size
        _put(data, row, "<Qq", int(key), at_upper + n * it.upper_size - at_root)
        data[row + it.tile_value : row + it.tile_value + len(value)] = np.frombuffer(value, np.uint8)
    levels = (
        (len(lowers), leaves, of_leaf, at_lower, at_leaf, it.lower_size, it.leaf_size, it.lower_table, 3, 4),
        (len(uppers), lowers, of_lower, at_upper, at_lower, it.upper_size, it.lower_size, it.upper_table, 7, 5),
    )
    for count, below, of, start, first, node_size, below_size, table, inner, bits in levels:
        nodes = data[start : start + count * node_size].reshape(count, node_size)
        rows = nodes[:, table : table + (it.stride << 3 * bits)].reshape(count, 1 << 3 * bits, it.stride)
        rows[:, :, : len(value)] = np.frombuffer(value, np.uint8)
        _values(nodes[:, 32 + (2 << 3 * bits) // 8 :], value, 2)
        x, y, z = ((below >> inner) & ((1 << bits) - 1)).T
        place = (x << 2 * bits) | (y << bits) | z
        np.bitwise_or.at(nodes, (of, 32 + (1 << 3 * bits) // 8 + place // 8), (1 << place % 8).astype(np.uint8))
        offsets = first + np.arange(len(below)) * below_size - (start + of * node_size)
        rows[of, place, :8] = offsets.astype(np.int64)[:, None].view(np.uint8)
        rows[of, place, 8:] = 0
        boxes = np.full((count, 2, 3), [[2**31 - 1], [-(2**31)]], np.int64)
        np.minimum.at(boxes[:, 0], of, low)
        np.maximum.at(boxes[:, 1], of, high)
        nodes[:, :24] = boxes.astype(np.int32).reshape(count, 6).view(np.uint8)
        low, high = boxes[:, 0], boxes[:, 1]
    tail = data[at_leaf:].reshape(len(leaves), it.leaf_size)
    tail[:, :12] = box[0].astype(np.int32).view(np.uint8)
    tail[:, 12:15], tail[:, 15] = box[1] - box[0], 2
    return data, tail


def _keys(origins: Bytes) -> Bytes:
    """The keys of cubes of 4096 voxels, by which the root has them."""
    i, j, k = ((origins & 0xFFFFFFFF) >> 12).astype(np.uint64).T
    return k | j << np.uint64(21) | i << np.uint64(42)


def _put(data: Bytes, at: int, form: str, *values: Any) -> None:
    data[at : at + struct.calcsize(form)] = np.frombuffer(struct.pack(form, *values), np.uint8)


def _values(rows: Bytes, value: bytes, count: int) -> None:
    rows[:, : count * len(value)] = np.frombuffer(value * count, np.uint8)


def _box(low: Bytes, high: Bytes) -> list[int]:
    return [*low.min(0), *high.max(0)] if len(low) else [2**31 - 1] * 3 + [-(2**31)] * 3


def _write_header(data: Bytes, it: Layout, box: list[int], voxel_count: int, matrix: Bytes, translation: Bytes) -> None:
    of_index = it.values.number in (INDEX, ON_INDEX)
    _put(data, 0, "<QQIIIIQ", GRID_MAGIC, 2**64 - 1, VERSION, _FLAGS, 0, 1, data.size)
    for at, letter in ((296, "f"), (384, "d")):
        numbers = [*matrix.ravel(), *np.linalg.inv(matrix).ravel(), *translation, 1.0]
        _put(data, at, f"<22{letter}", *numbers)
    ends = np.array(box, float).reshape(2, 3) + np.array([[0], [1]])
    corners = np.stack(np.meshgrid(*ends.T, indexing="ij"), -1).reshape(-1, 3) @ matrix.T + translation
    world = [*corners.min(0), *corners.max(0)] if box[0] <= box[3] else [0.0] * 6
    kind = _INDEX_CLASS if of_index else 0
    _put(data, 560, "<9d2IqI", *world, *matrix.sum(1), kind, it.values.number, data.size, 0)
    _put(data, 656, "<Q", voxel_count + 1 if of_index else 0)
