"""Refusing launches that would surely access an array out of range, with the source line of the access.

The compiler says how far each launch of a kernel reaches (``analysis/extents.py``). Native code compares that with the
arrays of a launch and declines those that do not fit; here it is found out which one, and said what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import Excerpt
from warp_like.base.reach import Reach
from warp_like.compiler.signature import Role, prefixed
from warp_like.frontend.closure import sources
from warp_like.frontend.source import Source
from warp_like.ir.types import IndexedArray
from warp_like.runtime.kernels.kernel import Kernel

Shape = tuple[int, ...]


def require_extents(
    kernel: Kernel, reaches: Iterable[Reach], dims: Shape, roles: Sequence[Role], shapes: Sequence[Shape | None]
) -> None:
    """Refuse a launch that would access an array out of range whatever the kernel computes.

    Args:
        kernel: The kernel.
        reaches: How far its code reaches into the arrays.
        dims: The grid.
        roles: The parameters of the code.
        shapes: The shapes of their arguments; None for what is no array.

    Raises:
        IndexError: An array is too small for the grid.
    """
    for reach in reaches if math.prod(dims) else ():
        shape = shapes[reach.param]
        assert shape is not None
        if not reach.fits(dims, shape[reach.axis]):
            raise IndexError(_words(kernel, reach, dims, roles[reach.param], shape))


def _words(kernel: Kernel, reach: Reach, dims: Shape, role: Role, shape: Shape) -> str:
    name, axis = _named(kernel, role[1], reach.axis)
    site = f"kernel `{kernel.key}`, argument {kernel.positions[role[1]] + 1} `{prefixed(role[0], name)}`"
    along = f"dimension {axis} of " if len(shape) > 1 else ""
    index = f"index {_worst(reach, dims, shape)} is out of range for {along}an array of shape {shape}"
    help = _help(reach, f"{name}.shape[{axis}]")
    return "\n".join([f"{site}: {index}: {_reason(reach, dims)}", *_frames(kernel, reach.frames), f"  help: {help}"])


def _named(kernel: Kernel, i: int, axis: int) -> tuple[str, int]:
    """A parameter and an axis of it as the user knows them: the indices of an indexed array have its shape."""
    name = kernel.parameter_names[i]
    outer, _, field = name.rpartition(".")
    if outer and field.startswith("index") and isinstance(kernel.declared[kernel.positions[i]][1], IndexedArray):
        return outer, int(field.removeprefix("index"))
    return name, axis


def _worst(reach: Reach, dims: Shape, shape: Shape) -> int:
    """An index that is out of range."""
    farthest = reach.offset if reach.offset < 0 else reach.threads(dims) - 1 + reach.offset
    return shape[reach.axis] - 1 - farthest if reach.from_end else farthest


def _reason(reach: Reach, dims: Shape) -> str:
    if reach.dim is None:
        counted = f"element {-1 - reach.offset}, counted from the end" if reach.from_end else "this element"
        return f"every thread accesses {counted}"
    moved = f" {'-' if reach.offset < 0 else '+'} {abs(reach.offset)}" if reach.offset else ""
    along = f" along dimension {reach.dim}" if len(dims) > 1 else ""
    back = ", counted back from the last one" if reach.from_end else ""
    return f"every thread of the grid {dims} accesses the element at its own index{moved}{along}{back}"


def _help(reach: Reach, extent: str) -> str:
    if reach.dim is None:
        if reach.offset < 0:
            return f"indices run from 0 to {extent} - 1"
        return f"pass a larger array, or let the kernel ask first: if {extent} > {reach.offset}: ..."
    if reach.offset < 0:
        return f"let the first threads leave it out: if i >= {-reach.offset}: ..."
    moved = f" + {reach.offset}" if reach.offset else ""
    return f"launch fewer threads, pass a larger array, or let threads ask first: if i{moved} < {extent}: ..."


def _frames(kernel: Kernel, excerpts: Sequence[Excerpt]) -> list[str]:
    """The lines that show places in the source, as it stands in its files now: the code may come from the cache."""
    try:
        known = sources(kernel.source)
    except WarpCodegenError:  # the source of an ahead-of-time module is not here
        known = []
    return [e.text(_place(known, e)) for e in excerpts]


def _place(known: Sequence[Source], e: Excerpt) -> str:
    for source in known:
        named = (source.role, source.name) == (e.role, e.function) and e.line < len(source.lines)
        if named and source.lines[e.line].strip() == e.shown:
            return f"{source.file}:{source.first_line + e.line}:{e.col + 1}"
    return ""
