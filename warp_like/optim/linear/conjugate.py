"""Conjugate gradients and conjugate residuals, for symmetric positive definite matrices.

Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952; Saad, Iterative methods for
sparse linear systems, 2003, algorithms 9.1 and 6.20. A system that has reached its tolerance makes steps of length
zero, so that it stays as it is while others of its batch go on.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.optim.linear.operators import numbers
from warp_like.optim.linear.state import LinearSolverState, Problem, Result, restart_interval


@wp.func
def quotient(a: Any, b: Any) -> Any:
    """Return ``a / b``, and 0 where ``b`` is 0."""
    result = a.dtype(0)
    if b != b.dtype(0):
        result = a / b
    return result


@wp.kernel(enable_backward=False)
def _step_cg(
    systems: wp.array[int],
    rz: wp.array[Any],
    pAp: wp.array[Any],
    residual_sq: wp.array[Any],
    limit_sq: wp.array[Any],
    p: wp.array[Any],
    Ap: wp.array[Any],
    x: wp.array[Any],
    r: wp.array[Any],
) -> None:
    i = wp.tid()
    system = 0
    if systems:
        system = systems[i]
    if system >= 0 and not (residual_sq[system] <= limit_sq[system]):
        alpha = quotient(rz[system], pAp[system])
        x[i] = x[i] + alpha * p[i]
        r[i] = r[i] - alpha * Ap[i]


@wp.kernel(enable_backward=False)
def _turn_cg(
    systems: wp.array[int], rz_new: wp.array[Any], rz: wp.array[Any], z: wp.array[Any], p: wp.array[Any]
) -> None:
    i = wp.tid()
    system = 0
    if systems:
        system = systems[i]
    if system >= 0:
        p[i] = z[i] + quotient(rz_new[system], rz[system]) * p[i]


@wp.kernel(enable_backward=False)
def _step_cr(
    systems: wp.array[int],
    zAz: wp.array[Any],
    yAp: wp.array[Any],
    residual_sq: wp.array[Any],
    limit_sq: wp.array[Any],
    p: wp.array[Any],
    Ap: wp.array[Any],
    y: wp.array[Any],
    x: wp.array[Any],
    r: wp.array[Any],
    preconditioned: bool,
    z: wp.array[Any],
) -> None:
    i = wp.tid()
    system = 0
    if systems:
        system = systems[i]
    if system >= 0 and not (residual_sq[system] <= limit_sq[system]):
        alpha = quotient(zAz[system], yAp[system])
        step = alpha * y[i]
        x[i] = x[i] + alpha * p[i]
        r[i] = r[i] - alpha * Ap[i]
        if preconditioned:
            z[i] = z[i] - step


@wp.kernel(enable_backward=False)
def _turn_cr(
    systems: wp.array[int],
    zAz_new: wp.array[Any],
    zAz: wp.array[Any],
    z: wp.array[Any],
    Az: wp.array[Any],
    p: wp.array[Any],
    Ap: wp.array[Any],
) -> None:
    i = wp.tid()
    system = 0
    if systems:
        system = systems[i]
    if system >= 0:
        beta = quotient(zAz_new[system], zAz[system])
        p[i] = z[i] + beta * p[i]
        Ap[i] = Az[i] + beta * Ap[i]


class _Conjugate(LinearSolverState):
    """What both have in common: they may begin anew every few iterations."""

    _is_symmetric = True

    def __init__(self, *args: Any, restart: int | None = None, **kwargs: Any) -> None:
        self._restart = restart_interval(restart)
        super().__init__(*args, **kwargs)
        if self._restart is not None:
            self._restart = max(1, min(self._restart, self._maxiter))

    @property
    def _cycle_size(self) -> int:
        return 1 if self._restart is None else self._restart

    def _cycle(self, problem: Problem) -> int:
        for _ in range(self._cycle_size):
            self._iterate(problem)
        if self._restart is not None:
            self._start(problem)
        return self._cycle_size

    def _iterate(self, problem: Problem) -> None:
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        return {"restart": self._restart}


class CG(_Conjugate):
    """Conjugate gradients with their memory, for problems that are solved again and again.

    Args:
        args: As for ``cg``.
        restart: As for ``cg``.
        kwargs: As for ``cg``, but for ``run``.
    """

    def _allocate(self) -> None:
        self._r, self._p, self._Ap, self._z = (self._vector() for _ in range(4))
        self._rz, self._rz_new, self._pAp = (self._numbers_for_systems() for _ in range(3))

    def _start(self, problem: Problem) -> None:
        problem.residual(self._r)
        z = problem.precondition(self._r, self._z)
        wp.copy(self._p, z)
        r = numbers(self._r)
        self._dots.compute(r, r, self._residual_sq)
        self._dots.compute(r, numbers(z), self._rz)

    def _iterate(self, problem: Problem) -> None:
        device, systems = self._device, self._dots.systems
        r, p, Ap = numbers(self._r), numbers(self._p), numbers(self._Ap)
        problem.A.matvec(self._p, self._Ap, self._Ap, 1.0, 0.0)
        self._dots.compute(p, Ap, self._pAp)
        given = [systems, self._rz, self._pAp, self._residual_sq, self._limit_sq, p, Ap, problem.x_numbers, r]
        wp.launch(_step_cg, dim=self._size, inputs=given, device=device)
        z = problem.precondition(self._r, self._z)
        self._dots.compute(r, r, self._residual_sq)
        if problem.M is None:
            wp.copy(self._rz_new, self._residual_sq)
        else:
            self._dots.compute(r, numbers(z), self._rz_new)
        wp.launch(_turn_cg, dim=self._size, inputs=[systems, self._rz_new, self._rz, numbers(z), p], device=device)
        wp.copy(self._rz, self._rz_new)


class CR(_Conjugate):
    """Conjugate residuals with their memory, for problems that are solved again and again.

    Args:
        args: As for ``cr``.
        restart: As for ``cr``.
        kwargs: As for ``cr``, but for ``run``.
    """

    def _allocate(self) -> None:
        self._r, self._z, self._p, self._Az, self._Ap, self._y = (self._vector() for _ in range(6))
        self._zAz, self._zAz_new, self._yAp = (self._numbers_for_systems() for _ in range(3))

    def _start(self, problem: Problem) -> None:
        problem.residual(self._r)
        z = problem.precondition(self._r, self._z)
        problem.A.matvec(z, self._Az, self._Az, 1.0, 0.0)
        wp.copy(self._p, z)
        wp.copy(self._Ap, self._Az)
        r = numbers(self._r)
        self._dots.compute(r, r, self._residual_sq)
        self._dots.compute(numbers(z), numbers(self._Az), self._zAz)

    def _iterate(self, problem: Problem) -> None:
        device, systems = self._device, self._dots.systems
        r, p, Az, Ap = (numbers(a) for a in (self._r, self._p, self._Az, self._Ap))
        y = numbers(problem.precondition(self._Ap, self._y))
        self._dots.compute(y, Ap, self._yAp)
        scalars = [self._zAz, self._yAp, self._residual_sq, self._limit_sq]
        given = [systems, *scalars, p, Ap, y, problem.x_numbers, r, problem.M is not None, numbers(self._z)]
        wp.launch(_step_cr, dim=self._size, inputs=given, device=device)
        z = self._r if problem.M is None else self._z
        problem.A.matvec(z, self._Az, self._Az, 1.0, 0.0)
        self._dots.compute(r, r, self._residual_sq)
        self._dots.compute(numbers(z), Az, self._zAz_new)
        given = [systems, self._zAz_new, self._zAz, numbers(z), Az, p, Ap]
        wp.launch(_turn_cr, dim=self._size, inputs=given, device=device)
        wp.copy(self._zAz, self._zAz_new)


def cg(
    A: Any,
    b: Any,
    x: Any,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Result | CG:
    """Solve a system with a symmetric positive definite matrix by conjugate gradients.

    A tape differentiates the solution with respect to ``b`` and to the values of ``A``.

    Args:
        A: The matrix: a ``BsrMatrix``, an array of one (a diagonal) or two dimensions, or a ``LinearOperator``.
        b: The right-hand side, of scalars or vectors, contiguous.
        x: The first guess, which becomes the solution; as ``b``.
        tol: The tolerance for the norm of the residual, relative to that of ``b``. When ``tol`` and ``atol`` are both
            left out, both are the 3/4th power of the type's precision; when one is, it is the other.
        atol: The absolute tolerance; the larger one of the two counts.
        maxiter: The most iterations; the size of a system when left out or 0.
        M: A preconditioner, symmetric and positive definite.
        callback: Called as ``callback(iteration, residual, tolerance)`` whenever the host looks at the residual; with
            ``check_every`` 0 a kernel that takes the arrays which are returned then.
        check_every: After how many iterations the host looks at the residual. 0 for never: the results are arrays then,
            and all of it can be captured.
        use_cuda_graph: Record the iterations as a graph on CUDA devices. ``A`` and ``M`` must not wait for the device.
        run: Solve at once; otherwise return a ``CG``, which solves when it is called.
        restart: After how many iterations to compute the residual anew and forget the directions, so that rounding
            errors do not pile up.

    Returns:
        The number of iterations, the norm of the residual, and the tolerance for it; see ``LinearSolverState``.

    Raises:
        ValueError: Shapes, types or devices do not fit, or ``restart`` is not positive.
        TypeError: ``restart`` is no integer.

    Example:
        >>> from warp_like.optim.linear import cg
        >>> A, b, x = wp.array([[4.0, 1.0], [1.0, 3.0]]), wp.array([1.0, 2.0]), wp.zeros(2, dtype=wp.float64)
        >>> iterations, residual, tolerance = cg(A, b, x)
        >>> residual <= tolerance
        True
        >>> x.numpy().round(4).tolist()
        [0.0909, 0.6364]
    """
    state = CG(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, restart=restart)
    return state() if run else state


def cr(
    A: Any,
    b: Any,
    x: Any,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Result | CR:
    """Solve a system with a symmetric positive definite matrix by conjugate residuals, whose norm never grows.

    A tape differentiates the solution with respect to ``b`` and to the values of ``A``.

    Args:
        A: The matrix, as for ``cg``.
        b: The right-hand side.
        x: The first guess, which becomes the solution.
        tol: The relative tolerance.
        atol: The absolute tolerance.
        maxiter: The most iterations.
        M: A preconditioner, symmetric and positive definite.
        callback: Called whenever the host looks at the residual.
        check_every: After how many iterations it does.
        use_cuda_graph: Record the iterations as a graph on CUDA devices.
        run: Solve at once; otherwise return a ``CR``, which solves when it is called.
        restart: After how many iterations to begin anew.

    Returns:
        The number of iterations, the norm of the residual, and the tolerance for it; see ``LinearSolverState``.

    Raises:
        ValueError: Shapes, types or devices do not fit, or ``restart`` is not positive.
        TypeError: ``restart`` is no integer.
    """
    state = CR(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, restart=restart)
    return state() if run else state
