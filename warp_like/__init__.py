"""warp_like: write kernels as Python functions, run them as native code on any framework's arrays, differentiate them.

The names and their meanings follow NVIDIA Warp's Python API:

    import warp_like as wp
"""

from __future__ import annotations

import importlib
import sys as _sys

from warp_like.base.collector import rare_collections as _rare_collections

with _rare_collections():  # what is made here stays: an eighth of the time would go into looking at it again and again
    from warp_like import interop as _interop
    from warp_like import types
    from warp_like.base.errors import (
        WarpCodegenAttributeError,
        WarpCodegenError,
        WarpCodegenIndexError,
        WarpCodegenKeyError,
        WarpCodegenTypeError,
        WarpCodegenValueError,
        WarpDeterminismError,
    )
    from warp_like.base.settings import DeterministicMode
    from warp_like.base.settings import settings as config
    from warp_like.base.version import VERSION as _VERSION
    from warp_like.compiler.cache import clear as clear_kernel_cache
    from warp_like.compiler.cache import clear_lto_cache
    from warp_like.constants import *  # noqa: F403
    from warp_like.frontend.builtin import public_builtin as _public_builtin
    from warp_like.frontend.builtin import public_builtins as _public_builtins
    from warp_like.frontend.function import Function
    from warp_like.frontend.host import ADJOINT as adjoint
    from warp_like.frontend.host import grad
    from warp_like.runtime import autodiff as _autodiff
    from warp_like.runtime import operations as _operations
    from warp_like.runtime.arrays.array import (
        array,
        array1d,
        array2d,
        array3d,
        array4d,
        fixedarray,
    )
    from warp_like.runtime.arrays.creation import (
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
    from warp_like.runtime.arrays.indexed import (
        indexedarray,
        indexedarray1d,
        indexedarray2d,
        indexedarray3d,
        indexedarray4d,
    )
    from warp_like.runtime.kernels.decorators import constant, func, func_grad, func_native, func_replay, kernel
    from warp_like.runtime.kernels.generics import overload
    from warp_like.runtime.kernels.kernel import Kernel
    from warp_like.runtime.kernels.module import (
        Module,
        force_load,
        get_module,
        get_module_options,
        load_module,
        set_module_options,
    )
    from warp_like.runtime.launching.launch import Launch, launch
    from warp_like.runtime.launching.tiled import launch_tiled
    from warp_like.runtime.memory.device import (
        Device,
        DeviceLike,
        ScopedDevice,
        get_cuda_device,
        get_cuda_device_count,
        get_cuda_devices,
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
    from warp_like.types import Any, Float, Int, Scalar
    from warp_like.types import matrix as mat
    from warp_like.values.annotation import ref
    from warp_like.values.families import transform_expand
    from warp_like.values.struct import struct

__version__ = _VERSION

_LOADED_WHEN_USED: dict[str, tuple[str, str | None]] = {
    "Tape": ("warp_like.runtime.autodiff.tape", "Tape"),
    "autograd": ("warp_like.autograd", None),
    "clear_jax_callable_graph_cache": ("warp_like.interop.jaxffi.modes", "clear_jax_callable_graph_cache"),
    "compile_aot_module": ("warp_like.runtime.kernels.aot", "compile_aot_module"),
    "context": ("warp_like.context", None),
    "dlpack": ("warp_like.dlpack", None),
    "Bvh": ("warp_like.runtime.geometry.bvh", "Bvh"),
    "BvhConstructor": ("warp_like.runtime.geometry.bvh", "BvhConstructor"),
    "is_cubql_available": ("warp_like.runtime.geometry.bvh", "is_cubql_available"),
    "BvhQuery": ("warp_like.values.geometry", "BvhQuery"),
    "BvhQueryTiled": ("warp_like.values.geometry", "BvhQueryTiled"),
    "HashGrid": ("warp_like.runtime.geometry.hash_grid", "HashGrid"),
    "HashGridQuery": ("warp_like.values.geometry", "HashGridQuery"),
    "MarchingCubes": ("warp_like.geometry.marching_cubes", "IsoSurfaceMarchingCubes"),
    "Mesh": ("warp_like.runtime.geometry.mesh", "Mesh"),
    **{
        name: ("warp_like.values.geometry", name)
        for name in ("MeshQuery", "MeshQueryAABB", "MeshQueryAABBTiled", "MeshQueryPoint", "MeshQueryRay")
    },
    **{
        name: ("warp_like.runtime.geometry.texture", name)
        for name in ("Texture", "Texture1D", "Texture2D", "Texture3D", "TextureAddressMode", "TextureFilterMode")
    },
    "Volume": ("warp_like.runtime.geometry.volume", "Volume"),
    "geometry": ("warp_like.geometry", None),
    "get_cpu_kernel_cache_key": ("warp_like.compiler.host", "get_cpu_kernel_cache_key"),
    "jax": ("warp_like.jax", None),
    "jax_callable": ("warp_like.interop.jaxffi", "jax_callable"),
    "jax_experimental": ("warp_like.jax_experimental", None),
    "jax_kernel": ("warp_like.interop.jaxffi", "jax_kernel"),
    "JaxCallableGraphMode": ("warp_like.interop.jaxffi", "JaxCallableGraphMode"),
    "JaxModulePreloadMode": ("warp_like.interop.jaxffi", "JaxModulePreloadMode"),
    "load_aot_module": ("warp_like.runtime.kernels.aot", "load_aot_module"),
    "map": ("warp_like.runtime.operations.mapping", "map"),
    "optim": ("warp_like.optim", None),
    "paddle": ("warp_like.paddle", None),
    "paddle_op": ("warp_like.interop.paddle_op", "paddle_op"),
    "render": ("warp_like.render", None),
    "sparse": ("warp_like.sparse", None),
    "torch": ("warp_like.torch", None),
    "torch_op": ("warp_like.interop.torch_op", "torch_op"),
    "utils": ("warp_like.utils", None),
    **{name: (module, name) for name, module in _interop.NAMES.items()},
}
"""Public names whose modules a program that does not use them should not wait for: module, and attribute in it.

Builtins come when used as well: as functions on the host, since kernels that are in the cache know them by name."""

_LOADED_WHEN_USED |= {
    name: (path, name)
    for path, names in {
        "warp_like.runtime.launching.graph": (
            *("Graph", "ScopedCapture", "capture_begin", "capture_end", "capture_launch"),
            *("capture_if", "capture_while", "capture_debug_dot_print", "is_conditional_graph_supported"),
            "CaptureMode",
        ),
        "warp_like.runtime.launching.timing": (
            *("ScopedTimer", "timing_begin", "timing_end", "timing_print", "TimingResult", "TIMING_ALL"),
            *("TIMING_KERNEL", "TIMING_KERNEL_BUILTIN", "TIMING_MEMCPY", "TIMING_MEMSET", "TIMING_GRAPH"),
        ),
        "warp_like.runtime.memory.stream": (
            *("Stream", "Event", "ScopedStream", "get_stream", "set_stream", "wait_stream", "synchronize_stream"),
            *("record_event", "wait_event", "synchronize_event", "get_event_elapsed_time"),
        ),
        "warp_like.runtime.memory.allocation": ("MemoryKind",),
        "warp_like.runtime.cuda.queries": (
            *("get_cuda_driver_version", "get_cuda_toolkit_version", "get_cuda_supported_archs"),
            *("get_cuda_kernel_properties", "get_suggested_block_size"),
            *("cuda_profiler_start", "cuda_profiler_stop", "ScopedCudaProfiler"),
        ),
        "warp_like.runtime.cuda.device": ("map_cuda_device", "unmap_cuda_device"),
        "warp_like.runtime.cuda.pools": (
            *("is_mempool_supported", "is_mempool_enabled", "set_mempool_enabled", "ScopedMempool"),
            *("set_mempool_release_threshold", "get_mempool_release_threshold"),
            *("get_mempool_used_mem_current", "get_mempool_used_mem_high"),
            *("is_mempool_access_supported", "is_mempool_access_enabled", "set_mempool_access_enabled"),
            *("ScopedMempoolAccess", "is_peer_access_supported", "is_peer_access_enabled"),
            *("set_peer_access_enabled", "ScopedPeerAccess"),
        ),
        "warp_like.runtime.arrays.access": ("can_access",),
        "warp_like.runtime.memory.allocators": ("Allocator",),
        "warp_like.runtime.memory.device_allocators": (
            *("set_cuda_allocator", "set_device_allocator", "get_device_allocator", "ScopedAllocator"),
        ),
        "warp_like.runtime.cuda.sharing": ("from_ipc_handle", "event_from_ipc_handle"),
        "warp_like.runtime.cuda.memory": ("CudaManagedAllocator",),
        "warp_like.runtime.memory.tracking": ("ScopedMemoryTracker", "print_memory_report"),
        "warp_like.runtime.kernels.diagnostics": ("print_diagnostics",),
        "warp_like.base.log": (
            *("Logger", "ScopedLogger", "ScopedLogLevel", "get_logger", "set_logger"),
            *("LOG_DEBUG", "LOG_INFO", "LOG_WARNING", "LOG_ERROR"),
        ),
    }.items()
    for name in names
}


def _exported() -> list[str]:
    """Return what ``from warp_like import *`` gives: the names that Warp's gives, and the builtins of kernels.

    Not among them are modules, except for two, and functions of Python that Warp leaves alone.
    """
    public = {name for name in __dir__() if not name.startswith("_")}
    lazy_modules = {name for name, (_, attribute) in _LOADED_WHEN_USED.items() if attribute is None}
    modules = lazy_modules | {name for name, found in globals().items() if isinstance(found, type(_sys))}
    return sorted(public - (modules - {"types", "utils"}) - {"Any", "annotations", "breakpoint", "len", "print"})


def __getattr__(name: str) -> object:
    if name == "__all__":
        globals()[name] = exported = _exported()
        return exported
    if name in _LOADED_WHEN_USED:
        path, attribute = _LOADED_WHEN_USED[name]
        module = importlib.import_module(path)
        globals()[name] = found = module if attribute is None else getattr(module, attribute)
        return found
    if name in types.NAMES:
        globals()[name] = named = getattr(types, name)
        return named
    builtin = _public_builtin(name)
    if builtin is None:
        from warp_like.base import missing_names  # for messages alone

        why = missing_names.sentence(name)
        raise AttributeError(
            f"module 'warp_like' has no attribute {name!r}" + (f": {why}; {missing_names.PAGE}" if why else "")
        )
    globals()[name] = builtin
    return builtin


def __dir__() -> list[str]:
    return sorted({*globals(), *_LOADED_WHEN_USED, *types.NAMES, *_public_builtins()})


class _Missing:
    """The last finder of modules: says of ``from warp_like import Mesh`` that it is Warp's, and where to read on."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Find nothing.

        Raises:
            ModuleNotFoundError: It is a public name of Warp that this package does not have.
        """
        if path is not __path__:  # noqa: F405
            return
        from warp_like.base import missing_names

        last = name.rpartition(".")[2]
        why = missing_names.sentence(last)
        if why is not None:
            raise ModuleNotFoundError(f"{why}; {missing_names.PAGE}", name=last)


_sys.meta_path.append(_Missing)


def init() -> None:
    """Do nothing: the runtime starts itself at first use. Kept for programs written for Warp."""
