"""Gradients of arrays that elements hold.

The gradient of an array of structs is one of the same structs. Where an element holds an array, the element of the
gradient holds the gradient of that array; ``refresh_gradients`` sees to it before each backward pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.runtime.arrays.nested import Place, arrays_in, find, place_in
from warp_like.runtime.arrays.recording import put


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
            held = list(_paired(a, a.element.type, records.ravel(), gradients.ravel()))
            put(a.grad_array, gradients, holding=held)


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
                place = place_in(field, record)
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
