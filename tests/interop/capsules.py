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


class Capsule:
    """An object with ``__dlpack__`` whose capsule says what is given; it owns the description, and frees nothing.

    Args:
        data: The address.
        shape: The extents.
        strides: In elements; None says that the tensor is contiguous.
        dtype: DLPack's code, bits and lanes.
        ndim: Where it is not the number of extents.
        device: DLPack's type and number.
        byte_offset: From ``data`` to the first element.
    """

    def __init__(
        self,
        data: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        dtype: tuple[int, int, int] = (2, 32, 1),
        ndim: int | None = None,
        device: tuple[int, int] = (1, 0),
        byte_offset: int = 0,
    ) -> None:
        self.device = device
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        pointer = ctypes.POINTER(ctypes.c_int64)
        self.managed = _Managed(
            _Tensor(
                data,
                *device,
                len(shape) if ndim is None else ndim,
                *dtype,
                ctypes.cast(self.shape, pointer),
                pointer() if self.strides is None else ctypes.cast(self.strides, pointer),
                byte_offset,
            )
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **_: Any) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), b"dltensor", None)
