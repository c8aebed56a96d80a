"""CUDA graphs: what a stream gets while it is captured, as one thing that is handed to a stream again and again.

The driver captures, so that work of other libraries on the stream belongs to the graph, too. The runtime sees to
memory: what launches and copies of a capture use is noted natively (``DriverContext.captured``) and kept by the graph,
memory that is made meanwhile comes from outside of the capture and keeps its address, and what nobody uses any more is
given back when the capture has ended.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from warp_like import _native
from warp_like.runtime.cuda.errors import CudaError
from warp_like.runtime.cuda.memory import allocate
from warp_like.runtime.launching.graph import StreamGraph, Work
from warp_like.runtime.memory.recorder import stream_captures
from warp_like.runtime.memory.stream import Stream

if TYPE_CHECKING:
    from warp_like.runtime.arrays.array import array
    from warp_like.runtime.cuda.device import CudaDevice

_LEGACY_STREAMS = (0, 1)


class _Handle:
    """A graph of the driver's, given back when nobody holds this any more."""

    def __init__(self, device: CudaDevice, value: int, destroy: str) -> None:
        self.device = device
        self.value = value
        self._destroy = destroy

    def __del__(self) -> None:
        self.device.driver.release(self._destroy, self.device.context, self.value)


class CudaGraph(StreamGraph):
    """What a capture on a stream recorded.

    Attributes:
        stream: The stream that was captured.
        mode: Which other calls the driver refuses meanwhile; see ``CaptureMode``.
        thread: The thread that began the capture.
        external: Whether another library captures, so that the graph is that library's and this only keeps what our
            launches in it use.
    """

    device: CudaDevice

    def __init__(self, stream: Stream, external: bool, mode: str = "RELAXED") -> None:
        super().__init__(stream.device)
        self.mode = mode
        self.stream = stream
        self.external = external
        self.thread = threading.get_ident()
        self._graph: _Handle | None = None
        self._executable: _Handle | None = None
        self._used: tuple[Any, ...] = ()
        self._scratch: dict[int, _native.Buffer] = {}

    def __len__(self) -> int:
        with self.device.guard:
            return 0 if self._graph is None else int(self.device.driver.graph_size(self._graph.value))

    def begin(self) -> None:
        """Begin to capture.

        Raises:
            RuntimeError: A capture runs on the device, the stream can't be captured, or it has to be captured already
                and is not.
        """
        device, handle = self.device, self.stream.cuda_stream
        if device.capture is not None:
            raise RuntimeError(f"a capture is running on {device} already; end it with wp.capture_end()")
        if handle in _LEGACY_STREAMS:
            raise RuntimeError("the legacy default stream can't be captured; pass another stream, as wp.Stream() makes")
        with device.guard:
            if not self.external:
                device.driver.stream_begin_capture(handle, self.mode)
            elif not device.driver.stream_is_capturing(handle):
                raise RuntimeError(
                    f"external=True joins a capture that another library has begun, but none runs on {self.stream!r}; "
                    "make that library's stream the current one, or pass it as `stream`"
                )
        device.capture = self
        device.native.captured = []
        self._chosen = device.native.stream_chosen
        if self.stream == device.stream:  # also for tensors whose library works on another stream
            device.native.stream_chosen = True
        stream_captures.append(self)

    def end(self) -> None:
        """End the capture, and make the graph ready to run.

        Raises:
            CudaError: Something that can't be captured was done meanwhile; nothing is kept.
        """
        device = self.device
        used = {id(x): x for x in device.native.captured}
        self._scratch.clear()  # what was allocated for it is among what is used
        stream_captures.remove(self)
        device.capture = None
        if self.stream == device.stream:
            device.native.stream_chosen = self._chosen
        try:
            with device.guard:
                if not self.external:
                    graph = device.driver.stream_end_capture(self.stream.cuda_stream)
                    self._graph = _Handle(device, graph, "graph_destroy")
                    self._executable = self._instantiated(self._graph)
            self._used = tuple(used.values())
        finally:
            device.native.captured = None

    def add_choice(self, name: str, flag: array, branches: tuple[Work, Work], stream: Stream | None) -> None:
        """Capture a node that runs its graph if a number on the device is not zero, and one for zero."""
        from warp_like.runtime.cuda.conditions import choose

        choose(name, flag, branches, stream)

    def add_loop(self, name: str, flag: array, body: Work, stream: Stream | None) -> None:
        """Capture a node that runs its graph while a number on the device is not zero."""
        from warp_like.runtime.cuda.conditions import loop

        loop(name, flag, body, stream)

    def scratch(self, stream: Stream, nbytes: int) -> _native.Buffer:
        """Memory for an operation of a captured stream, which the next one on the stream may have as well."""
        held = self._scratch.get(stream.cuda_stream)
        if held is None or held.nbytes < nbytes:
            held = self._scratch[stream.cuda_stream] = allocate(self.device, nbytes, False, stream)
        return held

    def keep(self, a: array) -> None:
        """Keep an array that the capture uses; each launch of the graph looks whether its memory is still there."""
        self.device.native.captured.append(a)

    def abandon(self) -> None:
        """End a capture whose block has raised; that it may be broken is no news then."""
        try:
            self.end()
        except CudaError as e:
            if e.is_sticky:
                raise

    def _instantiated(self, graph: _Handle) -> _Handle:
        made = self.device.driver.graph_instantiate(graph.value)
        return _Handle(self.device, made, "graph_destroy_executable")

    def run(self, stream: Stream | None = None) -> None:
        """Hand the graph to a stream, the current one of the device when left out.

        In a capture on that stream, it becomes a part of the graph that is captured.
        """
        if self._executable is None:
            raise RuntimeError("the graph was captured by another library (external=True), which alone can launch it")
        queue = stream or self.device.stream
        if queue.device is not self.device:
            raise ValueError(f"the graph is one of {self.device}, and {queue!r} is a stream of {queue.device}")
        captured = self.device.native.captured
        if captured is not None:
            captured += [self, *self._used]
        _native.launch_graph(self.device.native, self._executable.value, self._used, queue)

    def update(self, other: Any) -> None:
        """Do what ``other`` does from now on; see ``Graph.update``."""
        if not isinstance(other, CudaGraph) or other.device is not self.device:
            raise TypeError(f"a graph of {self.device} takes over another one of {self.device}, got {other!r}")
        if self._executable is None or other._graph is None:
            raise RuntimeError("a graph that another library captured (external=True) can't be updated")
        with self.device.guard:
            if not self.device.driver.graph_update(self._executable.value, other._graph.value):
                self._executable = self._instantiated(other._graph)
        self._graph, self._used = other._graph, other._used

    def draw(self, path: str | os.PathLike[str], verbose: bool) -> None:
        """Write a picture of the graph, as the driver draws it."""
        if self._graph is None:
            raise RuntimeError("the graph was captured by another library (external=True), which alone can draw it")
        with self.device.guard:
            self.device.driver.graph_print(self._graph.value, os.fspath(path), verbose)
