"""The older place of the functions for Paddle; they are those of ``warp_like`` itself."""

from warp_like.interop.paddle import (
    device_from_paddle,
    device_to_paddle,
    dtype_from_paddle,
    dtype_to_paddle,
    from_paddle,
    to_paddle,
)
from warp_like.interop.streams import stream_from_paddle

__all__ = [
    "device_from_paddle",
    "device_to_paddle",
    "dtype_from_paddle",
    "dtype_to_paddle",
    "from_paddle",
    "stream_from_paddle",
    "to_paddle",
]
