"""``wp.array``: memory with a shape, a dtype and, where asked for, a gradient.

An array is bound to its memory once, when it is made; views share the memory and keep its owner alive. A
view of an array with a gradient has the same view of the gradient.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from warp_like import _native
from warp_like.base.contract import STRUCT_CODE
from warp_like.frontend.host import in_kernels
from warp_like.ir import types as ir
from warp_like.runtime.arrays import indexing, interop_hooks, nested
from warp_like.runtime.arrays.binding import bind, bind_data, bind_new, bind_pointer, host_data
from warp_like.runtime.arrays.declared import Declared, declared
from warp_like.runtime.arrays.elementwise import Elementwise
from warp_like.runtime.arrays.exchange import Exchange
from warp_like.runtime.arrays.indexed import held, indexedarray, select
from warp_like.runtime.arrays.recording import host_copy, is_captured, note_copy, put
from warp_like.runtime.memory.allocation import (
    ElementType,
    MemoryKind,
    contiguous_strides,
    element_type,
    host_elements,
    normalize_shape,
    outer_shape,
)
from warp_like.runtime.memory.device import Device, DeviceLike, get_device
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import ArrayAnnotation, Composite, bfloat, from_ir
from warp_like.values.annotation import FixedArrayAnnotation
from warp_like.values.dtypes import SCALAR_CLASSES, fitted, host_number

DType = TypeVar("DType")


@in_kernels("array")
class array(Exchange, Elementwise, Generic[DType]):
    """A multi-dimensional array of scalars, vectors or matrices.

    Without data, shape and pointer, ``array(dtype=...)`` is the annotation of a kernel's parameter: an array without
    elements, whose ``shape``, ``strides``, ``dtype`` and ``ndim`` may be set.

    Args:
        data: Host data: a nested sequence of numbers, or an array of any library, which is converted to
            ``dtype``.
        dtype: The element type; taken from ``data`` when left out.
        shape: The extents; taken from ``data`` when left out.
        strides: In bytes, for memory at ``ptr``.
        ptr: The address of existing memory, which has to outlive the array unless ``deleter`` gives it back.
        capacity: The bytes at ``ptr``, checked against shape and strides.
        device: Where the array lies.
        pinned: Page-locked memory of the host, which copies to and from CUDA devices need not wait for.
        copy: False to share the memory of ``data``, where that is possible.
        deleter: Called as ``deleter(ptr, capacity)`` when the memory is no longer used.
        ndim: The number of dimensions, checked against ``data``.
        grad: The gradient's array.
        requires_grad: Allocate a gradient, initially zero.
        retain_grad: Keep the gradient of an intermediate array after a backward pass.

    Example:
        >>> a = wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=float)
        >>> a.shape, a.dtype is wp.float32
        ((2, 2), True)
        >>> a[1].numpy()
        array([3., 4.], dtype=float32)
        >>> wp.array([[1.0, 2.0, 3.0]], dtype=wp.vec3).shape
        (1,)
    """

    _annotation_ = ArrayAnnotation(Any, 1)  # what the bare class means in a kernel's signature
    # `_grad_links` is what ties the gradient to tensors of other libraries, shared by all views; filled by interop.
    # Each link has attach(), covers(array) and replace(array).

    def __new__(
        cls,
        data: Any = None,
        dtype: Any = Any,
        shape: Any = None,
        strides: Any = None,
        ptr: int | None = None,
        capacity: int | None = None,
        device: DeviceLike = None,
        pinned: bool = False,
        copy: bool = True,
        deleter: Callable[[int, int], None] | None = None,
        ndim: int | None = None,
        grad: array | None = None,
        requires_grad: bool = False,
        retain_grad: bool = False,
    ) -> array[Any]:
        """Make an array, or an annotation when there is nothing to make one of."""
        if data is None and shape is None and ptr is None:
            made: array[Any] = declared(DeclaredArray, ArrayAnnotation(dtype, 1 if ndim is None else ndim))
            return made
        place = get_device(device)
        self, source = None, None
        if copy and cls is array and ptr is None and shape is None and ndim is None and place.is_cpu and not pinned:
            self = _native.copied(data, None if dtype is Any else dtype)
        if self is None:
            self = super().__new__(cls)
            if ptr is not None:
                bind_pointer(self, ptr, dtype, shape, strides, capacity, place, deleter)
            elif data is not None:
                data = data.contiguous() if isinstance(data, indexedarray) and copy else data
                source = bind_data(self, data, dtype, shape, ndim, None if device is None else place, copy, pinned)
            else:
                bind_new(self, element_type(dtype), normalize_shape(shape), place, True, pinned)
        self.retain_grad = retain_grad
        if grad is not None:
            self.grad = grad
        elif requires_grad:
            self.requires_grad = True
        if source is not None and recorder.active is not None:
            note_copy(self, source)
        return self

    def __class_getitem__(cls, params: Any) -> ArrayAnnotation:
        dtype, ndim = params if isinstance(params, tuple) else (params, 1)
        return ArrayAnnotation(dtype, ndim)

    # ---- gradient

    @property
    def grad(self) -> array | None:
        """The gradient, an array of the same shape and dtype, or None."""
        found: array | None = self.grad_array
        return found

    @grad.setter
    def grad(self, value: array | None) -> None:
        if value is not None:
            value = value if isinstance(value, array) else interop_hooks.as_array(value, self.element.type)
            if value.shape != self.shape or value.type_code != self.type_code:
                raise ValueError(f"the gradient of {self!r} has its shape and dtype, got {value!r}")
            if value.device is not self.device:
                raise ValueError(f"the gradient lies on {value.device}, the array on {self.device}")
        self.grad_array = value
        followers = [link for link in self._grad_links or () if link.covers(self)]
        self._grad_links = None if value is None else followers
        for link in followers:
            link.replace(value)

    @property
    def requires_grad(self) -> bool:
        """Whether there is a gradient; setting it allocates one, initially zero, or drops it."""
        return self.grad_array is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value:
            self.grad = None
        elif self.grad_array is None:
            self.grad = new_array(self.element, self.shape, self.device, zero=True)

    def _attach_grad(self) -> None:
        """Make the gradient that of the tensors which share the array's memory, where that tie was lost.

        A tape calls this before each backward pass: an optimizer's ``zero_grad()`` may have dropped a
        tensor's gradient since. A dropped gradient means zero, so the shared memory is then set to zero.
        """
        for link in self._grad_links or ():
            link.attach()

    # ---- description

    @property
    def capacity(self) -> int:
        """Bytes of all elements."""
        return int(self.size * self.itemsize)

    @property
    def is_transposed(self) -> bool:
        """Whether the array reversed, ``a.transpose()``, is contiguous and the array itself is not."""
        return not self.is_contiguous and bool(self._subview(0, self.shape[::-1], self.strides[::-1]).is_contiguous)

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else 0

    def __float__(self) -> float:
        return float(self._only_number("float"))

    def __int__(self) -> int:
        return int(self._only_number("int"))

    def _only_number(self, wanted: str) -> Any:
        """The number in an array of one.

        Raises:
            TypeError: There are more or none, or the element is no number.
        """
        if self.size != 1 or self.element.is_struct or self.element.shape:
            raise TypeError(f"{wanted}() takes an array of one number, got {self!r}; use an element, such as a[0]")
        return self.list()[0]

    def __repr__(self) -> str:
        if self.dtype is None:  # while it is being made, as a debugger may look at it
            return "array(without memory)"
        return f"array(shape={self.shape}, dtype={self.dtype.__name__})"

    def __str__(self) -> str:
        return repr(self) if self.dtype is None else str(self._values())

    def _repr_html_(self) -> str:
        from warp_like.runtime.arrays import preview  # for notebooks alone

        return preview.html(self)

    @property
    def pinned(self) -> bool:
        """Whether the memory is page-locked memory of the host, allocated with ``pinned=True``."""
        return bool(_native.is_pinned(self.owner))

    @property
    def memory_kind(self) -> MemoryKind:
        """What memory it has, as the driver tells it for a CUDA device; ``UNKNOWN`` there for none at all."""
        kind: MemoryKind = self.device.backend.memory_kind(self)
        return kind

    def cptr(self) -> Any:
        """Return a ``ctypes`` pointer to the components, to hand to C; it does not keep the memory alive.

        Structs, float16 and bfloat16, which C does not have, are pointed to as bytes and as uint16.
        """
        import ctypes

        scalar = self.element.scalar
        kinds = {"bool": ctypes.c_bool, "float32": ctypes.c_float, "float64": ctypes.c_double}
        halves = {"float16": "uint16", "bfloat16": "uint16", "None": "uint8"}
        name = halves.get(str(scalar), str(scalar))
        return ctypes.cast(self.ptr, ctypes.POINTER(kinds.get(name) or getattr(ctypes, f"c_{name}")))

    def __ctype__(self) -> Any:
        """Return a structure of ``ctypes`` that describes the array to C; it does not keep the memory alive.

        It has the fields ``data``, ``grad`` (0 for none), ``shape``, ``strides``, ``ndim`` and ``flags``.

        Raises:
            OverflowError: An extent or a stride needs more than 32 bits.
        """
        from warp_like.values.ctype import of_array

        geometry = (_native.Array.shape.__get__(self), _native.Array.strides.__get__(self))
        return of_array(self.ptr or 0, self.grad.ptr if self.grad is not None else 0, *geometry)

    def ipc_handle(self) -> bytes:
        """Return a handle by which another process opens the memory, with ``wp.from_ipc_handle``.

        Raises:
            RuntimeError: The array lies on the CPU, is a part of its memory, or its memory has no handle, as that of a
                memory pool: allocate it inside of ``wp.ScopedMempool(device, False)``.
        """
        handle: bytes = self.device.backend.memory_handle(self)
        return handle

    # ---- host access

    def list(self) -> Any:
        """Return the elements, in C order, as plain numbers, vectors or matrices."""
        if self.element.is_struct:
            return [self._struct_of(record) for record in self.numpy().ravel()]
        if not self.element.shape:
            return self._values().ravel().tolist()
        data, size = self.numpy().tobytes(), self.itemsize
        return [self.dtype._from_bytes(data[at : at + size]) for at in range(0, len(data), size)]

    def _struct_of(self, record: Any) -> Any:
        """The struct that a record of ``numpy()`` shows."""
        return self.dtype._from_numpy(record, partial(held, self) if self.element.holds else None)

    def _values(self) -> np.ndarray[Any, Any]:
        """The components as numbers that NumPy can print and compute with; a copy for bfloat16."""
        raw = self.numpy()
        return bfloat.decode_array(raw) if self.element.scalar == ir.bfloat16 else raw

    def _require_writable(self) -> None:
        """Refuse to write to a read-only array, and tell the libraries of its memory of the write.

        Raises:
            ValueError: It is read-only.
        """
        if self.readonly:
            raise ValueError(f"{self!r} is read-only: its memory belongs to a read-only or immutable array")
        interop_hooks.before_write(self.owner)

    def _check_components(self, value: Any) -> Any:
        """``value``, an array or host data, as an array of the same scalars or raw components."""
        element = self.element
        if isinstance(value, array):
            if value.element.scalar != element.scalar or (element.is_struct and value.element != element):
                raise TypeError(f"{self!r} can't take elements of {value.dtype.__name__}; convert them first")
            if element.holds:
                nested.require_device(self, value)
            return value
        if isinstance(value, Composite) and value._scalar_ == element.scalar and value._shape_ == element.shape:
            return np.frombuffer(value._bytes(), element.numpy).reshape(element.shape)
        return host_elements(value, element)

    def _held_by(self, value: Any) -> Any:
        """What ``value``, elements that are about to be written here, holds, as ``nested.writing`` takes it."""
        if isinstance(value, array) or not self.element.holds:
            return value if isinstance(value, array) else ()
        return nested.arrays_of(self, value if isinstance(value, (list, tuple)) else [value])

    def fill_(self, value: Any) -> None:
        """Set every element to ``value``: a number, or what the element type can be made of."""
        element = self.element
        if element.is_struct:
            self._fill_records(value)
            return
        if element.shape:
            filler = value if isinstance(value, element.host) else element.host(value)
            components: Any = np.frombuffer(filler._bytes(), element.numpy).reshape(element.shape)
        else:
            assert element.scalar is not None
            number = fitted(value, element.scalar)
            components = np.array(bfloat.encode(number) if element.scalar == ir.bfloat16 else number, element.numpy)
        self._require_writable()
        host_copy(self, components)

    def _fill_records(self, value: Any) -> None:
        element = self.element
        if isinstance(value, (np.void, tuple)):
            value = element.host._from_numpy(np.array(value, element.numpy))
        elif isinstance(value, (int, float)) and not value:
            value = element.host._from_numpy(np.zeros((), element.numpy))
        if type(value) is not element.host and getattr(value, "_ir_type_", None) != element.type:
            raise TypeError(f"an element of {self!r} is {element.type}, got {type(value).__name__}")
        self._require_writable()
        host_copy(self, np.array(value.numpy_value(), element.numpy), holding=self._held_by(value))

    def zero_(self) -> None:
        """Set every element to zero; arrays in structs to None."""
        if recorder.active is None and recorder.graph is None and self._try_zero():
            if self.type_code & STRUCT_CODE == STRUCT_CODE:
                with nested.writing(self):  # nothing more, but the elements have given up their arrays
                    pass
            return
        self._require_writable()
        host_copy(self, np.zeros((), self._raw_dtype))

    def assign(self, src: Any) -> None:
        """Copy ``src``, an array of any library or a nested sequence of the same shape, into this array."""
        self._require_writable()
        given = self._given(src)
        values = self._fitted(self._check_components(given))
        host_copy(self, values, given if isinstance(given, array) else None, holding=self._held_by(given))

    def _given(self, src: Any) -> Any:
        """What is assigned, as ``_check_components`` takes it."""
        if isinstance(src, indexedarray):
            return src.contiguous()
        return src if self.element.is_struct else host_data(src, recorder.active is not None)

    def _fitted(self, values: Any) -> Any:
        """``values``, an array or raw components, in the shape of this array, where they divide into its elements."""
        wanted, given = self._full_shape, values._full_shape if isinstance(values, array) else values.shape
        if given == wanted:
            return values
        try:
            fits = (*outer_shape(given, self.element), *self.element.shape) == wanted
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"can't assign data of shape {given} to {self!r}, whose data has shape {wanted}")
        if not isinstance(values, array):
            return values.reshape(wanted)
        piece = values.contiguous()
        return bind_foreign(self.element, piece.ptr, self.shape, None, piece.readonly, piece.device, piece)

    # ---- indexing

    def __getitem__(self, key: Any) -> Any:
        view = self._slice(key)
        if view is not None:
            return view
        if isinstance(key, array) or (isinstance(key, tuple) and any(isinstance(part, array) for part in key)):
            return select(self, key)
        offset, shape, _strides = indexing.resolve(key, self.shape, self.strides)
        if shape:
            return self._map(lambda a: a._subview(*indexing.resolve(key, a.shape, a.strides)))
        return self._read(offset)

    def _read(self, offset: int) -> Any:
        """The element at byte ``offset``."""
        one = self._subview(offset, (1,), (self.itemsize,))
        element = self.element
        if element.is_struct:
            return self._struct_of(one.numpy()[0])
        if element.shape:
            return element.host._from_bytes(one.numpy().tobytes())
        assert element.scalar is not None
        return host_number(one._values()[0].item(), element.scalar)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, array) or (isinstance(key, tuple) and any(isinstance(part, array) for part in key)):
            select(self, key)._set(value)
            return

        def part(a: array) -> array:
            offset, shape, strides = indexing.resolve(key, a.shape, a.strides)
            return a._subview(offset, shape or (1,), strides or (a.itemsize,))

        target = self._map(part)
        if _is_data(value) and indexing.resolve(key, self.shape, self.strides)[1]:
            target._require_writable()
            given = self._given(value)
            components = self._check_components(given)
            if isinstance(components, array) and components._full_shape != target._full_shape:
                components = components.numpy()  # which broadcasts
            host_copy(target, components, given if isinstance(given, array) else None, holding=self._held_by(given))
        else:
            target.fill_(value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    # ---- views

    def _map(self, view: Callable[[Any], Any]) -> array:
        """The view of this array, with the same view of the gradient."""
        out: array = view(self)
        if self.grad_array is not None:
            out.grad_array = view(self.grad_array)
            out._grad_links = self._grad_links
            out.retain_grad = self.retain_grad
        return out

    def reshape(self, shape: Any, *more: Any) -> array:
        """Return a view of another shape, a tuple or its extents, with as many elements; one extent may be -1.

        The array has to be contiguous.
        """
        dims = shape if isinstance(shape, (tuple, list)) and not more else (shape, *more)
        new = _infer(tuple(map(operator.index, dims)), self.size, self)
        _require_contiguous(self, "reshape")
        return self._map(lambda a: _contiguous_view(a, new))

    def flatten(self) -> array:
        """Return a one-dimensional view. The array has to be contiguous."""
        _require_contiguous(self, "flatten")
        return self._map(lambda a: _contiguous_view(a, (self.size,)))

    def transpose(self, axes: Any = None) -> array:
        """Return a view with the dimensions reversed, or in the order ``axes``."""
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(operator.index(i) for i in axes)
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"the axes of {self!r} are a permutation of {tuple(range(self.ndim))}, got {order}")
        return self._map(lambda a: a._subview(0, tuple(a.shape[i] for i in order), tuple(a.strides[i] for i in order)))

    def view(self, dtype: Any) -> array:
        """Return a view of the same bytes as elements of ``dtype``.

        The size of an element stays the same, or the components of a vec or mat become trailing dimensions,
        or trailing dimensions become components.
        """
        element = element_type(dtype)
        return self._map(lambda a: _reinterpret(a, element))

    def contiguous(self) -> array:
        """Return the array itself if it is contiguous, else a contiguous copy."""
        return self if self.is_contiguous else self._recorded_clone(self.requires_grad)

    def to(self, device: DeviceLike, requires_grad: bool | None = None) -> array:
        """Return the array itself if it is on ``device``, else a copy there."""
        place = get_device(device)
        if place is self.device and requires_grad in (None, self.requires_grad):
            return self
        return self._recorded_clone(self.requires_grad if requires_grad is None else requires_grad, place)

    def _recorded_clone(self, requires_grad: bool, device: Device | None = None) -> array:
        """Return a contiguous copy, through which a tape passes the gradient on."""
        if recorder.active is None or not requires_grad:
            copied = _clone(self, requires_grad, device)
            note_copy(copied, self)
            return copied
        out = new_array(self.element, self.shape, device or self.device, zero=False)
        out.requires_grad = True
        out.assign(self)
        return out

    # ---- copying and pickling

    def __reduce__(self) -> tuple[Any, ...]:
        if self.element.holds:
            raise TypeError(f"{self!r} can't be pickled, since its elements hold arrays; pickle a.list()")
        grad = None if self.grad_array is None else np.array(self.grad_array.numpy())
        raw = np.ascontiguousarray(self.numpy()).tobytes()
        return _restore, (self.element.type, self.shape, raw, grad, self.device)

    def __deepcopy__(self, memo: Any) -> array:
        return self._recorded_clone(self.requires_grad)

    def __copy__(self) -> array:
        return self._map(lambda a: a._subview(0, a.shape, a.strides))


class DeclaredArray(Declared, array):
    """What ``wp.array(dtype=float)`` gives: an annotation, and an array without elements."""

    @classmethod
    def _made(cls, annotation: ArrayAnnotation) -> DeclaredArray:
        """A new one; bound, so that launches take it, where ``annotation`` says of what."""
        self: DeclaredArray = _native.Array.__new__(cls)
        if isinstance(getattr(annotation.dtype, "_ir_type_", None), ir.Type) and annotation.ndim is not Any:
            element = element_type(annotation.dtype)
            bind(self, element, 0, (0,) * annotation.ndim, None, False, get_device("cpu"), None)
        return self


def annotation_of(t: ir.Type) -> Any:
    """Return what a user would annotate a parameter of type ``t`` with."""
    return array(dtype=from_ir(t.dtype), ndim=t.ndim) if isinstance(t, ir.Array) else from_ir(t)


class fixedarray(DeclaredArray):
    """Stands for arrays that a kernel makes by ``wp.zeros``, in the signature of a function that takes them.

    Args:
        shape: The extents, constants: a tuple, or a number for one dimension.
        dtype: The type of the elements.

    Example:
        >>> @wp.func
        ... def total(a: wp.fixedarray(shape=(3,), dtype=float)):
        ...     return a[0] + a[1] + a[2]
    """

    def __new__(cls, dtype: Any = Any, shape: int | tuple[int, ...] = 1) -> fixedarray:
        """Make the annotation."""
        annotation = FixedArrayAnnotation(dtype, shape)
        self: fixedarray = declared(cls, annotation)
        self.shape = annotation.shape
        return self

    def _means(self) -> FixedArrayAnnotation:
        """What it means in a signature."""
        return FixedArrayAnnotation(self.dtype, self.shape)


class ArrayOf:
    """``wp.array1d`` to ``wp.array4d``: ``wp.array`` with a fixed number of dimensions."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim
        self.__name__ = f"array{ndim}d"
        self._annotation_ = ArrayAnnotation(Any, ndim)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``wp.array`` with this number of dimensions."""
        return array(*args, **{"ndim": self.ndim, **kwargs})

    def __getitem__(self, dtype: Any) -> ArrayAnnotation:
        return ArrayAnnotation(dtype, self.ndim)

    def __instancecheck__(self, obj: object) -> bool:
        return isinstance(obj, array) and obj.ndim == self.ndim

    def __repr__(self) -> str:
        return f"warp_like.{self.__name__}"


array1d, array2d, array3d, array4d = (ArrayOf(n) for n in (1, 2, 3, 4))


def _require_contiguous(a: array, what: str) -> None:
    if not a.is_contiguous:
        raise RuntimeError(f"{what}() needs a contiguous array, {a!r} has strides {a.strides}; call contiguous() first")


def _infer(shape: tuple[int, ...], size: int, a: array) -> tuple[int, ...]:
    if shape.count(-1) > 1:
        raise RuntimeError(f"only one extent of a shape can be -1, got {shape}")
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        missing = size // known if known else 0
        shape = tuple(missing if n == -1 else n for n in shape)
    shape = normalize_shape(shape)
    if math.prod(shape) != size:
        raise RuntimeError(f"{a!r} has {size} elements and can't be reshaped to {shape}")
    return shape


def _contiguous_view(a: array, shape: tuple[int, ...]) -> array:
    """``a`` reshaped; a gradient in another layout than its array is refused."""
    _require_contiguous(a, "reshape")
    view: array = a._subview(0, shape, contiguous_strides(shape, a.itemsize))
    return view


def _reinterpret(a: array, element: ElementType) -> array:
    old = a.element
    if element.holds and element != old:
        raise TypeError(f"{a!r} can't be viewed as {element.host.__name__}, whose elements hold arrays")
    if element.itemsize == old.itemsize:
        return a._alias(a, element)
    if old.scalar is None or element.scalar is None:
        raise TypeError(f"{a!r} can't be viewed as {element.host.__name__}: the sizes of the elements differ")
    steps = contiguous_strides(old.shape, old.scalar.bits // 8)
    if old.shape and not element.shape and element.scalar.bits == old.scalar.bits:
        shape, strides = (*a.shape, *old.shape), (*a.strides, *steps)
        return bind_foreign(element, a.ptr, normalize_shape(shape), strides, a.readonly, a.device, a)
    inner = len(element.shape)
    packed = contiguous_strides(element.shape, a.itemsize)
    same_scalars = not old.shape and element.scalar.bits == old.scalar.bits and a.ndim > inner
    if same_scalars and a.shape[-inner:] == element.shape and a.strides[-inner:] == packed:
        shape, strides = a.shape[:-inner], a.strides[:-inner]
        return bind_foreign(element, a.ptr, shape, strides, a.readonly, a.device, a)
    raise TypeError(f"{a!r} can't be viewed as {element.host.__name__}: the sizes of the elements differ")


def _clone(a: array, requires_grad: bool, device: Device | None = None) -> array:
    captured = is_captured()
    out = new_array(a.element, a.shape, device or a.device, zero=False) if captured else a._copied(device)
    out.requires_grad = requires_grad
    if captured:  # what is captured copies
        out.assign(a)
    return out


def _restore(
    t: ir.Type, shape: tuple[int, ...], data: bytes, grad: np.ndarray[Any, Any] | None, device: Device
) -> array:
    out = new_array(element_type(t), shape, device, zero=False)
    put(out, np.frombuffer(data, out._raw_dtype).reshape(out._full_shape))
    if grad is not None:
        out.requires_grad = True
        put(out.grad_array, grad)
    return out


def _is_data(value: Any) -> bool:
    """Whether what is assigned to a slice has elements of its own, as the arrays of any library have."""
    return isinstance(value, (array, indexedarray, np.ndarray, list, tuple)) or (
        hasattr(value, "__dlpack__") and value.ndim > 0
    )


def bind_foreign(
    element: ElementType,
    ptr: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    readonly: bool,
    device: Device,
    owner: Any,
) -> array:
    """Return an array over memory that ``owner`` keeps alive."""
    self: array = _native.Array.__new__(array)
    bind(self, element, ptr, shape, strides, readonly, device, owner)
    return self


def new_array(element: ElementType, shape: tuple[int, ...], device: Device, zero: bool, pinned: bool = False) -> array:
    """Return an array over fresh memory."""
    made: array | None = None if pinned else _native.make_array(shape, element.host, device, zero)
    if made is None:
        made = _native.Array.__new__(array)
        bind_new(made, element, shape, device, zero, pinned)
    if zero and recorder.graph is not None:  # zeros again each time that the graph runs
        made.zero_()
    return made


_native.set_array_class(array, get_device("cpu"))
for _scalar in (*SCALAR_CLASSES.values(), bool, int, float):
    element_type(_scalar)
_native.share(np.zeros(2), None)  # shows it what NumPy's arrays look like
