"""What the reverse sweep will need of arrays that a recorded program overwrites.

Adjoints read arrays as they were at their launch. Before a recorded operation overwrites memory, every earlier record
that reads it in its adjoint gets a copy (one for all of them); a launch that overwrites what it loads itself gets a
copy from before the launch. Records whose adjoint does not read the array cost nothing.

What runs unrecorded while a tape records (launches with ``record_tape=False``, graphs, other tapes' gradients) is told
to ``before_writes`` and overwrites nothing uncopied either. Writes that nobody tells of (through NumPy, by other
threads, an optimizer's step) show in the fingerprints that a record notes of what its adjoint will read: ``unseen``.
While the tape records they are refused. Afterwards an adjoint takes such an array as it is then: the kernel has run
again since, or no other adjoint reads what the kernel made of the old numbers (``require_one_run``).

Copies belong to the run that was recorded. The overwritten arrays are fingerprinted when the recording ends, so that a
backward pass after something else changed them is refused: the copies would not fit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from warp_like import _native
from warp_like.compiler.artifact import Effects
from warp_like.ir.types import Array, is_differentiable
from warp_like.runtime.arrays import nested
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.creation import clone
from warp_like.runtime.arrays.recording import Record, program_of
from warp_like.runtime.autodiff.differentiation import adjoint_program, gradients_of
from warp_like.runtime.autodiff.nested_gradients import require_gradients
from warp_like.runtime.memory.recorder import recorder

Extent = tuple[int, int]


def extent(a: array) -> Extent:
    """Return the first byte of ``a`` and the one behind its last."""
    if a.size == 0:
        return (a.ptr, a.ptr)
    steps = [(n - 1) * s for n, s in zip(a.shape, a.strides, strict=True)]
    return a.ptr + sum(s for s in steps if s < 0), a.ptr + sum(s for s in steps if s > 0) + a.itemsize


def share_memory(a: array, b: array) -> bool:
    """Return whether two arrays have an element in common; where finding out takes too long, whether they may."""
    (a0, a1), (b0, b1) = extent(a), extent(b)
    if a1 <= b0 or b1 <= a0:
        return False
    try:
        return bool(np.shares_memory(_addresses(a), _addresses(b), max_work=cast(Any, 10_000)))
    except np.exceptions.TooHardError:
        return True


def _addresses(a: array) -> np.ndarray[Any, Any]:
    """What NumPy has to know of where the elements of ``a`` lie. Nobody reads them: they may be a device's."""
    interface = {
        "version": 3,
        "data": (a.ptr, True),
        "shape": a.shape,
        "strides": a.strides,
        "typestr": f"|V{a.itemsize}",
    }
    return np.asarray(type("_Addresses", (), {"__array_interface__": interface})())


def require_memory(a: array) -> None:
    """Refuse to use an array whose memory its owner has given back.

    Arrays keep the owner of their memory alive and never move, and NumPy refuses to resize what somebody looks at. A
    tensor may be resized all the same, and then has other memory.

    Raises:
        RuntimeError: The tensor that owned the memory has been freed or resized.
    """
    if not a.has_memory:
        raise RuntimeError(
            f"the memory of {a!r} is gone: the tensor that it was made from has been freed or resized since; record "
            "the forward pass again"
        )


def unseen(record: Record) -> list[int]:
    """Return the positions of the arrays that the adjoint reads, and that something unseen has written to."""
    return [i for i in record.changed() if i not in record.saved and _needs(record, i)]


def refuse_unseen(record: Record) -> None:
    """Refuse to run the adjoint of a launch on numbers that came after it.

    Raises:
        RuntimeError: An array that the adjoint reads has been written to, and nobody has seen it.
    """
    for i in unseen(record):
        raise RuntimeError(_changed(record, i))


def require_one_run(record: Record, written: Iterable[array], history: History) -> None:
    """Refuse numbers of two runs: a launch reads changed arrays, and other adjoints what it made of the old ones.

    Args:
        record: A launch that reads arrays which have changed since the recording.
        written: What it and all later operations write.
        history: Knows the readers.

    Raises:
        RuntimeError: An adjoint reads one of ``written``.
    """
    for a in written:
        for reader, i in history.overlapping_readers(a):
            if i not in reader.saved and share_memory(reader.args[i], a) and _needs(reader, i):
                refuse_unseen(record)


def require_intact(record: Record, adjoints: dict[int, array]) -> None:
    """Refuse an adjoint launch that reads memory which the launch wrote through another argument.

    Raises:
        RuntimeError: Two such arguments share memory.
    """
    program = adjoint_program(record, adjoints)
    if program is None:
        return
    names = record.kernel.parameter_names
    for i in program.effects.reads:
        for j in program_of(record).effects.writes:
            if i < len(names) and i != j and share_memory(record.args[i], record.args[j]):
                raise RuntimeError(
                    f"kernel `{record.kernel.key}`: the gradient needs `{names[i]}`, but the kernel wrote over its "
                    f"memory through `{names[j]}`; pass separate arrays"
                )


