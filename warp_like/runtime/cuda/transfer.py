"""Copies and fills of arrays where a CUDA device takes part.

A copy from or to pageable memory of the host has finished when it returns; one between devices and page-locked memory
is only handed to the stream. What has gaps is copied on the device, to or from a contiguous piece, so that the bus sees
whole blocks.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from warp_like import _native
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.driver import Block
from warp_like.runtime.cuda.memory import allocate
from warp_like.runtime.memory.allocation import contiguous_strides
from warp_like.runtime.memory.device import get_device
from warp_like.runtime.memory.stream import Stream

MOST_CALLS = 64
"""How many copies of the driver are not worth a kernel."""

SMALL_RUN, MANY_RUNS = 16, 4096
"""Bytes of a run, and number of runs, where the driver's copies of blocks fall behind a kernel."""

Dims = list[tuple[int, int, int]]
"""Of each dimension that is left: its extent, and the strides of the two sides."""


class Side(NamedTuple):
    """One side of a copy: bytes of ``unit`` at ``ptr``, repeated along ``shape`` by ``strides``."""

    device: Any
    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    unit: int
    owner: Any

    @property
    def nbytes(self) -> int:
        """Bytes of all that is copied."""
        return math.prod(self.shape) * self.unit

    @property
    def is_contiguous(self) -> bool:
        """Whether it lies in one piece, in order."""
        packed = contiguous_strides(self.shape, self.unit)
        return all(n == 1 or a == b for n, a, b in zip(self.shape, self.strides, packed, strict=True))

    def at(self, device: Any, ptr: int, owner: Any) -> Side:
        """The same elements in one piece elsewhere."""
        return Side(device, ptr, self.shape, contiguous_strides(self.shape, self.unit), self.unit, owner)


def side_of(a: Any) -> Side:
    """Return ``a``, an array, as a side; components are trailing dimensions."""
    element = a.element
    unit = a.itemsize if element.scalar is None else element.scalar.bits // 8
    inner = () if element.scalar is None else element.shape
    strides = (*a.strides, *contiguous_strides(inner, unit))
    if a.device.capture is not None:
        a.device.capture.keep(a)
    return Side(a.device, a.ptr, (*a.shape, *inner), strides, unit, a.owner)


def _side_of_host(raw: np.ndarray[Any, Any]) -> Side:
    return Side(get_device("cpu"), raw.ctypes.data, raw.shape, raw.strides, raw.itemsize, raw)


def write(dest: Any, values: Any, stream: Stream | None = None) -> None:
    """Copy ``values``, an array or NumPy components that broadcast, to the array ``dest``.

    Args:
        dest: The array.
        values: An array of as many components, of the same shape with them; or host data.
        stream: Where the work goes; by the rules for streams when left out.
    """
    if isinstance(values, _native.Array):
        copy(side_of(dest), side_of(values), stream)
        return
    raw = np.asarray(values)
    to = side_of(dest)
    if raw.shape != to.shape and raw.ndim <= len(dest.element.shape):
        item = np.ascontiguousarray(np.broadcast_to(raw, dest.element.shape if dest.element.scalar else ()))
        fill(dest, item.tobytes(), stream)
    else:
        # What a graph copies whenever it runs is what the caller gives now.
        given = np.array(raw) if dest.device.is_capturing else raw
        copy(to, _side_of_host(np.broadcast_to(given, to.shape)), stream)


def read(a: Any) -> np.ndarray[Any, Any]:
    """Return a copy of the elements of ``a`` in the host's memory, as ``numpy()`` shows them."""
    if a.device.is_capturing and stream_for(a.device, None, a.owner).is_capturing:
        raise RuntimeError(f"a capture is running, in which the elements of {a!r} can't be read; end it first")
    out = np.empty(a._full_shape, a._raw_dtype)
    copy(_side_of_host(out), side_of(a), None)
    return out


