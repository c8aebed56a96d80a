"""The one place that decides whether another library can have a view of an array, or needs a copy.

``obstacle`` is the decision, by what is known of the array and of the library: nothing is tried out. ``source`` turns
it into the array to look at: the array itself, or a copy of it. ``view.py`` is the same for the way in.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.memory.device import Device


@dataclass(frozen=True)
class Library:
    """What arrays of a library can be.

    Attributes:
        name: Its name, for messages.
        function: The name of the function that exports to it.
        dtype: Its dtype of a scalar type; raises TypeError where there is none.
        narrows: Says what becomes of elements of a scalar type that the library would convert.
        readonly: Whether it can be kept from writing.
        strides: Whether it takes these (in bytes), told by a sentence that says what it lacks.
        alignment: What addresses have to be multiples of.
        devices: The kinds of devices that it knows.
    """

    name: str
    function: str
    dtype: Callable[[Any], Any]
    narrows: Callable[[ir.Scalar], str | None] = lambda t: None
    readonly: bool = False
    strides: Callable[[array], str | None] = lambda a: None
    alignment: int = 1
    devices: tuple[str, ...] = ("cpu", "cuda")


def require_device(library: Library, device: Device) -> Device:
    """Return ``device``, which the library has a name for.

    Raises:
        ValueError: It has none.
    """
    if device.kind not in library.devices:
        raise ValueError(f"{library.name} does not know devices such as {device}")
    return device


def negative_strides(name: str, a: array) -> str | None:
    """Say that a library knows no negative strides."""
    return f"has negative strides {a.strides}, which {name} has not" if any(s < 0 for s in a.strides) else None


def gaps(name: str, a: array) -> str | None:
    """Say that a library knows only memory without gaps and repetitions, its dimensions in any order."""
    expected = a.itemsize
    for stride, extent in sorted((s, n) for s, n in zip(a.strides, a.shape, strict=True) if n != 1):
        if stride != expected and a.size:
            return f"has strides {a.strides}, and the arrays of {name} have no gaps"
        expected *= extent
    return None


def require_exportable(library: Library, a: Any) -> None:
    """Refuse what neither a view nor a copy makes an array of the library's.

    Raises:
        TypeError: ``a`` is no array, or the library has no dtype for its elements, or does not know its device.
    """
    if not isinstance(a, array):
        raise TypeError(f"{library.function}() needs a warp_like array, got {type(a).__name__}")
    if a.device.kind not in library.devices:
        raise TypeError(
            f"{library.function}(): {a!r} lies on {a.device}, a device that {library.name} does not know; "
            'copy it to the host first, with a.to("cpu")'
        )
    if a.element.is_struct:
        raise TypeError(f"{a!r} holds structs, for which {library.name} has no dtype; a.numpy() gives its fields")
    library.dtype(a.element.scalar)


def obstacle(library: Library, a: array) -> str | None:
    """Return why the library can't have a view of ``a``, in words that follow "the array"; None if it can."""
    if a.readonly and not library.readonly:
        return f"is read-only, and {library.name} has no read-only tensors"
    scalar = a.element.scalar
    assert scalar is not None
    narrowed = library.narrows(scalar)
    if narrowed is not None:
        return narrowed
    if any(s % (scalar.bits // 8) for s in a.strides):
        return f"has strides {a.strides}, which are no whole numbers of {scalar}"
    if a.size and a.ptr % library.alignment:
        return f"lies at {a.ptr:#x}, and {library.name} aligns its arrays to {library.alignment} bytes"
    return library.strides(a)


def require_view(library: Library, a: array) -> None:
    """Refuse an array that the library can't have a view of.

    Raises:
        ValueError: It can't; the message says why, and what to do.
    """
    why = obstacle(library, a)
    if why is not None:
        raise ValueError(
            f"{a!r} can't be shared: it {why}; the array's method {library.function}() copies where it must"
        )


def source(library: Library, a: array, copy: bool | None, elsewhere: str | None = None) -> array:
    """Return the array to make a view of: ``a``, or a copy of it, by the rules of ``copy``.

    Args:
        library: Who gets the view.
        a: The array.
        copy: True for a copy, False for a view, None for a view where it is possible.
        elsewhere: The device that the result is for, if it is not the array's.

    Raises:
        TypeError: ``copy`` is something else, or the library has no such dtype.
        ValueError: ``copy`` is False, and a view is impossible.
    """
    require_exportable(library, a)
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"{library.function}(): copy is None, True or False, got {copy!r}")
    why = obstacle(library, a)
    if copy is False:
        if elsewhere is not None:
            why = f"lies on {a.device}, and the result is to lie on {elsewhere}"
        if why is not None:
            raise ValueError(f"{library.function}(copy=False): {a!r} can't be shared: it {why}")
    # What goes to another device is copied on the way.
    return a._copied() if why is not None or (copy and elsewhere is None) else a


def watch(a: array, view: Any) -> None:
    """Have writes to the memory of ``a``, by kernels or the host, counted as changes in place of ``view``.

    This is for memory of our own; that of a tensor has it counted by that tensor.
    """
    owner = a.owner
    if type(owner) is _native.Buffer:
        owner.watchers = [*(weak for weak in owner.watchers or () if weak() is not None), weakref.ref(view)]