class NestedReader:
    """A recorded launch that reads an array which stands in elements of its argument at ``position``."""

    def __init__(self, record: Record, position: int, path: str, held: array) -> None:
        self.record = record
        self.position = position
        self.path = path
        self.array = held

    def overwritten(self) -> None:
        """Note that the array is overwritten, of which there are no copies."""
        try:
            program = adjoint_program(self.record, gradients_of(self.record))
        except RuntimeError:  # compile errors are among them
            return  # the backward pass says why
        if program is not None and (self.position, self.path) in program.effects.nested_reads:
            kernel = self.record.kernel
            place = f"{kernel.parameter_names[self.position]}[...].{self.path}"
            self.record.refusal = (
                f"kernel `{kernel.key}`: the gradient needs the arrays `{place}`, one of which a recorded operation "
                "has overwritten since, and of arrays in elements the tape keeps no copies; write to another array"
            )


class History(_native.History):
    """The memory of one tape.

    Which adjoints read which memory is kept natively (``add_reader``, ``overlapping_readers``, ``discard_reader``), so
    that a launch that overwrites nothing of it is recorded there alone (``Dispatcher.try_record``). So is what was not
    copied because arrays had no gradient (``uncopied``, ``without``).
    """

    def __init__(self) -> None:
        self.cut: list[array] = []  # without gradients, that the host has filled from arrays with gradients
        self.adjoints: list[array] = []  # that were computed while the tape was recording
        self.has_nested = False
        self.overwritten: dict[int, array] = {}
        self.fingerprints: dict[int, int] = {}
        self.elsewhere: list[Record] = []  # launches that stand for what has run in another way

    @functools.cached_property
    def results(self) -> _native.IntervalMap:
        """Arrays with gradients that recorded operations have written."""
        return _native.IntervalMap()

    @functools.cached_property
    def nested(self) -> _native.IntervalMap:
        """An ``NestedReader`` for each array that is read inside of elements."""
        return _native.IntervalMap()

    def before_launch(self, record: Record) -> None:
        """Keep what ``record`` is about to overwrite, and note what it reads."""
        forward = program_of(record).effects
        if nested.used_by(forward):
            self._before_nested(record, forward)
        in_order = program_of(record).in_order(record.dims, record.same)
        for i in forward.extremes:
            if self._is_result(record.args[i]) and not (in_order and i in forward.serial):
                from warp_like.ir.atomics import extremes  # most launches have none

                name = record.kernel.parameter_names[i]
                record.refusal = (
                    f"kernel `{record.kernel.key}`: the gradient of {extremes('and')} can't tell what they "
                    f"replaced, and `{name}` held results of an earlier recorded operation; let it start from numbers "
                    "(fill_), and combine the two in another kernel"
                )
        self._require_order(record, forward)
        if forward.rewrites or record.same or in_order:
            self._keep_own(record)
        if program_of(record).saves_results:
            for j in forward.writes:  # what else is changed by another run, to which what is kept would not belong
                if is_differentiable(record.types[j]):
                    self._watch(record.args[j])
        merged = dict(record.same)
        written = {merged.get(j, j) for j in forward.writes}
        for i in forward.reads:
            if isinstance(record.types[i], Array) and merged.get(i, i) not in written:
                self.add_reader(record, i)
        for j in forward.writes:
            self.before_write(record.args[j], record, j)
        for j in forward.writes:  # a replay function, say, reads what the launch leaves in them
            self.add_reader(record, j)
            self.note_result(record.args[j])

    def _require_order(self, record: Record, forward: Effects) -> None:
        """Note where threads read, as another argument, elements that other threads update by atomics."""
        if math.prod(record.dims) < 2:
            return
        updated = [j for j in forward.writes if j not in forward.stores and record.args[j].requires_grad]
        loaded = [i for i in forward.reads if i not in forward.writes or i in (*forward.serial, *forward.rewrites)]
        for i in loaded:
            for j in updated:
                if i == j or (j, i) in record.same or (i, j) in record.same or not record.args[i].requires_grad:
                    continue
                if share_memory(record.args[i], record.args[j]):
                    names = record.kernel.parameter_names
                    record.refusal = (
                        f"kernel `{record.kernel.key}`: the gradient passes through `{names[i]}`, a part of whose "
                        f"memory the kernel updates by atomics as `{names[j]}`, so that it depends on the order of "
                        "the threads; pass separate arrays"
                    )

    def _before_nested(self, record: Record, forward: Effects) -> None:
        """Note the arrays that a launch reaches through elements of its arguments."""
        self.has_nested = True
        require_gradients(record.args)
        written = {x.ptr: x for i, path in forward.nested_writes for x in nested.arrays_at(record.args[i], path)}
        for x in written.values():
            self.before_write(x, record)
        reached = [*forward.nested_reads, *forward.nested_writes]
        for i, path in dict.fromkeys(reached):
            found = nested.arrays_at(record.args[i], path)
            for x in found:
                self.nested.add(x, NestedReader(record, i, path, x))
            other = [x for x in found if (i, path) not in forward.nested_writes]
            if any(share_memory(x, w) for x in other for w in written.values()):
                record.refusal = _shared(record, i, path)
        for i in {*forward.reads, *forward.writes}:
            if any(share_memory(record.args[i], w) for w in written.values()):
                record.refusal = _shared(record, i)
        for i in forward.writes:
            found = [x for j, path in forward.nested_reads for x in nested.arrays_at(record.args[j], path)]
            if any(share_memory(record.args[i], x) for x in found):
                record.refusal = _shared(record, i)
        for x in written.values():
            self.note_result(x)

    def note_result(self, a: array) -> None:
        """Note that a recorded operation has written ``a``."""
        self._catch_up()
        self._add_result(a)

    def _catch_up(self) -> None:
        """Note what launches have written that were recorded natively."""
        for a in self.take_written():
            self._add_result(a)

    def _add_result(self, a: array) -> None:
        if a.requires_grad and not any(x is a for x in self.results.overlapping(a)):
            self.results.add(a, a)

    def forget_result(self, a: array) -> None:
        """Note that ``a`` holds plain numbers again."""
        self._catch_up()
        for x in self.results.overlapping(a):
            if (x.ptr, x.shape, x.strides) == (a.ptr, a.shape, a.strides):
                self.results.discard(x, x)

    def _is_result(self, a: array) -> bool:
        self._catch_up()
        return a.requires_grad and any(share_memory(x, a) for x in self.results.overlapping(a))

    def _keep_own(self, record: Record) -> None:
        """Copy the arrays that the launch overwrites and whose earlier elements its gradient needs."""
        self._note_uncopied(record, -1)
        try:
            program = adjoint_program(record, gradients_of(record))
        except RuntimeError:  # compile errors are among them
            return  # the backward pass says why
        if program is None:
            return
        first = dict(record.same)
        for i in program.effects.prelaunch_copies:
            for j in program_of(record).effects.writes:
                if first.get(i, i) != first.get(j, j) and share_memory(record.args[i], record.args[j]):
                    _refuse_overlap(record, i, j)  # a copy of one does not see what is written through the other
                    return
            record.prelaunch_copies[i] = clone(record.args[i], requires_grad=False)
            self._watch(record.args[i])

    def before_unrecorded(self, effects: Effects, args: Sequence[Any]) -> None:
        """Keep what a launch is about to overwrite that is not recorded itself."""
        self.before_writes([args[i] for i in effects.writes])
        for i, path in effects.nested_writes:
            self.before_writes(nested.arrays_at(args[i], path))

    def before_writes(self, arrays: Iterable[array]) -> None:
        """Keep arrays that something is about to overwrite which is not recorded."""
        for a in arrays:
            self.before_write(a, replaces=False)

    def before_write(
        self, a: array, writer: Record | None = None, position: int = -1, *, replaces: bool = True
    ) -> None:
        """Give a copy of ``a``'s memory to the records that need it, before it is overwritten.

        Args:
            a: The array.
            writer: The record of the launch that overwrites it, at ``position`` of its arguments.
            position: See ``writer``.
            replaces: Whether arrays that elements of ``a`` hold are replaced; launches without a ``writer`` do not.
        """
        copies: dict[Any, array] = {}
        for reader in self.nested.overlapping(a) if self.has_nested else ():
            if reader.record is not writer and share_memory(reader.array, a):
                reader.overwritten()
        for record, i in self.overlapping_readers(a):
            old = record.args[i]
            if not share_memory(old, a):
                continue
            if writer is None and replaces and a.element.holds:
                record.refusal = _replaced(record, i)
            if record is writer:
                if _needs(record, i):
                    _refuse_overlap(record, i, position)
                continue
            if _needs(record, i):
                key = (old.ptr, old.shape, old.strides, old.type_code)
                if i in record.changed():  # a copy comes too late
                    record.refusal = record.refusal or _changed(record, i)
                if key not in copies:
                    copies[key] = clone(old, requires_grad=False)
                    self._watch(old)
                record.saved[i] = copies[key]
            else:
                self._note_uncopied(record, i)
            self.discard_reader(record, i)

    def _note_uncopied(self, record: Record, position: int) -> None:
        """Note that what was not copied depends on which arrays of a launch have no gradient."""
        pairs = zip(record.types, record.args, strict=True)
        found = [a for t, a in pairs if isinstance(t, Array) and is_differentiable(t) and not a.requires_grad]
        if found:
            self.without.update((id(a), a) for a in found)
            self.uncopied.append((record, position))

    def require_same_gradients(self) -> None:
        """Refuse gradients that came after the copies which they need.

        Raises:
            RuntimeError: Such an array has a gradient now.
        """
        late = [a for a in self.without.values() if _has_gradient(a)]
        for record, position in self.uncopied if late else ():
            if position < 0:
                missing = _prelaunch_copies(record) - set(record.prelaunch_copies)
            else:
                missing = {position} if _needs(record, position) else set()
            if missing:
                name = record.kernel.parameter_names[min(missing)]
                raise RuntimeError(
                    f"{late[0]!r} had no gradient when the tape recorded, so that no copy was made of `{name}` of "
                    f"kernel `{record.kernel.key}`, which the gradient needs and which was overwritten; make the array "
                    "with requires_grad=True before recording"
                )

    def _watch(self, a: array) -> None:
        self.overwritten.setdefault(id(a), a)

    def note_elsewhere(self, record: Record) -> None:
        """Note a launch that something else does in its place.

        Whether that runs again is not known, so that only writes until the end of the recording are found.
        """
        if recorder.graph is None:
            record.runs_elsewhere()
            self.elsewhere.append(record)

    def end(self) -> None:
        """Note what the overwritten arrays hold now that the recording has ended."""
        for record in self.elsewhere:
            written = program_of(record).effects.writes
            for i in record.changed():
                if i not in written and i not in record.saved and _needs(record, i):
                    record.refusal = record.refusal or _changed(record, i)
            record.follow()
        self.elsewhere = []
        self.fingerprints = {key: _fingerprint(a) for key, a in self.overwritten.items()}

    def require_current(self) -> None:
        """Refuse to use copies that do not belong to what the arrays hold now.

        Raises:
            RuntimeError: An array that the recorded program overwrote has been changed since.
        """
        for key, a in self.overwritten.items():
            if _fingerprint(a) != self.fingerprints.get(key):
                raise RuntimeError(
                    f"this tape holds copies of {a!r}, which the recorded program overwrote, and the array has been "
                    "changed since; record the forward pass again before backward()"
                )


