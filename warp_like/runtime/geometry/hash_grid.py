"""``wp.HashGrid``: points in cells of a grid, to find those near to another one.

A build gives each point the number of its cell, sorts the points by it, and notes where each cell starts. All of it is
done by kernels and by the sort of whole arrays: on all threads of the CPU, on CUDA in the order of the stream, and in a
captured graph each time that the graph runs.
"""

from __future__ import annotations

import operator
from typing import Any

from warp_like.base.contract import ObjectKind
from warp_like.frontend.builtin import Builtin
from warp_like.ir import types as ir
from warp_like.runtime.arrays import interop_hooks
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.arrays.creation import copy
from warp_like.runtime.arrays.objects import Descriptor, Queried
from warp_like.runtime.kernels.decorators import kernel
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import Device, DeviceLike, get_device
from warp_like.runtime.memory.recorder import recorder
from warp_like.runtime.operations.algorithms import radix_sort_pairs
from warp_like.values import from_ir, to_ir
from warp_like.values.dtypes import float32, int32

MAX_CELLS = 2**31 - 1
_DTYPES = (ir.float16, ir.float32, ir.float64)

tid, _cell_of = Builtin("tid"), Builtin("_cell_of")


@kernel
def _number(ids: array[int]) -> None:
    i = tid()
    ids[i] = i


@kernel
def _take(values: array[int], ids: array[int], taken: array[int]) -> None:
    i = tid()
    taken[i] = values[ids[i]]


@kernel
def _find_cells(points: Any, scale: Any, nx: int, ny: int, nz: int, ids: array[int], cells: array[int]) -> None:
    i = tid()
    cells[i] = _cell_of(points[ids[i]], scale, nx, ny, nz)


@kernel
def _find_starts(cells: array[int], count: int, cell_count: int, starts: array[int]) -> None:
    """Thread ``i`` writes the starts of the cells after that of point ``i - 1``, up to that of point ``i``."""
    i = tid()
    first, last = 0, cell_count
    if i > 0:
        first = cells[i - 1] + 1
    if i < count:
        last = cells[i]
    for cell in range(first, last + 1):
        starts[cell] = i


