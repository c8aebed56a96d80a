"""Files of NanoVDB: headers, compressed grids, and several grids one after the other."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from warp_like.runtime.geometry.nanovdb import GRID_MAGIC, TREE, VERSION, Bytes, Damaged

FILE_MAGIC = 0x324244566F6E614E
CODECS = {"none": 0, "zip": 1, "blosc": 2}
_HEADER = struct.Struct("<QIHH")
_METADATA = struct.Struct("<4Q2I6d6I3dI4I3IHHI")


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
        parts = [_numbered(p, n, len(parts)) for n, p in enumerate(parts)]
    return np.frombuffer(bytearray().join(parts), np.uint8)


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


def file_of(grids: list[Bytes], codec: str) -> bytes:
    """Return the file of some grids."""
    if codec not in CODECS:
        raise ValueError(f'save_to_nvdb(): `codec` is "none", "zip" or "blosc", got {codec!r}')
    if len(grids) > 65535:
        raise ValueError(f"save_to_nvdb(): a file has up to 65535 grids, got {len(grids)}")
    raws = [_numbered(data.tobytes(), n, len(grids)) for n, data in enumerate(grids)]
    pack = {"none": lambda raw: raw, "zip": zlib.compress, "blosc": lambda raw: _blosc().compress(raw)}[codec]
    packed = [pack(raw) for raw in raws]
    head = _HEADER.pack(GRID_MAGIC, VERSION, len(grids), CODECS[codec])
    about = [_metadata(raw, len(stored), codec) for raw, stored in zip(raws, packed, strict=True)]
    lengths = [struct.pack("<Q", len(stored)) if codec != "none" else b"" for stored in packed]
    return b"".join([head, *about, *(part for pair in zip(lengths, packed, strict=True) for part in pair)])


def _numbered(grid: bytes, n: int, count: int) -> bytes:
    return grid[:24] + struct.pack("<2I", n, count) + grid[32:]


def _metadata(raw: bytes, size: int, codec: str) -> bytes:
    name = raw[40:296].split(b"\0")[0] + b"\0"
    world, sizes = struct.unpack_from("<6d", raw, 560), struct.unpack_from("<3d", raw, 608)
    kind, number = struct.unpack_from("<2I", raw, 632)
    root = TREE + struct.unpack_from("<q", raw, TREE + 24)[0]
    corners, counts = struct.unpack_from("<6I", raw, root), struct.unpack_from("<6I", raw, TREE + 32)
    (voxels,) = struct.unpack_from("<Q", raw, TREE + 56)
    about = _METADATA.pack(
        *(len(raw), size, _name_key(name[:-1]), voxels, number, kind, *world, *corners, *sizes, len(name)),
        *(*counts[:3], 1, *counts[3:], CODECS[codec], 0, VERSION),
    )
    return about + name


def _name_key(name: bytes) -> int:
    """NanoVDB's key of a name: its first eight bytes, or a hash of a longer one."""
    if len(name) <= 8:
        return int.from_bytes(name, "little")
    key = 0
    for byte in name:
        key = (key * 31 + byte) % 2**64
    return key
