"""Building volumes: the arguments that say how, and whether a build has room."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from warp_like.ir import types as ir
from warp_like.ir.objects import GRID_TYPES
from warp_like.runtime.arrays.array import array
from warp_like.runtime.geometry import nanovdb, nanovdb_making
from warp_like.values import constant_of, to_ir

Numbers = np.ndarray[Any, Any]

TOO_MANY = {"leaf": 1, "lower": 2, "upper": 4, "voxel": 8}
"""The flags of what there is too little room for."""


TYPES = {
    **dict(zip((1, 2, 3, 4, 5), (ir.float32, ir.float64, ir.int16, ir.int32, ir.int64), strict=True)),
    **dict(zip((9, 10, 11, 26), (ir.float16, ir.uint32, ir.bool_, ir.uint8), strict=True)),
    **{number: ir.Vec(3, t) for number, t in ((6, ir.float32), (7, ir.float64), (24, ir.uint8), (25, ir.uint16))},
    **{number: ir.Vec(4, t) for number, t in ((17, ir.float32), (18, ir.float64))},
}
"""The types of values by NanoVDB's numbers."""


class GridInfo(NamedTuple):
    """What a grid says of itself."""

    name: str
    size_in_bytes: int
    grid_index: int
    grid_count: int
    type_str: str
    translation: Any
    transform_matrix: Any


class ActiveStats(NamedTuple):
    """How many voxels and nodes of each level there are."""

    voxel_count: int
    leaf_node_count: int
    lower_node_count: int
    upper_node_count: int


class FeatureArrayInfo(NamedTuple):
    """What a grid says of an array that it has beside its voxels."""

    name: str
    ptr: int
    value_size: int
    value_count: int
    type_str: str


class RebuildInfo(NamedTuple):
    """What a volume can be rebuilt from, ``"tiles"``, ``"voxels"`` or nothing, and the most that there is room for."""

    kind: str | None
    max_voxel_count: int
    max_leaf_node_count: int
    max_lower_node_count: int
    max_upper_node_count: int


class ToWorld(NamedTuple):
    """The map from voxels to the world: ``matrix`` times the voxel, plus ``translation``."""

    matrix: Numbers
    translation: Numbers

    def voxels(self, points: Any, mask: Any, of: str, name: str) -> Numbers:
        """The voxels nearest to ``points``, an array of integers or of places in the world; those of the mask alone.

        Raises:
            ValueError: These are no points, or the mask has no element for each.
        """
        found = points.numpy() if isinstance(points, array) else np.asarray(points)
        if found.ndim != 2 or found.shape[1] != 3 or found.dtype.kind not in "if":
            raise ValueError(f"{of}: `{name}` are vectors of 3 numbers, got {found.dtype} of shape {found.shape}")
        if mask is not None:
            found = found[_mask(mask, len(found), of)]
        if found.dtype.kind == "f":
            places = (found.astype(np.float64) - self.translation) @ np.linalg.inv(self.matrix).T
            found = np.floor(places + 0.5)
        if not (np.abs(found.astype(np.float64)) < 2**31).all():
            raise ValueError(f"{of}: `{name}` are finite, and voxels have numbers of 32 bits")
        return found.astype(np.int64)


def _mask(given: Any, count: int, of: str) -> Numbers:
    found = given.numpy() if isinstance(given, array) else np.asarray(given)
    if found.ndim != 1 or found.dtype != np.int32 or len(found) < count:
        raise ValueError(f"{of}: `point_mask` is an array of at least {count} int32, got {given!r}")
    return found[:count] != 0


def three(of: str, name: str, given: Any) -> Numbers:
    """Return three numbers.

    Raises:
        ValueError: It is something else.
    """
    try:
        found = np.asarray([float(x) for x in given])
    except TypeError:
        found = np.zeros(0)
    if found.shape != (3,) or not np.isfinite(found).all():
        raise ValueError(f"{of}: `{name}` is three finite numbers, got {given!r}")
    return found


def to_world(of: str, voxel_size: Any, transform: Any, translation: Any) -> ToWorld:
    """Return the map of a volume.

    Raises:
        ValueError: There are both or neither of a size and a matrix, or one can't be.
    """
    shift = three(of, "translation", translation)
    if (voxel_size is None) == (transform is None):
        raise ValueError(f"{of} takes either `voxel_size` or `transform`")
    if transform is None:
        return ToWorld(np.diag(sizes(of, voxel_size)), shift)
    try:
        found = np.array([[float(x) for x in row] for row in transform])
    except TypeError:
        found = np.zeros(0)
    if found.shape != (3, 3) or not np.isfinite(found).all() or np.linalg.det(found) == 0.0:
        raise ValueError(f"{of}: `transform` is a matrix of 3 x 3 that has an inverse, got {transform!r}")
    return ToWorld(found, shift)


