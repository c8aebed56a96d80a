"""What the host writes to whole arrays or views of them while a function for ``jax_callable`` is traced.

A write becomes a launch that copies the elements one by one, so that views, batches and derivatives need no rules of
their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warp_like import values as host_values
from warp_like.frontend.builtin import Builtin
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.creation import empty, empty_like
from warp_like.runtime.arrays.indexing import with_all_axes
from warp_like.runtime.arrays.recording import put
from warp_like.runtime.kernels.decorators import kernel
from warp_like.runtime.launching.launch import launch

tid = Builtin("tid")


@kernel
def _copy1(source: Any, target: Any) -> None:
    i = tid()
    target[i] = source[i]


@kernel
def _copy2(source: Any, target: Any) -> None:
    i, j = tid()
    target[i, j] = source[i, j]


@kernel
def _copy3(source: Any, target: Any) -> None:
    i, j, k = tid()
    target[i, j, k] = source[i, j, k]


@kernel
def _copy4(source: Any, target: Any) -> None:
    i, j, k, m = tid()
    target[i, j, k, m] = source[i, j, k, m]


@kernel
def _copy8(source: Any, target: Any) -> None:
    i, j, k, m, n, o, p, q = tid()
    target[i, j, k, m, n, o, p, q] = source[i, j, k, m, n, o, p, q]


_COPIES = (_copy1, _copy2, _copy3, _copy4, _copy8)


def copy_elements(target: array, source: array) -> None:
    """Launch the copy of ``source`` to ``target``, which has as many components in the same shape."""
    if not target.size:
        return
    scalar = target.element.scalar
    if target.element != source.element and scalar is not None:  # the same components, arranged otherwise
        target, source = target.view(host_values.from_ir(scalar)), source.view(host_values.from_ir(scalar))
    if target.owner is source.owner:  # all is read before anything is written
        between = empty_like(source)
        copy_elements(between, source)
        source = between
    if target.ndim >= len(_COPIES):
        source, target = with_all_axes(source, source.shape), with_all_axes(target, target.shape)
    launch(_COPIES[min(target.ndim, len(_COPIES)) - 1], target.shape, [source], [target])


def constant_like(target: array, values: np.ndarray[Any, Any]) -> array:
    """Return an array like ``target`` with these raw components, which broadcast to it."""
    element = target.element
    outer = values.shape[: max(0, values.ndim - len(element.shape))]
    held = empty(outer or 1, element.host, device="cpu")
    put(held, values)
    steps = [0 if n == 1 else s for n, s in zip(held.shape, held.strides, strict=True)]
    view: array = held._subview(0, target.shape, (*[0] * (target.ndim - held.ndim), *steps))
    return view
