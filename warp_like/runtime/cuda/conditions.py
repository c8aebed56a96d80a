"""Conditions in CUDA captures: nodes whose graphs run if, or while, a number on the device is not zero.

A branch is captured on a stream of its own, which is the current one meanwhile, into the graph that the node holds. A
kernel of one thread (``backend/conditions.py``) reads the number and sets the condition in front of the node, and at
the end of each round of a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warp_like import _native
from warp_like.backend.conditions import ENTRY, setter_code
from warp_like.runtime.arrays.array import array
from warp_like.runtime.cuda.code import load_code
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.driver import driver
from warp_like.runtime.cuda.errors import CudaError
from warp_like.runtime.memory.recorder import stream_capture
from warp_like.runtime.memory.stream import ScopedStream, Stream

OLDEST = 12040
"""The CUDA version whose driver has nodes of both kinds, also inside each other."""


Branch = Callable[[], None] | None


class Setter:
    """The kernel that sets conditions, loaded on a device."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        _, self.module = load_code(device, setter_code, lambda code: code)
        with device.guard:
            self.function: int = device.driver.module_function(self.module, ENTRY)

    def __call__(self, flag: array, condition: int, inverted: bool, stream: Stream) -> None:
        """Set a condition by the first element of ``flag``."""
        driver, queue = self.device.driver, stream.cuda_stream
        driver.launch_thread(self.function, queue, flag.ptr, flag.itemsize, condition, int(inverted))

    def __del__(self) -> None:
        if hasattr(self, "module"):
            self.device.driver.release("module_unload", self.device.context, self.module)


def _setter_of(device: CudaDevice) -> Setter:
    if device.condition_setter is None:
        device.condition_setter = Setter(device)
    return device.condition_setter


def is_supported() -> bool:
    """Return whether the driver has conditional nodes."""
    return bool(driver().version() >= OLDEST)


def choose(name: str, flag: array, branches: tuple[Branch, Branch], stream: Stream | None) -> None:
    """Capture the first branch, to be run if the first element of ``flag`` is not zero, and the second one for zero.

    Args:
        name: What the user called.
        flag: An array of 4-byte integers or bools.
        branches: What make the work that is captured.
        stream: The captured stream in whose order it happens; the current one of the flag's device when left out.
    """
    nodes = _Nodes(name, flag, stream)
    # The first branch may change the flag.
    chosen = [(nodes.condition(inverted=bool(k)), branch) for k, branch in enumerate(branches) if branch is not None]
    for condition, branch in chosen:
        nodes.add(condition, branch, repeat=False)


def loop(name: str, flag: array, body: Branch, stream: Stream | None) -> None:
    """Capture ``body``, to be run while the first element of ``flag`` is not zero; see ``choose``."""
    nodes = _Nodes(name, flag, stream)
    nodes.add(nodes.condition(inverted=False), body, repeat=True)


class _Nodes:
    """Adds the conditional nodes of one call to what is captured."""

    def __init__(self, name: str, flag: array, stream: Stream | None) -> None:
        self.name = name
        self.flag = flag
        self.device, self.queue = _place(name, flag, stream)
        self.driver = self.device.driver
        self.setter = _setter_of(self.device)
        with self.device.guard:
            self.device.native.captured += [self.setter, flag]
            _native.use_memory(self.device.native, flag.owner, self.queue)

    def condition(self, inverted: bool) -> int:
        """A new condition, set by what the flag is at this point."""
        with self.device.guard:
            graph, _ = self.driver.stream_capture_state(self.queue.cuda_stream)
            made: int = self.driver.graph_condition(graph, self.device.context)
            self.setter(self.flag, made, inverted, self.queue)
        return made

    def add(self, condition: int, branch: Branch, repeat: bool) -> None:
        """Capture a node that runs ``branch`` by a condition."""
        driver, queue = self.driver, self.queue.cuda_stream
        with self.device.guard:
            body = driver.stream_add_conditional(queue, condition, self.device.context, repeat)
            behind = driver.stream_capture_state(queue)
            side = Stream(self.device)
            side._branch = True
            driver.stream_begin_capture_to(side.cuda_stream, body)
            try:
                if branch is not None:
                    with ScopedStream(side, sync_enter=False):
                        branch()
                if repeat:
                    self.setter(self.flag, condition, False, side)
            except BaseException:
                _abandon(driver, side)
                raise
            driver.stream_end_capture(side.cuda_stream)
            if driver.stream_capture_state(queue) != behind:
                raise RuntimeError(
                    f"{self.name}(): the branch used {self.queue!r} itself, where its work would not depend on the "
                    "condition; leave the stream out, or ask for wp.get_stream() inside of the branch"
                )


def _place(name: str, flag: array, stream: Stream | None) -> tuple[CudaDevice, Stream]:
    """The device and the captured stream, if all is as it has to be."""
    device = flag.device
    if not isinstance(device, CudaDevice) or device.capture is None or stream_capture() is None:
        raise ValueError(f"{name}() in a CUDA capture takes a condition on the device that is captured, got {flag!r}")
    if not is_supported():
        version = driver().version()
        raise RuntimeError(
            f"{name}() in a CUDA capture needs a driver for CUDA {OLDEST // 1000}.{OLDEST % 1000 // 10}, and the "
            f"installed one supports {version // 1000}.{version % 1000 // 10}: install a newer one, or decide on the "
            "host between graphs"
        )
    if stream is not None and (not isinstance(stream, Stream) or stream.device is not device):
        raise ValueError(f"{name}() takes a stream of {device}, got {stream!r}")
    # The capture's own, where the current stream takes no part in it.
    for queue in (stream,) if stream is not None else (device.stream, device.capture.stream):
        if queue.is_capturing:
            return device, queue
    raise ValueError(f"{name}(): {queue!r} takes no part in the capture that is running")


def _abandon(driver: Any, side: Stream) -> None:
    """End the capture of a branch that has raised; that it may be broken is no news then."""
    try:
        driver.stream_end_capture(side.cuda_stream)
    except CudaError as e:
        if e.is_sticky:
            raise
