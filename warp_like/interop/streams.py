"""Streams of other libraries. In this release kernels run on the CPU, where there are none: these functions say so."""

from __future__ import annotations

from typing import Any, NoReturn


def stream_from_torch(stream_or_device: Any = None) -> Any:
    """Return the stream that a ``torch.cuda.Stream``, or the current one of a device, stands for.

    Raises:
        RuntimeError: Always in this release, which launches on the CPU, where there are no streams.
    """
    _refuse("stream_from_torch", stream_or_device)


def stream_to_torch(stream_or_device: Any = None) -> Any:
    """Return the ``torch.cuda.Stream`` for a stream, or for the current one of a device.

    Raises:
        RuntimeError: Always in this release, which launches on the CPU, where there are no streams.
    """
    _refuse("stream_to_torch", stream_or_device)


def stream_from_paddle(stream_or_device: Any = None) -> Any:
    """Return the stream that a ``paddle.device.cuda.Stream``, or the current one of a device, stands for.

    Raises:
        RuntimeError: Always in this release, which launches on the CPU, where there are no streams.
    """
    _refuse("stream_from_paddle", stream_or_device)


def _refuse(function: str, given: Any) -> NoReturn:
    shown = "" if given is None else repr(given)
    raise RuntimeError(
        f"{function}({shown}): launches run on the CPU, which has no streams; a launch there has finished when it "
        "returns"
    )