def _refuse_overlap(record: Record, i: int, j: int) -> None:
    names = record.kernel.parameter_names
    record.refusal = (
        f"kernel `{record.kernel.key}`: the gradient needs `{names[i]}`, and the kernel wrote over a part of its "
        f"memory through `{names[j]}`; pass separate arrays"
    )


def _shared(record: Record, i: int, path: str = "") -> str:
    name = record.kernel.parameter_names[i]
    place = f"{name}[...].{path}" if path else name
    return (
        f"kernel `{record.kernel.key}`: the gradient needs `{place}`, whose memory the kernel writes to as an array in "
        "an element as well, or the other way round; use separate arrays"
    )


def _changed(record: Record, i: int) -> str:
    return (
        f"kernel `{record.kernel.key}`: the gradient needs what `{record.kernel.parameter_names[i]}` held when the "
        f"tape recorded the launch, and {record.args[i]!r} has been written to since, unseen by the tape: write to it "
        "through wp.copy(), assign() or a launch while the tape records, or launch the kernel again"
    )


def _replaced(record: Record, i: int) -> str:
    return (
        f"kernel `{record.kernel.key}`: elements of `{record.kernel.parameter_names[i]}`, which hold arrays, have been "
        "assigned since the launch, so that their gradients are not known any more; assign them before"
    )


def _needs(record: Record, position: int) -> bool:
    try:
        program = adjoint_program(record, gradients_of(record))
    except RuntimeError:  # compile errors are among them
        return False  # the backward pass says why
    return program is not None and position in program.effects.reads


def _prelaunch_copies(record: Record) -> set[int]:
    """The arguments of which the adjoint of a launch replays a copy from before it."""
    try:
        program = adjoint_program(record, gradients_of(record))
    except RuntimeError:  # compile errors are among them
        return set()  # the backward pass says why
    return set() if program is None else set(program.effects.prelaunch_copies)


def _has_gradient(a: array) -> bool:
    a._attach_grad()
    return a.requires_grad


def _fingerprint(a: array) -> int:
    return a.device.backend.algorithms.fingerprint(a)
