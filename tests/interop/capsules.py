"""DLPack capsules made by hand, to say what no library would."""

from __future__ import annotations

import ctypes
from typing import Any


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]


class Capsule:
    """An object with ``__dlpack__`` whose capsule says what is given; it owns the description, and frees nothing.

    It has to live longer than the arrays that are made of it.

    Args:
        data: The address.
        shape: The extents; None for a null pointer.
        strides: In elements; None says that the tensor is contiguous.
        dtype: DLPack's code, bits and lanes.
        ndim: Where it is not the number of extents.
        device: DLPack's type and number.
        byte_offset: From ``data`` to the first element.
        version: DLPack's, of a versioned capsule; None for one without.
        flags: Of a versioned capsule.

    Attributes:
        deleted: How often the deleter was called.
        capsule: The capsule that was given out last.
    """

    def __init__(
        self,
        data: int,
        shape: tuple[int, ...] | None,
        strides: tuple[int, ...] | None = None,
        dtype: tuple[int, int, int] = (2, 32, 1),
        ndim: int | None = None,
        device: tuple[int, int] = (1, 0),
        byte_offset: int = 0,
        version: tuple[int, int] | None = None,
        flags: int = 0,
    ) -> None:
        self.device = device
        self.deleted = 0
        self.capsule: Any = None
        self.shape, self.strides = _numbers(shape), _numbers(strides)
        ndim = len(shape or ()) if ndim is None else ndim
        tensor = _Tensor(data, *device, ndim, *dtype, _pointer(self.shape), _pointer(self.strides), byte_offset)
        self.deleter = _Deleter(self._delete)
        deleter = ctypes.cast(self.deleter, ctypes.c_void_p).value
        self.managed: _Managed | _Versioned
        if version is None:
            self.managed = _Managed(tensor, None, deleter)
        else:
            self.managed = _Versioned(*version, None, deleter, flags, tensor)

    def _delete(self, _: int) -> None:
        self.deleted += 1

    @property
    def is_used(self) -> bool:
        """Whether somebody has taken what the last capsule describes, and has to call the deleter."""
        return self.capsule is not None and _name(self.capsule).startswith(b"used_")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **_: Any) -> Any:
        name = _LEGACY if isinstance(self.managed, _Managed) else _VERSIONED
        self.capsule = _make(ctypes.addressof(self.managed), name, None)
        return self.capsule


_LEGACY, _VERSIONED = b"dltensor", b"dltensor_versioned"  # capsules point at them


def _numbers(values: tuple[int, ...] | None) -> Any:
    return None if values is None else (ctypes.c_int64 * max(len(values), 1))(*values)


def _pointer(numbers: Any) -> Any:
    pointer = ctypes.POINTER(ctypes.c_int64)
    return pointer() if numbers is None else ctypes.cast(numbers, pointer)


class _Api(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("export", ctypes.c_void_p),
        ("make", ctypes.c_void_p),
        ("describe", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


class Exchanged:
    """A tensor that DLPack's C exchange API describes, as a launch reads it: the arguments are those of ``Capsule``."""

    __dlpack_c_exchange_api__: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        self.described = Capsule(*args, **options)


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
def _describe(tensor: Exchanged, out: Any) -> int:
    out[0] = tensor.described.managed.tensor
    return 0


_API = _Api(1, 3, None, None, None, None, ctypes.cast(_describe, ctypes.c_void_p).value, None)
_API_NAME = b"dlpack_exchange_api"
_make = ctypes.pythonapi.PyCapsule_New
_make.restype, _make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
Exchanged.__dlpack_c_exchange_api__ = _make(ctypes.addressof(_API), _API_NAME, None)