class HashGrid(Queried):
    """A grid of cells that holds points, for kernels that look for the points near to another one.

    Space is divided into cubes, which wrap around: cubes that lie ``dim_x`` apart along x share a cell. ``build`` sorts
    points into the cells; a kernel takes the grid's ``id``, or the grid itself for a parameter annotated
    ``wp.HashGrid``, and asks with ``wp.hash_grid_query``. An ``id`` as the grid gives it keeps the grid's memory; one
    in an array does not, so keep the grid.

    Args:
        dim_x: The number of cells along x.
        dim_y: The number of cells along y.
        dim_z: The number of cells along z.
        device: Where it lies; the current device when left out.
        dtype: ``wp.float16``, ``wp.float32`` or ``wp.float64``, of the points' coordinates.

    Attributes:
        device: Where it lies.
        dtype: The type of coordinates.
        groups: Whether the last build had groups.

    Raises:
        TypeError: A number of cells is no integer, or the dtype is another.
        RuntimeError: A number of cells is not positive, or there are more than 2^31 - 1.

    Example:
        >>> grid = wp.HashGrid(32, 32, 32)
        >>> points = wp.array([[0.0, 0.0, 0.0], [0.4, 0.0, 0.0], [5.0, 0.0, 0.0]], dtype=wp.vec3)
        >>> grid.build(points, radius=0.5)
        >>> @wp.kernel
        ... def count(grid: wp.HashGrid, points: wp.array(dtype=wp.vec3), found: wp.array(dtype=int)):
        ...     i = wp.tid()
        ...     for j in wp.hash_grid_query(grid, points[i], 0.5):
        ...         if wp.length(points[i] - points[j]) <= 0.5:
        ...             found[i] += 1
        >>> found = wp.zeros(3, dtype=int)
        >>> wp.launch(count, dim=3, inputs=[grid, points], outputs=[found])
        >>> found.list()
        [2, 2, 1]
    """

    _kind = ObjectKind.HASH_GRID

    def __init__(self, dim_x: int, dim_y: int, dim_z: int, device: DeviceLike = None, dtype: Any = float32) -> None:
        self.dtype = from_ir(self._scalar(dtype))
        self.device: Device = get_device(device)
        try:
            self._dims = tuple(operator.index(n) for n in (dim_x, dim_y, dim_z))
        except TypeError:
            raise TypeError(f"HashGrid() takes whole numbers of cells, got {(dim_x, dim_y, dim_z)}") from None
        if min(self._dims) <= 0 or self._cell_count > MAX_CELLS:
            raise RuntimeError(f"HashGrid() takes 1 to {MAX_CELLS} cells, got {' x '.join(map(str, self._dims))}")
        self.groups = False
        self._descriptor = Descriptor(self._kind, self.device)
        self._starts: array | None = None
        self._cells = self._ids = self._sorted_groups = self._empty(0)

    @staticmethod
    def _scalar(dtype: Any) -> ir.Scalar:
        t = to_ir(float32 if dtype is None else dtype)
        if not isinstance(t, ir.Scalar) or t not in _DTYPES:
            raise TypeError(f"HashGrid() takes dtype=wp.float16, wp.float32 or wp.float64, got {dtype!r}")
        return t

    @property
    def _cell_count(self) -> int:
        nx, ny, nz = self._dims
        return nx * ny * nz

    def _empty(self, size: int) -> array:
        return new_array(element_type(int32), (size,), self.device, zero=False)

    def reserve(self, num_points: int) -> None:
        """Make room for builds with up to ``num_points`` points, so that none of them allocates memory.

        Raises:
            ValueError: The number is negative.
        """
        if operator.index(num_points) < 0:
            raise ValueError(f"HashGrid.reserve() takes a number of points from 0 on, got {num_points}")
        if self._starts is None:
            self._starts = self._empty(self._cell_count + 1)
        if self._cells.size < 2 * num_points:  # twice: the sort's scratch memory
            self._cells, self._ids = self._empty(2 * num_points), self._empty(2 * num_points)

    def build(self, points: Any, radius: float, groups: Any = None) -> None:
        """Sort points into the cells, in place of those of the last build.

        To be done whenever points have moved. Queries find the points by the cells in which they were here. A build
        that an error or Ctrl-C ends on the way leaves a grid without points.

        Args:
            points: An array of one dimension, of vectors of 3 of the grid's dtype, on its device.
            radius: The length of a cube's edge; best about that of the queries.
            groups: An array of int32, the group of each point, for queries that look for those of one group. Any
                number is a group.

        Raises:
            TypeError: ``points`` or ``groups`` is an array of another dtype or number of dimensions.
            ValueError: The radius is not positive, there are not as many groups as points, or an array is on another
                device.
        """
        found = self._array("points", points, ir.Vec(3, self._scalar(self.dtype)))
        if not radius > 0.0:
            raise ValueError(f"HashGrid.build(): the radius is positive, got {radius}")
        n, wanted = found.size, None
        if groups is not None:
            wanted = self._array("groups", groups, ir.int32)
            if wanted.size != n:
                raise ValueError(f"HashGrid.build(): there are {n} points and {wanted.size} groups")
        self.reserve(n)
        scale = self.dtype(1.0) / self.dtype(radius)
        try:
            self._sort(found, scale, wanted)
        except BaseException:
            if recorder.graph is None:  # else nothing is sorted yet
                self._descriptor.publish()  # a grid without points: of those of before, some are gone
            raise
        self._publish(n, float(scale))

    def _sort(self, points: array, scale: Any, groups: array | None) -> None:
        """Sort ``points`` into the cells, by ``groups`` where there are any."""
        n = points.size
        self._launch(_number, n, [self._ids])
        if groups is not None:
            copy(self._cells, groups, count=n)
            radix_sort_pairs(self._cells, self._ids, n)
        self._launch(_find_cells, n, [points, scale, *self._dims, self._ids, self._cells])
        radix_sort_pairs(self._cells, self._ids, n, 0, max((self._cell_count - 1).bit_length(), 1))
        self._launch(_find_starts, n + 1, [self._cells, n, self._cell_count, self._starts])
        if groups is not None:
            if self._sorted_groups.size < n:
                self._sorted_groups = self._empty(n)
            self._launch(_take, n, [groups, self._ids, self._sorted_groups])
        self.groups = groups is not None

    def _launch(self, work: Any, dim: int, args: list[Any]) -> None:
        launch(work, dim, args, device=self.device, record_tape=False)

    def _publish(self, count: int, scale: float) -> None:
        nx, ny, nz = self._dims
        self._descriptor.publish(
            starts=self._starts,
            ids=self._ids,
            groups=self._sorted_groups if self.groups else None,
            nx=nx,
            ny=ny,
            nz=nz,
            count=count,
            scale=scale,
        )

    def _array(self, name: str, given: Any, t: ir.Type) -> array:
        """The array that an argument is, of elements of ``t``."""
        try:
            found = given if isinstance(given, array) else interop_hooks.as_array(given, from_ir(t))
        except (TypeError, ValueError) as error:
            raise TypeError(f"HashGrid.build(): `{name}` is an array of {t}: {error}") from error
        if to_ir(found.dtype) != t or found.ndim != 1:
            raise TypeError(f"HashGrid.build(): `{name}` is an array of one dimension of {t}, got {found!r}")
        if found.device != self.device:
            raise ValueError(f"HashGrid.build(): the grid is on {self.device}, `{name}` on {found.device}")
        return found

    def __repr__(self) -> str:
        nx, ny, nz = self._dims
        return f"HashGrid({nx}, {ny}, {nz}, device={str(self.device)!r}, dtype={self.dtype.__name__})"
