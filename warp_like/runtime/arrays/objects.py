"""Objects that kernels query by id: which are alive, who keeps them, and what launches must check.

An id is the address of a descriptor (``ir/objects.py``), which is an array of words on the object's device. The rules:

- An id that a program gets from an object (``grid.id``) is a number that keeps the object's memory, so whoever keeps
  the arguments of a launch keeps what it queries: commands, graphs, tapes. An id in an array keeps nothing.
- Memory that an object gives up stays until all launches have ended that were in flight (``keep_for_launches``).
  Launches on streams are noted with the memory of the objects that they query; of ids in arrays, with that of all
  objects of the kind.
- Native code compares the ids that a launch is given with the live objects (``native/objects.h``), and refuses others.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like import _native
from warp_like.base.warn import warn
from warp_like.ir import types as ir
from warp_like.ir.objects import DESCRIPTORS, NAMES, mark_of
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.recorder import recorder, refuse_capture, stream_capture
from warp_like.values.dtypes import uint64

if TYPE_CHECKING:
    from warp_like.compiler.artifact import Effects
    from warp_like.runtime.memory.device import Device

Lock = contextlib.AbstractContextManager[Any]

_descriptors: weakref.WeakValueDictionary[int, Descriptor] = weakref.WeakValueDictionary()


class Id(int):
    """An id that keeps what it refers to."""

    descriptor: Descriptor

    def __reduce__(self) -> Any:
        return int, (int(self),)


class Copied:
    """The copy of an array, or of other memory that has a gradient, into the memory of an object.

    Args:
        pass_on: Adds the gradient of the object's memory to that of ``source``, and clears it.
        source: What was copied.
        memory: The object's memory.
        before: The copy that ``source`` was made by, if it belongs to an object itself.
    """

    def __init__(self, pass_on: Callable[[], None], source: array, memory: array, before: Copied | None = None) -> None:
        self.pass_on = pass_on
        self.arrays = [source, memory]
        self.before = before


class Descriptor:
    """The memory of an object.

    Args:
        kind: Which kind of object (``contract.ObjectKind``).
        device: Where it lies.

    Attributes:
        changes: How often the object has changed.
        graded: The arrays of floats that kernels read from here, by the words that say where their gradients are.
        read: Other arrays that kernels read from here and that may change.
        copied: How the object's own memory got there, where the gradient goes on to what was copied. Nobody else writes
            this memory.
        passing: Held by adjoints that add to the gradient of a copy, and while that is passed on.

    Raises:
        RuntimeError: A capture is running, which would write it when the graph runs.
    """

    def __init__(self, kind: int, device: Device) -> None:
        refuse_capture(f"making a {NAMES[kind]}")
        self.kind = kind
        self.device = device
        self.changes = 0
        self._words = new_array(element_type(uint64), (len(DESCRIPTORS[kind]),), device, zero=True)
        self._held: list[array] = [self._words]
        self._captured: list[array] = []  # of these, what graphs show
        self._kept: Descriptor | None = None
        self.graded: dict[str, array] = {}
        self.read: list[array] = []
        self.copied: Copied | None = None
        self.passing = threading.RLock()
        self._numbers: dict[str, int] = {}
        self._gradients: dict[str, array | None] = {}
        self._adjoints = 0  # how many are under way that add to these
        self._showing = threading.RLock()  # while this changes, and the words
        self._shown_by_graphs = False  # of streams, whose runs nobody tells of
        self.number: int = self._words.ptr
        _native.add_object(self.number, kind, device.place)
        _descriptors[self.number] = self
        weakref.finalize(self, _release, self.number, self._held).atexit = False

    @property
    def id(self) -> Id:
        """The object's id, which keeps its memory."""
        made = Id(self.number)
        made.descriptor = self
        return made

    @property
    def owners(self) -> list[Any]:
        """The owners of all memory that kernels reach from here."""
        return [a.owner for a in self._held]

    def publish(self, **words: array | float | int | None) -> None:
        """Write the descriptor: an array is its address, None a null pointer, a float its bits; what is left out is 0.

        The arrays of before are given up. Under a capture they stay, as kernels find them until the graph runs. What a
        graph shows stays for good: the graph may run at any time, and may be gone when kernels find what it has shown.
        """
        arrays = [a for a in words.values() if isinstance(a, array)]
        others = [a for a in self._held[1:] if not any(a is x for x in (*arrays, *self._captured))]
        if recorder.graph is not None or stream_capture() is not None:
            self._captured += [a for a in arrays if not any(a is x for x in self._captured)]
            arrays += others
        else:
            for old in others:
                _native.keep_for_launches(old)
        self._held[1:] = [*arrays, *(a for a in self._captured if not any(a is x for x in arrays))]
        self._numbers = {"mark": mark_of(self.kind), **{name: _word(value) for name, value in words.items()}}
        self._write()
        self.changed()

    def _write(self) -> None:
        self._words.assign(np.array([self._numbers.get(name, 0) for name in DESCRIPTORS[self.kind]], np.uint64))

    def gradients(self) -> dict[str, array | None]:
        """Return the gradients that the arrays have now, by the words that say where they are.

        Raises:
            RuntimeError: One is not contiguous.
        """
        found = {name: a.grad for name, a in self.graded.items()}
        for g in found.values():
            if g is not None and not g.is_contiguous:
                raise RuntimeError(f"the gradient of an array of a {NAMES[self.kind]} is contiguous, got {g!r}")
        return found

    def show(self, found: dict[str, array | None]) -> None:
        """Let adjoints add to these gradients until ``hide``; under a capture, in each run of the graph."""
        if recorder.graph is not None:
            recorder.graph.add_call("show gradients", functools.partial(self._begin, found))
            return
        graph = None if self.device.is_cpu else stream_capture()
        if graph is not None:
            self._shown_by_graphs = True
            for g in found.values():
                if g is not None:
                    graph.keep(g)
        self._begin(found)

    def hide(self) -> None:
        """End what ``show`` has begun."""
        if recorder.graph is not None:
            recorder.graph.add_call("hide gradients", self._end)
        else:
            self._end()

    def _begin(self, gradients: dict[str, array | None]) -> None:
        with self._showing:
            self._adjoints += 1
            self._show(gradients)

    def _end(self) -> None:
        with self._showing:
            self._adjoints -= 1
            if not self._adjoints:  # else an adjoint of another thread is under way
                self._show(dict.fromkeys(self._gradients))

    def _show(self, gradients: dict[str, array | None]) -> None:
        self._gradients = gradients  # which adjoints reach for as long as they are shown
        now = {name: _word(g) for name, g in gradients.items()}
        if self._shown_by_graphs or any(self._numbers.get(name, 0) != number for name, number in now.items()):
            self._numbers.update(now)
            self._write()

    def keep(self, other: Descriptor) -> None:
        """Keep another descriptor, to which this one refers."""
        self._kept = other

    def changed(self) -> None:
        """Note that what kernels find has changed."""
        self.changes += 1
        _changes[self.kind] = _changes.get(self.kind, 0) + 1


