"""Grids of NanoVDB as bytes: how they are laid out, and checks that readers stay inside.

The format is OpenVDB's: https://www.openvdb.org/documentation/doxygen/NanoVDB_MainPage.html. A grid begins with 672
bytes of header and 64 of the tree; then come the root with its table, the upper nodes, the lower nodes and the tiles,
which the format calls leaves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warp_like.base.frozen import Frozen

Bytes = np.ndarray[Any, Any]

GRID_MAGIC = 0x304244566F6E614E
_MAGICS = (GRID_MAGIC, 0x314244566F6E614E)
VERSION = 32 << 21 | 3 << 10 | 3
TREE = 672
_FEATURE = 288
"""Bytes of what a grid says of a feature array."""


class Values(NamedTuple):
    """A type of values: NanoVDB's number of it and its name, its scalars, how many, and the scalar of means.

    ``leaf`` is where the values of a tile begin and how large a tile is, for types whose tiles do not hold 512 of them.
    """

    number: int
    name: str
    scalar: Any
    length: int
    mean: Any
    leaf: tuple[int, int] | None = None


INDEX, ON_INDEX = 19, 20
_TYPES = (
    Values(1, "float", np.float32, 1, np.float32),
    Values(2, "double", np.float64, 1, np.float64),
    Values(3, "int16", np.int16, 1, np.float32),
    Values(4, "int32", np.int32, 1, np.float32),
    Values(5, "int64", np.int64, 1, np.float64),
    Values(6, "Vec3f", np.float32, 3, np.float32),
    Values(7, "Vec3d", np.float64, 3, np.float64),
    Values(8, "Mask", np.bool_, 1, np.bool_, (96, 96)),
    Values(9, "Half", np.float16, 1, np.float32),
    Values(10, "uint32", np.uint32, 1, np.float32),
    Values(11, "bool", np.bool_, 1, np.bool_, (96, 160)),
    Values(12, "RGBA8", np.uint32, 1, np.float32),
    Values(13, "Float4", np.float32, 1, np.float32, (96, 352)),
    Values(14, "Float8", np.float32, 1, np.float32, (96, 608)),
    Values(15, "Float16", np.float32, 1, np.float32, (96, 1120)),
    Values(17, "Vec4f", np.float32, 4, np.float32),
    Values(18, "Vec4d", np.float64, 4, np.float64),
    Values(INDEX, "Index", np.uint64, 1, np.float64, (80, 96)),
    Values(ON_INDEX, "OnIndex", np.uint64, 1, np.float64, (80, 96)),
    Values(21, "IndexMask", np.uint64, 1, np.float64, (80, 160)),
    Values(22, "OnIndexMask", np.uint64, 1, np.float64, (80, 160)),
    Values(23, "PointIndex", np.uint64, 1, np.float64, (96, 1120)),
    Values(24, "Vec3u8", np.uint8, 3, np.float32),
    Values(25, "Vec3u16", np.uint16, 3, np.float32),
    Values(26, "uint8", np.uint8, 1, np.float32),
)
BY_PLACE, FROM_FIRST, COUNTED = 0, 1, 2
"""The ways in which voxels get numbers (``ir/objects.py``)."""
_INDEXING = {INDEX: FROM_FIRST, ON_INDEX: COUNTED, 21: FROM_FIRST, 22: COUNTED}


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


class Layout(Frozen):
    """Where the parts of nodes are for one type of values, in bytes."""

    values: Values
    value_size: int
    background: int
    root_size: int
    tile_value: int
    tile_size: int
    stride: int
    upper_table: int
    upper_size: int
    lower_table: int
    lower_size: int
    leaf_values: int
    leaf_size: int

    @property
    def tables(self) -> tuple[tuple[int, int, int, int], ...]:
        """Of upper and lower nodes: the bits of a coordinate, where the mask and the table are, the bits below."""
        return (5, 4128, self.upper_table, 7), (4, 544, self.lower_table, 3)

    @staticmethod
    def of(values: Values) -> Layout:
        """The layout by the rules of C, with nodes and tables of values at multiples of 32."""
        align = np.dtype(values.scalar).itemsize
        size, mean = align * values.length, np.dtype(values.mean).itemsize

        def after_statistics(start: int) -> int:
            means = _up(_up(start, align) + 2 * size, mean)
            return _up(means + 2 * mean, 32)

        background, tile_value = _up(28, align), _up(20, align)
        stride = _up(max(size, 8), 8)
        upper, lower, leaf = after_statistics(8224), after_statistics(1056), after_statistics(80)
        leaf, leaf_size = values.leaf or (leaf, _up(leaf + 512 * size, 32))
        return Layout(
            values=values,
            value_size=size,
            background=background,
            root_size=after_statistics(background + size),
            tile_value=tile_value,
            tile_size=_up(tile_value + size, 32),
            stride=stride,
            upper_table=upper,
            upper_size=_up(upper + 32768 * stride, 32),
            lower_table=lower,
            lower_size=_up(lower + 4096 * stride, 32),
            leaf_values=leaf,
            leaf_size=leaf_size,
        )


LAYOUTS = {values.number: Layout.of(values) for values in _TYPES}
NAMES = {values.number: values.name for values in _TYPES}
"""What NanoVDB calls the types."""


class Feature(NamedTuple):
    """An array that a grid has beside its tree: its name, first byte, elements, and what these are."""

    name: str
    begin: int
    value_size: int
    value_count: int
    number: int


class Damaged(RuntimeError):
    """Bytes are no grid, or a grid that can't be read."""


