"""Grids of NanoVDB as bytes: how they are laid out, made, checked, and kept in files.

The format is OpenVDB's: https://www.openvdb.org/documentation/doxygen/NanoVDB_MainPage.html. A grid begins with 672
bytes of header and 64 of the tree; then come the root with its table, the upper nodes, the lower nodes and the tiles,
which the format calls leaves.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from warp_like.base.frozen import Frozen

Bytes = np.ndarray[Any, Any]

GRID_MAGIC, FILE_MAGIC = 0x304244566F6E614E, 0x324244566F6E614E
_MAGICS = (GRID_MAGIC, 0x314244566F6E614E)
VERSION = 32 << 21 | 3 << 10 | 3
CODECS = {"none": 0, "zip": 1, "blosc": 2}
TREE = 672
_FLAGS = 1 << 1 | 1 << 5
"""The grid has a box, and its nodes lie level by level."""
_HEADER = struct.Struct("<QIHH")
_METADATA = struct.Struct("<4Q2I6d6I3dI4I3IHHI")


class Values(NamedTuple):
    """A type of values: NanoVDB's number of it, its scalars, how many, and the scalar of means."""

    number: int
    scalar: Any
    length: int
    mean: Any


_TYPES = (
    Values(1, np.float32, 1, np.float32),
    Values(2, np.float64, 1, np.float64),
    Values(4, np.int32, 1, np.float32),
    Values(5, np.int64, 1, np.float64),
    Values(6, np.float32, 3, np.float32),
    Values(7, np.float64, 3, np.float64),
    Values(10, np.uint32, 1, np.float32),
    Values(17, np.float32, 4, np.float32),
    Values(18, np.float64, 4, np.float64),
)
NAMES = {
    1: "float",
    2: "double",
    4: "int32",
    5: "int64",
    6: "Vec3f",
    7: "Vec3d",
    10: "uint32",
    17: "Vec4f",
    18: "Vec4d",
}
"""What NanoVDB calls the types."""


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
            leaf_size=_up(leaf + 512 * size, 32),
        )


