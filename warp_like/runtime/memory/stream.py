"""Streams and events of devices that have them. On the CPU, launches have finished when they return.

What only waits does nothing on the CPU; what needs a stream or an event says that there is none.

A stream that is made here is blocking: the driver orders it with the legacy default stream, on which PyTorch and others
work unless told otherwise. Which stream an operation runs on, and what it waits for, is in ``docs/guide/cuda.md``.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn

from warp_like import _native
from warp_like.runtime.memory.device import Device, DeviceLike, get_device

_LEGACY_STREAMS = (0, 1)
_NON_BLOCKING = 1


class StreamDevice(Device):
    """A device whose work goes to streams, with what streams and events ask of it.

    Attributes:
        driver: The calls for streams and events, by handles: ``stream_create`` and so on. ``release`` takes the name of
            the call that destroys a handle.
    """

    driver: Any

    @property
    @abstractmethod
    def native(self) -> Any:
        """The context as native code knows it, a ``_native.DriverContext``."""

    @property
    @abstractmethod
    def context(self) -> int:
        """The driver's handle of the context."""

    @property
    @abstractmethod
    def guard(self) -> AbstractContextManager[None]:
        """Makes the device's context current in a ``with`` block."""

    @property
    @abstractmethod
    def stream(self) -> Stream:
        """The current stream: where work goes unless a launch names another."""

    @abstractmethod
    def set_stream(self, stream: Stream, sync: bool = True) -> None:
        """Make ``stream`` the current one; with ``sync`` it waits for what the one before holds."""

    @abstractmethod
    def raise_faults(self) -> None:
        """Raise the error that a kernel has reported, if one has; called when something was waited for."""


