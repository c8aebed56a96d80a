"""Streams of PyTorch and Paddle as streams of ours, and the other way round.

Both sides stand for one stream of the driver; nothing is copied and nothing waits. Whoever made the stream has to keep
it, so each side holds the other one's object.
"""

from __future__ import annotations

from typing import Any

from warp_like.runtime.memory.device import Device, get_device
from warp_like.runtime.memory.stream import Stream, get_stream


def stream_from_torch(stream_or_device: Any = None) -> Stream:
    """Return the stream that a ``torch.cuda.Stream`` stands for.

    Args:
        stream_or_device: The stream, or a device whose current one in PyTorch is meant: PyTorch's own name for it,
            ours, or None for PyTorch's current device.

    Raises:
        TypeError: It is neither a stream nor a device.
        RuntimeError: There is no CUDA device.
        ImportError: PyTorch is not installed.

    Example:
        >>> with torch.cuda.stream(s), wp.ScopedStream(wp.stream_from_torch(s)):  # doctest: +SKIP
        ...     wp.launch(step, dim=n, inputs=[x], device="cuda:0")
    """
    stream = stream_or_device
    if not hasattr(stream, "cuda_stream"):
        _require_cuda(stream_or_device)
        import torch

        stream = torch.cuda.current_stream(_named_to_torch(stream_or_device))
    index = stream.device.index
    return _stand_for(stream, f"cuda:{0 if index is None else index}", stream.cuda_stream)


def stream_to_torch(stream_or_device: Any = None) -> Any:
    """Return the ``torch.cuda.Stream`` for a stream, or for the current one of a device.

    Args:
        stream_or_device: A ``wp.Stream``, or a device; the current device when left out.

    Raises:
        RuntimeError: The device is the CPU.
        ImportError: PyTorch is not installed.
    """
    stream = stream_or_device if isinstance(stream_or_device, Stream) else get_stream(stream_or_device)
    import torch

    made = torch.cuda.ExternalStream(stream.cuda_stream, device=f"cuda:{stream.device.ordinal}")
    made._warp_like_stream = stream  # type: ignore[attr-defined]  # PyTorch keeps only the handle
    return made


def stream_from_paddle(stream_or_device: Any = None) -> Stream:
    """Return the stream that a ``paddle.device.Stream`` stands for.

    Args:
        stream_or_device: The stream, or a device whose current one in Paddle is meant: Paddle's name for it, or None
            for Paddle's current device.

    Raises:
        TypeError: It is neither a stream nor a device.
        RuntimeError: There is no CUDA device.
        ImportError: Paddle is not installed.
    """
    stream = stream_or_device
    if not hasattr(stream, "stream_base"):
        _require_cuda(stream_or_device)
        import paddle

        stream = paddle.device.current_stream(_named_to_paddle(stream_or_device))
    base = stream.stream_base
    return _stand_for(stream, f"cuda:{base.place.get_device_id()}", base.cuda_stream)


def _named_to_torch(ident: Any) -> Any:
    """What PyTorch calls a device: its own names stay."""
    if ident is None or type(ident).__module__.partition(".")[0] == "torch":
        return ident
    return f"cuda:{get_device(ident).ordinal}"


def _named_to_paddle(ident: Any) -> Any:
    """What Paddle calls a device: its own names stay."""
    if ident is None or (isinstance(ident, str) and ident.startswith("gpu")):
        return ident
    return f"gpu:{get_device(ident).ordinal}"


def _require_cuda(ident: Any) -> None:
    """Refuse what is no name of a CUDA device. Other libraries' names of devices are left to them."""
    device = get_device(ident if isinstance(ident, (str, Device)) and not str(ident).startswith("gpu") else "cuda")
    if device.backend.streams is None:
        raise RuntimeError(f"device {device.alias!r} has no streams: launches on it have finished when they return")


def _stand_for(stream: Any, device: str, handle: int) -> Stream:
    made = Stream(device, cuda_stream=int(handle))
    made.keeper = stream
    return made
