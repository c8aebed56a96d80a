"""What an array gives to other libraries and takes from them: views of its memory, copies, and protocols.

Whether a library can have a view is decided in one place, ``interop/export.py``; the methods here ask it. A view keeps
the memory alive, not the array. That is what lets an array keep the views that it has given out, to give them out
again: array, view and memory form no cycle, which could not be collected as it would pass through other libraries.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.runtime.arrays import interop_hooks
from warp_like.runtime.arrays.binding import bind, bind_new
from warp_like.runtime.arrays.recording import put
from warp_like.runtime.memory.allocation import ElementType, contiguous_strides, element_type
from warp_like.runtime.memory.device import CPU_DLPACK_TYPE, CUDA_DLPACK_TYPE, OTHER_DLPACK_TYPE, Device, get_device

_Self = TypeVar("_Self", bound="Exchange")


class Exchange(_native.Array):
    """The base of ``wp.array`` that other libraries deal with."""

    # ---- out

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array over the same memory, which it keeps alive; a copy of another device's memory.

        A copy is ordered behind the work of the device's current stream, and finished when this returns. Components are
        trailing dimensions. The elements of a bfloat16 array appear as their bits, as uint16.
        """
        view = self._numpy()
        return self.device.backend.read(self) if view is None else view

    def to_numpy(self, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the elements as a NumPy array; components are trailing dimensions.

        Args:
            copy: True for an independent copy. False and None give a view of the same memory, as ``numpy()`` does:
                NumPy can look at every array.

        Example:
            >>> a = wp.zeros(3)
            >>> a.to_numpy()[0] = 5.0
            >>> a.to_numpy(copy=True)[1] = 6.0
            >>> a.list()
            [5.0, 0.0, 0.0]
        """
        _require_copy_mode("to_numpy", copy)
        return self.numpy().copy() if copy else self.numpy()

    def to_torch(self, device: Any = None, copy: bool | None = None) -> Any:
        """Return the elements as a PyTorch tensor that requires no gradient; components are trailing dimensions.

        ``wp.to_torch(a)`` gives a tensor that shares the array's gradient as well.

        Args:
            device: Where the tensor is to lie; where the array does when left out.
            copy: True for an independent copy, False for a view of the same memory. None gives a view where that is
                possible, else a copy. As long as nothing was changed about it (not its elements), a view that was
                given out before is returned again.

        Raises:
            TypeError: PyTorch has no such dtype.
            ValueError: ``copy=False``, and a view is impossible: the message names device or layout.
            ImportError: PyTorch is not installed.

        Example:
            >>> a = wp.zeros(3)
            >>> a.to_torch().fill_(2.0)
            tensor([2., 2., 2.])
            >>> a.list()
            [2.0, 2.0, 2.0]
        """
        return interop_hooks.exporters["torch"](self, copy, device)

    def to_jax(self, copy: bool | None = None) -> Any:
        """Return the elements as a JAX array; components are trailing dimensions.

        JAX takes its arrays for immutable: don't write to the array while a view of it is in use. Numbers of 64 bits
        become 32 bits in JAX unless ``jax_enable_x64`` is set, and that is a copy.

        Args:
            copy: True for an independent copy, False for a view of the same memory. None gives a view where that is
                possible, else a copy.

        Raises:
            TypeError: JAX has no such dtype.
            ValueError: ``copy=False``, and a view is impossible: the message names dtype, layout or alignment.
            ImportError: JAX is not installed.
        """
        return interop_hooks.exporters["jax"](self, copy)

    def to_paddle(self, copy: bool | None = None) -> Any:
        """Return the elements as a Paddle tensor that requires no gradient; components are trailing dimensions.

        ``wp.to_paddle(a)`` gives a tensor that shares the array's gradient as well.

        Args:
            copy: As for ``to_torch``.

        Raises:
            TypeError: Paddle has no such dtype.
            ValueError: ``copy=False``, and a view is impossible: the message names the layout.
            ImportError: Paddle is not installed.
        """
        return interop_hooks.exporters["paddle"](self, copy)

    # ---- in

    def from_numpy(self, arr: np.ndarray[Any, Any]) -> None:
        """Copy the elements of ``arr`` into this array.

        Args:
            arr: A NumPy array whose shape is this array's, followed by the dimensions of a vector or matrix. Its
                numbers are converted: integers that do not fit the dtype wrap around, and fractions are cut off where
                integers are due, with a warning. Into a bfloat16 array, uint16 are the bits, as ``numpy()`` gives them.

        Raises:
            TypeError: ``arr`` is no NumPy array, or does not hold numbers.
            ValueError: Its shape is another, it has a NaN where integers are due, or this array is read-only.
            OverflowError: A float lies outside the range of an integer dtype.

        Example:
            >>> a = wp.zeros(2, dtype=wp.vec3)
            >>> a.from_numpy(np.ones((2, 3)))
            >>> a.list()
            [vec3f([1.0, 1.0, 1.0]), vec3f([1.0, 1.0, 1.0])]
        """
        if not isinstance(arr, np.ndarray):
            raise TypeError(f"from_numpy() needs a NumPy array, got {type(arr).__name__}")
        self._require_full_shape("from_numpy", arr.shape)
        self.assign(arr)  # type: ignore[attr-defined]

    def from_torch(self, t: Any) -> None:
        """Copy the elements of tensor ``t``, which may lie on any device, into this array.

        Args:
            t: A dense tensor whose shape is this array's, followed by the dimensions of a vector or matrix. Its
                numbers are converted: integers that do not fit the dtype wrap around, and fractions are cut off where
                integers are due, with a warning. Its gradient does not matter.

        Raises:
            TypeError: ``t`` is no tensor.
            ValueError: Its shape is another, it has a NaN where integers are due, or this array is read-only.
            OverflowError: A float lies outside the range of an integer dtype.
            ImportError: PyTorch is not installed.
        """
        source = interop_hooks.readers["torch"](t)
        self._require_full_shape("from_torch", tuple(t.shape))
        self.assign(source if source.element.scalar == self.element.scalar else source._values())  # type: ignore[attr-defined]

    def _require_full_shape(self, what: str, shape: tuple[int, ...]) -> None:
        full = self._full_shape
        if tuple(shape) != full:
            raise ValueError(f"{what}(): {self!r} takes data of shape {full}, got shape {tuple(shape)}")

    # ---- what is under a view

    @property
    def element(self) -> ElementType:
        """What is known of the elements."""
        return element_type(self.dtype)

    def _alias(self: _Self, owner: Any, element: ElementType | None = None, readonly: bool | None = None) -> _Self:
        """The same memory, which ``owner`` keeps alive; as elements of the same size, or with another permission."""
        of = self.element if element is None else element
        locked = self.readonly if readonly is None else readonly
        out = _native.Array.__new__(type(self))
        bind(out, of, self.ptr, self.shape, self.strides, locked, self.device, owner)
        return out

    def _like(self: _Self, shape: tuple[int, ...], device: Device | None = None) -> _Self:
        """A new array of the same elements in fresh memory."""
        out = _native.Array.__new__(type(self))
        bind_new(out, self.element, shape, device or self.device, zero=False)
        return out

    def _copied(self: _Self, device: Device | None = None) -> _Self:
        """A contiguous copy, without gradient, on the same device or another."""
        out = self._like(self.shape, device)
        put(out, self)
        return out

    @property
    def _full_shape(self) -> tuple[int, ...]:
        """The shape with the components as trailing dimensions, as ``numpy()`` shows it."""
        element = self.element
        return self.shape if element.is_struct else (*self.shape, *element.shape)

    @property
    def _raw_dtype(self) -> np.dtype[Any]:
        """The dtype that ``numpy()`` shows: of bfloat16 the bits."""
        element = self.element
        return np.dtype(np.uint16) if element.scalar == ir.bfloat16 else element.numpy

    def _show(self) -> np.ndarray[Any, Any]:
        """A NumPy array of records over the memory; any, by the protocols, where NumPy's own structs are not known."""
        element = self.element
        if element.is_struct:
            view = self._numpy(element.numpy)
            return np.asarray(_Records(self)).view(element.numpy) if view is None else view
        if element.scalar == ir.bfloat16:
            return self._alias(self, element_type(ir.with_scalar(element.type, ir.uint16)))._show()
        return np.asarray(memoryview(self))

    # ---- protocols

    @property
    def __array_interface__(self) -> dict[str, Any]:
        element = self.element
        if self.device_type != CPU_DLPACK_TYPE:
            raise AttributeError(f"{self!r} lies on {self.device}, where NumPy can't read it; a.numpy() copies it")
        if element.scalar == ir.bfloat16:
            raise AttributeError("NumPy has no bfloat16; a.numpy() gives the bits")
        scalar_strides = contiguous_strides(element.shape, element.numpy.itemsize)
        return {
            "version": 3,
            "data": (self.ptr, self.readonly),
            "shape": (*self.shape, *element.shape),
            "strides": (*self.strides, *scalar_strides),
            "typestr": element.numpy.str,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        element = self.element
        streams = self.device.backend.streams
        if self.device_type != CUDA_DLPACK_TYPE or streams is None:
            raise AttributeError(f"{self!r} lies on {self.device}, which is no CUDA device")
        if element.scalar == ir.bfloat16:
            raise AttributeError("the interface has no bfloat16; DLPack has")
        return {
            "version": 3,
            "data": (self.ptr if self.size else 0, self.readonly),
            "shape": self._full_shape,
            "strides": (*self.strides, *contiguous_strides(element.shape, element.numpy.itemsize)),
            "typestr": element.numpy.str if not element.is_struct else f"|V{self.itemsize}",
            "stream": streams.work_stream(self).cuda_stream or 1,  # the interface writes the legacy default stream as 1
        }

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        source = self._copied() if copy else self
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if tuple(dl_device) != (CPU_DLPACK_TYPE, 0) or copy is False:
                raise BufferError(f"the array lies on {self.device}, it can't be exported to DLPack device {dl_device}")
            source, copy = self._copied(get_device("cpu")), True
        elif self.device_type == OTHER_DLPACK_TYPE:
            raise BufferError(f"DLPack has no number for {self.device}; dl_device=(1, 0) asks for a copy on the host")
        elif self.device.backend.streams is not None:
            self.device.backend.streams.hand_over(source, stream)
        elif stream is not None and stream != -1:
            raise TypeError(f"{self.device} has no streams: __dlpack__() takes stream=None or -1, got {stream!r}")
        return _native.dlpack_capsule(source, max_version is not None and max_version[0] >= 1, bool(copy))

    def __dlpack_device__(self) -> tuple[int, int]:
        return int(self.device_type), int(self.device_id)


def _require_copy_mode(what: str, copy: object) -> None:
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"{what}(): copy is None, True or False, got {copy!r}")


class _Records:
    """Shows an array of structs to NumPy as bytes, which the native buffer protocol can't."""

    def __init__(self, a: Exchange) -> None:
        self.owner = a
        self.__array_interface__ = {
            "version": 3,
            "data": (a.ptr, a.readonly),
            "shape": a.shape,
            "strides": a.strides,
            "typestr": f"|V{a.itemsize}",
        }
