"""Arrays that stand in the elements of arrays of structs, and how long they live.

An element holds such an array as an address, extents and strides (``ir/layout.py``), which keeps nothing alive. Kernels
work on the arrays and never change which they are (``passes/nested_arrays.py``), so the host can keep them. The rule:

**An array lives while an element holds it, and until all launches have ended that were in flight when the last element
gave it up.**

This module keeps it for all devices, by the object that owns the memory of the elements:

- Every write of the host to elements goes through ``writing``. Before the write it notes the arrays that the elements
  are about to hold. Afterwards it gives up those that no element holds any more. The memory of the elements tells
  which: so copies, views, zeros and writes of several threads need no account.
- What is given up goes to ``keep_for_launches``, since a launch in flight may have read the old element. It does not
  matter which launch, or how the launch reaches the elements. Work on CUDA streams is noted with the memory that it
  uses (``before_launch``), and memory is freed in their order.
- Views share the owner. Copies and clones are writes to other elements. What a graph or a tape writes later, it keeps
  until then (``holding`` in ``host_copy``).
- When the memory of the elements ends, so does what is kept for it.

To look at the memory takes as long as reading it. So that happens after each write if the memory is small, and else as
soon as what was given up since may weigh as much as the elements.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like import _native
from warp_like.base.forking import Order, held_by_forks
from warp_like.ir import types as ir
from warp_like.ir.layout import type_code
from warp_like.runtime.arrays import interop_hooks
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.recorder import recorder
from warp_like.values.dtypes import uint64
from warp_like.values.struct import StructInstance

if TYPE_CHECKING:
    from warp_like.compiler.artifact import Effects
    from warp_like.runtime.arrays.array import array
    from warp_like.runtime.memory.device import Device

Place = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""What an element says of an array, and of what type it is: address, shape, strides, type code."""

SMALL = 4096
"""Bytes of elements that are looked at after each write."""
FAR = 1 << 20
"""The same for memory that has to be copied to the host first: bytes that have to be given up."""
OBJECT = 256
"""About as many bytes does an array take beside its elements."""


class _Held:
    """The arrays that the elements in some memory hold, and some that they held before.

    Attributes:
        arrays: By what elements say of them; at one place, there is one for each owner of memory.
        weight: How many bytes they take.
        writes: How many writes are under way. Meanwhile nothing is given up.
        changes: How many writes there were.
        debt: How many bytes may have been given up since the memory was last looked at.
        blind: Whether elements lie where the owner's memory does not tell, so that nothing is ever given up.
    """

    def __init__(self) -> None:
        self.arrays: dict[Place, dict[int, Any]] = {}
        self.weight = self.writes = self.changes = self.debt = 0
        self.blind = False

    def all(self) -> list[Any]:
        """Return all arrays."""
        return [x for same in list(self.arrays.values()) for x in list(same.values())]

    def note(self, arrays: Iterable[Any]) -> set[Place]:
        """Keep ``arrays``, and return their places."""
        noted = set()
        for x in arrays:
            place, owner = _place(x), id(_owner(x))
            noted.add(place)
            same = self.arrays.setdefault(place, {})
            if same.pop(owner, None) is None:
                self.weight += _weight(x)
                self.debt += _weight(x)
            same[owner] = x  # the last one, which `find` gives
        return noted

    def take(self, places: Iterable[Place]) -> list[Any]:
        """Give up what is kept for ``places``, of which another thread may have given up some."""
        taken = [x for place in places for x in self.arrays.pop(place, {}).values()]
        self.weight -= sum(map(_weight, taken))
        self.debt = 0
        return taken


_held: weakref.WeakKeyDictionary[Any, _Held] = weakref.WeakKeyDictionary()
_lock = held_by_forks(threading.RLock(), Order.BRIEF)  # a collection may run any code while it is held


def _owner(a: Any) -> Any:
    """What keeps the memory alive in the end."""
    owner = a.owner
    while isinstance(owner, _native.Array):
        owner = owner.owner
    return owner


def _of(a: Any) -> _Held:
    owner = _owner(a)
    held = _held.get(owner)
    if held is None:
        with _lock:
            held = _held.setdefault(owner, _Held())
    return held


def _place(x: Any) -> Place:
    return x.ptr, tuple(x.shape), tuple(x.strides), x.type_code


def _weight(x: Any) -> int:
    return int(x.size * x.itemsize) + OBJECT


# --- writes -----------------------------------------------------------------------------------------------------


def arrays_of(a: array, elements: Iterable[Any]) -> list[Any]:
    """Return the arrays in ``elements``, structs that are about to be written to ``a``.

    Raises:
        ValueError: One of them lies on another device than ``a``, or is read-only, which kernels could not know.
    """
    found = [x for e in elements if isinstance(e, StructInstance) for x in e._leaves() if isinstance(x, _native.Array)]
    for x in found:
        if x.device is not a.device:
            raise ValueError(
                f"an element of {a!r}, which lies on {a.device}, can't hold {x!r}, which lies on {x.device}"
            )
        if x.readonly:
            raise ValueError(f"an element of {a!r} can't hold {x!r}, which is read-only: a kernel might write it")
    return found


def require_device(a: array, source: array) -> None:
    """Refuse to copy elements of ``source``, if they hold arrays, to ``a`` on another device.

    Raises:
        ValueError: The two lie on different devices.
    """
    if source.device is not a.device and _of(source).arrays:
        raise ValueError(
            f"the elements of {source!r} hold arrays on {source.device}, so they can't be copied to {a.device}; "
            "make copies of the arrays there, and new elements of these"
        )