def stream_for(device: CudaDevice, stream: Stream | None, *owners: Any) -> Stream:
    """Return where work on memory of ``owners`` goes: the stream given, else by the rules for streams."""
    if stream is not None:
        if stream.device is not device:
            raise ValueError(f"the work is on {device}, and {stream!r} is a stream of {stream.device}")
        return stream
    if not device.native.stream_chosen:
        for owner in owners:
            handle = _native.work_stream(owner, device.ordinal)
            if handle is not None and handle != device.stream.cuda_stream:
                return Stream(device, cuda_stream=handle)
    return device.stream


def note_use(device: CudaDevice, stream: Stream, owners: list[Any]) -> None:
    """Order the work of ``stream`` with other work on memory of ``owners``."""
    with device.guard:
        for owner in owners:
            _native.use_memory(device.native, owner, stream)


def work_stream(a: Any) -> Stream:
    """Return the stream on which the memory of ``a``, an array, was used last, as far as that is known."""
    device: CudaDevice = a.device
    handle = _native.last_stream(a.owner)
    if handle is None or handle == device.stream.cuda_stream:
        return stream_for(device, None, a.owner)
    return Stream(device, cuda_stream=handle)


def hand_over(a: Any, stream: int | None) -> None:
    """Let a consumer's stream, as DLPack names it, wait for what was done to the memory of ``a``.

    Args:
        a: The array.
        stream: -1 where the consumer takes care of the order itself, None or 1 for the legacy default stream, 2 for the
            thread's own, else the handle of a stream.

    Raises:
        BufferError: ``stream`` is none of these.
    """
    if stream == -1:
        return
    handle = 1 if stream is None else stream
    if not isinstance(handle, int) or handle <= 0:
        raise BufferError(
            f"a consumer's CUDA stream is -1, None, 1, 2 or the handle of a stream, got {stream!r}; 0 could mean "
            "the legacy default stream (1) or the thread's own (2)"
        )
    device: CudaDevice = a.device
    consumer = Stream(device, cuda_stream=handle)
    if _native.last_stream(a.owner) is None:
        consumer.wait_stream(work_stream(a))
        return
    with device.guard:
        _native.use_memory(device.native, a.owner, consumer)


def take_over(device: CudaDevice, stream: int) -> None:
    """Let the device's current stream wait for what a producer's stream holds."""
    if stream not in (device.stream.cuda_stream, device.stream.cuda_stream or 1):
        device.stream.wait_stream(Stream(device, cuda_stream=stream))


# ---- copies


def copy(to: Side, source: Side, stream: Stream | None) -> None:
    """Copy between two sides of one shape, of which at least one is on a CUDA device."""
    if to.nbytes == 0:
        return
    if to.shape != source.shape or to.unit != source.unit:
        raise ValueError(f"can't copy elements of shape {source.shape} to shape {to.shape}")
    if to.device.is_cpu:
        _to_host(to, source, stream)
    elif source.device.is_cpu:
        _to_device(to, source, stream)
    elif to.device is source.device:
        _on_device(to, source, stream)
    else:
        _between(to, source, stream)


def _to_device(to: Side, source: Side, stream: Stream | None) -> None:
    device, pinned = to.device, _native.is_pinned(source.owner) and source.is_contiguous
    queue = stream_for(device, stream, to.owner)
    if not source.is_contiguous:
        kept = np.ascontiguousarray(_host_view(source))
        source = source.at(source.device, kept.ctypes.data, kept)
    landing = to if to.is_contiguous else _temporary(to, queue)
    with device.guard:
        _use(device, queue, landing, source)
        device.driver.copy_to_device(landing.ptr, source.ptr, source.nbytes, queue.cuda_stream)
    if landing is not to:
        _on_device(to, landing, queue)
    if not pinned and not queue.is_capturing:
        queue.synchronize()


