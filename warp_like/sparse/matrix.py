"""``BsrMatrix``: a sparse matrix of blocks, its storage and its operators.

A matrix of each block type is a struct of its own, so that kernels take matrices as arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Protocol

import warp_like as wp
from warp_like.base.provider import Provider
from warp_like.sparse.lookup import bsr_row_index

BSR_STATUS_SUCCESS = 0
"""Status of a matrix whose results all fitted."""

BSR_STATUS_ROW_CAPACITY_EXCEEDED = 1
"""Status of a matrix after a result had more blocks in a row than the row's capacity."""


class Operations(Protocol):
    """What the operators of matrices call, from the modules above this one."""

    bsr_axpy: Callable[..., BsrMatrix]
    bsr_copy: Callable[..., BsrMatrix]
    bsr_mm: Callable[..., BsrMatrix]
    bsr_mv: Callable[..., Any]
    bsr_scale: Callable[..., BsrMatrix]
    bsr_sum: Callable[..., BsrMatrix]
    bsr_transposed: Callable[..., BsrMatrix]


operations: Provider[Operations] = Provider("operations on sparse matrices")


@wp.kernel(enable_backward=False)
def _list_rows(row_count: int, offsets: wp.array[int], row_counts: wp.array[int], rows: wp.array[int]) -> None:
    block = wp.tid()
    rows[block] = bsr_row_index(offsets, row_count, block, row_counts)


