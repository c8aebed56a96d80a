"""The CUDA driver as the rest of the runtime sees it: one method a driver call, plain ints and bytes in and out.

This file alone imports cuda-python. ``driver()`` gives the interface; ``install`` puts another object with the same
methods in its place, which is how tests run without a GPU. Handles (contexts, streams, events, modules, pools) and
addresses are ints. Every method raises ``CudaError`` where the driver returns an error, unless it says otherwise. Calls
that work on "the current context" need one on the calling thread: ``CudaDevice.guard`` sees to it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from warp_like import _native
from warp_like.runtime.cuda.errors import GONE, NOT_READY, UPDATE_FAILURE, CudaError, error
from warp_like.runtime.memory.device import forget_devices
from warp_like.runtime.memory.registry import Unavailable

CUDA_VERSION = 12000
"""Whose functions native code asks for by name; the driver has to be as new."""

LEGACY_STREAM = 1
"""The handle that means the legacy default stream in any case, the driver's CU_STREAM_LEGACY."""

NATIVE_CALLS = (
    *("cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuLaunchKernel", "cuMemFreeAsync", "cuMemFree"),
    *("cuMemFreeHost", "cuStreamSynchronize", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"),
    *("cuStreamGetCtx", "cuMemsetD8Async", "cuMemcpyDtoDAsync", "cuMemcpyDtoHAsync"),
    *("cuStreamIsCapturing", "cuGraphLaunch"),
)
"""The functions that native code calls by address."""


class Block(NamedTuple):
    """One side of a three-dimensional copy: rows of bytes, ``pitch`` apart, in slices of ``height`` rows."""

    address: int
    on_host: bool
    pitch: int
    height: int


class Driver:
    """The driver's functions, by way of cuda-python.

    Raises:
        Unavailable: cuda-python or the driver's library is missing, or the driver can't start.
    """

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver as api
        except ImportError as e:
            raise Unavailable(f"cuda-python is not installed ({e}): pip install 'warp_like[cuda]'") from e
        self.api = api
        try:
            code = int(api.cuInit(0)[0])
        except RuntimeError as e:  # what cuda-python raises where there is no library
            raise Unavailable("there is no NVIDIA driver (libcuda) on this machine") from e
        if code:
            raise Unavailable(f"the NVIDIA driver can't start: {error('cuInit', code)}")
        version = self.version()
        if version < CUDA_VERSION:
            raise Unavailable(
                f"the NVIDIA driver supports CUDA {version // 1000}.{version % 1000 // 10}; the oldest that can be "
                f"used supports {CUDA_VERSION // 1000}.0: install a newer one"
            )

    def _call(self, name: str, *args: Any) -> Any:
        """Call the function ``name``; its results without the code, or the only one by itself."""
        code, *results = getattr(self.api, name)(*args)
        if int(code):
            raise error(name, int(code))
        return results[0] if len(results) == 1 else results

    # ---- devices

    def version(self) -> int:
        """The CUDA version that the driver supports: 1000 times the major plus 10 times the minor one."""
        return int(self._call("cuDriverGetVersion"))

    def device_count(self) -> int:
        """How many devices there are; 0 where the driver says that there is none."""
        return int(self._call("cuDeviceGetCount"))

    def device_name(self, device: int) -> str:
        """What the device calls itself."""
        return _text(self._call("cuDeviceGetName", 256, device))

    def device_uuid(self, device: int) -> bytes:
        """The 16 bytes that name the device, or its MIG instance."""
        uuid = self._call("cuDeviceGetUuid", device)
        return ctypes.string_at(uuid.getPtr(), 16)

    def device_pci_bus_id(self, device: int) -> str:
        """Domain, bus, device and function, in hexadecimal."""
        return _text(self._call("cuDeviceGetPCIBusId", 32, device))

    def device_total_memory(self, device: int) -> int:
        """Bytes of memory."""
        return int(self._call("cuDeviceTotalMem", device))

    def device_attribute(self, device: int, name: str) -> int:
        """The attribute ``CU_DEVICE_ATTRIBUTE_`` + ``name``."""
        attribute = getattr(self.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", attribute, device))

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether ``device`` can address the memory of ``peer``."""
        return bool(self._call("cuDeviceCanAccessPeer", device, peer))

    # ---- contexts

    def primary_context_retain(self, device: int) -> int:
        """The context that all libraries of the process share; made where it is not there yet."""
        return int(self._call("cuDevicePrimaryCtxRetain", device))

    def primary_context_release(self, device: int) -> None:
        """Give back what ``primary_context_retain`` took."""
        self._call("cuDevicePrimaryCtxRelease", device)

    def context_device(self) -> int:
        """The device of the current context."""
        return int(self._call("cuCtxGetDevice"))

    def context_current(self) -> int:
        """The calling thread's current context; 0 for none."""
        return int(self._call("cuCtxGetCurrent"))

    def context_push(self, context: int) -> None:
        """Make ``context`` the calling thread's current one."""
        self._call("cuCtxPushCurrent", context)

    def context_pop(self) -> None:
        """Make the one before the last push current again."""
        self._call("cuCtxPopCurrent")

    def context_synchronize(self) -> None:
        """Wait for all work of the current context."""
        self._call("cuCtxSynchronize")

    def context_enable_peer(self, peer_context: int) -> None:
        """Let kernels of the current context address memory of ``peer_context``."""
        self._call("cuCtxEnablePeerAccess", peer_context, 0)

    def context_disable_peer(self, peer_context: int) -> None:
        """Undo ``context_enable_peer``."""
        self._call("cuCtxDisablePeerAccess", peer_context)

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the current context's device."""
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    # ---- streams and events

    def stream_priority_range(self) -> tuple[int, int]:
        """The least and the greatest priority; greater ones are smaller numbers."""
        least, greatest = self._call("cuCtxGetStreamPriorityRange")
        return int(least), int(greatest)

    def stream_create(self, flags: int, priority: int) -> int:
        """A new stream of the current context."""
        return int(self._call("cuStreamCreateWithPriority", flags, priority))

    def stream_destroy(self, stream: int) -> None:
        """Give a stream back; work that it holds still runs."""
        self._call("cuStreamDestroy", stream)

    def stream_is_complete(self, stream: int) -> bool:
        """Whether all work of the stream is done."""
        return self._is_ready("cuStreamQuery", _named(stream))

    def stream_synchronize(self, stream: int) -> None:
        """Wait until all work of the stream is done."""
        self._call("cuStreamSynchronize", _named(stream))

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Let what the stream gets from now on wait for ``event``."""
        self._call("cuStreamWaitEvent", _named(stream), event, 0)

    def stream_priority(self, stream: int) -> int:
        """The stream's priority."""
        return int(self._call("cuStreamGetPriority", _named(stream)))

    def stream_flags(self, stream: int) -> int:
        """The flags that the stream was made with."""
        return int(self._call("cuStreamGetFlags", _named(stream)))

    def event_create(self, flags: int) -> int:
        """A new event of the current context."""
        return int(self._call("cuEventCreate", flags))

    def event_destroy(self, event: int) -> None:
        """Give an event back."""
        self._call("cuEventDestroy", event)

    def event_record(self, event: int, stream: int) -> None:
        """Put the event behind what the stream holds."""
        self._call("cuEventRecord", event, _named(stream))

    def event_is_complete(self, event: int) -> bool:
        """Whether the stream has reached the event."""
        return self._is_ready("cuEventQuery", event)

    def event_synchronize(self, event: int) -> None:
        """Wait until the stream has reached the event."""
        self._call("cuEventSynchronize", event)

    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two events that were made for timing and have been reached."""
        return float(self._call("cuEventElapsedTime", start, end))

    def _is_ready(self, name: str, handle: int) -> bool:
        code = int(getattr(self.api, name)(handle)[0])
        if code not in (0, NOT_READY):
            raise error(name, code)
        return code == 0

    def release(self, method: str, context: int, handle: int) -> None:
        """Give a handle back by ``method``, in its context. What went with its context needs no giving back."""
        if sys.is_finalizing():  # the driver frees all when the process ends
            return
        try:
            self.context_push(context)
            try:
                getattr(self, method)(handle)
            finally:
                self.context_pop()
        except CudaError as e:
            if e.code not in GONE:
                raise

    # ---- captures and graphs

    def stream_begin_capture(self, stream: int, mode: str) -> None:
        """Let what the stream gets from now on become a graph.

        ``mode`` says whose unsafe calls are refused meanwhile: GLOBAL all, THREAD_LOCAL the thread's, RELAXED none.
        """
        modes = self.api.CUstreamCaptureMode
        self._call("cuStreamBeginCapture", _named(stream), getattr(modes, f"CU_STREAM_CAPTURE_MODE_{mode}"))

    def exchange_capture_mode(self, mode: str) -> str:
        """Set which calls the driver refuses to this thread while captures run, and return how it was before."""
        modes = self.api.CUstreamCaptureMode
        before = self._call("cuThreadExchangeStreamCaptureMode", getattr(modes, f"CU_STREAM_CAPTURE_MODE_{mode}"))
        return str(modes(int(before)).name).removeprefix("CU_STREAM_CAPTURE_MODE_")

    def stream_end_capture(self, stream: int) -> int:
        """The graph of what the stream got since ``stream_begin_capture``."""
        return int(self._call("cuStreamEndCapture", stream))

    def stream_is_capturing(self, stream: int) -> bool:
        """Whether a capture runs on the stream, be it a broken one."""
        return int(self._call("cuStreamIsCapturing", _named(stream))) != 0

    def stream_begin_capture_to(self, stream: int, graph: int) -> None:
        """Let what the stream gets from now on go into ``graph``, which is empty so far."""
        mode = self.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._call("cuStreamBeginCaptureToGraph", stream, graph, None, None, 0, mode)

    def stream_capture_state(self, stream: int) -> tuple[int, tuple[int, ...]]:
        """The graph that the stream is captured into, and the nodes that what it gets next comes after."""
        _, _, graph, nodes, *_ = self._call("cuStreamGetCaptureInfo", stream)
        return int(graph), tuple(int(node) for node in nodes)

    def graph_condition(self, graph: int, context: int) -> int:
        """A condition for a node of ``graph``, false at the beginning of each run."""
        assign_default = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT
        return int(self._call("cuGraphConditionalHandleCreate", graph, context, 0, assign_default))

    def stream_add_conditional(self, stream: int, condition: int, context: int, repeat: bool) -> int:
        """Capture a node that runs a graph of its own if the condition holds, or with ``repeat`` while it does.

        Returns:
            The node's graph, empty so far.
        """
        api = self.api
        graph, nodes = self.stream_capture_state(stream)
        params = api.CUgraphNodeParams()
        params.type = api.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        kinds = api.CUgraphConditionalNodeType
        params.conditional.handle = api.CUgraphConditionalHandle(condition)
        params.conditional.type = kinds.CU_GRAPH_COND_TYPE_WHILE if repeat else kinds.CU_GRAPH_COND_TYPE_IF
        params.conditional.size = 1
        params.conditional.ctx = api.CUcontext(context)
        before = [api.CUgraphNode(node) for node in nodes]
        edges = [None] if api.CUDA_VERSION >= 13000 else []  # their properties, which have defaults
        node = self._call("cuGraphAddNode", graph, before, *edges, len(before), params)
        only = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES
        self._call("cuStreamUpdateCaptureDependencies", stream, [node], *edges, 1, only)
        return int(params.conditional.phGraph_out[0])

    def graph_instantiate(self, graph: int) -> int:
        """What ``cuGraphLaunch`` takes, made from a graph."""
        return int(self._call("cuGraphInstantiate", graph, 0))

    def graph_update(self, executable: int, graph: int) -> bool:
        """Give an instantiated graph the arguments of ``graph``; False where the two are not built alike."""
        code = int(self.api.cuGraphExecUpdate(executable, graph)[0])
        if code not in (0, UPDATE_FAILURE):
            raise error("cuGraphExecUpdate", code)
        return code == 0

    def graph_size(self, graph: int) -> int:
        """The number of nodes."""
        return int(self._call("cuGraphGetNodes", graph)[-1])

    def graph_print(self, graph: int, path: str, verbose: bool) -> None:
        """Write a picture of the graph to a file, in Graphviz's language."""
        flags = int(self.api.CUgraphDebugDot_flags.CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE) if verbose else 0
        self._call("cuGraphDebugDotPrint", graph, path.encode(), flags)

    def graph_destroy(self, graph: int) -> None:
        """Give a graph back; what was instantiated from it stays."""
        self._call("cuGraphDestroy", graph)

    def graph_destroy_executable(self, executable: int) -> None:
        """Give an instantiated graph back, as soon as it is not running."""
        self._call("cuGraphExecDestroy", executable)

    # ---- memory

    def mem_alloc(self, nbytes: int) -> int:
        """Memory of the current context's device."""
        return int(self._call("cuMemAlloc", nbytes))

    def mem_alloc_async(self, nbytes: int, stream: int) -> int:
        """Memory of the device's pool, usable from this point of the stream on."""
        return int(self._call("cuMemAllocAsync", nbytes, _named(stream)))

    def mem_alloc_managed(self, nbytes: int) -> int:
        """Memory that host and devices share, and that moves between them."""
        attached = int(self.api.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
        return int(self._call("cuMemAllocManaged", nbytes, attached))

    def mem_alloc_host(self, nbytes: int) -> int:
        """Page-locked memory of the host, for all contexts."""
        portable = 1  # CU_MEMHOSTALLOC_PORTABLE
        return int(self._call("cuMemHostAlloc", nbytes, portable))

    def mem_free(self, address: int) -> None:
        """Free what ``mem_alloc`` or ``mem_alloc_managed`` gave; waits for the device."""
        self._call("cuMemFree", address)

    def mem_free_async(self, address: int, stream: int) -> None:
        """Free what ``mem_alloc_async`` gave, at this point of the stream."""
        self._call("cuMemFreeAsync", address, _named(stream))

    def mem_free_host(self, address: int) -> None:
        """Free what ``mem_alloc_host`` gave."""
        self._call("cuMemFreeHost", address)

    def copy_to_device(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy from the host."""
        self._call("cuMemcpyHtoDAsync", to, source, nbytes, _named(stream))

    def copy_to_host(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the host."""
        self._call("cuMemcpyDtoHAsync", to, source, nbytes, _named(stream))

    def copy_on_device(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy inside one context, or between two of which one can access the other's memory."""
        self._call("cuMemcpyDtoDAsync", to, source, nbytes, _named(stream))

    def copy_peer(self, to: int, to_context: int, source: int, source_context: int, nbytes: int, stream: int) -> None:
        """Copy between the memories of two contexts, whether or not they can access each other."""
        self._call("cuMemcpyPeerAsync", to, to_context, source, source_context, nbytes, _named(stream))

    def copy_blocks(self, to: Block, source: Block, width: int, height: int, depth: int, stream: int) -> None:
        """Copy ``depth`` slices of ``height`` rows of ``width`` bytes."""
        kinds = self.api.CUmemorytype
        params = self.api.CUDA_MEMCPY3D()
        for side, block in (("src", source), ("dst", to)):
            kind = kinds.CU_MEMORYTYPE_HOST if block.on_host else kinds.CU_MEMORYTYPE_DEVICE
            setattr(params, f"{side}MemoryType", kind)
            setattr(params, f"{side}{'Host' if block.on_host else 'Device'}", block.address)
            setattr(params, f"{side}Pitch", block.pitch)
            setattr(params, f"{side}Height", block.height)
        params.WidthInBytes, params.Height, params.Depth = width, height, depth
        self._call("cuMemcpy3DAsync", params, _named(stream))

    def fill(self, address: int, value: int, unit: int, count: int, stream: int) -> None:
        """Set ``count`` units of 1, 2 or 4 bytes to ``value``."""
        self._call(f"cuMemsetD{8 * unit}Async", address, value, count, _named(stream))

    # ---- memory pools

    def default_pool(self, device: int) -> int:
        """The pool that stream-ordered allocations on ``device`` come from."""
        return int(self._call("cuDeviceGetMemPool", device))

    def pool_attribute(self, pool: int, name: str) -> int:
        """The 64-bit attribute ``CU_MEMPOOL_ATTR_`` + ``name``."""
        attribute = getattr(self.api.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")
        return int(self._call("cuMemPoolGetAttribute", pool, attribute))

    def set_pool_attribute(self, pool: int, name: str, value: int) -> None:
        """Set the 64-bit attribute ``CU_MEMPOOL_ATTR_`` + ``name``."""
        attribute = getattr(self.api.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")
        self._call("cuMemPoolSetAttribute", pool, attribute, self.api.cuuint64_t(value))

    def pool_trim(self, pool: int, keep: int) -> None:
        """Give memory that nothing uses back to the system, all but ``keep`` bytes."""
        self._call("cuMemPoolTrimTo", pool, keep)

    def pool_access(self, pool: int, device: int) -> bool:
        """Whether ``device`` can read and write the pool's memory."""
        found = self._call("cuMemPoolGetAccess", pool, self._location(device))
        return int(found) == int(self.api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE)

    def set_pool_access(self, pool: int, device: int, enable: bool) -> None:
        """Let ``device`` read and write the pool's memory, or not."""
        flags = self.api.CUmemAccess_flags
        access = self.api.CUmemAccessDesc()
        access.location = self._location(device)
        access.flags = flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE if enable else flags.CU_MEM_ACCESS_FLAGS_PROT_NONE
        self._call("cuMemPoolSetAccess", pool, [access], 1)

    def _location(self, device: int) -> Any:
        location = self.api.CUmemLocation()
        location.type = self.api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        location.id = device
        return location

    # ---- other processes

    def memory_handle(self, address: int) -> bytes:
        """64 bytes by which another process opens memory of ``mem_alloc``."""
        return ctypes.string_at(self._call("cuIpcGetMemHandle", address).getPtr(), 64)

    def open_memory(self, handle: bytes) -> int:
        """The address of another process's memory."""
        flags = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
        return int(self._call("cuIpcOpenMemHandle", _filled(self.api.CUipcMemHandle(), handle), flags))

    def close_memory(self, address: int) -> None:
        """Give back what ``open_memory`` gave."""
        self._call("cuIpcCloseMemHandle", address)

    def event_handle(self, event: int) -> bytes:
        """64 bytes by which another process opens an event made for it."""
        return ctypes.string_at(self._call("cuIpcGetEventHandle", event).getPtr(), 64)

    def open_event(self, handle: bytes) -> int:
        """Another process's event."""
        return int(self._call("cuIpcOpenEventHandle", _filled(self.api.CUipcEventHandle(), handle)))

    def allocation_range(self, address: int) -> tuple[int, int]:
        """Where the allocation that holds ``address`` begins, and its bytes."""
        base, size = self._call("cuMemGetAddressRange", address)
        return int(base), int(size)

    def pointer_device(self, address: int) -> int:
        """The device to whose memory an address belongs."""
        attribute = self.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._call("cuPointerGetAttribute", attribute, address))

    def pointer_kind(self, address: int) -> str:
        """What memory of a device is: ``managed``, of a ``pool``, or ``plain``."""
        attributes = self.api.CUpointer_attribute
        if int(self._call("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_IS_MANAGED, address)):
            return "managed"
        pool = self._call("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address)
        return "pool" if int(pool) else "plain"

    # ---- code

    def module_load(self, image: bytes) -> int:
        """Load a cubin, or PTX (which ends in a zero byte) that the driver then translates."""
        log = bytearray(8192)
        options = self.api.CUjit_option
        names: Sequence[Any] = (options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        code, module = self.api.cuModuleLoadDataEx(image, len(names), list(names), [log, len(log)])
        if int(code):
            raise error("cuModuleLoadDataEx", int(code), log.partition(b"\0")[0].decode(errors="replace").strip())
        return int(module)

    def module_unload(self, module: int) -> None:
        """Give a module back."""
        self._call("cuModuleUnload", module)

    def module_function(self, module: int, name: str) -> int:
        """The function ``name`` of a module."""
        return int(self._call("cuModuleGetFunction", module, name.encode()))

    def launch_thread(self, function: int, stream: int, *args: int) -> None:
        """Launch one thread of a function whose parameters have 64 bits."""
        params = (args, (ctypes.c_uint64,) * len(args))
        self._call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, _named(stream), params, 0)

    def module_global(self, module: int, name: str) -> tuple[int, int]:
        """Address and bytes of the variable ``name`` of a module."""
        address, nbytes = self._call("cuModuleGetGlobal", module, name.encode())
        return int(address), int(nbytes)

    def function_attribute(self, function: int, name: str) -> int:
        """The attribute ``CU_FUNC_ATTRIBUTE_`` + ``name``."""
        attribute = getattr(self.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self._call("cuFuncGetAttribute", attribute, function))

    def occupancy(self, function: int, block_dim: int) -> int:
        """How many blocks of ``block_dim`` threads a multiprocessor holds at once."""
        return int(self._call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, block_dim, 0))

    def suggested_block(self, function: int) -> tuple[int, int]:
        """The blocks that fill the device, and the threads of each, at which most threads run at once."""
        blocks, threads = self._call("cuOccupancyMaxPotentialBlockSize", function, None, 0, 0)
        return int(blocks), int(threads)

    def profiler_start(self) -> None:
        """Let an attached profiler begin to look at the current context."""
        self._call("cuProfilerStart")

    def profiler_stop(self) -> None:
        """Let it stop."""
        self._call("cuProfilerStop")

    def native_addresses(self) -> dict[str, int]:
        """The addresses of ``NATIVE_CALLS``, of the variants that take the legacy default stream for stream 0."""
        legacy = 1  # CU_GET_PROC_ADDRESS_LEGACY_STREAM
        found = {}
        for name in NATIVE_CALLS:
            address, _ = self._call("cuGetProcAddress", name.encode(), CUDA_VERSION, legacy)
            found[name] = int(address)
        return found


def _named(stream: int) -> int:
    """The handle of a stream, where 0 would be the calling thread's own stream.

    cuda-python takes it for that with CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1. Here 0 is the legacy default
    stream, as for native code, PyTorch and others.
    """
    return stream or LEGACY_STREAM


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode()


def _filled(handle: Any, content: bytes) -> Any:
    if len(content) != 64:
        raise ValueError(f"an IPC handle has 64 bytes, got {len(content)}")
    ctypes.memmove(handle.getPtr(), content, 64)
    return handle


_installed: Any = None


def driver() -> Any:
    """Return the driver in use, and start it if this is the first call.

    Raises:
        Unavailable: CUDA can't be used here.
    """
    if _installed is None:
        install(Driver())
    return _installed


def install(new: Any) -> Any:
    """Make ``new``, an object with the methods of ``Driver``, the driver in use, and return the one before it.

    None lets the real one be started at the next call of ``driver()``. Devices are found anew after this; those of
    before, and arrays on them, must not be used any more.
    """
    global _installed, _connected
    old, _installed = _installed, new
    _connected = None
    forget_devices("cuda")
    return old


_connected: Any = None  # the driver whose functions native code calls


def connect() -> None:
    """Tell native code where the driver's functions are."""
    global _connected
    if _connected is None:
        _native.set_cuda(driver().native_addresses(), error)
        _connected = driver()
