"""What tapes record, and how the host writes to arrays, which tapes and captures are told of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from warp_like import _native
from warp_like.runtime.arrays import nested
from warp_like.runtime.memory.recorder import recorder

if TYPE_CHECKING:
    from warp_like.runtime.arrays.array import array


Record = _native.Record
"""One launch: enough to run its adjoint. Vectors and matrices among its arguments are copies."""


def program_of(record: Record, wrt: tuple[int, ...] | None = None, same: Any = (), spares_objects: bool = False) -> Any:
    """Return the program that a recorded launch ran, or its adjoint with respect to the parameters ``wrt``.

    With ``spares_objects``, that adds to no gradients of objects.
    """
    place = next((a.device for a in record.args if isinstance(a, _native.Array)), None)
    forward = record.kernel.program(record.types, device=place).over(record.dims)
    if wrt is None:
        return forward
    alone = forward.in_order(record.dims, same)
    return record.kernel.program(
        record.types, wrt, same, None, place, alone, forward.shares_indices, spares_objects=spares_objects
    )


class Write:
    """The host overwrites ``dest``: with the elements of ``source``, or with numbers where that is None.

    ``values`` are what ``put`` takes, where it is known beforehand.
    """

    def __init__(self, dest: array, source: array | None, values: Any = None) -> None:
        self.dest = dest
        self.source = source
        self.values = values


class UserFunction:
    """A user's own adjoint, recorded between launches."""

    def __init__(self, backward: Callable[[], None], arrays: Sequence[array]) -> None:
        self.backward = backward
        self.arrays = list(arrays)


class Capture:
    """Takes launches over instead of running them; active in place of a tape."""

    history = None  # launches are not recorded as tapes do it

    def refuse(self, what: str) -> NoReturn:
        """Refuse what needs launches that have run.

        Raises:
            RuntimeError: Always.
        """
        raise NotImplementedError

    def take_launch(self, record: Record) -> None:
        """A launch with checked arguments, which is not run."""
        raise NotImplementedError

    def record_write(self, write: Write) -> bool | None:
        """The host is about to overwrite an array; true if this has done it, else it does so afterwards."""
        raise NotImplementedError


class TimingResult(NamedTuple):
    """What one launch took.

    Attributes:
        device: Where it ran.
        name: The kernel.
        filter: Which kind of activity it was: ``TIMING_KERNEL``.
        elapsed: Milliseconds.
    """

    device: Any
    name: str
    filter: int
    elapsed: float


class Activities:
    """What launches take is noted here, by all threads, between ``timing_begin`` and ``timing_end``."""

    noted: list[Any] | None = None  # clocks, whose result() waits for a device to get there
    wanted = False


activities = Activities()


def host_writes(dest: array, source: array | None = None) -> None:
    """Tell the active tape that the host is about to overwrite ``dest``."""
    if recorder.active is not None:
        recorder.active.record_write(Write(dest, source))


def put(dest: Any, values: Any, stream: Any = None, holding: Any = ()) -> None:
    """Copy ``values``, an array of as many components or NumPy components that broadcast, to the memory of ``dest``.

    A backend copies between its devices and the host's memory, so data goes from kind to kind by way of the host.
    ``holding`` has the arrays that NumPy components of structs hold, as for ``nested.writing``.
    """
    if dest.element.holds:
        with nested.writing(dest, values if isinstance(values, _native.Array) else holding):
            _copy(dest, values, stream)
    else:
        _copy(dest, values, stream)


def _copy(dest: Any, values: Any, stream: Any) -> None:
    backend = dest.device.backend
    if isinstance(values, _native.Array):
        other = values.device.backend
        if backend.shares_host_memory:
            backend = other
        elif other is not backend and not other.shares_host_memory:
            values = other.read(values)
    backend.write(dest, values, stream)


def host_copy(dest: array, values: Any, source: array | None = None, stream: Any = None, holding: Any = ()) -> None:
    """Write ``values``, as ``put`` takes them, to the memory of ``dest``; all writes of the host go this way.

    Under a capture the write becomes an operation of the graph; where there is a ``source``, it copies what the memory
    of that then holds.
    """
    if recorder.active is not None and recorder.active.record_write(Write(dest, source, values)):
        return
    write(dest, values, source, stream, holding)


def note_copy(dest: array, source: array) -> None:
    """Tell the active tape that ``dest``, which is new, has been made of ``source``.

    Raises:
        RuntimeError: Both carry gradients, and differ in dtype or shape.
    """
    tape = recorder.active
    if tape is None or tape.history is None or source.grad is None:
        return
    if dest.grad is None:
        tape.history.cut.append(dest)
    elif dest.element == source.element and dest.shape == source.shape:
        tape.record_write(Write(dest, source))
    else:
        raise RuntimeError(
            f"the gradient does not pass from {source!r} to {dest!r}, which is made of it: they differ in dtype or "
            "shape; convert the elements with wp.utils.array_cast() or wp.map(), or give `numpy()` of the array"
        )


def is_captured() -> bool:
    """Return whether this thread's writes happen later: when a graph of the CPU or a function of JAX's runs."""
    return recorder.graph is not None or isinstance(recorder.active, Capture)


def first_write(dest: array, values: Any, source: array | None = None, holding: Any = ()) -> None:
    """Write to memory that is new: as ``host_copy``, but a tape has nothing to record.

    Values of the host are in place at once, and a graph writes them again each time that it runs.
    """
    if source is not None and isinstance(recorder.active, Capture):
        host_copy(dest, values, source)
        return
    if source is None and recorder.graph is not None:
        put(dest, values, holding=holding)
    write(dest, values, source, holding=holding)


def write(dest: array, values: Any, source: array | None, stream: Any = None, holding: Any = ()) -> None:
    """``host_copy`` without a word to tapes."""
    holding = holding if source is None else source
    if recorder.graph is None:
        put(dest, values, stream, holding)
        return
    held = values if source is not None else np.array(values)
    python = functools.partial(put, dest, held, holding=holding)
    plain = held if isinstance(held, _native.Array) else _raw_bytes(dest, held) if source is None else None
    if plain is None or dest.element.holds:
        recorder.graph.add_call(f"write {dest!r}", python, [dest])
    else:
        recorder.graph.add_write(f"write {dest!r}", dest, plain, python)


def _raw_bytes(dest: array, held: Any) -> bytes | None:
    """Return ``held``, components for ``dest``, as the bytes of one element, or of all; None where they differ."""
    if not isinstance(held, np.ndarray) or held.dtype != dest._raw_dtype:
        return None
    if held.shape == dest.element.shape:
        return held.tobytes()
    return np.broadcast_to(held, dest._full_shape).tobytes()
