"""What a tape records of sums over whole arrays: launches that mean the same, for the compiler to differentiate.

The sums themselves are made natively; the kernels here never run forwards.
"""

from __future__ import annotations

from typing import Any

from warp_like.frontend.builtin import Builtin
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.indexing import with_all_axes
from warp_like.runtime.arrays.recording import host_writes
from warp_like.runtime.kernels.decorators import kernel
from warp_like.runtime.memory.recorder import recorder

tid, dot, ddot = Builtin("tid"), Builtin("dot"), Builtin("ddot")


@kernel
def _add(source: Any, total: Any) -> None:
    i, j, k, m, n, o, p, q = tid()
    total[i, j, k, m, n, o, p, q] += source[i, j, k, m, n, o, p, q]


@kernel
def _add_products(a: Any, b: Any, total: Any) -> None:
    i, j, k, m, n, o, p, q = tid()
    total[i, j, k, m, n, o, p, q] += a[i, j, k, m, n, o, p, q] * b[i, j, k, m, n, o, p, q]


@kernel
def _add_dots(a: Any, b: Any, total: Any) -> None:
    i, j, k, m, n, o, p, q = tid()
    total[i, j, k, m, n, o, p, q] += dot(a[i, j, k, m, n, o, p, q], b[i, j, k, m, n, o, p, q])


@kernel
def _add_ddots(a: Any, b: Any, total: Any) -> None:
    i, j, k, m, n, o, p, q = tid()
    total[i, j, k, m, n, o, p, q] += ddot(a[i, j, k, m, n, o, p, q], b[i, j, k, m, n, o, p, q])


_PRODUCTS = (_add_products, _add_dots, _add_ddots)


@kernel
def _scan(source: Any, target: Any) -> None:
    total = source.dtype()
    for i in range(source.shape[0]):
        total += source[i]
        target[i] = total


@kernel
def _scan_before(source: Any, target: Any) -> None:
    total = source.dtype()
    for i in range(source.shape[0]):
        x = source[i]
        target[i] = total
        total += x


def record_reduction(a: array, b: array | None, target: array) -> None:
    """Record that the sum of ``a``, or of its products with ``b``, is about to be written to ``target``.

    ``target`` is of one element, or has the shape of ``a`` with 1 in place of one dimension.
    """
    host_writes(target)  # zero, as far as gradients are concerned, before the additions
    sources = [a] if b is None else [a, b]
    if _has_gradient(sources, target):
        op = _add if b is None else _PRODUCTS[len(a.element.shape)]
        whole = [with_all_axes(x, x.shape) for x in sources]
        recorder.active.record_launch(op, whole[0].shape, inputs=[*whole, with_all_axes(target, a.shape)])


def record_scan(source: array, target: array, inclusive: bool) -> None:
    """Record that the prefix sums of ``source`` are about to be written to ``target``."""
    if not _has_gradient([source], target):
        host_writes(target)
        return
    op = _scan if inclusive else _scan_before
    recorder.active.record_launch(op, 1, inputs=[x if x.ndim == 1 else x.flatten() for x in (source, target)])


def _has_gradient(sources: list[array], target: array) -> bool:
    tape = recorder.active
    if tape is None or tape.history is None or not any(x.requires_grad for x in sources):
        return False
    if not target.requires_grad:
        tape.history.cut.append(target)
    return target.requires_grad


__all__ = ["record_reduction", "record_scan"]
