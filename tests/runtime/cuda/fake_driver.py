"""A CUDA driver that records: the methods of ``warp_like.runtime.cuda.driver.Driver``, without a GPU.

Device memory is memory of the host at other addresses, so that copies and fills move real bytes at once, and what
forgets to copy crashes. A launch runs nothing and is recorded with its parameters. Every call is in ``calls``, those
from native code too, under the driver's own names. What it proves is order and arguments, never results of kernels, and
nothing about time.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.runtime.cuda.fake_native import Launch, NativeCalls, Node
from warp_like.runtime.cuda.driver import Block
from warp_like.runtime.cuda.errors import error

H200 = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "UNIFIED_ADDRESSING": 1,
    "MEMORY_POOLS_SUPPORTED": 1,
    "MANAGED_MEMORY": 1,
    "IPC_EVENT_SUPPORTED": 1,
    "CONCURRENT_MANAGED_ACCESS": 1,
    "PAGEABLE_MEMORY_ACCESS": 0,
    "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST": 0,
    "HOST_NATIVE_ATOMIC_SUPPORTED": 0,
}


DEVICE = 1 << 60
"""What device addresses have set: code of the host that reads or writes there crashes, as it would with a GPU."""


def real(address: int) -> int:
    """Where the fake keeps what lies at an address."""
    return address & ~DEVICE


class Call(NamedTuple):
    """One call of the driver."""

    name: str
    args: tuple[Any, ...]


@dataclass
class FakeDevice:
    """What one device knows and holds."""

    ordinal: int
    attributes: dict[str, int] = field(default_factory=lambda: dict(H200))
    total: int = 141 << 30
    limit: int = 141 << 30
    used: int = 0
    high: int = 0
    threshold: int = 0
    pool_peers: set[int] = field(default_factory=set)
    peers: set[int] = field(default_factory=set)

    @property
    def context(self) -> int:
        return 0xC0 + self.ordinal


@dataclass(eq=False)
class Capture:
    """A capture that runs: what it got, and whether something has broken it."""

    origin: int
    graph: int
    nodes: list[Node]
    mode: str = "RELAXED"
    broken: bool = False


class FakeDriver(NativeCalls):
    """Records; see the module.

    Args:
        devices: How many there are.
    """

    tag = DEVICE

    def __init__(self, devices: int = 2) -> None:
        self.devices = [FakeDevice(i) for i in range(devices)]
        self.calls: list[Call] = []
        self.launches: list[Launch] = []
        self.on_launch: Callable[[Launch], None] | None = None
        self.failing: dict[str, tuple[int, int]] = {}
        self.contexts: list[int] = []
        self.handles = itertools.count(0x1000, 0x10)
        self.streams: dict[int, tuple[int, int]] = {}
        self.events: dict[int, int] = {}
        self.functions: dict[int, str] = {}
        self.images: dict[int, bytes] = {}
        self.live: dict[int, tuple[str, int, int, Any]] = {}  # address: kind, device, bytes, keeper
        self.shared: dict[bytes, int] = {}
        self.captures: dict[int, Capture] = {}  # by stream
        self.captured_events: dict[int, Capture] = {}
        self.graphs: dict[int, list[Node]] = {}
        self.executables: dict[int, list[Node]] = {}
        self.bodies: dict[int, list[Node]] = {}  # what conditional nodes run
        self.conditions: dict[int, bool] = {}
        self.cuda_version = 13000
        self.stacks: set[str] = set()  # the entries that take an arena for their threads' stacks
        self.thread_mode = "GLOBAL"
        self.args_size = 8  # bytes of a launch's argument block that are recorded

    # ---- what tests ask

    def fail(self, name: str, code: int, times: int = 1) -> None:
        """Let the next ``times`` calls of the driver's function ``name`` return ``code``."""
        self.failing[name] = (code, times)

    def names(self, *wanted: str) -> list[str]:
        """The names of the calls so far; of those among ``wanted`` where some are given."""
        return [c.name for c in self.calls if not wanted or c.name in wanted]

    def forget(self) -> None:
        """Begin a new record."""
        self.calls.clear()
        self.launches.clear()

    def _note(self, name: str, *args: Any) -> None:
        self.calls.append(Call(name, args))
        code, times = self.failing.get(name, (0, 0))
        if times:
            self.failing[name] = (code, times - 1)
            raise error(name, code)

    def _handle(self) -> int:
        return next(self.handles)

    def _current(self, name: str) -> FakeDevice:
        if not self.contexts:
            raise error(name, 201)
        return next(d for d in self.devices if d.context == self.contexts[-1])

    # ---- devices

    def version(self) -> int:
        return self.cuda_version

    def device_count(self) -> int:
        return len(self.devices)

    def device_name(self, device: int) -> str:
        return "NVIDIA H200"

    def device_uuid(self, device: int) -> bytes:
        return bytes(15) + bytes([device])

    def device_pci_bus_id(self, device: int) -> str:
        return f"0000:{device:02X}:00.0"

    def device_total_memory(self, device: int) -> int:
        return self.devices[device].total

    def device_attribute(self, device: int, name: str) -> int:
        return self.devices[device].attributes[name]

    def can_access_peer(self, device: int, peer: int) -> bool:
        return device != peer

    # ---- contexts

    def primary_context_retain(self, device: int) -> int:
        self._note("cuDevicePrimaryCtxRetain", device)
        return self.devices[device].context

    def primary_context_release(self, device: int) -> None:
        self._note("cuDevicePrimaryCtxRelease", device)

    def context_device(self) -> int:
        return self._current("cuCtxGetDevice").ordinal

    def context_current(self) -> int:
        return self.contexts[-1] if self.contexts else 0

    def context_push(self, context: int) -> None:
        if context not in [d.context for d in self.devices]:
            raise error("cuCtxPushCurrent", 201)
        self.contexts.append(context)

    def context_pop(self) -> None:
        self.contexts.pop()

    def context_synchronize(self) -> None:
        self._refuse_captured("cuCtxSynchronize", *self.captures)
        self._note("cuCtxSynchronize", self._current("cuCtxSynchronize").ordinal)

    def context_enable_peer(self, peer_context: int) -> None:
        device = self._current("cuCtxEnablePeerAccess")
        self._note("cuCtxEnablePeerAccess", peer_context)
        if peer_context in device.peers:
            raise error("cuCtxEnablePeerAccess", 704)
        device.peers.add(peer_context)

    def context_disable_peer(self, peer_context: int) -> None:
        device = self._current("cuCtxDisablePeerAccess")
        self._note("cuCtxDisablePeerAccess", peer_context)
        if peer_context not in device.peers:
            raise error("cuCtxDisablePeerAccess", 705)
        device.peers.remove(peer_context)

    def memory_info(self) -> tuple[int, int]:
        device = self._current("cuMemGetInfo")
        return device.limit - device.used, device.total

    # ---- streams and events

    def stream_priority_range(self) -> tuple[int, int]:
        return 0, -5

    def stream_create(self, flags: int, priority: int) -> int:
        device = self._current("cuStreamCreateWithPriority")
        self._note("cuStreamCreateWithPriority", flags, priority)
        handle = self._handle()
        self.streams[handle] = (device.ordinal, priority)
        return handle

    def stream_destroy(self, stream: int) -> None:
        self._note("cuStreamDestroy", stream)
        del self.streams[stream]

    def stream_is_complete(self, stream: int) -> bool:
        self._note("cuStreamQuery", stream)
        return True

    def stream_synchronize(self, stream: int) -> None:
        self._in_context("cuStreamSynchronize", stream)
        self._refuse_captured("cuStreamSynchronize", stream)
        self._note("cuStreamSynchronize", stream)

    def stream_wait_event(self, stream: int, event: int) -> None:
        self._in_context("cuStreamWaitEvent", stream)
        self._note("cuStreamWaitEvent", stream, event)
        capture, mark = self.captures.get(stream), self.captured_events.get(event)
        if mark is not None and mark in self.captures.values():
            assert capture in (None, mark)
            self.captures[stream] = mark  # it takes part from here on
        elif capture is not None:
            capture.broken = True
            raise error("cuStreamWaitEvent", 905)

    def stream_priority(self, stream: int) -> int:
        return self.streams[stream][1]

    def stream_flags(self, stream: int) -> int:
        return 0 if stream in self.streams else 1

    def event_create(self, flags: int) -> int:
        device = self._current("cuEventCreate")
        self._note("cuEventCreate", flags)
        handle = self._handle()
        self.events[handle] = device.ordinal
        return handle

    def event_destroy(self, event: int) -> None:
        self._note("cuEventDestroy", event)
        del self.events[event]

    def event_record(self, event: int, stream: int) -> None:
        self._in_context("cuEventRecord", stream)
        self._note("cuEventRecord", event, stream)
        self.captured_events.pop(event, None)
        if stream in self.captures:
            self.captured_events[event] = self.captures[stream]
        if self.events.get(event) != self._current("cuEventRecord").ordinal:
            raise error("cuEventRecord", 400)

    def event_is_complete(self, event: int) -> bool:
        self._note("cuEventQuery", event)
        return True

    def event_synchronize(self, event: int) -> None:
        self._note("cuEventSynchronize", event)

    def event_elapsed(self, start: int, end: int) -> float:
        self._note("cuEventElapsedTime", start, end)
        return 1.5

    def _in_context(self, name: str, stream: int) -> None:
        """Refuse a stream of ours that is not one of the current context's."""
        device = self._current(name)
        if stream in self.streams and self.streams[stream][0] != device.ordinal:
            raise error(name, 400)

    # ---- captures and graphs

    def _do(self, stream: int, node: Node) -> None:
        """Do something in the order of a stream: now, or whenever the graph runs that the stream's capture makes."""
        if stream in self.captures:
            self.captures[stream].nodes.append(node)
        else:
            node()

    def _refuse_captured(self, name: str, *streams: int) -> None:
        """What can't be captured breaks the captures of the streams that it touches."""
        hit = [self.captures[s] for s in streams if s in self.captures]
        for capture in hit:
            capture.broken = True
        if hit:
            raise error(name, 900)

    def stream_begin_capture(self, stream: int, mode: str = "RELAXED") -> None:
        self._in_context("cuStreamBeginCapture", stream)
        self._note("cuStreamBeginCapture", stream, mode)
        assert stream not in self.captures
        handle = self._handle()
        self.graphs[handle] = []
        self.captures[stream] = Capture(stream, handle, self.graphs[handle], mode)

    def exchange_capture_mode(self, mode: str) -> str:
        before, self.thread_mode = self.thread_mode, mode
        return before

    def _refuse_unsafe(self, name: str) -> None:
        """A call that captures of the mode GLOBAL refuse to threads whose own mode is not RELAXED."""
        if self.thread_mode != "RELAXED":
            hit = [c for c in self.captures.values() if c.mode == "GLOBAL"]
            for capture in hit:
                capture.broken = True
            if hit:
                raise error(name, 900)

    def stream_end_capture(self, stream: int) -> int:
        self._note("cuStreamEndCapture", stream)
        capture = self.captures[stream]
        assert capture.origin == stream
        self.captures = {s: c for s, c in self.captures.items() if c is not capture}
        if capture.broken:
            if capture.graph in self.graphs:
                del self.graphs[capture.graph]
            raise error("cuStreamEndCapture", 901)
        return capture.graph

    def stream_begin_capture_to(self, stream: int, graph: int) -> None:
        self._in_context("cuStreamBeginCaptureToGraph", stream)
        self._note("cuStreamBeginCaptureToGraph", stream, graph)
        assert stream not in self.captures
        self.captures[stream] = Capture(stream, graph, self.bodies[graph])

    def stream_capture_state(self, stream: int) -> tuple[int, tuple[int, ...]]:
        capture = self.captures[stream]
        return capture.graph, (len(capture.nodes),)

    def graph_condition(self, graph: int, context: int) -> int:
        assert graph in self.graphs or graph in self.bodies
        self._note("cuGraphConditionalHandleCreate", graph, context)
        handle = self._handle()
        self.conditions[handle] = False
        return handle

    def stream_add_conditional(self, stream: int, condition: int, context: int, repeat: bool) -> int:
        self._note("cuGraphAddNode", "while" if repeat else "if", condition)
        body = self._handle()
        nodes = self.bodies[body] = []

        def happen() -> None:
            while self.conditions[condition]:
                for node in nodes:
                    node()
                if not repeat:
                    break

        self.captures[stream].nodes.append(happen)
        return body

    def stream_is_capturing(self, stream: int) -> bool:
        return stream in self.captures

    def graph_instantiate(self, graph: int) -> int:
        self._note("cuGraphInstantiate", graph)
        handle = self._handle()
        self.executables[handle] = self.graphs[graph]
        return handle

    def graph_update(self, executable: int, graph: int) -> bool:
        self._note("cuGraphExecUpdate", executable, graph)
        if len(self.graphs[graph]) != len(self.executables[executable]):
            return False
        self.executables[executable] = self.graphs[graph]
        return True

    def graph_size(self, graph: int) -> int:
        return len(self.graphs[graph])

    def graph_print(self, graph: int, path: str, verbose: bool) -> None:
        self._note("cuGraphDebugDotPrint", graph, path, verbose)

    def graph_destroy(self, graph: int) -> None:
        self._note("cuGraphDestroy", graph)
        del self.graphs[graph]

    def graph_destroy_executable(self, executable: int) -> None:
        self._note("cuGraphExecDestroy", executable)
        del self.executables[executable]

    # ---- memory

    def _allocate(self, kind: str, nbytes: int) -> int:
        device = self._current(kind)
        if device.used + nbytes > device.limit:
            raise error(kind, 2)
        keeper = ctypes.create_string_buffer(b"\xa5" * (nbytes + 256), nbytes + 256)
        address = (ctypes.addressof(keeper) + 255) & ~255
        if kind in ("cuMemAlloc", "cuMemAllocAsync"):
            address |= self.tag
        self.live[address] = (kind, device.ordinal, nbytes, keeper)
        device.used += nbytes
        device.high = max(device.high, device.used)
        return address

    def _free(self, name: str, address: int, *kinds: str) -> None:
        kind, device, nbytes, _ = self.live.get(address, ("", 0, 0, None))
        if kind not in kinds:
            raise error(name, 1)
        del self.live[address]
        self.devices[device].used -= nbytes

    def mem_alloc(self, nbytes: int) -> int:
        self._refuse_unsafe("cuMemAlloc")
        self._note("cuMemAlloc", nbytes)
        return self._allocate("cuMemAlloc", nbytes)

    def mem_alloc_async(self, nbytes: int, stream: int) -> int:
        self._in_context("cuMemAllocAsync", stream)
        self._refuse_captured("cuMemAllocAsync", stream)
        self._note("cuMemAllocAsync", nbytes, stream)
        return self._allocate("cuMemAllocAsync", nbytes)

    def mem_alloc_managed(self, nbytes: int) -> int:
        self._note("cuMemAllocManaged", nbytes)
        return self._allocate("cuMemAllocManaged", nbytes)

    def mem_alloc_host(self, nbytes: int) -> int:
        self._refuse_unsafe("cuMemHostAlloc")
        self._note("cuMemHostAlloc", nbytes)
        return self._allocate("cuMemHostAlloc", nbytes)

    def mem_free(self, address: int) -> None:
        self._note("cuMemFree", address)
        self._free("cuMemFree", address, "cuMemAlloc", "cuMemAllocManaged", "cuMemAllocAsync")

    def mem_free_async(self, address: int, stream: int) -> None:
        self._in_context("cuMemFreeAsync", stream)
        self._refuse_captured("cuMemFreeAsync", stream)
        self._note("cuMemFreeAsync", address, stream)
        self._free("cuMemFreeAsync", address, "cuMemAllocAsync")

    def mem_free_host(self, address: int) -> None:
        self._note("cuMemFreeHost", address)
        self._free("cuMemFreeHost", address, "cuMemHostAlloc")

    def copy_to_device(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._copy("cuMemcpyHtoDAsync", to, source, nbytes, stream)

    def copy_to_host(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._copy("cuMemcpyDtoHAsync", to, source, nbytes, stream)

    def copy_on_device(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._copy("cuMemcpyDtoDAsync", to, source, nbytes, stream)

    def _copy(self, name: str, to: int, source: int, nbytes: int, stream: int) -> None:
        self._in_context(name, stream)
        self._note(name, to, source, nbytes, stream)
        if to < source + nbytes and source < to + nbytes and to != source:
            raise AssertionError(f"{name}: the two sides overlap")
        self._do(stream, lambda: ctypes.memmove(real(to), real(source), nbytes) and None)

    def copy_peer(self, to: int, to_context: int, source: int, source_context: int, nbytes: int, stream: int) -> None:
        self._in_context("cuMemcpyPeerAsync", stream)
        self._note("cuMemcpyPeerAsync", to, to_context, source, source_context, nbytes, stream)
        self._do(stream, lambda: ctypes.memmove(real(to), real(source), nbytes) and None)

    def copy_blocks(self, to: Block, source: Block, width: int, height: int, depth: int, stream: int) -> None:
        self._in_context("cuMemcpy3DAsync", stream)
        self._note("cuMemcpy3DAsync", to, source, width, height, depth, stream)
        for block in (to, source):
            if block.pitch < width or block.height < height:
                raise error("cuMemcpy3DAsync", 1)

        def copy() -> None:
            for z, y in itertools.product(range(depth), range(height)):
                t = real(to.address) + (z * to.height + y) * to.pitch
                s = real(source.address) + (z * source.height + y) * source.pitch
                ctypes.memmove(t, s, width)

        self._do(stream, copy)

    def fill(self, address: int, value: int, unit: int, count: int, stream: int) -> None:
        self._in_context("cuMemset", stream)
        self._note(f"cuMemsetD{8 * unit}Async", address, value, count, stream)
        if address % unit:
            raise error(f"cuMemsetD{8 * unit}Async", 1)
        raw = value.to_bytes(unit, "little") * count
        self._do(stream, lambda: ctypes.memmove(real(address), raw, unit * count) and None)

    # ---- memory pools

    def default_pool(self, device: int) -> int:
        return 0xF00 + device

    def _pool(self, pool: int) -> FakeDevice:
        return self.devices[pool - 0xF00]

    def pool_attribute(self, pool: int, name: str) -> int:
        device = self._pool(pool)
        return {
            "RELEASE_THRESHOLD": device.threshold,
            "USED_MEM_CURRENT": device.used,
            "USED_MEM_HIGH": device.high,
        }[name]

    def set_pool_attribute(self, pool: int, name: str, value: int) -> None:
        self._note("cuMemPoolSetAttribute", pool, name, value)
        if name == "RELEASE_THRESHOLD":
            self._pool(pool).threshold = value

    def pool_trim(self, pool: int, keep: int) -> None:
        self._note("cuMemPoolTrimTo", pool, keep)

    def pool_access(self, pool: int, device: int) -> bool:
        return device in self._pool(pool).pool_peers

    def set_pool_access(self, pool: int, device: int, enable: bool) -> None:
        self._note("cuMemPoolSetAccess", pool, device, enable)
        peers = self._pool(pool).pool_peers
        (peers.add if enable else peers.discard)(device)

    # ---- other processes

    def memory_handle(self, address: int) -> bytes:
        self._note("cuIpcGetMemHandle", address)
        base, _ = self.allocation_range(address)
        handle = base.to_bytes(64, "little")
        self.shared[handle] = base
        return handle

    def open_memory(self, handle: bytes) -> int:
        self._note("cuIpcOpenMemHandle", handle)
        return self.shared[handle]

    def close_memory(self, address: int) -> None:
        self._note("cuIpcCloseMemHandle", address)

    def event_handle(self, event: int) -> bytes:
        self._note("cuIpcGetEventHandle", event)
        return event.to_bytes(64, "little")

    def open_event(self, handle: bytes) -> int:
        self._note("cuIpcOpenEventHandle", handle)
        opened = self._handle()
        self.events[opened] = self._current("cuIpcOpenEventHandle").ordinal
        return opened

    def allocation_range(self, address: int) -> tuple[int, int]:
        for base, (_, _, nbytes, _) in self.live.items():
            if base <= address < base + max(nbytes, 1):
                return base, nbytes
        raise error("cuMemGetAddressRange", 1)

    def pointer_device(self, address: int) -> int:
        self._note("cuPointerGetAttribute", address)
        for base, (_, device, nbytes, _) in self.live.items():
            if base <= address < base + max(nbytes, 1):
                return device
        raise error("cuPointerGetAttribute", 1)

    def pointer_kind(self, address: int) -> str:
        kinds = {"cuMemAllocManaged": "managed", "cuMemAllocAsync": "pool"}
        return next(
            kinds.get(kind, "plain") for b, (kind, _, n, _) in self.live.items() if b <= address < b + max(n, 1)
        )

    # ---- code

    def module_load(self, image: bytes) -> int:
        self._refuse_unsafe("cuModuleLoadDataEx")
        self._note("cuModuleLoadDataEx", len(image))
        module = self._handle()
        self.images[module] = image
        return module

    def module_unload(self, module: int) -> None:
        self._note("cuModuleUnload", module)
        del self.images[module]

    def module_function(self, module: int, name: str) -> int:
        self._note("cuModuleGetFunction", module, name)
        if name.encode() not in self.images[module]:
            raise error("cuModuleGetFunction", 500)
        function = self._handle()
        self.functions[function] = name
        return function

    def launch_thread(self, function: int, stream: int, *args: int) -> None:
        self._in_context("cuLaunchKernel", stream)
        self._note("cuLaunchKernel", self.functions[function], (1, 1, 1), (1, 1, 1), stream)
        self._do(stream, lambda: self._thread(function, *args))

    def _thread(self, function: int, *args: int) -> None:
        """What ``launch_thread`` does besides being recorded."""

    def module_global(self, module: int, name: str) -> tuple[int, int]:
        raise error("cuModuleGetGlobal", 500)

    def function_attribute(self, function: int, name: str) -> int:
        return {"NUM_REGS": 32, "MAX_THREADS_PER_BLOCK": 1024, "LOCAL_SIZE_BYTES": 16, "SHARED_SIZE_BYTES": 128}[name]

    def suggested_block(self, function: int) -> tuple[int, int]:
        return 264, 1024

    def profiler_start(self) -> None:
        self._note("cuProfilerStart", self._current("cuProfilerStart").ordinal)

    def profiler_stop(self) -> None:
        self._note("cuProfilerStop", self._current("cuProfilerStop").ordinal)

    def occupancy(self, function: int, block_dim: int) -> int:
        return 2048 // block_dim

    def release(self, method: str, context: int, handle: int) -> None:
        self.context_push(context)
        try:
            getattr(self, method)(handle)
        finally:
            self.context_pop()