def sizes(of: str, given: Any) -> Numbers:
    """Return the edges of a voxel.

    Raises:
        ValueError: They are not positive, or not three.
    """
    found = three(of, "voxel_size", [given] * 3 if isinstance(given, (int, float, np.number)) else given)
    if (found <= 0).any():
        raise ValueError(f"{of}: `voxel_size` is positive, got {given!r}")
    return found


def background(of: str, given: Any) -> tuple[nanovdb.Values, Any]:
    """Return the type of values that a background asks for, and its numbers.

    Raises:
        ValueError: It is no background.
    """
    if given is None:
        return nanovdb.LAYOUTS[nanovdb.INDEX].values, 0
    t = constant_of(given)
    if isinstance(given, (list, tuple, np.ndarray)):
        found: ir.Type | None = ir.Vec(len(given), ir.float32)
    elif t is not None:
        found = t[0]
    elif isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        found = ir.int32
    else:
        found = ir.float32 if isinstance(given, (float, np.floating)) else None
    number = None if found is None else GRID_TYPES.get(found)
    if number is None:
        raise ValueError(f"{of}: `bg_value` is a number, a vector of 3 or 4 floats, or None, got {given!r}")
    numbers = list(given) if isinstance(found, ir.Vec) else given
    values = nanovdb.LAYOUTS[number].values
    return values, np.asarray(numbers, values.scalar)


def room(of: str, kind: str, wanted: bool, count: int, most: dict[str, int | None]) -> RebuildInfo:
    """Return how much room there is for rebuilds: each number that is not given is that of the level below.

    Args:
        of: The function, for messages.
        kind: What the volume is made of.
        wanted: Whether there is any, where ``most`` does not say.
        count: How many points there are.
        most: The numbers by the names of the arguments, from the lowest level on.

    Raises:
        TypeError: One is no whole number.
        ValueError: One is not positive, or needs more than 32 bits.
    """
    if not wanted and all(n is None for n in most.values()):
        return RebuildInfo(None, 0, 0, 0, 0)
    found = [count]
    for name, n in most.items():
        number = found[-1] if n is None else operator.index(n)
        if not 0 < number < 2**32:
            raise ValueError(f"{of}: `{name}` is a positive number of 32 bits, got {number}")
        found.append(number)
    levels = found[1:] if kind == "voxels" else [512 * found[1], *found[1:]]
    return RebuildInfo(kind, *levels)


def status_array(of: str, status: Any, device: Any) -> array | None:
    """Return the array for the outcome of a build.

    Raises:
        RuntimeError: It is another object, or on another device.
    """
    if status is None:
        return None
    if not isinstance(status, array) or to_ir(status.dtype) != ir.uint32 or not status.size or status.ndim != 1:
        raise RuntimeError(f"{of}: `status` is an array of at least one uint32, got {status!r}")
    if status.device != device:
        raise RuntimeError(f"{of}: `status` is on {status.device}, and the volume on {device}")
    return status


def bytes_of_tiles(of: str, tiles: Any, bg_value: Any, to: ToWorld) -> nanovdb.Bytes:
    """Return a grid with tiles, all of the background."""
    values, number = background(of, bg_value)
    return nanovdb_making.of_tiles(tiles, values, number, *to)


def map_of(grid: nanovdb.Grid) -> ToWorld:
    """Return the map of a grid."""
    numbers = grid.data[384:560].view(np.float64)
    return ToWorld(numbers[:9].reshape(3, 3).copy(), numbers[18:21].copy())


def outcome_of(info: RebuildInfo, grid: nanovdb.Grid) -> int:
    """Return the sum of the flags of what there is too little room for."""
    if info.kind is None:
        return 0
    found = {"voxel": grid.voxel_count, "leaf": len(grid.leaves), "lower": grid.lower_count, "upper": grid.upper_count}
    return sum(TOO_MANY[name] for (name, count), most in zip(found.items(), info[1:], strict=True) if count > most)


def tell(of: str, outcome: int, status: array | None, info: RebuildInfo) -> None:
    """Note an outcome.

    Raises:
        RuntimeError: There is too little room, and nowhere to note it.
    """
    if status is not None:
        status[:1].fill_(outcome)
    elif outcome:
        raise RuntimeError(
            f"{of}: there is room for {info[1:]} voxels, tiles, lower and upper nodes, which is too little"
        )
