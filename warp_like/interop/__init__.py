"""Arrays of other libraries, in and out. No framework is imported before the user uses it."""

from warp_like import _native
from warp_like.interop import jax, paddle, torch
from warp_like.interop.dlpack import from_dlpack, to_dlpack
from warp_like.interop.gradients import as_array, before_write, meet_class
from warp_like.interop.jax import (
    device_from_jax,
    device_to_jax,
    dtype_from_jax,
    dtype_to_jax,
    from_jax,
    to_jax,
)
from warp_like.interop.numpy import dtype_from_numpy, dtype_to_numpy, from_numpy
from warp_like.interop.paddle import (
    device_from_paddle,
    device_to_paddle,
    dtype_from_paddle,
    dtype_to_paddle,
    from_paddle,
    to_paddle,
)
from warp_like.interop.streams import stream_from_paddle, stream_from_torch, stream_to_torch
from warp_like.interop.torch import (
    device_from_torch,
    device_to_torch,
    dtype_from_torch,
    dtype_to_torch,
    from_torch,
    to_torch,
)
from warp_like.runtime import foreign

foreign.register(as_array, before_write)
foreign.exporters.update(torch=torch.export_torch, jax=jax.export_jax, paddle=paddle.export_paddle)
foreign.readers.update(torch=torch.on_host)
_native.set_class_hook(meet_class)

__all__ = [
    "device_from_jax",
    "device_from_paddle",
    "device_from_torch",
    "device_to_jax",
    "device_to_paddle",
    "device_to_torch",
    "dtype_from_jax",
    "dtype_from_numpy",
    "dtype_from_paddle",
    "dtype_from_torch",
    "dtype_to_jax",
    "dtype_to_numpy",
    "dtype_to_paddle",
    "dtype_to_torch",
    "from_dlpack",
    "from_jax",
    "from_numpy",
    "from_paddle",
    "from_torch",
    "stream_from_paddle",
    "stream_from_torch",
    "stream_to_torch",
    "to_dlpack",
    "to_jax",
    "to_paddle",
    "to_torch",
]
