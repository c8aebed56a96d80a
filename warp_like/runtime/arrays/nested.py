"""Arrays that stand in the elements of arrays of structs.

An element holds such an array as an address, extents and strides (``ir/layout.py``), which keeps nothing alive. That is
done here: whoever writes elements notes the arrays in them, and these stay as long as the memory of the elements does.
Kernels work on the arrays and never change which they are (``passes/nested_arrays.py``).

The gradient of an array of structs is one of the same structs. Where an element holds an array, the element of the
gradient holds the gradient of that array; ``refresh_gradients`` sees to it before each backward pass.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.ir.layout import type_code
from warp_like.runtime.arrays import interop_hooks
from warp_like.runtime.arrays.recording import put
from warp_like.values.struct import StructInstance

if TYPE_CHECKING:
    from warp_like.compiler.artifact import Effects
    from warp_like.runtime.arrays.array import array
    from warp_like.runtime.memory.device import Device

Place = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""What an element says of an array, and of what type it is: address, shape, strides, type code."""

_held: weakref.WeakKeyDictionary[Any, dict[Place, array]] = weakref.WeakKeyDictionary()


def hold(a: array, elements: Iterable[Any]) -> None:
    """Keep the arrays in ``elements``, structs that are about to be written to ``a``, as long as its memory.

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
    _keep(a, found)


def adopt(a: array, source: array) -> None:
    """Keep what the elements of ``source`` hold, which are about to be copied to ``a``.

    Raises:
        ValueError: The two lie on different devices.
    """
    arrays = _known(source).values()
    if arrays and source.device is not a.device:
        raise ValueError(
            f"the elements of {source!r} hold arrays on {source.device}, so they can't be copied to {a.device}; "
            "make copies of the arrays there, and new elements of these"
        )
    _keep(a, arrays)


def _keep(a: array, arrays: Iterable[Any]) -> None:
    known = _known(a)
    if len(known) > 64 and a.device.backend.shares_host_memory:
        _forget_unused(a, known)
    known.update((_place(x), x) for x in arrays)


def _forget_unused(a: array, known: dict[Place, array]) -> None:
    """Let go of arrays that no element holds any more, once they are far more than there are elements."""
    owner = _owner(a)
    fields = [leaf for _, leaf in ir.leaf_fields(a.element.type) if isinstance(leaf, ir.Array)]  # type: ignore[arg-type]
    if type(owner) is not _native.Buffer or len(known) <= 2 * len(fields) * (owner.nbytes // a.itemsize) + 64:
        return
    there = set((ctypes.c_uint64 * (owner.nbytes // 8)).from_address(owner.ptr))
    for place in [p for p in known if p[0] not in there]:
        del known[place]


def _owner(a: Any) -> Any:
    """What keeps the memory alive in the end."""
    owner = a.owner
    while isinstance(owner, _native.Array):
        owner = owner.owner
    return owner


def _known(a: Any) -> dict[Place, array]:
    return _held.setdefault(_owner(a), {})


def _place(x: Any) -> Place:
    return x.ptr, tuple(x.shape), tuple(x.strides), x.type_code


def find(a: array, t: ir.Array, record: Any) -> Any:
    """Return the array of type ``t`` that ``record``, what an element of ``a`` says of it, stands for.

    Raises:
        ValueError: Nobody has put such an array into an element of ``a``.
    """
    place = _place_in(t, record)
    if place[0] == 0:
        return None
    found = _known(a).get(place)
    if found is None:
        raise ValueError(f"an element of {a!r} holds an address at which no array is known that was put there")
    return found


def _place_in(t: ir.Array, record: Any) -> Place:
    shape, strides = (tuple(int(n) for n in np.atleast_1d(record[name])) for name in ("shape", "strides"))
    return int(record["data"]), shape, strides, type_code(t.dtype)


def arrays_in(a: array) -> list[array]:
    """Return the arrays that elements of ``a`` hold, and those in their elements; some may have been replaced."""
    found: dict[int, Any] = {}
    waiting = [a]
    while waiting:
        holder = waiting.pop()
        for x in _known(holder).values() if holder.element.holds else ():
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
    known = _known(a)
    places = {_place_in(t, r) for r in records}
    direct = [known[p] for p in places if p in known]
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


# --- gradients --------------------------------------------------------------------------------------------------


def require_gradients(args: Iterable[Any]) -> None:
    """Give each array of structs a gradient that holds an array which has one: there its gradient is found."""
    for a in _holders(args):
        if not a.requires_grad and any(x.requires_grad for x in arrays_in(a)):
            a.requires_grad = True


def refresh_gradients(args: Iterable[Any]) -> None:
    """Let the elements of gradients hold the gradients of the arrays that the elements hold, as these are now.

    An array without a gradient is answered by memory of its size that nobody looks at.
    """
    for a in _holders(args):
        if a.grad_array is not None:
            records, gradients = np.array(a.numpy()), np.array(a.grad_array.numpy())
            _keep(a.grad_array, _paired(a, a.element.type, records.ravel(), gradients.ravel()))
            put(a.grad_array, gradients)


def _holders(args: Iterable[Any]) -> Iterator[Any]:
    for a in args:
        if isinstance(a, _native.Array) and a.element.holds and ir.is_differentiable(a.element.type):  # type: ignore[attr-defined]
            yield a


def _paired(a: Any, t: ir.Struct, records: Any, gradients: Any) -> Iterator[Any]:
    """Write the places of gradients into ``gradients``, and give the arrays."""
    for name, field in t.fields:
        if isinstance(field, ir.Struct):
            yield from _paired(a, field, records[name], gradients[name])
        elif isinstance(field, ir.Array) and ir.is_differentiable(field):
            made: dict[Place, Any] = {}
            for record, gradient in zip(records[name], gradients[name], strict=True):
                place = _place_in(field, record)
                if place not in made:
                    x = find(a, field, record)
                    made[place] = None if x is None else x.grad if x.grad is not None else x._like(x.shape)
                    if x is not None and x.grad is None:
                        made[place].zero_()
                    yield from () if x is None else (made[place],)
                g = made[place]
                gradient["data"], gradient["shape"], gradient["strides"] = (
                    (0, 0, 0) if g is None else (g.ptr, g.shape, g.strides)
                )