_changes: dict[int, int] = {}
"""How often objects of each kind have changed."""


def _word(value: array | float | int | None) -> int:
    if isinstance(value, array):
        return int(value.ptr)
    if isinstance(value, float):
        return int(np.float64(value).view(np.uint64))
    return 0 if value is None else value


def _release(number: int, held: list[array]) -> None:
    _native.remove_object(number)
    for a in held:
        _native.keep_for_launches(a)


class Queried:
    """Base of the classes whose objects kernels query: as annotations of parameters, they stand for a uint64.

    Attributes:
        device: Where the object lies.
    """

    _ir_type_ = ir.uint64
    _kind: int
    _descriptor: Descriptor
    device: Device

    @property
    def id(self) -> int:
        """What kernels take for the object: a uint64. It keeps the object's memory; a copy in an array does not."""
        return self._descriptor.id

    def __reduce__(self) -> Any:
        raise TypeError(f"a {NAMES[self._kind]} can't be pickled or copied: it is memory that ids refer to")


def id_of(value: Any) -> int | None:
    """Return the id that ``value`` is or has, one that keeps its object where that is alive; None for other values."""
    if isinstance(value, Queried):
        return value._descriptor.id
    if isinstance(value, int) and not isinstance(value, (bool, Id)):
        found = _descriptors.get(value)
        return value if found is None else found.id
    return value if isinstance(value, Id) else None


# --- launches ---


def unknown(effects: Effects, device: Device, args: Sequence[Any]) -> tuple[int, int] | None:
    """Return the first parameter whose argument is no id of a live object, and the kind of object; None for none."""
    kinds: dict[int, list[int]] = {}
    for position, kind in effects.objects:
        kinds.setdefault(position, []).append(kind)
    for position, any_of in kinds.items():
        given = 0 if position < 0 else int(args[position])
        if given and not any(_native.is_object(given, kind, device.place) for kind in any_of):
            return position, any_of[0]
    return None


def refusal(kind: int, device: Device, given: int) -> str:
    """Say what is wrong with an argument that is no id of a live object."""
    other = _descriptors.get(given)
    what = f"the id of a {NAMES[kind]} that is alive on {device}, or 0 for none"
    if other is None:
        return f"expected {what}, got {given}, which refers to nothing; keep the object for as long as ids are used"
    return f"expected {what}, got that of a {NAMES[other.kind]} on {other.device}"


def _queried(effects: Effects, args: Sequence[Any]) -> list[Descriptor]:
    found: dict[int, Descriptor] = {}
    for position, kind in effects.objects:
        given = list(_descriptors.values()) if position < 0 else [_descriptors.get(int(args[position]))]
        found.update({d.number: d for d in given if d is not None and d.kind == kind})
    return list(found.values())