class Grid:
    """A grid, checked so that readers stay within its bytes.

    Attributes:
        data: Its bytes.
        layout: How its nodes are laid out.
        root: Where its root begins.
        leaves: Where its tiles begin.
        origins: The first voxel of each tile, ``(tiles, 3)``.
        cubes: Where the values are that the root has for whole cubes, and the first voxel of each.
        levels: Where upper nodes begin, and the first voxel of each; then the same of lower nodes.
        lower_count: How many lower nodes there are.
        upper_count: How many upper nodes there are.
        indexing: How voxels get numbers.
        voxel_count: How many numbers of voxels there are.
        features: The arrays beside the tree.
    """

    lower_count = upper_count = 0

    def __init__(self, data: Bytes) -> None:
        self.data = data
        if data.size < TREE + 64 or self._u64(0) not in _MAGICS:
            raise Damaged("these bytes are no NanoVDB grid: the signature is missing")
        if self._u32(16) >> 21 != 32:
            raise Damaged(f"NanoVDB grids of version 32 can be read, got {self._u32(16) >> 21}")
        size = self._u64(32)
        if not TREE + 64 <= size <= data.size:
            raise Damaged(f"the NanoVDB grid says that it has {size} bytes, and there are {data.size}")
        self.data = data[:size]
        number = self._u32(636)
        if number not in LAYOUTS:
            raise Damaged(f"NanoVDB grids of type {number} are not in this release")
        self.layout = LAYOUTS[number]
        self.root = TREE + self._i64(TREE + 24)
        self.leaves, self.origins = self._tiles()
        self.indexing = _INDEXING.get(number, BY_PLACE)
        self.voxel_count = self._voxel_count()
        self.features = self._features()

    def _u32(self, at: int) -> int:
        return int(self.data[at : at + 4].view(np.uint32)[0])

    def _u64(self, at: int) -> int:
        return int(self.data[at : at + 8].view(np.uint64)[0])

    def _i64(self, at: int) -> int:
        return int(self.data[at : at + 8].view(np.int64)[0])

    def _require(self, nodes: Bytes, size: int, what: str) -> None:
        wrong = (nodes < TREE + 64) | (nodes > self.data.size - size) | (nodes % 8 != 0)  # a sum could overflow
        if wrong.any() or len(nodes) * size > self.data.size:
            raise Damaged(f"the NanoVDB grid is damaged: {what} lies out of it, or in another one")

    def _require_apart(self, begins: Bytes, ends: Bytes) -> None:
        """Refuse nodes that overlap: kernels that write voxels would write over links."""
        order = np.argsort(begins)
        if (begins[order][1:] < ends[order][:-1]).any():
            raise Damaged("the NanoVDB grid is damaged: nodes lie in each other")

    def _tiles(self) -> tuple[Bytes, Bytes]:
        """Walk the tree from its root."""
        it = self.layout
        self._require(np.array([self.root]), it.root_size, "the root")
        count = self._u32(self.root + 24)
        table = self.root + it.root_size
        self._require(np.array([table]), count * it.tile_size, "the root's table")
        rows = self.data[table : table + count * it.tile_size].reshape(count, it.tile_size)
        keys = rows[:, :8].copy().view(np.uint64)[:, 0].astype(object)
        below = rows[:, 8:16].copy().view(np.int64)[:, 0]
        cubes = [[int(k) >> shift & 0x1FFFFF for shift in (42, 21, 0)] for k in keys]
        origins = (np.array(cubes, np.int64).reshape(-1, 3) << 12).astype(np.uint32).view(np.int32).astype(np.int64)
        inner = below != 0
        self.cubes = table + np.flatnonzero(~inner) * it.tile_size + it.tile_value, origins[~inner]
        nodes, origins = self.root + below[inner], origins[inner]
        self.levels: list[tuple[Bytes, Bytes]] = []
        begins, ends = [np.array([self.root])], [np.array([table + count * it.tile_size])]
        for name, size, (bits, mask, start, step) in zip(
            ("an upper node", "a lower node"), (it.upper_size, it.lower_size), it.tables, strict=True
        ):
            self._require(nodes, size, name)
            self.upper_count, self.lower_count = self.lower_count, len(nodes)
            self.levels.append((nodes, origins))
            begins, ends = [*begins, nodes], [*ends, nodes + size]
            found = [self._children(node, bits, mask, start) for node in nodes]
            places = [np.stack([n >> 2 * bits, n >> bits & (1 << bits) - 1, n & (1 << bits) - 1], 1) for n, _ in found]
            inside = (o + (p << step) for o, p in zip(origins, places, strict=True))
            origins = np.concatenate([np.zeros((0, 3), np.int64), *inside])
            nodes = np.concatenate([np.zeros(0, np.int64), *(children for _, children in found)])
        self._require(nodes, it.leaf_size, "a tile")
        self._nodes = np.concatenate([*begins, nodes]), np.concatenate([*ends, nodes + it.leaf_size])
        self._require_apart(*self._nodes)
        order = np.argsort(nodes, kind="stable")
        nodes = nodes[order]
        if (np.diff(nodes) != it.leaf_size).any():
            raise Damaged("the NanoVDB grid is damaged: its tiles do not follow each other")
        return nodes, origins[order].astype(np.int32)

    def _voxel_count(self) -> int:
        if not len(self.leaves) or self.indexing == BY_PLACE:
            return 512 * len(self.leaves)
        numbers = self.numbers()
        most = int(numbers.max()) + 1
        nodes = len(self.leaves), self.lower_count, self.upper_count + 1
        if most > sum(n * k for n, k in zip(nodes, (516, 4100, 32772), strict=True)):  # a number for all that there is
            raise Damaged(f"the NanoVDB grid is damaged: a voxel has number {most - 1}")
        return most

    def numbers(self) -> Bytes:
        """The number of each voxel of each tile, ``(tiles, 512)``; -1 for voxels that have none."""
        it, n = self.layout, np.arange(512)
        if self.indexing == BY_PLACE:
            return 512 * np.arange(len(self.leaves))[:, None] + n
        first = int(self.leaves[0]) if len(self.leaves) else 0
        rows = self.data[first : first + len(self.leaves) * it.leaf_size].reshape(-1, it.leaf_size)
        offsets = rows[:, 80:88].copy().view(np.uint64)
        if (offsets > 2**62).any():
            raise Damaged("the NanoVDB grid is damaged: the numbers of its voxels are too large")
        found = offsets.astype(np.int64) - 1
        if self.indexing == FROM_FIRST:
            return found + n
        held = np.unpackbits(rows[:, 16:80], axis=1, bitorder="little").astype(bool)
        words = np.cumsum(held.reshape(-1, 8, 64).sum(2), 1)
        sums = rows[:, 88:96].copy().view(np.uint64) >> np.arange(0, 63, 9, dtype=np.uint64) & np.uint64(511)
        if (sums != words[:, :7]).any():
            raise Damaged("the NanoVDB grid is damaged: a tile's sums are not those of its voxels")
        return np.where(held, found + np.cumsum(held, 1) - 1, -1)

    def _features(self) -> list[Feature]:
        start, count = self._i64(640), self._u32(648)
        if not count:
            return []
        if not TREE <= start <= self.data.size - _FEATURE * count or start % 8:
            raise Damaged("the NanoVDB grid is damaged: the list of its feature arrays lies out of it")
        found, begins, ends = [], [start], [start + _FEATURE * count]
        for at in range(start, start + _FEATURE * count, _FEATURE):
            begin, values, size = at + self._i64(at), self._u64(at + 8), self._u32(at + 16)
            name = bytes(self.data[at + 32 : at + _FEATURE])
            if not TREE <= begin <= self.data.size - size * values or b"\0" not in name:
                raise Damaged("the NanoVDB grid is damaged: a feature array lies out of it, or has no name")
            found.append(Feature(_text(name), begin, size, values, self._u32(at + 28)))
            begins, ends = [*begins, begin], [*ends, begin + size * values]
        nodes = (np.concatenate([a, b]) for a, b in zip(self._nodes, (begins, ends), strict=True))
        self._require_apart(*nodes)
        return found

    @property
    def name(self) -> str:
        """The grid's name."""
        return _text(bytes(self.data[40:296]))

    def _children(self, node: int, bits: int, mask: int, start: int) -> tuple[Bytes, Bytes]:
        held, rows = self.entries(node, bits, mask, start)
        n = np.flatnonzero(held)
        return n, node + rows[n, :8].copy().view(np.int64)[:, 0]

    def entries(self, node: int, bits: int, mask: int, start: int) -> tuple[Bytes, Bytes]:
        """Which of a node's ``1 << 3 * bits`` parts are nodes, and the bytes of each: an offset, or a value."""
        count = 1 << 3 * bits
        held = np.unpackbits(self.data[node + mask : node + mask + count // 8], bitorder="little")
        rows = self.data[node + start : node + start + count * self.layout.stride].reshape(count, self.layout.stride)
        return held, rows

    @property
    def words(self) -> dict[str, int]:
        """What a descriptor says of it."""
        it = self.layout
        names = ("root_size", "background", "tile_size", "tile_value", "stride", "upper_table", "lower_table")
        found = {name: getattr(it, name) for name in (*names, "leaf_values", "value_size", "leaf_size")}
        first = int(self.leaves[0]) if len(self.leaves) else 0
        numbers = {"voxel_count": self.voxel_count, "indexing": self.indexing, "first_leaf": first}
        return {**found, **numbers, "type": it.values.number, "root": self.root}


def _text(name: bytes) -> str:
    return name.split(b"\0")[0].decode("ascii", "replace")