@contextlib.contextmanager
def writing(a: array, holding: Any = ()) -> Iterator[None]:
    """Keep what the elements of ``a`` hold, around a write to some of them.

    Args:
        a: The array. Nothing happens if its elements can't hold arrays.
        holding: The arrays that the new elements hold; or an array, from which elements are copied.

    Raises:
        ValueError: ``holding`` is an array on another device, and its elements hold arrays.
    """
    if not a.element.holds:
        yield
        return
    source = _of(holding) if isinstance(holding, _native.Array) else None
    if source is not None:
        require_device(a, holding)
    held = _of(a)
    with _lock:
        held.writes += 1
        held.changes += 1
        held.blind = held.blind or not _lies_in(a, _owner(a))
        if source is not None:
            source.writes += 1  # so that it gives up nothing that is being copied
        noted = held.note(holding if source is None else source.all())
    try:
        yield
    finally:
        with _lock:
            if source is not None:
                source.writes -= 1
                noted |= held.note(source.all())  # another thread may have written to it meanwhile
            held.writes -= 1
        if len(held.arrays) > len(noted):
            _give_up(a, held)


def _give_up(a: array, held: _Held) -> None:
    """Give up the arrays that no element holds any more, if it is time to look."""
    if held.blind:
        return
    owner = _owner(a)
    nbytes = owner.nbytes
    with _lock:
        written = a.size * a.itemsize
        held.debt += written + held.weight * written // nbytes
        if held.writes or not _is_time(a, held, nbytes):
            return
        changes, places = held.changes, list(held.arrays)
    words = _words(a, owner, nbytes)
    if nbytes > SMALL:
        words = words[np.isin(words, np.array([place[0] for place in places], np.uint64))]
    there = set(words.tolist())
    with _lock:
        if held.changes != changes:
            return  # whoever writes now looks afterwards
        given_up = held.take([place for place in places if place[0] not in there])
    for x in given_up:
        _native.keep_for_launches(x)


def _lies_in(a: array, owner: Any) -> bool:
    """Whether all elements lie in memory that ``owner`` knows, which those below an address do not."""
    if type(owner) is not _native.Buffer or owner.nbytes == 0:
        return False
    below = sum((n - 1) * s for n, s in zip(a.shape, a.strides, strict=True) if s < 0 and n)
    return bool(owner.ptr <= a.ptr + below)


def _is_time(a: array, held: _Held, nbytes: int) -> bool:
    if a.device.backend.shares_host_memory:
        return nbytes <= SMALL or held.debt > nbytes
    return held.debt > max(nbytes, FAR) and recorder.graph is None and not a.device.is_capturing


def _words(a: array, owner: Any, nbytes: int) -> Any:
    """The memory that ``owner`` owns, as integers, among which are the addresses in all elements."""
    count = nbytes // 8
    if a.device.backend.shares_host_memory:
        return np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(owner.ptr))
    words, element, device = _native.Array.__new__(type(a)), element_type(uint64), a.device
    kind, ordinal = device.dlpack_type, max(device.ordinal, 0)
    words._bind(owner.ptr, (count,), None, element.code, 8, True, element.host, device, owner, kind, ordinal)
    return device.backend.read(words)


# --- reads ------------------------------------------------------------------------------------------------------


def find(a: array, t: ir.Array, record: Any) -> Any:
    """Return the array of type ``t`` that ``record``, what an element of ``a`` says of it, stands for.

    Raises:
        ValueError: Nobody has put such an array into an element of ``a``.
    """
    place = place_in(t, record)
    if place[0] == 0:
        return None
    found = _of(a).arrays.get(place)
    if not found:
        raise ValueError(f"an element of {a!r} holds an address at which no array is known that was put there")
    return next(reversed(found.values()))


def place_in(t: ir.Array, record: Any) -> Place:
    """Return what ``record``, a part of an element, says of an array of type ``t``."""
    shape, strides = (tuple(int(n) for n in np.atleast_1d(record[name])) for name in ("shape", "strides"))
    return int(record["data"]), shape, strides, type_code(t.dtype)


def arrays_in(a: array) -> list[array]:
    """Return the arrays that elements of ``a`` hold, and those in their elements; some may have been replaced."""
    found: dict[int, Any] = {}
    waiting = [a]
    while waiting:
        holder = waiting.pop()
        for x in _of(holder).all() if holder.element.holds else ():
            if id(x) not in found:
                found[id(x)] = x
                waiting.append(x)
    return list(found.values())


def arrays_at(a: array, path: str) -> list[array]:
    """Return the arrays that stand in the field ``path`` of the elements of ``a``, and those in their elements."""
    t: Any = a.element.type
    records = np.array(a.numpy()).ravel()
    for name in path.split("."):
        records, t = records[name], t.field_type(name)
    known = _of(a).arrays
    direct = [x for place in {place_in(t, r) for r in records} for x in known.get(place, {}).values()]
    return [*direct, *(y for x in direct if x.element.holds for y in arrays_in(x))]


# --- launches ---------------------------------------------------------------------------------------------------


def used_by(effects: Effects) -> bool:
    """Return whether a kernel works on arrays that elements of its arguments hold."""
    return bool(effects.nested_reads or effects.nested_writes)


def before_launch(effects: Effects, place: Device, args: list[Any], stream: Any) -> None:
    """Tell of the use of the arrays that a launch reaches through elements, as the native path does for arguments."""
    streams = place.backend.streams
    if streams is not None:
        queue = streams.stream_for(place, stream, *(x.owner for x in args if isinstance(x, _native.Array)))
        reached = {i for i, _ in (*effects.nested_reads, *effects.nested_writes)}
        streams.note_use(place, queue, [x.owner for i in reached for x in arrays_in(args[i])])
    for i, _ in effects.nested_writes:
        for x in arrays_in(args[i]):
            interop_hooks.before_write(x.owner)