def _to_host(to: Side, source: Side, stream: Stream | None) -> None:
    device, pinned = source.device, _native.is_pinned(to.owner) and to.is_contiguous
    queue = stream_for(device, stream, source.owner)
    captured = queue.is_capturing
    if captured and not to.is_contiguous:
        raise RuntimeError("a capture does not take a copy from a device to memory of the host with gaps")
    if not source.is_contiguous:
        piece = _temporary(source, queue)
        _on_device(piece, source, queue)
        source = piece
    kept = None if to.is_contiguous else np.empty(to.shape, f"V{to.unit}")
    landing = to if kept is None else to.at(to.device, kept.ctypes.data, kept)
    with device.guard:
        _use(device, queue, landing, source)
        device.driver.copy_to_host(landing.ptr, source.ptr, source.nbytes, queue.cuda_stream)
    if not pinned and not captured:
        queue.synchronize()
    if kept is not None:
        np.copyto(_host_view(to), kept)


def _host_view(side: Side) -> np.ndarray[Any, Any]:
    """The elements of a side in the host's memory, as opaque bytes."""
    interface = {
        "version": 3,
        "data": (side.ptr, False),
        "shape": side.shape,
        "strides": side.strides,
        "typestr": f"|V{side.unit}",
    }
    holder = type("_Memory", (), {"__array_interface__": interface, "owner": side.owner})()
    return np.asarray(holder)


def _between(to: Side, source: Side, stream: Stream | None) -> None:
    """Copy from one device to another: the target's stream does it, and both sides' streams see it in their order."""
    queue = stream_for(to.device, stream if stream is not None and stream.device is to.device else None, to.owner)
    sending = stream_for(
        source.device, stream if stream is not None and stream.device is source.device else None, source.owner
    )
    if not source.is_contiguous:
        piece = _temporary(source, sending)
        _on_device(piece, source, sending)
        source = piece
    landing = to if to.is_contiguous else _temporary(to, queue)
    with source.device.guard:
        _use(source.device, sending, source)
    queue.wait_stream(sending)
    driver = to.device.driver
    with to.device.guard:
        _use(to.device, queue, landing)
        driver.copy_peer(
            landing.ptr, to.device.context, source.ptr, source.device.context, to.nbytes, queue.cuda_stream
        )
    sending.wait_stream(queue)
    if landing is not to:
        _on_device(to, landing, queue)


def _on_device(to: Side, source: Side, stream: Stream | None) -> None:
    device = to.device
    queue = stream_for(device, stream, to.owner, source.owner)
    if _overlap(to, source):
        piece = _temporary(source, queue)
        _on_device(piece, source, queue)
        source = piece
    dims, run = _merged(to, source)
    with device.guard:
        _use(device, queue, to, source)
        if not dims:
            device.driver.copy_on_device(to.ptr, source.ptr, run, queue.cuda_stream)
        else:
            _copy_gaps(device, to.ptr, source.ptr, dims, run, queue)