LAYOUTS = {values.number: Layout.of(values) for values in _TYPES}


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
    """

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
        nodes, origins = self.root + below[inner], origins[inner]
        begins, ends = [np.array([self.root])], [np.array([table + count * it.tile_size])]
        for name, size, bits, mask, start, step in (
            ("an upper node", it.upper_size, 5, 4128, it.upper_table, 7),
            ("a lower node", it.lower_size, 4, 544, it.lower_table, 3),
        ):
            self._require(nodes, size, name)
            begins, ends = [*begins, nodes], [*ends, nodes + size]
            found = [self._children(node, bits, mask, start) for node in nodes]
            places = [np.stack([n >> 2 * bits, n >> bits & (1 << bits) - 1, n & (1 << bits) - 1], 1) for n, _ in found]
            inside = (o + (p << step) for o, p in zip(origins, places, strict=True))
            origins = np.concatenate([np.zeros((0, 3), np.int64), *inside])
            nodes = np.concatenate([np.zeros(0, np.int64), *(children for _, children in found)])
        self._require(nodes, it.leaf_size, "a tile")
        self._require_apart(np.concatenate([*begins, nodes]), np.concatenate([*ends, nodes + it.leaf_size]))
        order = np.argsort(nodes, kind="stable")
        return nodes[order], origins[order].astype(np.int32)

    def _children(self, node: int, bits: int, mask: int, start: int) -> tuple[Bytes, Bytes]:
        count = 1 << 3 * bits
        held = np.unpackbits(self.data[node + mask : node + mask + count // 8], bitorder="little")
        n = np.flatnonzero(held)
        rows = self.data[node + start : node + start + count * self.layout.stride].reshape(count, self.layout.stride)
        return n, node + rows[n, :8].copy().view(np.int64)[:, 0]

    @property
    def words(self) -> dict[str, int]:
        """What a descriptor says of it."""
        it = self.layout
        names = ("root_size", "background", "tile_size", "tile_value", "stride", "upper_table", "lower_table")
        found = {name: getattr(it, name) for name in (*names, "leaf_values", "value_size")}
        return {**found, "type": it.values.number, "root": self.root, "voxel_count": 512 * len(self.leaves)}


# --- making ---


def made(tiles: Bytes, values: Values, background: Any, scale: Any, translation: Any) -> Bytes:
    """Return the bytes of a grid with ``tiles``, each given by a voxel of it; all voxels have the background."""
    it = LAYOUTS[values.number]
    leaves = np.unique(np.asarray(tiles, np.int64).reshape(-1, 3) >> 3 << 3, axis=0)
    lowers, uppers = np.unique(leaves >> 7 << 7, axis=0), np.unique(leaves >> 12 << 12, axis=0)
    roots = np.array([_key(*o) for o in uppers], np.uint64)
    uppers = uppers[np.argsort(roots)]
    counts = len(leaves), len(lowers), len(uppers)
    at_root = TREE + 64
    at_upper = at_root + it.root_size + len(uppers) * it.tile_size
    at_lower = at_upper + len(uppers) * it.upper_size
    at_leaf = at_lower + len(lowers) * it.lower_size
    size = at_leaf + len(leaves) * it.leaf_size
    data = np.zeros(size, np.uint8)
    value = np.broadcast_to(np.asarray(background, values.scalar), (values.length,)).tobytes()
    _write_header(data, it, leaves, scale, translation)
    starts = (at_leaf - TREE, at_lower - TREE, at_upper - TREE, 64)
    _put(data, TREE, "<4q3I3IQ", *starts, *counts, 0, 0, 0, 512 * len(leaves))
    _put(data, at_root, "<6iI", *_box(leaves), len(uppers))
    _values(data[at_root + it.background :][None], value, 3)
    for n, origin in enumerate(uppers):
        row = at_root + it.root_size + n * it.tile_size
        _put(data, row, "<Qq", _key(*origin), at_upper + n * it.upper_size - at_root)
        data[row + it.tile_value : row + it.tile_value + len(value)] = np.frombuffer(value, np.uint8)
    levels = (
        (uppers, lowers, at_upper, at_lower, it.upper_size, it.lower_size, it.upper_table, 12, 7, 5),
        (lowers, leaves, at_lower, at_leaf, it.lower_size, it.leaf_size, it.lower_table, 7, 3, 4),
    )
    for above, below, start, first, node_size, below_size, table, outer, inner, bits in levels:
        nodes = data[start : start + len(above) * node_size].reshape(len(above), node_size)
        rows = nodes[:, table : table + (it.stride << 3 * bits)].reshape(len(above), 1 << 3 * bits, it.stride)
        rows[:, :, : len(value)] = np.frombuffer(value, np.uint8)
        _values(nodes[:, 32 + (2 << 3 * bits) // 8 :], value, 2)
        number = {tuple(o): n for n, o in enumerate(above)}
        of = np.array([number[tuple(o)] for o in below >> outer << outer], np.int64)
        x, y, z = ((below >> inner) & ((1 << bits) - 1)).T
        place = (x << 2 * bits) | (y << bits) | z
        np.bitwise_or.at(nodes, (of, 32 + (1 << 3 * bits) // 8 + place // 8), (1 << place % 8).astype(np.uint8))
        offsets = first + np.arange(len(below)) * below_size - (start + of * node_size)
        rows[of, place, :8] = offsets.astype(np.int64)[:, None].view(np.uint8)
        rows[of, place, 8:] = 0
        for n in range(len(above)):
            inside = below[of == n]
            _put(nodes[n], 0, "<6i", *(inside.min(0)), *(inside.max(0) + (1 << inner) - 1))
    tail = data[at_leaf:].reshape(len(leaves), it.leaf_size)
    tail[:, :12] = leaves.astype(np.int32).view(np.uint8)
    tail[:, 12:15], tail[:, 15] = 7, 2
    tail[:, 16:80] = 255
    _values(tail[:, 80:], value, 2)
    _values(tail[:, it.leaf_values :], value, 512)
    return data


def _key(x: int, y: int, z: int) -> int:
    i, j, k = ((int(v) & 0xFFFFFFFF) >> 12 for v in (x, y, z))
    return k | j << 21 | i << 42


def _put(data: Bytes, at: int, form: str, *values: Any) -> None:
    data[at : at + struct.calcsize(form)] = np.frombuffer(struct.pack(form, *values), np.uint8)


def _values(rows: Bytes, value: bytes, count: int) -> None:
    rows[:, : count * len(value)] = np.frombuffer(value * count, np.uint8)


def _box(leaves: Bytes) -> list[int]:
    return [*leaves.min(0), *(leaves.max(0) + 7)] if len(leaves) else [2**31 - 1] * 3 + [-(2**31)] * 3


def _write_header(data: Bytes, it: Layout, leaves: Bytes, scale: Any, translation: Any) -> None:
    matrix, shift = np.diag(np.asarray(scale, float)), np.asarray(translation, float)
    _put(data, 0, "<QQIIIIQ", GRID_MAGIC, 2**64 - 1, VERSION, _FLAGS, 0, 1, data.size)
    for at, letter in ((296, "f"), (384, "d")):
        numbers = [*matrix.ravel(), *np.linalg.inv(matrix).ravel(), *shift, 1.0]
        _put(data, at, f"<22{letter}", *numbers)
    box = np.array(_box(leaves), float).reshape(2, 3) + np.array([[0], [1]])
    world = box * np.diag(matrix) + shift if len(leaves) else box * 0
    _put(data, 560, "<9d2Iq", *world.ravel(), *np.diag(matrix), 0, it.values.number, 0)


# --- files ---


def loaded(raw: bytes) -> Bytes:
    """Return the grids in a file, one after the other.

    Raises:
        Damaged: It is no such file, or compressed in a way that can't be read.
    """
    try:
        return _loaded(raw)
    except (struct.error, zlib.error, ValueError, IndexError, OverflowError) as error:
        raise Damaged(f"the NanoVDB file is damaged: {error}") from error


def _loaded(raw: bytes) -> Bytes:
    magic, version, count, codec = _HEADER.unpack_from(raw)
    if magic not in (GRID_MAGIC, FILE_MAGIC):
        raise Damaged("this is no NanoVDB file: the signature is missing")
    if version >> 21 != 32:
        raise Damaged(f"NanoVDB files of version 32 can be read, got {version >> 21}")
    at, sizes = _HEADER.size, []
    for _ in range(count):
        fields = _METADATA.unpack_from(raw, at)
        sizes.append((fields[0], fields[1]))
        at += _METADATA.size + fields[21]
    parts = []
    for size, stored in sizes:
        if codec:
            (stored,) = struct.unpack_from("<Q", raw, at)
            at += 8
        if stored > len(raw) - at:
            raise Damaged("the NanoVDB file ends too early")
        parts.append(_unpacked(raw[at : at + stored], codec, size))
        at += stored
    if len(parts) > 1:  # files need not number their grids
        parts = [p[:24] + struct.pack("<2I", n, len(parts)) + p[32:] for n, p in enumerate(parts)]
    return np.frombuffer(b"".join(parts), np.uint8).copy()


def _unpacked(part: bytes, codec: int, size: int) -> bytes:
    if codec == 0:
        found = part
    elif codec == 1:
        unpacker = zlib.decompressobj()
        found = unpacker.decompress(part, size + 1)
    elif codec == 2:
        found = _blosc().decompress(part)
    else:
        raise Damaged(f"the NanoVDB file has the unknown codec {codec}")
    if len(found) != size:
        raise Damaged(f"a grid of the NanoVDB file should have {size} bytes, and has {len(found)}")
    return found


def _blosc() -> Any:
    try:
        import blosc  # type: ignore[import-not-found]
    except ImportError as error:
        raise RuntimeError("the codec blosc needs the package blosc, which is not installed") from error
    return blosc


def file_of(data: Bytes, codec: str) -> bytes:
    """Return the file of one grid."""
    if codec not in CODECS:
        raise ValueError(f'save_to_nvdb(): `codec` is "none", "zip" or "blosc", got {codec!r}')
    raw = data.tobytes()
    packed = {"none": lambda: raw, "zip": lambda: zlib.compress(raw), "blosc": lambda: _blosc().compress(raw)}[codec]()
    name = raw[40:296].split(b"\0")[0] + b"\0"
    world, sizes = struct.unpack_from("<6d", raw, 560), struct.unpack_from("<3d", raw, 608)
    kind, number = struct.unpack_from("<2I", raw, 632)
    root = TREE + struct.unpack_from("<q", raw, TREE + 24)[0]
    corners, counts = struct.unpack_from("<6I", raw, root), struct.unpack_from("<6I", raw, TREE + 32)
    (voxels,) = struct.unpack_from("<Q", raw, TREE + 56)
    metadata = _METADATA.pack(
        *(len(raw), len(packed), _name_key(name[:-1]), voxels, number, kind, *world, *corners, *sizes, len(name)),
        *(*counts[:3], 1, *counts[3:], CODECS[codec], 0, VERSION),
    )
    head = _HEADER.pack(GRID_MAGIC, VERSION, 1, CODECS[codec])
    length = struct.pack("<Q", len(packed)) if codec != "none" else b""
    return head + metadata + name + length + packed


def _name_key(name: bytes) -> int:
    """NanoVDB's key of a name: its first eight bytes, or a hash of a longer one."""
    if len(name) <= 8:
        return int.from_bytes(name, "little")
    key = 0
    for byte in name:
        key = (key * 31 + byte) % 2**64
    return key


def voxels_of(grid: Grid) -> Iterator[Bytes]:
    """The voxels of each tile, ``(512, 3)``."""
    n = np.arange(512)
    inside = np.stack([n >> 6, n >> 3 & 7, n & 7], 1).astype(np.int32)
    for origin in grid.origins:
        yield origin + inside
