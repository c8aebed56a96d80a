"""Gradients through solutions, by the implicit function theorem.

With ``A x = b`` and the gradient ``g`` of a result with respect to ``x``, the gradient with respect to ``b`` is the
solution ``l`` of the adjoint system ``A^T l = g``, and that with respect to element ``(i, j)`` of ``A`` is
``-l[i] x[j]``. So the backward pass solves one system, whatever the solver did.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.optim.linear.operators import LinearOperator, aslinearoperator, numbers
from warp_like.runtime.memory.recorder import recorder
from warp_like.sparse import BsrMatrix, bsr_copy, bsr_transposed
from warp_like.sparse.lookup import row_end


@wp.kernel(enable_backward=False)
def _add(term: wp.array[Any], total: wp.array[Any]) -> None:
    i = wp.tid()
    total[i] = total[i] + term[i]


@wp.kernel(enable_backward=False)
def _subtract_outer_sparse(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    left: wp.array[Any],
    right: wp.array[Any],
    gradient: wp.array3d[Any],
) -> None:
    row, i = wp.tid()
    factor = left[row * gradient.shape[1] + i]
    for block in range(offsets[row], row_end(offsets, row_counts, row)):
        for j in range(gradient.shape[2]):
            there = right[columns[block] * gradient.shape[2] + j]
            gradient[block, i, j] = gradient[block, i, j] - factor * there


@wp.kernel(enable_backward=False)
def _subtract_outer_dense(left: wp.array[Any], right: wp.array[Any], gradient: wp.array2d[Any]) -> None:
    i, j = wp.tid()
    gradient[i, j] = gradient[i, j] - left[i] * right[j]


@wp.kernel(enable_backward=False)
def _subtract_product(left: wp.array[Any], right: wp.array[Any], gradient: wp.array[Any]) -> None:
    i = wp.tid()
    gradient[i] = gradient[i] - left[i] * right[i]


def recording_tape() -> Any:
    """Return the tape that records what this thread does, or None."""
    return recorder.active if isinstance(recorder.active, wp.Tape) else None


def elements_of(op: LinearOperator) -> Any:
    """Return the array that has the elements of a matrix; None for an operator of the user's own."""
    return op.matrix.values if isinstance(op.matrix, BsrMatrix) else op.matrix


class Snapshot:
    """A matrix as it is now: what the backward pass needs of it, whatever becomes of its arrays.

    Args:
        op: The matrix.
        is_symmetric: Whether it is its own transpose.

    Raises:
        RuntimeError: It would have to be transposed, and is an operator of the user's own.
    """

    def __init__(self, op: LinearOperator, is_symmetric: bool) -> None:
        self._op = op
        self._elements = elements_of(op)
        source = op.matrix
        if isinstance(source, BsrMatrix):
            self._saved: Any = bsr_copy(source, topology="compact" if source.row_counts is None else "padded")
        elif source is not None:
            self._saved = wp.clone(source)
        elif is_symmetric:
            self._saved = op
        else:
            raise RuntimeError(
                "the gradient of this solution needs the transpose of the matrix, which a LinearOperator made of a "
                "function does not have; use a BsrMatrix or an array, or for symmetric matrices cg() or cr()"
            )
        self._is_symmetric = is_symmetric

    def transposed(self) -> LinearOperator:
        """Return the transpose."""
        turned = self._saved
        if not self._is_symmetric:
            if isinstance(turned, BsrMatrix):
                turned = bsr_transposed(turned)
            elif turned.ndim == 2:
                turned = turned.transpose().contiguous()
        return aslinearoperator(turned, self._op.batch_offsets, self._op.max_batch_length)

    def subtract_outer(self, left: Any, right: Any) -> None:
        """Subtract ``left[i] right[j]`` from the gradient of each element of the matrix."""
        gradient, saved = getattr(self._elements, "grad", None), self._saved
        if gradient is None:
            return
        device = self._op.device
        left, right = numbers(left), numbers(right)
        if isinstance(saved, BsrMatrix):
            shaped = numbers(gradient).reshape((gradient.size, *saved.block_shape))
            given = [saved.offsets, saved.row_counts, saved.columns, left, right, shaped]
            wp.launch(_subtract_outer_sparse, dim=(saved.nrow, saved.block_shape[0]), inputs=given, device=device)
        elif gradient.ndim == 2:
            wp.launch(_subtract_outer_dense, dim=gradient.shape, inputs=[left, right, gradient], device=device)
        else:
            given = [left, right, numbers(gradient)]
            wp.launch(_subtract_product, dim=left.size, inputs=given, device=device)


def add_to(gradient: Any, term: Any) -> None:
    """Add a vector to a gradient."""
    wp.launch(_add, dim=numbers(term).size, inputs=[numbers(term), numbers(gradient)], device=gradient.device)