def before_launch(effects: Effects, place: Device, args: list[Any], stream: Any) -> None:
    """Tell streams of the use of memory that a launch reaches by ids, as the native path does for arguments."""
    streams = place.backend.streams
    if streams is not None and effects.objects:
        queue = streams.stream_for(place, stream, *(x.owner for x in args if isinstance(x, _native.Array)))
        here = (d for d in _queried(effects, args) if d.device is place)
        streams.note_use(place, queue, [owner for d in here for owner in d.owners])


def recorded(key: str, effects: Effects, args: Sequence[Any]) -> tuple[Callable[[], None], list[array]]:
    """Return what a tape keeps of the objects that a launch queries.

    That is a function for before the adjoint of the launch, which refuses objects that have changed since, and the
    arrays whose gradients the adjoint adds to.
    """
    found = _queried(effects, args)
    changes = [d.changes for d in found]
    kinds = [(kind, _changes.get(kind, 0)) for i, kind in effects.objects if i < 0]
    shared = [(d.kind, a) for d in found for a in (*d.graded.values(), *d.read) if d.copied is None]
    written = [(kind, a, _fingerprint(a)) for kind, a in shared]

    def prepare() -> None:
        changed = [d.kind for d, count in zip(found, changes, strict=True) if d.changes != count]
        changed += [kind for kind, count in kinds if _changes.get(kind, 0) != count]
        changed += [kind for kind, a, number in written if _fingerprint(a) != number]
        if changed:
            raise RuntimeError(
                f"the gradient of kernel `{key}` needs the {NAMES[changed[0]]} that it queried as it was then, and it "
                "has been built anew or its arrays have been written to since; use an object for each step, or "
                "backward() before it changes"
            )

    return prepare, [a for d in found for a in d.graded.values()]


def require_gradients(effects: Effects, args: Sequence[Any]) -> None:
    """Refuse gradients of objects to which the adjoint of a launch can't add.

    Raises:
        RuntimeError: One is not contiguous.
    """
    for d in _queried(effects, args):
        d.gradients()


@contextlib.contextmanager
def _shown(effects: Effects, args: Sequence[Any]) -> Iterator[None]:
    found = [d for d in _queried(effects, args) if d.graded]
    with locked(d.passing for d in found if d.copied is not None):
        shown = [(d, d.gradients()) for d in found]
        for d, gradients in shown:
            d.show(gradients)
        try:
            yield
        finally:
            for d in found:
                d.hide()


_NOTHING_TO_SHOW: Lock = contextlib.nullcontext()
_hiding = threading.local()


def gradients_shown(effects: Effects, args: Sequence[Any]) -> Lock:
    """Show the objects that an adjoint launch queries where gradients are, while it runs.

    Other adjoints are made so that they do not look for them (``Signature.spares_objects``): those that operators run,
    and Hessian-vector products.
    """
    hidden = not effects.objects or gradients_are_hidden()
    return _NOTHING_TO_SHOW if hidden else _shown(effects, args)


def gradients_are_hidden() -> bool:
    """Return whether adjoints of this thread add to no gradients of objects."""
    return bool(getattr(_hiding, "on", False))


@contextlib.contextmanager
def gradients_hidden() -> Iterator[None]:
    """Let no adjoint of this thread add to gradients of objects."""
    before, _hiding.on = gradients_are_hidden(), True
    try:
        yield
    finally:
        _hiding.on = before


def warn_of_gradients(effects: Effects, args: Sequence[Any], what: str) -> None:
    """Warn where an object that a launch queries has gradients, to which its adjoint is not going to add."""
    if not effects.objects:
        return
    for d in _queried(effects, args):
        if any(a.requires_grad for a in d.graded.values()):
            warn(f"{what}: no gradient passes to the {NAMES[d.kind]} that it queries; record the launch on a wp.Tape")
            return


@contextlib.contextmanager
def locked(locks: Iterable[Lock]) -> Iterator[None]:
    """Hold locks, taken in the same order by all threads."""
    with contextlib.ExitStack() as stack:
        for lock in sorted(locks, key=id):
            stack.enter_context(lock)
        yield


def copies(effects: Effects, args: Sequence[Any]) -> list[Copied]:
    """Return the copies that the memory was made by which a launch reads."""
    return [d.copied for d in _queried(effects, args) if d.copied is not None]


def pass_on(effects: Effects, args: Sequence[Any]) -> None:
    """Let what an adjoint launch has added to the gradients of copies reach the arrays that were copied."""
    for copied in copies(effects, args):
        found: Copied | None = copied
        while found is not None:
            found.pass_on()
            found = found.before


def _fingerprint(a: array) -> int:
    return a.device.backend.algorithms.fingerprint(a)
