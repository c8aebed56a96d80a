"""The older place of the functions for PyTorch; they are those of ``warp_like`` itself."""

from warp_like.interop.streams import stream_from_torch, stream_to_torch
from warp_like.interop.torch import (
    device_from_torch,
    device_to_torch,
    dtype_from_torch,
    dtype_to_torch,
    from_torch,
    to_torch,
)

__all__ = [
    "device_from_torch",
    "device_to_torch",
    "dtype_from_torch",
    "dtype_to_torch",
    "from_torch",
    "stream_from_torch",
    "stream_to_torch",
    "to_torch",
]
