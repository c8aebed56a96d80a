"""``wp.Volume``: sparse grids of voxels, in memory as in files of NanoVDB."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from warp_like.base.contract import ObjectKind
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.arrays.objects import Descriptor
from warp_like.runtime.geometry import nanovdb, nanovdb_files, nanovdb_making
from warp_like.runtime.geometry.bvh import now_and_in_graphs
from warp_like.runtime.geometry.nanovdb_table import table_words
from warp_like.runtime.geometry.volume_building import (
    TOO_MANY,
    background,
    bytes_of_tiles,
    map_of,
    outcome_of,
    room,
    sizes,
    status_array,
    tell,
    three,
    to_world,
)
from warp_like.runtime.geometry.volume_building import (
    ActiveStats as _ActiveStats,
)
from warp_like.runtime.geometry.volume_building import (
    FeatureArrayInfo as _FeatureArrayInfo,
)
from warp_like.runtime.geometry.volume_building import (
    GridInfo as _GridInfo,
)
from warp_like.runtime.geometry.volume_building import (
    RebuildInfo as _RebuildInfo,
)
from warp_like.runtime.geometry.volume_contents import VolumeContents
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import Device, get_device
from warp_like.runtime.memory.recorder import refuse_capture
from warp_like.values import dtypes


class Volume(VolumeContents):
    """A sparse grid of voxels, which kernels sample, read and write.

    Voxels come in tiles of 8 x 8 x 8. Beyond the tiles, the grid has its background value. Values are ``float32``,
    ``float64``, ``int32``, ``int64``, ``uint32``, or vectors of 3 or 4 floats. Grids of other types can be loaded, but
    kernels read no values there. An index grid has no values but a number for each voxel, for arrays that have an
    element for each.

    Make volumes with ``allocate``, ``allocate_by_tiles``, ``allocate_by_voxels``, ``load_from_numpy`` and
    ``load_from_nvdb``. A kernel takes
    the ``id``, or the object itself for a parameter annotated ``wp.Volume``. An ``id`` as the object gives it keeps the
    memory; one in an array does not.

    Args:
        data: An array of bytes: a grid of NanoVDB of version 32. The volume lies on its device.
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

    GridInfo: ClassVar[type[_GridInfo]] = _GridInfo
    ActiveStats: ClassVar[type[_ActiveStats]] = _ActiveStats
    FeatureArrayInfo: ClassVar[type[_FeatureArrayInfo]] = _FeatureArrayInfo
    RebuildInfo: ClassVar[type[_RebuildInfo]] = _RebuildInfo
    REBUILD_SUCCESS: ClassVar[int] = 0
    REBUILD_LEAF_CAPACITY_EXCEEDED: ClassVar[int] = TOO_MANY["leaf"]
    REBUILD_LOWER_CAPACITY_EXCEEDED: ClassVar[int] = TOO_MANY["lower"]
    REBUILD_UPPER_CAPACITY_EXCEEDED: ClassVar[int] = TOO_MANY["upper"]
    REBUILD_VOXEL_CAPACITY_EXCEEDED: ClassVar[int] = TOO_MANY["voxel"]
    REBUILD_INVALID_INPUT: ClassVar[int] = 16

    def __init__(self, data: array, copy: bool = True) -> None:
        if not isinstance(data, array):
            raise TypeError(f"Volume(): `data` is a wp.array of bytes, got {type(data).__name__}")
        if data.ndim != 1 or data.dtype not in (dtypes.uint8, dtypes.int8):
            raise RuntimeError(f"Volume(): `data` is an array of bytes of one dimension, got {data!r}")
        if not copy:
            raise RuntimeError("Volume(): volumes own their memory in this release; leave `copy` out")
        refuse_capture("making a volume")
        self._adopt(np.array(data.numpy()).view(np.uint8), data.device)

    def _adopt(self, data: nanovdb.Bytes, device: Device) -> None:
        self.device = device
        grid = nanovdb.Grid(data)
        self._following = data[grid.data.size :].copy()  # the grids behind this one
        self._descriptor = Descriptor(self._kind, self.device)
        self._info = _RebuildInfo(None, 0, 0, 0, 0)
        self._graded: array | None = None
        self._take(grid)

    def _take(self, grid: nanovdb.Grid) -> None:
        """Be this grid from now on."""
        words = -(-grid.data.size // 8)
        self._data = new_array(element_type(dtypes.uint64), (words,), self.device, zero=True)  # aligned
        view = self._data.numpy().view(np.uint8)
        view[: grid.data.size] = grid.data
        if self.device.is_cpu:
            grid.data = view[: grid.data.size]
        else:
            self._data.assign(view.view(np.uint64))
        self._grid = grid
        self.requires_grad = self.requires_grad
        self._descriptor.publish(grid=self._data, **grid.words, **table_words(grid, self.device))

    @classmethod
    def _of(cls, data: nanovdb.Bytes, device: Device) -> Volume:
        refuse_capture("making a volume")
        made = cls.__new__(cls)
        made._adopt(data, device)
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
                None makes an index grid.
            translation: Where voxel (0, 0, 0) is in the world.
            points_in_world_space: Whether the corners are places in the world.
            device: Where the volume is to be; the current device when left out.

        Raises:
            ValueError: An argument is not of this form, or the upper corner is below the lower one.
        """
        of = "Volume.allocate()"
        size = sizes(of, voxel_size)
        low, high = (three(of, name, x) for name, x in (("min", min), ("max", max)))
        if points_in_world_space:
            shift = three(of, "translation", translation)
            low, high = (np.around((x - shift) / size) for x in (low, high))
        first, last = (np.floor(x).astype(np.int64) >> 3 for x in (low, high))
        if (last < first).any():
            raise ValueError(f"{of}: `max` is below `min`: {high.tolist()}, {low.tolist()}")
        axes = [np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]
        tiles = 8 * np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
        data = bytes_of_tiles(of, tiles, bg_value, to_world(of, size, None, translation))
        return cls._of(data, get_device(device))

    @classmethod
    def allocate_by_tiles(
        cls,
        tile_points: Any,
        voxel_size: Any = None,
        bg_value: Any = 0.0,
        translation: Any = (0.0, 0.0, 0.0),
        device: Any = None,
        transform: Any = None,
        rebuildable: bool = False,
        max_tiles: int | None = None,
        max_lower_nodes: int | None = None,
        max_upper_nodes: int | None = None,
        status: array | None = None,
        point_mask: array | None = None,
    ) -> Volume:
        """Return a volume with the tiles that hold some points.

        Args:
            tile_points: An array of ``wp.vec3i`` or int32 of shape ``(n, 3)``: voxels; or of ``wp.vec3``, or float32 of
                this shape: places in the world. There may be several for a tile.
            voxel_size: As for ``allocate``, as all others.
            bg_value: See ``allocate``.
            translation: See ``allocate``.
            device: See ``allocate``.
            transform: Instead of ``voxel_size``, the matrix of 3 x 3 that makes directions in the world of those in
                voxels.
            rebuildable: Whether ``rebuild`` may give the volume other tiles; so does any of the next three.
            max_tiles: The most tiles; as many as there are points when left out.
            max_lower_nodes: The most cubes of 128 voxels; as many as tiles when left out.
            max_upper_nodes: The most cubes of 4096 voxels.
            status: An array of one uint32 for the outcome; see ``rebuild``.
            point_mask: An array of int32: points with a 0 are left out.

        Raises:
            ValueError: An argument is not of this form.
            RuntimeError: There are more tiles than ``max_tiles`` and no ``status``.
        """
        of = "Volume.allocate_by_tiles()"
        most = {"max_tiles": max_tiles, "max_lower_nodes": max_lower_nodes, "max_upper_nodes": max_upper_nodes}
        info = room(of, "tiles", rebuildable, len(tile_points), most)
        made = to_world(of, voxel_size, transform, translation)
        points = made.voxels(tile_points, point_mask, of, "tile_points")
        return cls._built(of, info, bytes_of_tiles(of, points, bg_value, made), status, get_device(device))

    @classmethod
    def allocate_by_voxels(
        cls,
        voxel_points: Any,
        voxel_size: Any = None,
        translation: Any = (0.0, 0.0, 0.0),
        device: Any = None,
        transform: Any = None,
        rebuildable: bool = False,
        max_active_voxels: int | None = None,
        max_leaf_nodes: int | None = None,
        max_lower_nodes: int | None = None,
        max_upper_nodes: int | None = None,
        status: array | None = None,
        point_mask: array | None = None,
    ) -> Volume:
        """Return an index grid that has a number for each voxel that holds one of some points, and for no other.

        Args:
            voxel_points: As for ``allocate_by_tiles``, as all that is not here.
            voxel_size: See there.
            translation: See there.
            device: See there.
            transform: See there.
            rebuildable: See there.
            max_active_voxels: The most voxels; as many as there are points when left out.
            max_leaf_nodes: The most tiles; as many as voxels when left out.
            max_lower_nodes: See there.
            max_upper_nodes: See there.
            status: See there.
            point_mask: See there.

        Raises:
            ValueError: An argument is not of this form.
            RuntimeError: There are more voxels than there is room for and no ``status``.

        Example:
            >>> volume = wp.Volume.allocate_by_voxels(wp.array([[0, 0, 0], [1, 0, 0]], dtype=wp.vec3i), 1.0)
            >>> @wp.kernel
            ... def look(volume: wp.Volume, data: wp.array(dtype=float), out: wp.array(dtype=float)):
            ...     out[0] = wp.volume_sample_index(volume, wp.vec3(0.5, 0.0, 0.0), wp.Volume.LINEAR, data, 0.0)
            >>> data = wp.array([4.0, 6.0], dtype=float)
            >>> out = wp.zeros(1, dtype=float)
            >>> wp.launch(look, dim=1, inputs=[volume, data], outputs=[out])
            >>> out.list()
            [5.0]
        """
        of = "Volume.allocate_by_voxels()"
        names = ("max_active_voxels", "max_leaf_nodes", "max_lower_nodes", "max_upper_nodes")
        most = dict(zip(names, (max_active_voxels, max_leaf_nodes, max_lower_nodes, max_upper_nodes), strict=True))
        info = room(of, "voxels", rebuildable, len(voxel_points), most)
        made = to_world(of, voxel_size, transform, translation)
        points = made.voxels(voxel_points, point_mask, of, "voxel_points")
        return cls._built(of, info, nanovdb_making.of_voxels(points, *made), status, get_device(device))

    @classmethod
    def _built(cls, of: str, info: _RebuildInfo, data: nanovdb.Bytes, status: Any, device: Device) -> Volume:
        """A volume that holds what there is room for: nothing where that is too little."""
        grid = nanovdb.Grid(data)
        outcome = outcome_of(info, grid)
        said = status_array(of, status, device)
        tell(of, outcome, said, info)
        if outcome:
            number = grid.layout.values.number
            background = grid.data[grid.root + grid.layout.background :][: grid.layout.value_size]
            values = nanovdb.LAYOUTS[nanovdb.INDEX if grid.indexing else number].values
            data = nanovdb_making.of_tiles(
                np.zeros((0, 3), np.int64), values, background.view(values.scalar), *map_of(grid)
            )
        made = cls._of(data, device)
        made._info = info
        return made

    def rebuild(self, points: Any, status: array | None = None, point_mask: array | None = None) -> array | None:
        """Give the volume other tiles or voxels than it has. Its id stays; values become the background.

        The volume was made with ``rebuildable=True`` or room of a given size. A graph that captures this does it in
        each run, with the points of then. Arrays of ``feature_array`` and ``values`` stay those of before.

        Args:
            points: What ``allocate_by_tiles`` or ``allocate_by_voxels``, which has made the volume, takes.
            status: An array of one uint32. It becomes ``wp.Volume.REBUILD_SUCCESS``; with too little room, the sum of
                ``REBUILD_LEAF_CAPACITY_EXCEEDED``, ``REBUILD_LOWER_CAPACITY_EXCEEDED``,
                ``REBUILD_UPPER_CAPACITY_EXCEEDED`` and ``REBUILD_VOXEL_CAPACITY_EXCEEDED``, as is so. Then the volume
                stays as it is.
            point_mask: An array of int32: points with a 0 are left out.

        Returns:
            ``status``.

        Raises:
            ValueError: ``points`` or ``point_mask`` are other objects.
            RuntimeError: The volume can't be rebuilt, or there is too little room and no ``status``.
        """
        of = "Volume.rebuild()"
        if self._info.kind is None:
            raise RuntimeError(f"{of}: this volume was not made to be rebuilt; make it with `rebuildable=True`")
        said = status_array(of, status, self.device)

        def work() -> None:
            if not self.device.is_cpu:
                refuse_capture("rebuilding a volume on a CUDA device")  # the host makes the tree
            to = map_of(self._grid)
            voxels = to.voxels(points, point_mask, of, "points")
            it = self._grid.layout
            if self._info.kind == "voxels":
                data = nanovdb_making.of_voxels(voxels, *to)
            else:
                background = self._grid.data[self._grid.root + it.background :][: it.value_size]
                data = nanovdb_making.of_tiles(voxels, it.values, background.view(it.values.scalar), *to)
            grid = nanovdb.Grid(data)
            outcome = outcome_of(self._info, grid)
            tell(of, outcome, said, self._info)
            if not outcome:
                self._take(grid)

        now_and_in_graphs("rebuild a volume", self.device, work)
        return status

    @property
    def is_rebuildable(self) -> bool:
        """Whether ``rebuild`` may be called."""
        return self._info.kind is not None

    def get_rebuild_info(self) -> _RebuildInfo:
        """Return what the volume can be rebuilt from, and how much there is room for."""
        return self._info

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
            device: Where the volume is to be; the current device when left out.

        Raises:
            ValueError: The array has another number of axes than the background asks for, or no elements.
        """
        given = np.asarray(ndarray)
        of = "Volume.load_from_numpy()"
        if bg_value is None:
            raise ValueError(f"{of}: an index grid has no values; `bg_value` is a number or a vector")
        values, number = background(of, bg_value)
        wanted = 3 + (values.length > 1)
        if given.ndim != wanted or 0 in given.shape or (wanted == 4 and given.shape[3] != values.length):
            raise ValueError(f"{of}: `ndarray` has {wanted} axes for values {values.name}, got shape {given.shape}")
        n = -(-np.array(given.shape[:3]) // 8)
        made = cls.allocate([0, 0, 0], 8 * n - 1, voxel_size, bg_value, min_world, device="cpu")
        whole = np.empty((*(8 * n), values.length), values.scalar)
        whole[...] = number
        whole[tuple(slice(k) for k in given.shape[:3])] = given.reshape(*given.shape[:3], values.length)
        tiles = whole.reshape(n[0], 8, n[1], 8, n[2], 8, values.length).transpose(0, 2, 4, 1, 3, 5, 6)
        made._leaf_bytes()[...] = np.ascontiguousarray(tiles).view(np.uint8).reshape(len(made._grid.leaves), -1)
        place = get_device(device)
        return made if place.is_cpu else cls._of(made._grid.data, place)

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
            device: Where the volume is to be; the current device when left out.

        Raises:
            RuntimeError: It is no such file, or damaged; or the grid is of a type that is not in this release, or needs
                the package ``blosc``, which is not installed.
        """
        raw = file_or_buffer.read() if hasattr(file_or_buffer, "read") else file_or_buffer
        return cls._of(nanovdb_files.loaded(bytes(raw)), get_device(device))

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
        return Volume._of(self._following, self.device) if self._following.size and index + 1 < count else None

    def save_to_nvdb(self, path: Any, codec: str = "none", more: Iterable[Volume] = ()) -> Any:
        """Write the volume to a NanoVDB file, which OpenVDB's tools and Warp read.

        The grids follow that ``load_next_grid`` would give.

        Args:
            path: Where.
            codec: ``"none"``, ``"zip"``, or ``"blosc"``, which needs the package ``blosc``.
            more: Volumes to write behind these.

        Raises:
            ValueError: There is no such codec.
            RuntimeError: ``blosc`` is not installed.
        """
        written = nanovdb_files.file_of([grid for v in (self, *more) for grid in v._grids()], codec)
        with open(os.fspath(path), "wb") as file:
            file.write(written)
        return path

    def _grids(self) -> Iterator[nanovdb.Bytes]:
        """The bytes of this grid and of those that follow."""
        volume: Volume | None = self
        while volume is not None:
            yield volume._bytes()
            volume = volume.load_next_grid()

    @classmethod
    def load_from_address(cls, grid_ptr: int, buffer_size: int = 0, device: Any = None) -> Volume:
        """Return a copy of a grid in memory that another library has made.

        As with ``wp.array(ptr=...)``, that there is such memory can't be checked.

        Args:
            grid_ptr: The address of its first byte.
            buffer_size: How many bytes there are; without it, as many as the grid says.
            device: The CPU, where the memory is.

        Raises:
            RuntimeError: The address is 0, or there is no grid, a damaged one, or one of a type that is not in this
                release.
        """
        if not get_device(device).is_cpu:
            raise RuntimeError(f"Volume.load_from_address(): `device` is the CPU, got {device}")
        if not grid_ptr:
            raise RuntimeError("Volume.load_from_address(): `grid_ptr` is 0")
        size = buffer_size or int(np.ctypeslib.as_array((ctypes.c_uint64 * 5).from_address(grid_ptr))[4])
        return cls._of(np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(grid_ptr)), get_device("cpu"))

    def __repr__(self) -> str:
        tiles, what = len(self._grid.leaves), self._grid.layout.values.name
        return f"Volume({tiles} tiles of {what}, device={str(self.device)!r})"