class Stream(_native.CudaStream):
    """A queue of work of a CUDA device.

    Args:
        device: The device; the current one when left out.
        priority: 0, or a negative number for a higher priority, as far as the device has it.
        cuda_stream: The driver's handle of a stream that exists; its owner has to keep it until this object and all
            work on it are gone. A new stream is made when left out.

    Attributes:
        device: The device.
        cuda_stream: The driver's handle.

    Raises:
        RuntimeError: The device is the CPU, or there is no CUDA device.

    Example:
        >>> stream = wp.Stream("cuda:0")
        >>> wp.launch(square, dim=n, inputs=[wp.ones(n, device="cuda:0"), wp.zeros(n, device="cuda:0")], stream=stream)
        >>> wp.synchronize_stream(stream)
    """

    def __init__(self, device: DeviceLike = None, priority: int = 0, *, cuda_stream: int | None = None) -> None:
        self.device = _streaming(device, "streams")
        self._driver = self.device.driver
        self.owned = cuda_stream is None
        self.cached_event: Event | None = None
        self.keeper: object = None  # another library's object for a stream that it made
        self._context = self.device.native
        if cuda_stream is None:
            with self.device.guard:
                self.cuda_stream = self._driver.stream_create(0, priority)
            self._blocking = True
            return
        self.cuda_stream = cuda_stream
        self._foreign = True
        with self.device.guard:
            flags = 0 if cuda_stream in _LEGACY_STREAMS else self._driver.stream_flags(cuda_stream)
        self._blocking = not flags & _NON_BLOCKING

    def __del__(self) -> None:
        if getattr(self, "owned", False) and self.cuda_stream:
            self._driver.release("stream_destroy", self.device.context, self.cuda_stream)

    @property
    def priority(self) -> int:
        """The priority; smaller numbers go first."""
        with self.device.guard:
            return int(self._driver.stream_priority(self.cuda_stream))

    @property
    def is_blocking(self) -> bool:
        """Whether the driver orders it with the legacy default stream."""
        return bool(self._blocking)

    @property
    def is_complete(self) -> bool:
        """Whether all work of the stream is done."""
        with self.device.guard:
            return bool(self._driver.stream_is_complete(self.cuda_stream))

    @property
    def is_capturing(self) -> bool:
        """Whether what the stream gets becomes a part of a graph, by a capture that ``capture_begin`` knows of."""
        if self.device.capture is None:
            return False
        with self.device.guard:
            return bool(self._driver.stream_is_capturing(self.cuda_stream))

    def record_event(self, event: Event | None = None) -> Event:
        """Put an event behind what the stream holds; a new one when left out. Returns the event."""
        mark = Event(self.device) if event is None else event
        _require_event(mark)
        if mark.device is not self.device:
            raise ValueError(f"the event is one of {mark.device}, the stream one of {self.device}")
        with self.device.guard:
            self._driver.event_record(mark.cuda_event, self.cuda_stream)
        return mark

    def wait_event(self, event: Event) -> None:
        """Let what the stream gets from now on wait for ``event``, which may be another device's."""
        _require_event(event)
        with self.device.guard:
            self._driver.stream_wait_event(self.cuda_stream, event.cuda_event)

    def wait_stream(self, other_stream: Stream, event: Event | None = None) -> None:
        """Let what the stream gets from now on wait for what another one holds now.

        Args:
            other_stream: The other stream, which may be another device's.
            event: What to mark the place with; one that is kept for this when left out.
        """
        if not isinstance(other_stream, Stream):
            raise TypeError(f"a stream waits for a wp.Stream, got {type(other_stream).__name__}")
        if event is None:
            event = other_stream.cached_event = other_stream.cached_event or Event(other_stream.device)
        self.wait_event(other_stream.record_event(event))

    def synchronize(self) -> None:
        """Wait until all work of the stream is done."""
        if self.is_capturing:
            raise RuntimeError(f"{self!r} is captured and can't be waited for; end the capture first")
        with self.device.guard:
            self._driver.stream_synchronize(self.cuda_stream)
        self.device.raise_faults()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return other.device is self.device and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<warp_like stream {self.cuda_stream:#x} of {self.device}>"


class Event:
    """A mark in a stream.

    Args:
        device: The device; the current one when left out.
        cuda_event: The driver's handle of an event that exists, and that its owner keeps.
        enable_timing: Whether it tells the time, for ``wp.get_event_elapsed_time``.
        interprocess: Whether other processes may open it; such an event tells no time.

    Attributes:
        device: The device.
        cuda_event: The driver's handle.

    Raises:
        RuntimeError: The device is the CPU, or there is no CUDA device.
        ValueError: It is to tell the time and to be opened by other processes.
    """

    class Flags:
        """The driver's flags of events."""

        DEFAULT = 0
        BLOCKING_SYNC = 1
        DISABLE_TIMING = 2
        INTERPROCESS = 4

    def __init__(
        self,
        device: DeviceLike = None,
        cuda_event: int | None = None,
        enable_timing: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _streaming(device, "events")
        self._driver = self.device.driver
        self.owned = cuda_event is None
        self.enable_timing = enable_timing
        if enable_timing and interprocess:
            raise ValueError(
                "an event that other processes open tells no time: leave out enable_timing or interprocess"
            )
        if cuda_event is not None:
            self.cuda_event = cuda_event
            return
        flags = 0 if enable_timing else self.Flags.DISABLE_TIMING
        flags |= self.Flags.INTERPROCESS if interprocess else 0
        with self.device.guard:
            self.cuda_event = self._driver.event_create(flags)

    def __del__(self) -> None:
        if getattr(self, "owned", False) and getattr(self, "cuda_event", 0):
            self._driver.release("event_destroy", self.device.context, self.cuda_event)

    @property
    def is_complete(self) -> bool:
        """Whether the stream has reached the event; so it is for one that was never recorded."""
        with self.device.guard:
            return bool(self._driver.event_is_complete(self.cuda_event))

    def ipc_handle(self) -> bytes:
        """Return 64 bytes by which another process opens the event, with ``wp.event_from_ipc_handle``.

        Raises:
            RuntimeError: It was not made with ``interprocess=True``, or the device does not support this.
        """
        with self.device.guard:
            handle: bytes = self._driver.event_handle(self.cuda_event)
        return handle

    def synchronize(self) -> None:
        """Wait until the stream has reached the event."""
        with self.device.guard:
            self._driver.event_synchronize(self.cuda_event)
        self.device.raise_faults()

    def __repr__(self) -> str:
        return f"<warp_like event {self.cuda_event:#x} of {self.device}>"


class ScopedStream:
    """Makes a stream the current one of its device in a ``with`` block; None, as on the CPU, changes nothing.

    Args:
        stream: The stream.
        sync_enter: Let it wait for the stream that was current before.
        sync_exit: Let the stream that was current before wait for it at the end.
    """

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"ScopedStream() takes a wp.Stream or None, got {type(stream).__name__}")
        self.stream = stream
        self.sync_enter = sync_enter
        self.sync_exit = sync_exit
        self._saved: list[tuple[Stream, bool]] = []

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            device = self.stream.device
            self._saved.append((device.stream, device.native.stream_chosen))
            device.set_stream(self.stream, self.sync_enter)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            device = self.stream.device
            before, chosen = self._saved.pop()
            device.set_stream(before, self.sync_exit)
            device.native.stream_chosen = chosen


def get_stream(device: DeviceLike = None) -> Stream:
    """Return the current stream of a CUDA device.

    Raises:
        RuntimeError: The device is the CPU.
    """
    return _streaming(device, "streams").stream


def set_stream(stream: Stream, device: DeviceLike = None, sync: bool = False) -> None:
    """Make ``stream`` the current one of its device.

    Args:
        stream: The stream.
        device: Its device, checked if given.
        sync: Let it wait for the stream that was current before.

    Raises:
        RuntimeError: The device is the CPU.
        ValueError: The stream is one of another device.
    """
    place = _streaming(stream.device if device is None and isinstance(stream, Stream) else device, "streams")
    _require_stream(stream)
    place.set_stream(stream, sync)


def wait_stream(other_stream: Stream, event: Event | None = None) -> None:
    """Let the current stream of the current device wait for what another stream holds now.

    Raises:
        RuntimeError: The current device is the CPU.
    """
    get_stream().wait_stream(other_stream, event)


def synchronize_stream(stream_or_device: Stream | DeviceLike = None) -> None:
    """Wait until a stream, or the current one of a device, has done its work. The CPU has always done it."""
    if isinstance(stream_or_device, Stream):
        stream_or_device.synchronize()
        return
    device = get_device(stream_or_device)
    if isinstance(device, StreamDevice):
        device.stream.synchronize()


def record_event(event: Event | None = None) -> Event:
    """Put an event, or a new one, into the current stream of the current device, and return it.

    Raises:
        RuntimeError: The current device is the CPU.
    """
    return _streaming(None if event is None else event.device, "events").stream.record_event(event)


def wait_event(event: Event) -> None:
    """Let the current stream of the current device wait for an event.

    Raises:
        RuntimeError: The current device is the CPU.
    """
    _streaming(None, "events").stream.wait_event(event)


def synchronize_event(event: Event) -> None:
    """Wait until a stream has reached an event.

    Raises:
        RuntimeError: The current device is the CPU and ``event`` no event.
    """
    if not isinstance(event, Event):
        _streaming(None, "events")
        _require_event(event)
    event.synchronize()


def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """Return the milliseconds between two events.

    Args:
        start_event: The earlier one. Both were made with ``enable_timing=True`` and recorded.
        end_event: The later one.
        synchronize: Wait for it first.

    Raises:
        RuntimeError: The current device is the CPU and there are no events, or one was not recorded yet.
        ValueError: An event was not made for timing.
    """
    for event in (start_event, end_event):
        if not isinstance(event, Event):
            _streaming(None, "events; wp.ScopedTimer measures time there")
            _require_event(event)
        if not event.enable_timing:
            raise ValueError("an event tells the time if it was made with enable_timing=True")
    if synchronize:
        end_event.synchronize()
    with end_event.device.guard:
        return float(end_event.device.driver.event_elapsed(start_event.cuda_event, end_event.cuda_event))


def _streaming(device: DeviceLike, what: str) -> StreamDevice:
    """``device``, which has to be one that has streams."""
    place = get_device(device)
    if not isinstance(place, StreamDevice):
        _refuse(place, what)
    return place


def _require_stream(stream: object) -> None:
    if not isinstance(stream, Stream):
        raise TypeError(f"expected a wp.Stream, got {type(stream).__name__}")


def _require_event(event: object) -> None:
    if not isinstance(event, Event):
        raise TypeError(f"expected a wp.Event, got {type(event).__name__}")


def _refuse(device: Device, what: str) -> NoReturn:
    raise RuntimeError(f"device {str(device)!r} has no {what}: launches on it have finished when they return")
