"""warp_like: write kernels as Python functions, run them as native code on any framework's arrays, differentiate them.

The names and their meanings follow NVIDIA Warp's Python API:

    import warp_like as wp
"""

from __future__ import annotations

from warp_like import builtins as _builtins
from warp_like import types
from warp_like.base.errors import (
    WarpCodegenAttributeError,
    WarpCodegenError,
    WarpCodegenIndexError,
    WarpCodegenKeyError,
    WarpCodegenTypeError,
    WarpCodegenValueError,
)
from warp_like.base.settings import settings as config
from warp_like.compiler.cache import clear as clear_kernel_cache
from warp_like.frontend.function import Function
from warp_like.frontend.host import ADJOINT as adjoint
from warp_like.interop import *  # noqa: F403
from warp_like.runtime.array import (
    array,
    array1d,
    array2d,
    array3d,
    array4d,
)
from warp_like.runtime.creation import (
    clone,
    copy,
    empty,
    empty_like,
    from_ptr,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from warp_like.runtime.device import (
    Device,
    ScopedDevice,
    get_cuda_device_count,
    get_device,
    get_devices,
    get_preferred_device,
    is_cpu_available,
    is_cuda_available,
    is_device_available,
    set_device,
    synchronize,
    synchronize_device,
)
from warp_like.runtime.kernel import Kernel, constant, func, func_grad, func_replay, kernel
from warp_like.runtime.launch import Launch, launch
from warp_like.runtime.tape import Tape
from warp_like.types import Any, Float, Int, Scalar, matrix, vector
from warp_like.values.struct import struct

from warp_like import autograd  # isort: skip (uses all of the above)

__version__ = "0.1.0"


def init() -> None:
    """Do nothing: the runtime starts itself at first use. Kept for programs written for Warp."""


globals().update(types.NAMES)
globals().update({name: _builtins.Builtin(name) for name in _builtins.public_names()})
