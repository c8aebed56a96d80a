"""``wp.indexedarray``: the elements of an array that arrays of indices select, without a copy.

Each dimension has an array of int32 indices, or None for all of it: element ``i, j`` is ``data[indices[0][i],
indices[1][j]]``. The memory is that of ``data`` and of the indices; gradients are those of ``data``. The host checks
indices when it reads or writes elements; kernels check them in debug mode.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar

import numpy as np

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.runtime.arrays import interop_hooks, nested
from warp_like.runtime.arrays.binding import host_data
from warp_like.runtime.arrays.declared import Declared, declared
from warp_like.runtime.arrays.elementwise import Elementwise
from warp_like.runtime.arrays.operation_hooks import operations
from warp_like.runtime.arrays.recording import host_writes, is_captured, put
from warp_like.runtime.memory.allocation import outer_shape
from warp_like.runtime.memory.device import Device, DeviceLike, get_device
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import IndexedArrayAnnotation, to_ir

if TYPE_CHECKING:
    from warp_like.runtime.arrays.array import array

DType = TypeVar("DType")


class indexedarray(Elementwise, Generic[DType]):
    """The elements of an array that arrays of indices select: 1 to 8 dimensions, each with its own indices.

    Without ``data``, ``indexedarray(dtype=...)`` is the annotation of a kernel's parameter instead. Kernels take an
    indexed array where they declare one, and read, write and update its elements as they do an array's.

    Args:
        data: The array, of any library.
        indices: One array of int32 for the first dimension, or a sequence of them, None for a dimension that is
            taken whole. Dimensions that are left out are taken whole.
        dtype: The element type; checked where there is ``data``.
        ndim: The number of dimensions; checked where there is ``data``.

    Raises:
        TypeError: The indices are not one-dimensional arrays of int32, or the dtype is another.
        ValueError: There are more of them than dimensions, or another number of dimensions was asked for.

    Example:
        >>> a = wp.array([0.0, 10.0, 20.0, 30.0], dtype=float)
        >>> wp.indexedarray(a, wp.array([3, 1], dtype=int)).numpy()
        array([30., 10.], dtype=float32)
    """

    _annotation_ = IndexedArrayAnnotation(Any, 1)
    is_contiguous = False

    def __new__(
        cls, data: Any = None, indices: Any = None, dtype: Any = None, ndim: int | None = None
    ) -> indexedarray[Any]:
        """Make an indexed array, or an annotation when there is nothing to make one of."""
        if data is None:
            stands_for = IndexedArrayAnnotation(Any if dtype is None else dtype, 1 if ndim is None else ndim)
            made: indexedarray[Any] = declared(DeclaredIndexedArray, stands_for)
            return made
        self = super().__new__(cls)
        self.data = data if _is_array(data) else interop_hooks.as_array(data)
        _require_declared(self.data, dtype, ndim)
        self.indices = _index_arrays(self.data, indices)
        self._identities = {}
        return self

    def __class_getitem__(cls, params: Any) -> IndexedArrayAnnotation:
        dtype, ndim = params if isinstance(params, tuple) else (params, 1)
        return IndexedArrayAnnotation(dtype, ndim)

    data: array
    """The array whose elements are selected."""
    indices: Sequence[array | None]
    """For each dimension its indices, or None where it is taken whole."""
    _identities: dict[int, array]  # for kernels, the indices of dimensions that are taken whole

    # ---- description

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each dimension: the number of its indices."""
        sizes = zip(self.indices, self.data.shape, strict=True)
        return tuple(int(n) if index is None else int(index.size) for index, n in sizes)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self.data.ndim)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.data.dtype

    @property
    def device(self) -> Device:
        """The device that the memory belongs to."""
        found: Device = self.data.device
        return found

    @property
    def requires_grad(self) -> bool:
        """Whether the array under it has a gradient."""
        return self.data.requires_grad

    @property
    def grad(self) -> Any:
        """The same elements of the gradient, or None."""
        return None if self.data.grad is None else indexedarray(self.data.grad, self.indices)

    @property
    def ir_type(self) -> ir.IndexedArray:
        """The type by which kernels know it."""
        dtype = to_ir(self.dtype)
        assert dtype is not None
        return ir.indexed_array(dtype, self.ndim)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"indexedarray(shape={self.shape}, dtype={self.dtype.__name__})"

    def _repr_html_(self) -> str:
        from warp_like.runtime.arrays import preview  # for notebooks alone

        return preview.html(self)

    def __str__(self) -> str:
        return str(self.contiguous())

    # ---- host access

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array with a copy of the elements.

        Raises:
            IndexError: An index is outside of the array.
        """
        return self.data.numpy()[self._selection()]

    def list(self) -> Any:
        """Return the elements, in C order, as plain numbers, vectors or matrices."""
        return self._copied().list()

    def contiguous(self) -> array:
        """Return a new array with a copy of the elements, and with a gradient, zero, if there is one; recorded."""
        if is_captured() or (recorder.active is not None and self.requires_grad):
            # As a launch, whose gradient adds up where indices repeat, and which a graph takes.
            copied: array = operations.get().map(lambda x: x, self)
            return copied
        out = self._copied()
        out.requires_grad = self.requires_grad
        return out

    def _copied(self) -> array:
        out = self.data._like(self.shape)
        put(out, self.numpy(), holding=self.data)
        return out

    def to(self, device: DeviceLike, requires_grad: bool | None = None) -> Any:
        """Return the indexed array itself if it is on ``device``, else a contiguous array there."""
        if get_device(device) is self.device and requires_grad in (None, self.requires_grad):
            return self
        return self.contiguous().to(device, requires_grad)

    def fill_(self, value: Any) -> None:
        """Set every element to ``value``: a number, or what the element type can be made of."""
        one = self.data._like((1,))
        one.fill_(value)
        self._put(one.numpy()[0], one)

    def zero_(self) -> None:
        """Set every element to zero."""
        self._put(np.zeros((), self.data.element.numpy))

    def assign(self, src: Any) -> None:
        """Copy ``src``, an array of any library or a nested sequence of the same shape, into the elements.

        Of elements that are selected several times, the last one counts.
        """
        given = src._copied() if isinstance(src, indexedarray) else host_data(src)
        element = self.data.element
        values = self.data._check_components(given)
        raw: np.ndarray[Any, Any] = values.numpy() if _is_array(values) else values
        wanted = (*self.shape, *element.shape)
        try:
            fits = raw.shape == wanted or (*outer_shape(raw.shape, element), *element.shape) == wanted
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"can't assign data of shape {raw.shape} to {self!r}, whose data has shape {wanted}")
        self._put(raw.reshape(wanted), self.data._held_by(given))

    def _set(self, value: Any) -> None:
        """What ``a[indices] = value`` means."""
        if isinstance(value, (_native.Array, indexedarray, np.ndarray, list, tuple)):
            self.assign(value)
        else:
            self.fill_(value)

    def _put(self, values: np.ndarray[Any, Any], holding: Any = ()) -> None:
        self._refuse_tape("what the host writes to it")
        if recorder.graph is not None:
            raise RuntimeError(f"a capture does not take what the host writes to {self!r}; write it in a kernel")
        selection = self._selection()
        self.data._require_writable()
        host_writes(self.data)
        with nested.writing(self.data, holding):
            raw = self.data.numpy()
            raw[selection] = values
            if not self.data.device.backend.shares_host_memory:  # what NumPy got is a copy
                put(self.data, raw)

    def _selection(self) -> tuple[Any, ...]:
        """The elements as NumPy selects them."""
        found = []
        for axis, (index, n) in enumerate(zip(self.indices, self.data.shape, strict=True)):
            numbers = np.arange(n) if index is None else index.numpy()
            wrong = numbers[(numbers < 0) | (numbers >= n)]
            if wrong.size:
                raise IndexError(f"index {wrong[0]} of {self!r} is out of range for dimension {axis} with {n} elements")
            found.append(numbers)
        return np.ix_(*found)

    def _refuse_tape(self, what: str) -> None:
        """Refuse what a tape could not differentiate.

        Raises:
            RuntimeError: A tape is recording, and the array has a gradient.
        """
        if recorder.active is not None and self.requires_grad:
            raise RuntimeError(f"a tape does not differentiate {what} ({self!r}); copy the elements in a kernel")

    # ---- parts

    def __getitem__(self, key: Any) -> Any:
        parts = _spelled_out(key, self.ndim)
        kept: list[array | None] = []
        on_data: list[Any] = []
        for axis, (part, index, n) in enumerate(zip(parts, self.indices, self.shape, strict=True)):
            if isinstance(part, slice):
                whole = part == slice(None)
                kept.append(index if whole else self._index(axis)[part].contiguous())
                on_data.append(slice(None))
                continue
            at = operator.index(part)
            if not -n <= at < n:
                raise IndexError(f"index {at} is out of range for dimension {axis} with {n} elements")
            on_data.append(at % n if index is None else int(index.numpy()[at]))
        selected = self.data[tuple(on_data)]
        return indexedarray(selected, kept) if kept else selected

    # ---- launching

    def _leaves(self) -> Sequence[array]:
        """The arrays that a kernel takes: ``data``, and the indices of every dimension."""
        return [self.data, *(self._index(axis) for axis in range(self.ndim))]

    def _index(self, axis: int) -> array:
        index = self.indices[axis]
        if index is not None:
            return index
        if axis not in self._identities:
            whole = np.arange(self.data.shape[axis], dtype=np.int32)
            self._identities[axis] = interop_hooks.as_array(whole).to(self.data.device)
        return self._identities[axis]


class DeclaredIndexedArray(Declared, indexedarray):
    """What ``wp.indexedarray(dtype=float)`` gives: an annotation, which has no data."""

    data = None  # type: ignore[assignment]
    indices = ()

    @classmethod
    def _made(cls, annotation: IndexedArrayAnnotation) -> DeclaredIndexedArray:
        self: DeclaredIndexedArray = object.__new__(cls)
        return self

    def _means(self) -> IndexedArrayAnnotation:
        """What it means in a signature."""
        return IndexedArrayAnnotation(self.dtype, self.ndim)


class IndexedArrayOf:
    """``wp.indexedarray1d`` to ``wp.indexedarray4d``: ``wp.indexedarray`` with a fixed number of dimensions."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim
        self.__name__ = f"indexedarray{ndim}d"
        self._annotation_ = IndexedArrayAnnotation(Any, ndim)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``wp.indexedarray`` with this number of dimensions."""
        return indexedarray(*args, **{"ndim": self.ndim, **kwargs})

    def __getitem__(self, dtype: Any) -> IndexedArrayAnnotation:
        return IndexedArrayAnnotation(dtype, self.ndim)

    def __instancecheck__(self, obj: object) -> bool:
        return isinstance(obj, indexedarray) and obj.ndim == self.ndim

    def __repr__(self) -> str:
        return f"warp_like.{self.__name__}"


indexedarray1d, indexedarray2d, indexedarray3d, indexedarray4d = (IndexedArrayOf(n) for n in (1, 2, 3, 4))


def select(a: array, key: Any) -> indexedarray:
    """Return ``a[key]``, where some parts of ``key`` are arrays of indices."""
    parts = _spelled_out(key, a.ndim)
    indices = [part if _is_array(part) else None for part in parts if isinstance(part, (slice, _native.Array))]
    rest = a[tuple(slice(None) if _is_array(part) else part for part in parts)]
    made: indexedarray = indexedarray(rest, indices)
    return made


def held(a: array, t: ir.Array | ir.IndexedArray, record: Any) -> Any:
    """Return the array, indexed or not, that ``record``, what an element of ``a`` says of it, stands for.

    Raises:
        ValueError: Nobody has put such an array into an element of ``a``.
    """
    if not isinstance(t, ir.IndexedArray):
        return nested.find(a, t, record)
    data, *indices = (nested.find(a, part, record[name]) for name, part in t.fields)  # type: ignore[arg-type]
    return None if data is None else indexedarray(data, indices)


def _spelled_out(key: Any, ndim: int) -> list[Any]:
    """A key with one part for each dimension."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if sum(p is Ellipsis for p in parts) == 1:
        at = next(i for i, p in enumerate(parts) if p is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (ndim - len(parts) + 1)
    if len(parts) > ndim:
        raise IndexError(f"{len(parts)} indices into an array of {ndim} dimensions")
    for axis, part in enumerate(parts):
        if isinstance(part, bool) or not (isinstance(part, (slice, _native.Array)) or hasattr(type(part), "__index__")):
            raise TypeError(
                f"an array is indexed by integers, slices and arrays of int32, got {type(part).__name__} for "
                f"dimension {axis}"
            )
    return parts + [slice(None)] * (ndim - len(parts))


def _is_array(x: object) -> TypeGuard[array]:
    return isinstance(x, _native.Array)


def _require_declared(data: array, dtype: Any, ndim: int | None) -> None:
    wanted = None if dtype in (None, Any) else to_ir(dtype)
    if wanted is not None and wanted != data.element.type:
        raise TypeError(f"an indexed array of {wanted} can't select elements of {data!r}")
    if ndim is not None and ndim != data.ndim:
        raise ValueError(f"{data!r} makes an indexed array of {data.ndim} dimensions, `ndim` asks for {ndim}")


def _index_arrays(data: array, indices: Any) -> list[array | None]:
    given: Sequence[Any] = indices if isinstance(indices, (list, tuple)) else [indices]
    if len(given) > data.ndim:
        raise ValueError(f"{len(given)} arrays of indices for {data!r}, which has {data.ndim} dimensions")
    found = [_index_array(data, axis, index) for axis, index in enumerate(given)]
    return found + [None] * (data.ndim - len(found))


def _index_array(data: array, axis: int, index: Any) -> array | None:
    if index is None:
        return None
    where = f"the indices of dimension {axis}"
    if isinstance(index, (bool, int, float, str, list, tuple)):
        raise TypeError(
            f"{where} are an array of int32, got {type(index).__name__}; wp.array(..., dtype=int) makes one"
        )
    made = index if _is_array(index) else interop_hooks.as_array(index)
    if made.element.type != ir.int32 or made.ndim != 1:
        raise TypeError(f"{where} are a one-dimensional array of int32, got {made!r}")
    if made.device is not data.device:
        raise ValueError(f"{where} lie on {made.device}, the array on {data.device}")
    return made