def _copy_gaps(device: CudaDevice, to: int, source: int, dims: Dims, run: int, queue: Stream) -> None:
    """Copy what has gaps: by the driver's copies of blocks where few of them do it, else by a kernel."""
    inner = 1 if _is_pitch(dims[-1], run) else 0
    if inner and len(dims) > 1 and _is_slice(dims[-2], dims[-1]):
        inner = 2
    outer, blocks = dims[: len(dims) - inner], dims[len(dims) - inner :]
    many_small = run < SMALL_RUN and math.prod(n for n, _, _ in dims) > MANY_RUNS
    if many_small or math.prod(n for n, _, _ in outer) > MOST_CALLS:
        from warp_like.runtime.cuda.strided import copy_strided  # which launches a kernel

        if copy_strided(device, to, source, dims, run, queue):
            return
    height, to_pitch, source_pitch = blocks[-1] if blocks else (1, run, run)
    depth, to_slice, source_slice = blocks[0] if inner == 2 else (1, height * to_pitch, height * source_pitch)
    for at in itertools.product(*(range(n) for n, _, _ in outer)):
        t = to + sum(i * d[1] for i, d in zip(at, outer, strict=True))
        s = source + sum(i * d[2] for i, d in zip(at, outer, strict=True))
        if not blocks:
            device.driver.copy_on_device(t, s, run, queue.cuda_stream)
            continue
        device.driver.copy_blocks(
            Block(t, False, to_pitch, to_slice // to_pitch),
            Block(s, False, source_pitch, source_slice // source_pitch),
            run,
            height,
            depth,
            queue.cuda_stream,
        )


def _is_pitch(dim: tuple[int, int, int], run: int) -> bool:
    """Whether runs along a dimension are rows of a block, for the driver."""
    return all(run <= stride < 2**31 for stride in dim[1:])


def _is_slice(outer: tuple[int, int, int], rows: tuple[int, int, int]) -> bool:
    """Whether blocks along a dimension are slices of a larger one, for the driver: a whole number of rows apart."""
    return all(s % p == 0 and s // p >= rows[0] for s, p in zip(outer[1:], rows[1:], strict=True))


def _merged(to: Side, source: Side) -> tuple[Dims, int]:
    """Return the dimensions that are left when neighbours are joined, outermost first, and the bytes of a run."""
    dims: Dims = [d for d in zip(to.shape, to.strides, source.strides, strict=True) if d[0] != 1]
    dims.sort(key=lambda d: -abs(d[1]))
    joined: Dims = []
    for n, a, b in reversed(dims):
        if joined and a == joined[-1][0] * joined[-1][1] and b == joined[-1][0] * joined[-1][2]:
            joined[-1] = (joined[-1][0] * n, joined[-1][1], joined[-1][2])
        else:
            joined.append((n, a, b))
    run = to.unit
    if joined and joined[0][1] == joined[0][2] == run:
        run *= joined.pop(0)[0]
    return joined[::-1], run


def _extent(side: Side) -> tuple[int, int]:
    steps = [(n - 1) * s for n, s in zip(side.shape, side.strides, strict=True)]
    return side.ptr + sum(s for s in steps if s < 0), side.ptr + sum(s for s in steps if s > 0) + side.unit


def _overlap(to: Side, source: Side) -> bool:
    """Whether the two sides may have bytes in common, and are not the same elements."""
    if (to.ptr, to.strides) == (source.ptr, source.strides):
        return False
    (a, b), (c, d) = _extent(to), _extent(source)
    return a < d and c < b


def _temporary(like: Side, stream: Stream) -> Side:
    """Room for the elements of ``like`` in one piece on its device, for use on ``stream``."""
    buffer = allocate(like.device, like.nbytes, False, stream)
    return like.at(like.device, buffer.ptr, buffer)


def _use(device: CudaDevice, stream: Stream, *sides: Side) -> None:
    for side in sides:
        _native.use_memory(device.native, side.owner, stream)


# ---- fills


def fill(dest: Any, item: bytes, stream: Stream | None = None) -> None:
    """Set every element of ``dest`` to the bytes of ``item``."""
    if dest.size == 0:
        return
    to = side_of(dest)
    device: CudaDevice = dest.device
    queue = stream_for(device, stream, to.owner)
    whole = Side(device, dest.ptr, dest.shape, dest.strides, dest.itemsize, to.owner)
    target = whole if dest.is_contiguous else _temporary(whole, queue)
    with device.guard:
        _use(device, queue, target)
        _fill_piece(device, target.ptr, item, dest.size, queue.cuda_stream)
    if target is not whole:
        _on_device(whole, target, queue)


def _fill_piece(device: CudaDevice, ptr: int, item: bytes, count: int, stream: int) -> None:
    for unit in (1, 2, 4):
        if len(item) % unit == 0 and item == item[:unit] * (len(item) // unit):
            device.driver.fill(ptr, int.from_bytes(item[:unit], "little"), unit, len(item) // unit * count, stream)
            return
    # No unit of the driver's repeats. The first element is set piece by piece, then what is set is doubled.
    unit = next(u for u in (4, 2, 1) if len(item) % u == 0)
    for at in range(0, len(item), unit):
        device.driver.fill(ptr + at, int.from_bytes(item[at : at + unit], "little"), unit, 1, stream)
    done, total = len(item), len(item) * count
    while done < total:
        step = min(done, total - done)
        device.driver.copy_on_device(ptr + done, ptr, step, stream)
        done += step
