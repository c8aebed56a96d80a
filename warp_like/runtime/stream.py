"""Streams and events: names that programs use. The CPU has none of them: launches on it have finished when they return.

What only waits does nothing on the CPU; what needs a stream or an event says that there is none.
"""

from __future__ import annotations

from typing import Any, NoReturn

from warp_like.runtime.device import Device, DeviceLike, get_device


class Stream:
    """A queue of work of a CUDA device.

    Raises:
        RuntimeError: The device is the CPU.
    """

    def __init__(self, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> None:
        _refuse(get_device(device), "streams")


class Event:
    """A mark in a stream.

    Raises:
        RuntimeError: The device is the CPU.
    """

    def __init__(
        self,
        device: DeviceLike = None,
        cuda_event: Any = None,
        enable_timing: bool = False,
        interprocess: bool = False,
    ) -> None:
        _refuse(get_device(device), "events")


class ScopedStream:
    """Makes a stream the current one in a ``with`` block; None, as on the CPU, changes nothing."""

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        if stream is not None:
            raise TypeError(f"ScopedStream() takes a wp.Stream or None, got {type(stream).__name__}")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def get_stream(device: DeviceLike = None) -> NoReturn:
    """Return the current stream of a CUDA device.

    Raises:
        RuntimeError: The device is the CPU.
    """
    _refuse(get_device(device), "streams")


def set_stream(stream: Any, device: DeviceLike = None, sync: bool = False) -> None:
    """Make ``stream`` the current one of a CUDA device.

    Raises:
        RuntimeError: The device is the CPU.
    """
    _refuse(get_device(device), "streams")


def wait_stream(other_stream: Any, event: Any = None) -> None:
    """Let the current stream wait for another one.

    Raises:
        RuntimeError: The current device is the CPU.
    """
    _refuse(get_device(), "streams")


def synchronize_stream(stream_or_device: Any = None) -> None:
    """Wait until a stream has done its work. The CPU has always done it."""
    get_device(stream_or_device)


def record_event(event: Any = None) -> NoReturn:
    """Put an event into the current stream.

    Raises:
        RuntimeError: The current device is the CPU.
    """
    _refuse(get_device(), "events")


def wait_event(event: Any) -> None:
    """Let the current stream wait for an event.

    Raises:
        RuntimeError: The current device is the CPU.
    """
    _refuse(get_device(), "events")


def synchronize_event(event: Any) -> None:
    """Wait until an event has been reached.

    Raises:
        RuntimeError: The current device is the CPU.
    """
    _refuse(get_device(), "events")


def get_event_elapsed_time(start_event: Any, end_event: Any, synchronize: bool = True) -> float:
    """Return the milliseconds between two events.

    Raises:
        RuntimeError: The current device is the CPU.
    """
    _refuse(get_device(), "events; wp.ScopedTimer measures time there")


def _refuse(device: Device, what: str) -> NoReturn:
    raise RuntimeError(f"device {str(device)!r} has no {what}: launches on it have finished when they return")
