"""Generalised minimal residuals with restarts, for matrices of any kind.

Saad and Schultz, GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems, SIAM J.
Sci. Stat. Comput. 7, 1986. Vectors are made orthogonal by the classical Gram-Schmidt process, twice, whose inner
products are computed together.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.optim.linear.operators import numbers
from warp_like.optim.linear.state import EPSILON, LinearSolverState, Problem, Result, restart_interval
from warp_like.optim.linear.steps import quotient


@wp.kernel(enable_backward=False)
def _scale_to(
    batched: bool, systems: wp.array[int], norm_sq: wp.array[Any], vector: wp.array[Any], out: wp.array[Any]
) -> None:
    """Write a vector of length 1, or zero."""
    i = wp.tid()
    if not batched:
        out[i] = quotient(vector[i], wp.sqrt(norm_sq[0]))
    elif systems[i] >= 0:
        out[i] = quotient(vector[i], wp.sqrt(norm_sq[systems[i]]))
    else:
        out[i] = out.dtype(0)


@wp.func
def _combination(i: int, system: int, factors: wp.array2d[Any], rows: wp.array2d[Any]) -> Any:
    total = rows.dtype(0)
    for k in range(factors.shape[0]):
        total += factors[k, system] * rows[k, i]
    return total


@wp.kernel(enable_backward=False)
def _subtract_rows(
    batched: bool, systems: wp.array[int], factors: wp.array2d[Any], rows: wp.array2d[Any], vector: wp.array[Any]
) -> None:
    i = wp.tid()
    if not batched:
        vector[i] = vector[i] - _combination(i, 0, factors, rows)
    elif systems[i] >= 0:
        vector[i] = vector[i] - _combination(i, systems[i], factors, rows)


@wp.kernel(enable_backward=False)
def _add_rows(
    batched: bool, systems: wp.array[int], factors: wp.array2d[Any], rows: wp.array2d[Any], vector: wp.array[Any]
) -> None:
    i = wp.tid()
    if not batched:
        vector[i] = _combination(i, 0, factors, rows)
    elif systems[i] >= 0:
        vector[i] = _combination(i, systems[i], factors, rows)
    else:
        vector[i] = vector.dtype(0)


@wp.kernel(enable_backward=False)
def _finish_column(
    again: wp.array2d[Any], column: wp.array2d[Any], rounding_sq: wp.float64, norm_sq: wp.array[Any]
) -> None:
    """Add up the inner products, and take what is left of the vector for zero where it is but rounding errors."""
    system = wp.tid()
    total = wp.float64(norm_sq[system])
    for k in range(column.shape[0]):
        column[k, system] = column[k, system] + again[k, system]
        total += wp.float64(column[k, system]) * wp.float64(column[k, system])
    if not (wp.float64(norm_sq[system]) > rounding_sq * total):
        norm_sq[system] = norm_sq.dtype(0)


@wp.kernel(enable_backward=False)
def _add_vector(step: wp.array[Any], x: wp.array[Any]) -> None:
    i = wp.tid()
    x[i] = x[i] + step[i]


@wp.kernel(enable_backward=False, vector_width=1)
def _minimise(
    H: wp.array3d[Any],
    norm_sq: wp.array2d[Any],
    residual_sq: wp.array[Any],
    limit_sq: wp.array[Any],
    R: wp.array3d[wp.float64],
    rotations: wp.array3d[wp.float64],
    g: wp.array2d[wp.float64],
    y: wp.array2d[Any],
) -> None:
    """Find the combination of the basis that leaves the smallest residual, by Givens rotations of a triangle.

    ``H[j, i]`` is the inner product of vector ``i`` and the product of the matrix with vector ``j``; ``norm_sq[j]`` the
    squared length of what that has outside of all of them, and that of the residual comes first.
    """
    system = wp.tid()
    k = H.shape[0]
    g[0, system] = wp.sqrt(wp.float64(norm_sq[0, system]))
    for j in range(k):
        for i in range(j + 1):
            R[i, j, system] = wp.float64(H[j, i, system])
        below = wp.sqrt(wp.float64(norm_sq[j + 1, system]))
        for i in range(j):
            c = rotations[i, 0, system]
            s = rotations[i, 1, system]
            a = R[i, j, system]
            b = R[i + 1, j, system]
            R[i, j, system] = c * a + s * b
            R[i + 1, j, system] = c * b - s * a
        a = R[j, j, system]
        length = wp.sqrt(a * a + below * below)
        c = wp.float64(1.0)
        s = wp.float64(0.0)
        if length > wp.float64(0.0):
            c = a / length
            s = below / length
        R[j, j, system] = length
        rotations[j, 0, system] = c
        rotations[j, 1, system] = s
        g[j + 1, system] = -s * g[j, system]
        g[j, system] = c * g[j, system]
    finished = residual_sq[system] <= limit_sq[system]
    for m in range(k):
        i = k - 1 - m
        total = g[i, system]
        for j in range(i + 1, k):
            total -= R[i, j, system] * wp.float64(y[j, system])
        result = y.dtype(0)
        if not finished:
            result = y.dtype(quotient(total, R[i, i, system]))
        y[i, system] = result


class GMRES(LinearSolverState):
    """GMRES with its memory, for problems that are solved again and again.

    Args:
        args: The first five arguments of ``gmres``: ``A``, ``b``, ``x``, ``tol`` and ``atol``.
        restart: As for ``gmres``.
        is_left_preconditioner: As for ``gmres``.
        kwargs: As for ``gmres``, but for ``run``.
    """

    def __init__(
        self,
        A: Any,
        b: Any,
        x: Any,
        tol: float | None = None,
        atol: float | None = None,
        restart: int = 31,
        maxiter: float | None = 0,
        M: Any = None,
        callback: Any = None,
        check_every: int = 31,
        use_cuda_graph: bool = True,
        is_left_preconditioner: bool = False,
    ) -> None:
        self._restart = restart_interval(restart) or 31
        self._is_left = bool(is_left_preconditioner)
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph)

    @property
    def _cycle_size(self) -> int:
        return min(self._restart, self._maxiter)

    def _options(self) -> dict[str, Any]:
        return {"restart": self._restart, "is_left_preconditioner": self._is_left}

    def _dot_rows(self) -> int:
        return self._cycle_size

    def _allocate(self) -> None:
        k, systems = self._cycle_size, self._systems
        shape = (k + 1, *self._b.shape)
        self._basis = wp.zeros(shape, dtype=self._b.dtype, device=self._device)
        self._rows = numbers(self._basis).reshape((k + 1, self._size))
        self._r, self._w, self._t = (self._vector() for _ in range(3))
        self._H, self._again = (wp.zeros((n, k, systems), dtype=self._scalar, device=self._device) for n in (k, 1))
        self._norm_sq = wp.zeros((k + 1, systems), dtype=self._scalar, device=self._device)
        self._y = wp.zeros((k, systems), dtype=self._scalar, device=self._device)
        self._R = wp.zeros((k, k, systems), dtype=wp.float64, device=self._device)
        self._rotations = wp.zeros((k, 2, systems), dtype=wp.float64, device=self._device)
        self._g = wp.zeros((k + 1, systems), dtype=wp.float64, device=self._device)

    def _start(self, problem: Problem) -> None:
        problem.residual(self._r)
        r = numbers(self._r)
        self._dots.compute(r, r, self._residual_sq)

    def _cycle(self, problem: Problem) -> int:
        device, systems, k = self._device, self._dots.systems, self._cycle_size
        right = not self._is_left
        first = self._r if right else problem.precondition(self._r, self._t)
        self._dots.compute(numbers(first), numbers(first), self._norm_sq[0])
        self._extend(0, numbers(first))
        for j in range(k):
            w = self._product(problem, self._basis[j])
            flat, rows = numbers(w), self._rows[: j + 1]
            column, again = self._H[j, : j + 1], self._again[0, : j + 1]
            self._dots.compute(rows, flat, column)
            wp.launch(_subtract_rows, dim=self._size, inputs=[*systems, column, rows, flat], device=device)
            self._dots.compute(rows, flat, again)
            wp.launch(_subtract_rows, dim=self._size, inputs=[*systems, again, rows, flat], device=device)
            self._dots.compute(flat, flat, self._norm_sq[j + 1])
            given = [again, column, EPSILON[self._scalar] ** 2, self._norm_sq[j + 1]]
            wp.launch(_finish_column, dim=self._systems, inputs=given, device=device)
            self._extend(j + 1, flat)
        norms = [self._norm_sq, self._residual_sq, self._limit_sq]
        given = [self._H, *norms, self._R, self._rotations, self._g, self._y]
        wp.launch(_minimise, dim=self._systems, inputs=given, device=device)
        given = [*systems, self._y, self._rows, numbers(self._w)]
        wp.launch(_add_rows, dim=self._size, inputs=given, device=device)
        step = problem.precondition(self._w, self._t) if right else self._w
        if systems[0] and problem.M is not None and right:
            wp.launch(_mask, dim=self._size, inputs=[systems[1], numbers(step)], device=device)
        wp.launch(_add_vector, dim=self._size, inputs=[numbers(step), problem.x_numbers], device=device)
        self._start(problem)
        return k

    def _product(self, problem: Problem, v: Any) -> Any:
        if self._is_left:
            problem.multiply(v, self._t)
            if problem.M is None:
                return self._t
            return problem.precondition(self._t, self._w)
        problem.multiply(problem.precondition(v, self._t), self._w)
        return self._w

    def _extend(self, place: int, vector: Any) -> None:
        """Make a vector, whose squared length is known, the next one of the basis."""
        given = [*self._dots.systems, self._norm_sq[place], vector, self._rows[place]]
        wp.launch(_scale_to, dim=self._size, inputs=given, device=self._device)


@wp.kernel(enable_backward=False)
def _mask(systems: wp.array[int], vector: wp.array[Any]) -> None:
    i = wp.tid()
    if systems[i] < 0:
        vector[i] = vector.dtype(0)


def gmres(
    A: Any,
    b: Any,
    x: Any,
    tol: float | None = None,
    atol: float | None = None,
    restart: int = 31,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 31,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Result | GMRES:
    """Solve a system with a matrix of any kind by generalised minimal residuals.

    A tape differentiates the solution with respect to ``b`` and to the values of ``A``.

    Args:
        A: The matrix, as for ``cg``.
        b: The right-hand side.
        x: The first guess, which becomes the solution.
        tol: The relative tolerance.
        atol: The absolute tolerance.
        restart: How many iterations to do before beginning anew. More of them need more memory, and fewer in all. They
            are done at once, so there may be up to ``restart - 1`` iterations more than ``maxiter``.
        maxiter: The most iterations.
        M: A preconditioner.
        callback: Called whenever the host looks at the residual.
        check_every: After how many iterations it does.
        use_cuda_graph: Record the iterations as a graph on CUDA devices.
        is_left_preconditioner: Make the preconditioned residual small, rather than the residual.
        run: Solve at once; otherwise return a ``GMRES``, which solves when it is called.

    Returns:
        The number of iterations, the norm of the residual, and the tolerance for it; see ``LinearSolverState``.

    Raises:
        ValueError: Shapes, types or devices do not fit, or ``restart`` is not positive.
        TypeError: ``restart`` is no integer.
    """
    options = (M, callback, check_every, use_cuda_graph, is_left_preconditioner)
    state = GMRES(A, b, x, tol, atol, restart, maxiter, *options)
    return state() if run else state