class _Operators:
    """The operators of matrices and of their multiples."""

    def _scaled(self) -> tuple[BsrMatrix, Any]:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        matrix, scale = self._scaled()
        return operations.get().bsr_sum(other, matrix, 1.0, scale)

    def __sub__(self, other: Any) -> Any:
        matrix, scale = self._scaled()
        return operations.get().bsr_sum(other, matrix, -1.0, scale)

    def __mul__(self, factor: Any) -> BsrScaling:
        matrix, scale = self._scaled()
        return BsrScaling(matrix, scale * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> BsrScaling:
        matrix, scale = self._scaled()
        return BsrScaling(matrix, scale / divisor)

    def __neg__(self) -> BsrScaling:
        matrix, scale = self._scaled()
        return BsrScaling(matrix, -scale)

    def __matmul__(self, other: Any) -> Any:
        matrix, scale = self._scaled()
        if isinstance(other, _Operators):
            return operations.get().bsr_mm(matrix, other, alpha=scale)
        return operations.get().bsr_mv(matrix, other, alpha=scale)

    def __rmatmul__(self, other: Any) -> Any:
        matrix, scale = self._scaled()
        return operations.get().bsr_mv(matrix, other, alpha=scale, transpose=True)

    __array_ufunc__ = None  # NumPy leaves `vector @ matrix` to __rmatmul__

    @property
    def T(self) -> Any:
        """A transposed copy."""
        return self.transpose()

    def transpose(self) -> Any:
        """Return a transposed copy of this matrix."""
        raise NotImplementedError


class BsrMatrix(_Operators):
    """A sparse matrix of blocks of one shape, row after row; with scalars as blocks it is in CSR format.

    Make one by ``bsr_zeros``, ``bsr_from_triplets`` and their like, not by the class itself. In annotations of kernels
    and structs, ``bsr_matrix_t(dtype)`` is its type.

    Attributes:
        nrow (int): Number of rows of blocks.
        ncol (int): Number of columns of blocks.
        nnz (int): A bound for the number of blocks, known on the host. ``nnz_sync()`` makes it exact.
        offsets (array of int32): Row ``r`` has the places from ``offsets[r]`` to ``offsets[r + 1]``; at least
            ``nrow + 1`` numbers.
        row_counts (array of int32, or None): How many of these places each row uses, the first ones. None for compact
            matrices, which use all of them.
        columns (array of int32): The column of each block, ascending within a row; at least ``nnz`` numbers.
        values (array of blocks): The blocks; at least ``nnz``.
    """

    nrow: int
    ncol: int
    nnz: int
    offsets: Any
    row_counts: Any
    columns: Any
    values: Any

    def __class_getitem__(cls, dtype: Any) -> Any:
        return bsr_matrix_t(dtype)

    def _scaled(self) -> tuple[BsrMatrix, Any]:
        return self, 1.0

    @property
    def dtype(self) -> Any:
        """The type of the blocks."""
        return self.values.dtype

    @property
    def scalar_type(self) -> Any:
        """The type of the numbers in the blocks."""
        return scalar_type_of(self.values.dtype)

    @property
    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of a block; (1, 1) for scalars."""
        return block_shape_of(self.values.dtype)

    @property
    def block_size(self) -> int:
        """How many numbers a block has."""
        return math.prod(self.block_shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the whole matrix, in numbers."""
        rows, columns = self.block_shape
        return (self.nrow * rows, self.ncol * columns)

    @property
    def device(self) -> Any:
        """The device of the arrays."""
        return self.offsets.device

    @property
    def requires_grad(self) -> bool:
        """Whether ``values`` has a gradient."""
        return bool(self.values.requires_grad)

    @property
    def scalar_values(self) -> Any:
        """The blocks as an array of numbers of shape ``(n, rows of a block, columns of a block)``, a view."""
        numbers = self.values if self.dtype is self.scalar_type else self.values.view(self.scalar_type)
        return numbers.reshape((self.values.size, *self.block_shape))

    def uncompress_rows(self, out: Any = None) -> Any:
        """Return the row of each block; -1 for places that no row uses.

        Args:
            out: An array of int32 with at least ``nnz`` elements for the result; a new one when left out.

        Returns:
            ``out``, of which the first ``nnz`` elements are written.

        Raises:
            ValueError: ``out`` is too small.
        """
        if out is None:
            out = wp.empty(self.nnz, dtype=int, device=self.device)
        if out.size < self.nnz:
            raise ValueError(f"uncompress_rows(): `out` needs room for {self.nnz} elements, got {out!r}")
        arguments = [self.nrow, self.offsets, self.row_counts, out]
        wp.launch(_list_rows, dim=self.nnz, inputs=arguments, device=self.device)
        return out

    def nnz_sync(self) -> int:
        """Read the number of places from ``offsets``, set ``nnz`` to it, and return it. This waits for the device.

        For a compact matrix this is the number of blocks, for others the capacity of all rows.

        Raises:
            RuntimeError: A graph is being captured, so that nothing has been computed yet.
        """
        _require_results(self, "nnz_sync")
        self.nnz = int(self.offsets[self.nrow : self.nrow + 1].numpy()[0])
        return self.nnz

    def copy_nnz_async(self) -> None:
        """Do nothing: ``nnz_sync`` reads the number when it is called. Deprecated in Warp."""

    def notify_nnz_changed(self, nnz: int | None = None, nnz_capacity: int | None = None) -> None:
        """Tell the matrix that its ``offsets`` or ``nnz`` were changed by other means than this module's.

        Args:
            nnz: The new bound for the number of places; read from ``offsets`` when both arguments are left out.
            nnz_capacity: For how many blocks to make room; ``nnz`` when left out.

        Raises:
            ValueError: ``nnz_capacity`` is smaller than ``nnz``.
        """
        if nnz is None:
            nnz = self.nnz_sync() if nnz_capacity is None else operator.index(nnz_capacity)
        self.nnz = operator.index(nnz)
        room = self.nnz if nnz_capacity is None else operator.index(nnz_capacity)
        if room < self.nnz:
            raise ValueError(f"notify_nnz_changed(): nnz_capacity is at least nnz, got {room} and {self.nnz}")
        reserve(self, room)

    def status_sync(self) -> int:
        """Return ``BSR_STATUS_SUCCESS``, or what has gone wrong since the last ``clear_status()``. This waits.

        Raises:
            RuntimeError: A graph is being captured, so that nothing has been computed yet.
        """
        status = getattr(self, "_status", None)
        if status is None:
            return BSR_STATUS_SUCCESS
        _require_results(self, "status_sync")
        return int(status.numpy()[0])

    def status_message(self) -> str:
        """Return ``status_sync()`` in words."""
        status = self.status_sync()
        return {
            BSR_STATUS_SUCCESS: "success",
            BSR_STATUS_ROW_CAPACITY_EXCEEDED: "row capacity exceeded",
        }.get(status, f"unknown status {status}")

    def clear_status(self) -> None:
        """Set the status to ``BSR_STATUS_SUCCESS``."""
        status = getattr(self, "_status", None)
        if status is not None:
            status.zero_()

    def transpose(self) -> BsrMatrix:
        """Return a transposed copy of this matrix."""
        return operations.get().bsr_transposed(self)

    def __iadd__(self, other: Any) -> BsrMatrix:
        return operations.get().bsr_axpy(other, self)

    def __isub__(self, other: Any) -> BsrMatrix:
        return operations.get().bsr_axpy(other, self, alpha=-1.0)

    def __imul__(self, factor: Any) -> BsrMatrix:  # type: ignore[override]
        return operations.get().bsr_scale(self, factor)

    def __imatmul__(self, other: Any) -> BsrMatrix:
        return operations.get().bsr_mm(self, other, self)

    def __repr__(self) -> str:
        rows, columns = self.block_shape
        blocks = f"blocks of {rows} x {columns}, " if self.block_size > 1 else ""
        kind = "compact" if self.row_counts is None else "padded"
        return (
            f"BsrMatrix(shape={self.shape}, {blocks}{self.scalar_type.__name__}, nnz <= {self.nnz}, "
            f"{kind}, device={self.device})"
        )


class BsrScaling(_Operators):
    """A matrix times a number, which the operation that takes it multiplies with; no copy of the matrix."""

    def __init__(self, matrix: BsrMatrix, scale: Any) -> None:
        self.mat = matrix
        self.scale = scale

    def _scaled(self) -> tuple[BsrMatrix, Any]:
        return self.mat, self.scale

    def __getattr__(self, name: str) -> Any:
        if name not in _DESCRIBED:
            raise AttributeError(f"a multiple of a BsrMatrix has no attribute {name!r}; eval() makes it a matrix")
        return getattr(self.mat, name)

    def eval(self) -> BsrMatrix:
        """Return the product as a matrix of its own."""
        return operations.get().bsr_copy(self)

    def transpose(self) -> BsrScaling:
        """Return the multiple of a transposed copy."""
        return BsrScaling(self.mat.transpose(), self.scale)


_DESCRIBED = frozenset(
    (
        *("nrow", "ncol", "nnz", "offsets", "row_counts", "columns", "scalar_type", "block_shape", "block_size"),
        *("shape", "dtype", "requires_grad", "device"),
    )
)
"""What a multiple of a matrix knows as the matrix does."""


def scaled(given: Any, name: str) -> tuple[BsrMatrix, Any]:
    """Return the matrix and the factor of a matrix or a multiple of one.

    Raises:
        TypeError: It is neither.
    """
    if not isinstance(given, _Operators):
        raise TypeError(f"{name} is a BsrMatrix, got {type(given).__name__}")
    return given._scaled()


def scalar_type_of(dtype: Any) -> Any:
    """Return the type of the numbers in a block of type ``dtype``."""
    return getattr(dtype, "_wp_scalar_type_", dtype)


def block_shape_of(dtype: Any) -> tuple[int, int]:
    """Return the rows and columns of a block of type ``dtype``."""
    shape: tuple[int, int] = getattr(dtype, "_shape_", (1, 1))
    return shape


def block_type(shape: tuple[int, int], scalar: Any) -> Any:
    """Return the type of blocks of a shape: a scalar for (1, 1)."""
    return scalar if shape == (1, 1) else wp.types.matrix(shape=shape, dtype=scalar)


def composed(numbers: Any, count: int, dtype: Any) -> Any:
    """Return a contiguous array of numbers as ``count`` blocks or vectors of type ``dtype``, a view."""
    shape = getattr(dtype, "_shape_", ())
    if math.prod(shape) == 1:  # as large as a number, which a view takes one by one
        shape = ()
    shaped = numbers.reshape((count, *shape))
    return shaped if shaped.dtype is dtype else shaped.view(dtype)


def bsr_matrix_t(dtype: Any) -> Any:
    """Return the class of matrices with blocks of type ``dtype``, for annotations of kernels and fields of structs.

    Args:
        dtype: A scalar type, or a matrix type for blocks.

    Raises:
        ValueError: ``dtype`` is neither.

    Example:
        >>> from warp_like.sparse import bsr_identity, bsr_matrix_t
        >>> @wp.kernel
        ... def row_lengths(A: bsr_matrix_t(float), lengths: wp.array[int]):
        ...     row = wp.tid()
        ...     lengths[row] = A.offsets[row + 1] - A.offsets[row]
        >>> lengths = wp.zeros(3, dtype=int)
        >>> wp.launch(row_lengths, dim=3, inputs=[bsr_identity(3, float)], outputs=[lengths])
        >>> lengths.list()
        [1, 1, 1]
    """
    if not (wp.types.type_is_matrix(dtype) or wp.types.type_is_scalar(dtype)):
        shown = getattr(dtype, "__name__", dtype)
        raise ValueError(f"BsrMatrix block type must be either warp matrix or scalar; got {shown}")
    return _class_of(wp.empty(0, dtype=dtype).dtype)


@cache
def _class_of(dtype: Any) -> Any:
    rows, columns = block_shape_of(dtype)
    name = f"BsrMatrix_{scalar_type_of(dtype).__name__}_{rows}_{columns}"
    annotations = {
        "nrow": int,
        "ncol": int,
        "nnz": int,
        "offsets": wp.array[int],
        "row_counts": wp.array[int],
        "columns": wp.array[int],
        "values": wp.array[dtype],
    }
    storage: Any = wp.struct(type(name, (), {"__annotations__": annotations, "__module__": __name__}))
    return type(name, (BsrMatrix, storage), {"__module__": __name__})


def _require_results(bsr: BsrMatrix, name: str) -> None:
    if bsr.device.is_capturing:
        raise RuntimeError(
            f"BsrMatrix.{name}() can't be captured: it reads what the graph has not computed yet. Call it after the "
            "graph has run, or give a capacity beforehand"
        )


def status_of(bsr: BsrMatrix) -> Any:
    """Return the array of one int that holds the status, made when first needed."""
    status = getattr(bsr, "_status", None)
    if status is None:
        status = wp.zeros(1, dtype=int, device=bsr.device)
        object.__setattr__(bsr, "_status", status)  # no field of the struct
    return status


def reserve(bsr: BsrMatrix, room: int) -> None:
    """Let ``columns`` and ``values`` have at least ``room`` elements; new ones are not initialised."""
    if bsr.columns.size < room:
        bsr.columns = wp.empty(room, dtype=int, device=bsr.device)
    if bsr.values.size < room:
        bsr.values = wp.empty(room, dtype=bsr.values.dtype, device=bsr.device, requires_grad=bsr.requires_grad)


def new_values(bsr: BsrMatrix, room: int, sources: Iterable[Any]) -> None:
    """Let ``values`` have room for a result that is computed from ``sources``, whose memory it does not share.

    It has a gradient where one of the sources has.
    """
    sources = list(sources)
    grad = bsr.requires_grad or any(s.requires_grad for s in sources)
    shared = any(overlap(bsr.values, s) for s in sources)
    if bsr.values.size < room or shared:
        bsr.values = wp.empty(room, dtype=bsr.values.dtype, device=bsr.device, requires_grad=grad)
    elif grad and not bsr.requires_grad:
        bsr.values.requires_grad = True


def overlap(a: Any, b: Any) -> bool:
    """Return whether two arrays may share memory."""
    if not a.size or not b.size or a.ptr is None or b.ptr is None:
        return False
    return bool(a.ptr < b.ptr + b.capacity and b.ptr < a.ptr + a.capacity)


def shares_rows(a: BsrMatrix, b: BsrMatrix) -> bool:
    """Return whether two matrices keep their rows in the same memory, so that changing one changes the other."""
    return overlap(a.offsets, b.offsets) or overlap(a.columns, b.columns)
