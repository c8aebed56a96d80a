"""What a volume tells of its grid: tiles, voxels, their values and gradients, and arrays beside them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array, bind_foreign, new_array
from warp_like.runtime.arrays.objects import Queried
from warp_like.runtime.geometry import nanovdb
from warp_like.runtime.geometry.volume_building import TYPES, ActiveStats, FeatureArrayInfo, GridInfo, RebuildInfo
from warp_like.runtime.memory.allocation import element_type
from warp_like.values import dtypes, from_ir, to_ir

_NOWHERE = -(2**31)


class VolumeContents(Queried):
    """Base of ``wp.Volume``: all that does not make or change a volume."""

    _grid: nanovdb.Grid
    _data: array
    _info: RebuildInfo
    _graded: array | None

    def _bytes(self) -> nanovdb.Bytes:
        """The bytes of the grid as they are now: kernels may have written voxels."""
        if self.device.is_cpu:
            return self._grid.data
        found: nanovdb.Bytes = self._data.numpy().view(np.uint8)[: self._grid.data.size]
        return found

    def array(self) -> array:
        """Return a copy of the bytes of the grid."""
        made = new_array(element_type(dtypes.uint8), (self._grid.data.size,), self.device, zero=False)
        made.assign(self._bytes())
        return made

    @property
    def dtype(self) -> Any:
        """The type of values; None for those that have no type here, as of index grids."""
        t = TYPES.get(self._grid.layout.values.number)
        return None if t is None else from_ir(t)

    @property
    def is_index(self) -> bool:
        """Whether voxels have numbers of elements of arrays, and no values of their own."""
        return self._grid.indexing != nanovdb.BY_PLACE

    def get_tile_count(self) -> int:
        """Return how many tiles there are; of a volume that can be rebuilt, how many there is room for."""
        return self._info.max_leaf_node_count or len(self._grid.leaves)

    def get_tiles(self, out: Any = None) -> Any:
        """Return the first voxel of each tile: an array of int32 of shape ``(get_tile_count(), 3)``, or ``out``.

        Rows for which there is no tile are -2147483648; those of ``out`` stay as they are.

        Raises:
            RuntimeError: ``out`` is too small, or of another type.
        """
        return self._given(self._grid.origins, self.get_tile_count(), out, "get_tiles")

    def get_voxel_count(self) -> int:
        """Return how many voxels have a number; of a volume that can be rebuilt, how many there is room for.

        These are 512 for each tile, and with ``allocate_by_voxels`` the given ones alone.
        """
        return self._info.max_voxel_count or self._grid.voxel_count

    def get_active_stats(self) -> ActiveStats:
        """Return how many voxels and nodes there are."""
        grid = self._grid
        return ActiveStats(grid.voxel_count, len(grid.leaves), grid.lower_count, grid.upper_count)

    def get_voxels(self, out: Any = None) -> Any:
        """Return the voxels in the order of their numbers: an array of int32, ``(get_voxel_count(), 3)``, or ``out``.

        Rows for which there is no voxel are -2147483648; those of ``out`` stay as they are.

        Raises:
            RuntimeError: ``out`` is too small, or of another type.
        """
        numbers, n = self._grid.numbers(), np.arange(512)
        inside = np.stack([n >> 6, n >> 3 & 7, n & 7], 1).astype(np.int32)
        held = (numbers >= 0) & (numbers < self._grid.voxel_count)
        found = np.full((self._grid.voxel_count, 3), _NOWHERE, np.int32)
        found[numbers[held]] = (self._grid.origins[:, None] + inside)[held]
        return self._given(found, self.get_voxel_count(), out, "get_voxels")

    def _given(self, found: Any, count: int, out: Any, name: str) -> Any:
        if out is None:
            out = new_array(element_type(dtypes.int32), (count, 3), self.device, zero=False)
            rest = np.full((count - len(found), 3), _NOWHERE, np.int32)
            out.assign(np.concatenate([found, rest]))
            return out
        vectors = isinstance(out, array) and (out.ndim, to_ir(out.dtype)) == (1, ir.Vec(3, ir.int32))
        scalars = isinstance(out, array) and (out.ndim, to_ir(out.dtype), out.shape[-1]) == (2, ir.int32, 3)
        if not (vectors or scalars) or out.shape[0] < len(found) or not out.is_contiguous or out.device != self.device:
            wanted = f"a contiguous array on {self.device} of at least {len(found)} wp.vec3i"
            raise RuntimeError(f"Volume.{name}(): `out` is {wanted}, got {out!r}")
        if len(found):
            out[: len(found)].assign(found)
        return out

    @property
    def values(self) -> Any:
        """The values of all voxels, an array of shape ``(tiles, 512)`` in the volume's own memory.

        Row ``n`` is the tile ``get_tiles()[n]``, and voxel ``(i, j, k)`` of a tile is element ``64 i + 8 j + k``. So
        the voxel with the number ``n`` of ``volume_lookup_index`` is element ``[n // 512, n % 512]``.

        Raises:
            RuntimeError: The volume has no values, or none that kernels read.

        Example:
            >>> volume = wp.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0)
            >>> volume.values.fill_(2.0)
            >>> volume.values.shape, float(volume.values[0, 511])
            ((1, 512), 2.0)
        """
        it = self._grid.layout
        if it.values.leaf is not None or self.dtype is None:
            raise RuntimeError(f"a volume of type {it.values.name} has no array of values")
        found = self._values_in(self._data)
        if self._graded is not None and self._graded.grad is not None:
            found.grad = self._values_in(self._graded.grad)
        return found

    def _values_in(self, memory: Any) -> Any:
        """The values in memory that is laid out as the grid."""
        it = self._grid.layout
        first = int(self._grid.leaves[0]) + it.leaf_values if len(self._grid.leaves) else 0
        shape, strides = (len(self._grid.leaves), 512), (it.leaf_size, it.value_size)
        return bind_foreign(element_type(self.dtype), memory.ptr + first, shape, strides, False, self.device, memory)

    @property
    def requires_grad(self) -> bool:
        """Whether launches on a tape have gradients to the voxels; setting it makes one, at first 0, or drops it.

        The gradient is ``volume.values.grad``, to which ``tape.backward()`` adds. A rebuild makes a new one.

        Raises:
            RuntimeError: Values are no floats.

        Example:
            >>> volume = wp.Volume.load_from_numpy(np.ones((2, 2, 2), np.float32))
            >>> volume.requires_grad = True
            >>> @wp.kernel
            ... def look(volume: wp.Volume, out: wp.array(dtype=float)):
            ...     out[0] = wp.volume_sample_f(volume, wp.vec3(0.25, 0.0, 0.0), wp.Volume.LINEAR)
            >>> out = wp.zeros(1, dtype=float, requires_grad=True)
            >>> with wp.Tape() as tape:
            ...     wp.launch(look, dim=1, inputs=[volume], outputs=[out])
            >>> tape.backward(out)
            >>> volume.values.grad.numpy()[0, [0, 64]].tolist()
            [0.75, 0.25]
        """
        return self._graded is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._graded = None
        if value:
            values = self._grid.layout.values
            scalar = {np.float32: dtypes.float32, np.float64: dtypes.float64}.get(values.scalar)
            if scalar is None or values.leaf is not None:
                raise RuntimeError(f"the voxels of a volume of type {values.name} have no gradient")
            element = element_type(scalar)
            shape = (8 * self._data.size // element.itemsize,)
            self._graded = bind_foreign(element, self._data.ptr, shape, None, False, self.device, self._data)
            self._graded.requires_grad = True
        self._descriptor.graded = {} if self._graded is None else {"gradient": self._graded}
        self._descriptor.read = [self._data] if self._graded is None else []

    def get_feature_array_count(self) -> int:
        """Return how many arrays the grid has beside its voxels, which its file came with."""
        return len(self._grid.features)

    def get_feature_array_info(self, feature_index: int) -> FeatureArrayInfo:
        """Return what the grid says of one of these arrays.

        Raises:
            IndexError: There is no such array.
        """
        found = self._feature(feature_index)
        name = nanovdb.NAMES.get(found.number, "?")
        ptr = self._data.ptr + found.begin
        return FeatureArrayInfo(found.name, ptr, found.value_size, found.value_count, name)

    def _feature(self, index: int) -> nanovdb.Feature:
        if not 0 <= operator.index(index) < len(self._grid.features):
            raise IndexError(f"this volume has {len(self._grid.features)} feature arrays, there is no number {index}")
        return self._grid.features[index]

    def feature_array(self, feature_index: int, dtype: Any = None) -> Any:
        """Return one of the arrays that the grid has beside its voxels. It shares the volume's memory.

        Args:
            feature_index: Which.
            dtype: The type of elements, of the size that the grid says; or one of a single byte; or for an array of
                bytes any type. Without it, that which the grid says, or bytes.

        Raises:
            IndexError: There is no such array.
            RuntimeError: The type has another size.
        """
        found = self._feature(feature_index)
        t = TYPES.get(found.number, ir.uint8) if dtype is None else to_ir(dtype)
        element = element_type(dtypes.uint8 if t is None else from_ir(t))
        whole = found.value_size * found.value_count
        fits = element.itemsize in (1, found.value_size) or (found.value_size == 1 and whole % element.itemsize == 0)
        ptr = self._data.ptr + found.begin
        if not fits or ptr % element.numpy.itemsize:
            raise RuntimeError(
                f"Volume.feature_array(): the elements of array {feature_index} have {found.value_size} bytes, and "
                f"those of {t} have {element.itemsize}"
            )
        return bind_foreign(element, ptr, (whole // element.itemsize,), None, False, self.device, self._data)

    def get_voxel_size(self) -> tuple[float, float, float]:
        """Return the edges of a voxel in the world."""
        x, y, z = self._grid.data[608:632].view(np.float64)
        return float(x), float(y), float(z)

    def get_grid_info(self) -> GridInfo:
        """Return what the grid says of itself: name, size, number, type, and its map to the world."""
        data = self._grid.data
        matrix, shift = data[296:332].view(np.float32), data[368:380].view(np.float32)
        vec3: Any = from_ir(ir.Vec(3, ir.float32))
        mat33: Any = from_ir(ir.Mat(3, 3, ir.float32))
        index, count = (int(n) for n in data[24:32].view(np.uint32))
        return GridInfo(
            *(self._grid.name, data.size, index, count),
            *(self._grid.layout.values.name, vec3(*shift.tolist()), mat33(*matrix.tolist())),
        )
