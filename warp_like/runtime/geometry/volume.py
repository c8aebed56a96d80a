"""``wp.Volume``: sparse grids of voxels, in memory as in files of NanoVDB."""

from __future__ import annotations

import os
from typing import Any, ClassVar, NamedTuple

import numpy as np

from warp_like.base.contract import ObjectKind
from warp_like.ir import types as ir
from warp_like.ir.objects import GRID_TYPES
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.arrays.objects import Descriptor, Queried
from warp_like.runtime.geometry import nanovdb
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import get_device
from warp_like.values import constant_of, dtypes, from_ir, to_ir

_TYPES = {number: t for t, number in GRID_TYPES.items()}


class Volume(Queried):
    """A sparse grid of voxels, which kernels sample, read and write.

    Voxels come in tiles of 8 x 8 x 8. Beyond the tiles, the grid has its background value. Values are ``float32``,
    ``float64``, ``int32``, ``int64``, ``uint32``, or vectors of 3 or 4 floats.

    Make volumes with ``allocate``, ``allocate_by_tiles``, ``load_from_numpy`` and ``load_from_nvdb``. A kernel takes
    the ``id``, or the object itself for a parameter annotated ``wp.Volume``. An ``id`` as the object gives it keeps the
    memory; one in an array does not.

    Args:
        data: An array of bytes on the CPU: a grid of NanoVDB of version 32.
        copy: Must be true: the bytes are copied.

    Attributes:
        device: Where it lies.

    Raises:
        TypeError: ``data`` is no array.
        RuntimeError: It is no grid, or damaged, or of a type that is not in this release.

    Example:
        >>> volume = wp.Volume.load_from_numpy(np.arange(8.0).reshape(2, 2, 2).astype(np.float32))
        >>> @wp.kernel
        ... def look(volume: wp.Volume, out: wp.array(dtype=float)):
        ...     out[0] = wp.volume_sample_f(volume, wp.vec3(0.5, 0.5, 0.5), wp.Volume.LINEAR)
        ...     out[1] = wp.volume_lookup_f(volume, 1, 0, 1)
        >>> out = wp.zeros(2, dtype=float)
        >>> wp.launch(look, dim=1, inputs=[volume], outputs=[out])
        >>> out.list()
        [3.5, 5.0]
    """

    _kind = ObjectKind.VOLUME
    CLOSEST: ClassVar[int] = 0
    LINEAR: ClassVar[int] = 1

    class GridInfo(NamedTuple):
        """What a grid says of itself."""

        name: str
        size_in_bytes: int
        grid_index: int
        grid_count: int
        type_str: str
        translation: Any
        transform_matrix: Any

    def __init__(self, data: array, copy: bool = True) -> None:
        if not isinstance(data, array):
            raise TypeError(f"Volume(): `data` is a wp.array of bytes, got {type(data).__name__}")
        if data.ndim != 1 or data.dtype not in (dtypes.uint8, dtypes.int8) or not data.device.is_cpu:
            raise RuntimeError(f"Volume(): `data` is an array of bytes of one dimension on the CPU, got {data!r}")
        if not copy:
            raise RuntimeError("Volume(): volumes own their memory in this release; leave `copy` out")
        self._adopt(np.array(data.numpy()).view(np.uint8))

    def _adopt(self, data: nanovdb.Bytes) -> None:
        self.device = get_device("cpu")
        grid = nanovdb.Grid(data)
        self._following = data[grid.data.size :].copy()  # the grids behind this one
        words = -(-grid.data.size // 8)
        self._data = new_array(element_type(dtypes.uint64), (words,), self.device, zero=True)  # aligned
        view = self._data.numpy().view(np.uint8)
        view[: grid.data.size] = grid.data
        grid.data = view[: grid.data.size]
        self._grid = grid
        self._descriptor = Descriptor(self._kind, self.device)
        self._descriptor.read = [self._data]
        self._descriptor.publish(grid=self._data, **grid.words)

    @classmethod
    def _of(cls, data: nanovdb.Bytes) -> Volume:
        made = cls.__new__(cls)
        made._adopt(data)
        return made

    # --- making ---

    @classmethod
    def allocate(
        cls,
        min: Any,
        max: Any,
        voxel_size: Any,
        bg_value: Any = 0.0,
        translation: Any = (0.0, 0.0, 0.0),
        points_in_world_space: bool = False,
        device: Any = None,
    ) -> Volume:
        """Return a volume with all tiles that have voxels between two corners.

        Args:
            min: The lower corner, in voxels; included.
            max: The upper corner, in voxels; included.
            voxel_size: The edge of a voxel in the world, or three of them.
            bg_value: What all voxels have at first, and what is beyond the tiles. It says of which type values are: an
                int makes int32, a float float32, three or four numbers float vectors; or a scalar or vector of Warp's.
            translation: Where voxel (0, 0, 0) is in the world.
            points_in_world_space: Whether the corners are places in the world.
            device: The CPU.

        Raises:
            ValueError: An argument is not of this form, or the upper corner is below the lower one.
            RuntimeError: The device is not the CPU.
        """
        size = _sizes(cls.allocate, voxel_size)
        low, high = (_three(cls.allocate, name, x) for name, x in (("min", min), ("max", max)))
        if points_in_world_space:
            shift = _three(cls.allocate, "translation", translation)
            low, high = (np.around((x - shift) / size) for x in (low, high))
        first, last = (np.floor(x).astype(np.int64) >> 3 for x in (low, high))
        if (last < first).any():
            raise ValueError(f"Volume.allocate(): `max` is below `min`: {high.tolist()}, {low.tolist()}")
        axes = [np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]
        tiles = 8 * np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
        return cls._made(cls.allocate, tiles, size, bg_value, translation, device)

    @classmethod
    def allocate_by_tiles(
        cls,
        tile_points: Any,
        voxel_size: Any = None,
        bg_value: Any = 0.0,
        translation: Any = (0.0, 0.0, 0.0),
        device: Any = None,
    ) -> Volume:
        """Return a volume with the tiles that hold some points.

        Args:
            tile_points: An array of ``wp.vec3i`` or int32 of shape ``(n, 3)``: voxels; or of ``wp.vec3``, or float32 of
                this shape: places in the world. There may be several for a tile.
            voxel_size: As for ``allocate``, as all others.
            bg_value: See ``allocate``.
            translation: See ``allocate``.
            device: See ``allocate``.

        Raises:
            ValueError: An argument is not of this form.
            RuntimeError: The device is not the CPU.
        """
        size = _sizes(cls.allocate_by_tiles, voxel_size)
        points = tile_points.numpy() if isinstance(tile_points, array) else np.asarray(tile_points)
        if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "if" or not np.isfinite(points).all():
            raise ValueError(
                "Volume.allocate_by_tiles(): `tile_points` are vectors of 3 numbers, got "
                f"{points.dtype} of shape {points.shape}"
            )
        if points.dtype.kind == "f":
            shift = _three(cls.allocate_by_tiles, "translation", translation)
            points = np.around((points.astype(np.float64) - shift) / size).astype(np.int64)
        return cls._made(cls.allocate_by_tiles, points, size, bg_value, translation, device)

    @classmethod
    def _made(cls, of: Any, tiles: Any, size: Any, background: Any, translation: Any, device: Any) -> Volume:
        if not get_device(device).is_cpu:
            raise RuntimeError(f"Volume.{of.__name__}(): volumes are on the CPU in this release; `device` is {device}")
        values, number = _background(of, background)
        shift = _three(of, "translation", translation)
        return cls._of(nanovdb.made(tiles, values, number, size, shift))

    @classmethod
    def load_from_numpy(
        cls,
        ndarray: Any,
        min_world: Any = (0.0, 0.0, 0.0),
        voxel_size: Any = 1.0,
        bg_value: Any = 0.0,
        device: Any = None,
    ) -> Volume:
        """Return a volume with the values of an array, whose element ``[i, j, k]`` is voxel ``(i, j, k)``.

        Args:
            ndarray: The values; of four axes for vectors.
            min_world: Where voxel (0, 0, 0) is in the world.
            voxel_size: As for ``allocate``.
            bg_value: As for ``allocate``; what fills up the last tiles.
            device: The CPU.

        Raises:
            ValueError: The array has another number of axes than the background asks for, or no elements.
            RuntimeError: The device is not the CPU.
        """
        given = np.asarray(ndarray)
        values, number = _background(cls.load_from_numpy, bg_value)
        wanted = 3 + (values.length > 1)
        if given.ndim != wanted or 0 in given.shape or (wanted == 4 and given.shape[3] != values.length):
            raise ValueError(
                f"Volume.load_from_numpy(): `ndarray` has {wanted} axes for values {nanovdb.NAMES[values.number]}, got "
                f"shape {given.shape}"
            )
        n = -(-np.array(given.shape[:3]) // 8)
        made = cls.allocate([0, 0, 0], 8 * n - 1, voxel_size, bg_value, min_world, device=device)
        whole = np.empty((*(8 * n), values.length), values.scalar)
        whole[...] = number
        whole[tuple(slice(k) for k in given.shape[:3])] = given.reshape(*given.shape[:3], values.length)
        tiles = whole.reshape(n[0], 8, n[1], 8, n[2], 8, values.length).transpose(0, 2, 4, 1, 3, 5, 6)
        made._leaf_bytes()[...] = np.ascontiguousarray(tiles).view(np.uint8).reshape(len(made._grid.leaves), -1)
        return made

    def _leaf_bytes(self) -> nanovdb.Bytes:
        """The voxels of all tiles, whose nodes follow each other."""
        it = self._grid.layout
        first = int(self._grid.leaves[0])
        rows = self._grid.data[first : first + it.leaf_size * len(self._grid.leaves)].reshape(-1, it.leaf_size)
        return rows[:, it.leaf_values : it.leaf_values + 512 * it.value_size]

    @classmethod
    def load_from_nvdb(cls, file_or_buffer: Any, device: Any = None) -> Volume:
        """Return the first grid of a NanoVDB file; ``load_next_grid`` gives the others.

        Args:
            file_or_buffer: A file opened for reading bytes, or its bytes.
            device: The CPU.

        Raises:
            RuntimeError: It is no such file, or damaged; or the grid is of a type that is not in this release, or needs
                the package ``blosc``, which is not installed.
        """
        if not get_device(device).is_cpu:
            raise RuntimeError(f"Volume.load_from_nvdb(): volumes are on the CPU in this release; `device` is {device}")
        raw = file_or_buffer.read() if hasattr(file_or_buffer, "read") else file_or_buffer
        return cls._of(nanovdb.loaded(bytes(raw)))

    def load_next_grid(self) -> Volume | None:
        """Return the grid that follows this one in the file or in the bytes that it was loaded from; None at the end.

        Raises:
            RuntimeError: The grid is damaged, or of a type that is not in this release.

        Example:
            >>> volume = wp.Volume.load_from_numpy(np.ones((2, 2, 2), np.float32))
            >>> print(volume.load_next_grid())
            None
        """
        index, count = (int(n) for n in self._grid.data[24:32].view(np.uint32))
        return Volume._of(self._following) if self._following.size and index + 1 < count else None

    def save_to_nvdb(self, path: Any, codec: str = "none") -> Any:
        """Write the volume to a NanoVDB file of this one grid, which OpenVDB's tools and Warp read.

        Args:
            path: Where.
            codec: ``"none"``, ``"zip"``, or ``"blosc"``, which needs the package ``blosc``.

        Raises:
            ValueError: There is no such codec.
            RuntimeError: ``blosc`` is not installed.
        """
        written = nanovdb.file_of(self._grid.data, codec)
        with open(os.fspath(path), "wb") as file:
            file.write(written)
        return path

    # --- asking ---

    def array(self) -> array:
        """Return a copy of the bytes of the grid."""
        made = new_array(element_type(dtypes.uint8), (self._grid.data.size,), self.device, zero=False)
        made.assign(self._grid.data)
        return made

    @property
    def dtype(self) -> Any:
        """The type of values."""
        return from_ir(_TYPES[self._grid.layout.values.number])

    @property
    def is_index(self) -> bool:
        """Whether voxels are numbers of elements of other arrays: never, in this release."""
        return False

    def get_tile_count(self) -> int:
        """Return how many tiles there are."""
        return len(self._grid.leaves)

    def get_tiles(self, out: Any = None) -> Any:
        """Return the first voxel of each tile: an array of int32 of shape ``(tiles, 3)``, or ``out``.

        Raises:
            RuntimeError: ``out`` is too small, or of another type.
        """
        return self._given(self._grid.origins, out, "get_tiles")

    def get_voxel_count(self) -> int:
        """Return how many voxels the tiles have."""
        return 512 * len(self._grid.leaves)

    def get_voxels(self, out: Any = None) -> Any:
        """Return all voxels of the tiles: an array of int32 of shape ``(voxels, 3)``, or ``out``.

        Raises:
            RuntimeError: ``out`` is too small, or of another type.
        """
        found = [np.zeros((0, 3), np.int32), *nanovdb.voxels_of(self._grid)]
        return self._given(np.concatenate(found), out, "get_voxels")

    def _given(self, found: Any, out: Any, name: str) -> Any:
        if out is None:
            out = new_array(element_type(dtypes.int32), found.shape, self.device, zero=False)
            out.assign(found)
            return out
        vectors = isinstance(out, array) and (out.ndim, to_ir(out.dtype)) == (1, ir.Vec(3, ir.int32))
        scalars = isinstance(out, array) and (out.ndim, to_ir(out.dtype), out.shape[-1]) == (2, ir.int32, 3)
        if not (vectors or scalars) or out.shape[0] < len(found) or not out.is_contiguous or not out.device.is_cpu:
            wanted = f"a contiguous array on the CPU of at least {len(found)} wp.vec3i"
            raise RuntimeError(f"Volume.{name}(): `out` is {wanted}, got {out!r}")
        out.numpy()[: len(found)] = found
        return out

    def get_voxel_size(self) -> tuple[float, float, float]:
        """Return the edges of a voxel in the world."""
        x, y, z = self._grid.data[608:632].view(np.float64)
        return float(x), float(y), float(z)

    def get_grid_info(self) -> Volume.GridInfo:
        """Return what the grid says of itself: name, size, number, type, and its map to the world."""
        data = self._grid.data
        matrix, shift = data[296:332].view(np.float32), data[368:380].view(np.float32)
        vec3: Any = from_ir(ir.Vec(3, ir.float32))
        mat33: Any = from_ir(ir.Mat(3, 3, ir.float32))
        index, count = (int(n) for n in data[24:32].view(np.uint32))
        return Volume.GridInfo(
            *(bytes(data[40:296]).split(b"\0")[0].decode("ascii", "replace"), data.size, index, count),
            *(nanovdb.NAMES[self._grid.layout.values.number], vec3(*shift.tolist()), mat33(*matrix.tolist())),
        )

    def __repr__(self) -> str:
        return f"Volume({self.get_tile_count()} tiles of {self.dtype.__name__}, device={str(self.device)!r})"


def _three(of: Any, name: str, given: Any) -> Any:
    try:
        found = np.asarray([float(x) for x in given])
    except TypeError:
        found = np.zeros(0)
    if found.shape != (3,) or not np.isfinite(found).all():
        raise ValueError(f"Volume.{of.__name__}(): `{name}` is three finite numbers, got {given!r}")
    return found


def _sizes(of: Any, given: Any) -> Any:
    found = _three(of, "voxel_size", [given] * 3 if isinstance(given, (int, float, np.number)) else given)
    if (found <= 0).any():
        raise ValueError(f"Volume.{of.__name__}(): `voxel_size` is positive, got {given!r}")
    return found


def _background(of: Any, given: Any) -> tuple[nanovdb.Values, Any]:
    """Return the type of values that a background asks for, and its numbers."""
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
        what = "index grids are not in this release" if given is None else f"got {given!r}"
        raise ValueError(f"Volume.{of.__name__}(): `bg_value` is a number or a vector of 3 or 4 floats; {what}")
    numbers = list(given) if isinstance(found, ir.Vec) else given
    values = nanovdb.LAYOUTS[number].values
    return values, np.asarray(numbers, values.scalar)
