"""Adding the elements of one array to those of another, as gradients of copies and of earlier passes are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.creation import clone
from warp_like.runtime.arrays.elementwise import kept_builtin
from warp_like.runtime.arrays.operation_hooks import operations
from warp_like.runtime.arrays.recording import put
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import bfloat


def add_elements(to: array, other: array) -> None:
    """Add the elements of ``other``, which has the same shape and dtype, to ``to``; of structs, their float fields."""
    if recorder.graph is not None:
        recorder.graph.add_write(f"add to {to!r}", to, other, partial(add_elements, to, other), adds=True)
        return
    if isinstance(to.element.type, ir.Struct):
        total = to.numpy()
        _add_records(to.element.type, total, other.numpy())
        if not to.device.backend.shares_host_memory:  # what NumPy got is a copy
            put(to, total)
    elif to.device.backend.shares_host_memory:
        to.assign(to._values() + other._values())
    else:  # by a kernel, which a capture of the driver's takes
        once = tuple(slice(1) if stride == 0 else slice(None) for stride in to.strides)  # elements that are one
        operations.get().map(kept_builtin("add"), to[once], other[once], out=to[once], device=to.device)


def move_elements(to: array, other: array) -> None:
    """Add the elements of ``other`` to ``to``, which shares memory with it, as if they had been taken out before."""
    if recorder.graph is not None:
        recorder.graph.add_call(f"move to {to!r}", partial(move_elements, to, other), [to])
        return
    moved = clone(other, requires_grad=False)
    other.zero_()
    add_elements(to, moved)


def _add_records(t: ir.Struct, to: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> None:
    for name, field in t.fields:
        scalar = ir.scalar_of(field)
        if isinstance(field, ir.Struct):
            _add_records(field, to[name], other[name])
        elif scalar == ir.bfloat16:
            total = bfloat.decode_array(to[name]) + bfloat.decode_array(other[name])
            to[name] = bfloat.encode_array(total).reshape(total.shape)
        elif scalar is not None and scalar.is_float:
            to[name] += other[name]


__all__ = ["add_elements", "move_elements"]
