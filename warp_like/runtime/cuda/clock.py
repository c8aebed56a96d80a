"""What launches on CUDA take, by events of the device."""

from __future__ import annotations

from typing import Any

from warp_like.runtime.arrays.recording import TimingResult
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.transfer import stream_for
from warp_like.runtime.memory.stream import Event, get_event_elapsed_time


class Clock:
    """One launch between two events, in a ``with`` block; ``result`` waits for it.

    Args:
        device: Where it runs.
        name: What it is called.
        filter: Which kind of activity it is.
        stream: The stream that the launch names, or None.
        args: Its arguments, which decide on the stream where it names none.
    """

    def __init__(self, device: CudaDevice, name: str, filter: int, stream: Any, args: list[Any]) -> None:
        self._facts = (device, name, filter)
        self._stream = stream_for(device, stream, *(a.owner for a in args if hasattr(a, "owner")))
        self._start, self._end = Event(device, enable_timing=True), Event(device, enable_timing=True)

    def __enter__(self) -> None:
        self._stream.record_event(self._start)

    def __exit__(self, *_: object) -> None:
        self._stream.record_event(self._end)

    def result(self) -> TimingResult:
        """Wait for the launch, and return what it took."""
        return TimingResult(*self._facts, get_event_elapsed_time(self._start, self._end))
