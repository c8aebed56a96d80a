"""Linear operators: what solvers know of a matrix, a function that multiplies with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp_like as wp
from warp_like.sparse import BsrMatrix, bsr_mv


def scalar_type(dtype: Any) -> Any:
    """Return the type of the numbers that elements of type ``dtype`` are made of."""
    return getattr(dtype, "_wp_scalar_type_", dtype)


def numbers(a: Any) -> Any:
    """Return the numbers of a contiguous array of scalars or vectors in one dimension, a view.

    Raises:
        ValueError: The array is not contiguous.
    """
    if not a.is_contiguous:
        raise ValueError(f"solvers and their operators take contiguous arrays, got {a!r} with strides {a.strides}")
    return a.view(scalar_type(a.dtype)).flatten()


class LinearOperator:
    """A matrix as a function, for solvers.

    Args:
        shape: Rows and columns, in numbers.
        dtype: The type of its elements: a scalar type, or that of blocks.
        device: Where it computes.
        matvec: ``matvec(x, y, z, alpha, beta)`` sets ``z = alpha * (A @ x) + beta * y``. ``z`` may be ``y``; ``y`` is
            not read if ``beta`` is 0.
        batch_offsets: An array of int32 that divides the numbers of a vector into independent systems: system ``i`` has
            those from ``batch_offsets[i]`` to ``batch_offsets[i + 1]``. Numbers behind the last one are left alone.
        max_batch_length: A bound for the numbers of a system.

    Raises:
        ValueError: ``max_batch_length`` is given without ``batch_offsets``, or the offsets are not int32 in one
            dimension.

    Example:
        >>> from warp_like.optim.linear import LinearOperator, cg
        >>> @wp.kernel
        ... def double(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float),
        ...            alpha: float, beta: float):
        ...     i = wp.tid()
        ...     z[i] = alpha * 2.0 * x[i] + beta * y[i]
        >>> A = LinearOperator((3, 3), float, wp.get_device(), lambda *args: wp.launch(double, dim=3, inputs=args))
        >>> b, x = wp.array([2.0, 4.0, 6.0], dtype=float), wp.zeros(3)
        >>> result = cg(A, b, x)
        >>> x.list()
        [1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        device: Any,
        matvec: Callable[..., Any],
        batch_offsets: Any = None,
        max_batch_length: int | None = None,
    ) -> None:
        _require_batches(batch_offsets, max_batch_length)
        self._shape = tuple(shape)
        self._dtype = wp.empty(0, dtype=dtype).dtype
        self._device = wp.get_device(device)
        self._matvec = matvec
        self._batch_offsets = batch_offsets
        self._max_batch_length = max_batch_length
        self._matrix: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns; for a diagonal matrix that an array was made, the shape of that array."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """The type of the elements: a scalar type, or that of blocks."""
        return self._dtype

    @property
    def device(self) -> Any:
        """Where it computes."""
        return self._device

    @property
    def matvec(self) -> Callable[..., Any]:
        """The function ``matvec(x, y, z, alpha, beta)``, which sets ``z = alpha * (A @ x) + beta * y``."""
        return self._matvec

    @property
    def scalar_type(self) -> Any:
        """The type of the numbers in the elements."""
        return scalar_type(self._dtype)

    @property
    def batch_offsets(self) -> Any:
        """Where the numbers of each system begin; None for one system."""
        return self._batch_offsets

    @property
    def batch_count(self) -> int:
        """How many systems there are."""
        return 1 if self._batch_offsets is None else int(self._batch_offsets.size) - 1

    @property
    def max_batch_length(self) -> int | None:
        """A bound for the numbers of a system, or None."""
        return self._max_batch_length

    @property
    def matrix(self) -> Any:
        """The matrix or array that this is made of; None for an operator of the user's own."""
        return self._matrix


def _require_batches(offsets: Any, longest: int | None) -> None:
    if offsets is None:
        if longest is not None:
            raise ValueError("max_batch_length requires batch_offsets")
        return
    if offsets.dtype is not wp.int32 or offsets.ndim != 1 or offsets.size < 2:
        raise ValueError(
            f"batch_offsets is an array of int32 with a number more than there are systems, got {offsets!r}"
        )


@wp.kernel
def _multiply_dense(
    alpha: Any, A: wp.array2d[Any], x: wp.array[Any], beta: Any, y: wp.array[Any], z: wp.array[Any]
) -> None:
    row = wp.tid()
    total = z.dtype(0)
    for column in range(A.shape[1]):
        total += A[row, column] * x[column]
    total = alpha * total
    if beta != beta.dtype(0):
        total += beta * y[row]
    z[row] = total


@wp.kernel
def _multiply_diagonal(
    alpha: Any, A: wp.array[Any], x: wp.array[Any], beta: Any, y: wp.array[Any], z: wp.array[Any]
) -> None:
    i = wp.tid()
    total = alpha * A[i] * x[i]
    if beta != beta.dtype(0):
        total += beta * y[i]
    z[i] = total


def _dense(A: Any) -> Callable[..., Any]:
    def matvec(x: Any, y: Any, z: Any, alpha: Any, beta: Any) -> None:
        x, y, z = numbers(x), numbers(y), numbers(z)
        if x.ptr == z.ptr:
            x = wp.clone(x)
        arguments = [A.dtype(alpha), A, x, A.dtype(beta), y]
        wp.launch(_multiply_dense, dim=A.shape[0], inputs=arguments, outputs=[z], device=A.device)

    return matvec


def _diagonal(A: Any) -> Callable[..., Any]:
    diagonal = numbers(A)
    scalar = diagonal.dtype

    def matvec(x: Any, y: Any, z: Any, alpha: Any, beta: Any) -> None:
        arguments = [scalar(alpha), diagonal, numbers(x), scalar(beta), numbers(y)]
        wp.launch(_multiply_diagonal, dim=diagonal.size, inputs=arguments, outputs=[numbers(z)], device=A.device)

    return matvec


def _sparse(A: BsrMatrix) -> Callable[..., Any]:
    def matvec(x: Any, y: Any, z: Any, alpha: Any, beta: Any) -> None:
        if beta != 0 and y.ptr != z.ptr:
            wp.copy(z, y)
        bsr_mv(A, x, z, alpha, beta)

    return matvec


def aslinearoperator(A: Any, batch_offsets: Any = None, max_batch_length: int | None = None) -> LinearOperator:
    """Return a matrix as a ``LinearOperator``.

    Args:
        A: A ``BsrMatrix``; an array of two dimensions, a dense matrix; an array of one dimension, a diagonal; or an
            operator, which is returned as it is.
        batch_offsets: Where the numbers of each system begin, as for ``LinearOperator``.
        max_batch_length: A bound for the numbers of a system.

    Raises:
        ValueError: ``A`` is something else, or the batches do not fit.
    """
    if isinstance(A, LinearOperator):
        return A
    _require_batches(batch_offsets, max_batch_length)
    if isinstance(A, BsrMatrix):
        matvec = _sparse(A)
    elif isinstance(A, wp.array) and A.ndim == 2:
        matvec = _dense(A)
    elif isinstance(A, wp.array) and A.ndim == 1:
        matvec = _diagonal(A)
    else:
        raise ValueError(
            f"a matrix for solvers is a BsrMatrix, an array of one or two dimensions or a LinearOperator, got "
            f"{type(A).__name__}"
        )
    made = LinearOperator(A.shape, A.dtype, A.device, matvec, batch_offsets, max_batch_length)
    made._matrix = A
    return made
