"""Conjugate gradients and conjugate residuals, for symmetric positive definite matrices.

Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952; Saad, Iterative methods for
sparse linear systems, 2003, algorithms 9.1 and 6.20.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.optim.linear.operators import numbers
from warp_like.optim.linear.state import LinearSolverState, Problem, Result, restart_interval
from warp_like.optim.linear.steps import advance, follow, renew, step_length, subtract, turn


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
        self._rz, self._rz_new, self._pAp, self._length, self._beta = (self._numbers_for_systems() for _ in range(5))

    def _start(self, problem: Problem) -> None:
        problem.residual(self._r)
        z = problem.precondition(self._r, self._z)
        wp.copy(self._p, z)
        r = numbers(self._r)
        self._dots.compute(r, r, self._residual_sq)
        if problem.M is None:
            wp.copy(self._rz, self._residual_sq)
        else:
            self._dots.compute(r, numbers(z), self._rz)

    def _iterate(self, problem: Problem) -> None:
        device, systems = self._device, self._dots.systems
        r, p, Ap = numbers(self._r), numbers(self._p), numbers(self._Ap)
        problem.multiply_and_dot(self._p, self._Ap, self._p, self._dots, self._pAp)
        given = [self._rz, self._pAp, self._residual_sq, self._limit_sq, self._length]
        wp.launch(step_length, dim=self._systems, inputs=given, device=device)
        self._dots.subtract(self._length, Ap, r, self._residual_sq)
        z, rz = numbers(problem.precondition(self._r, self._z)), self._residual_sq
        if problem.M is not None:
            rz = self._rz_new
            self._dots.compute(r, z, rz)
        wp.launch(renew, dim=self._systems, inputs=[rz, self._rz, self._beta], device=device)
        given = [*systems, self._length, self._beta, z, p, problem.x_numbers]
        wp.launch(follow, dim=self._size, inputs=given, device=device)


class CR(_Conjugate):
    """Conjugate residuals with their memory, for problems that are solved again and again.

    Args:
        args: As for ``cr``.
        restart: As for ``cr``.
        kwargs: As for ``cr``, but for ``run``.
    """

    def _allocate(self) -> None:
        self._r, self._z, self._p, self._Az, self._Ap, self._y = (self._vector() for _ in range(6))
        self._zAz, self._zAz_new, self._yAp, self._length = (self._numbers_for_systems() for _ in range(4))

    def _start(self, problem: Problem) -> None:
        problem.residual(self._r)
        z = problem.precondition(self._r, self._z)
        problem.multiply_and_dot(z, self._Az, z, self._dots, self._zAz)
        wp.copy(self._p, z)
        wp.copy(self._Ap, self._Az)
        r = numbers(self._r)
        self._dots.compute(r, r, self._residual_sq)

    def _iterate(self, problem: Problem) -> None:
        device, systems = self._device, self._dots.systems
        r, p, Az, Ap = (numbers(a) for a in (self._r, self._p, self._Az, self._Ap))
        y = numbers(problem.precondition(self._Ap, self._y))
        self._dots.compute(y, Ap, self._yAp)
        given = [self._zAz, self._yAp, self._residual_sq, self._limit_sq, self._length]
        wp.launch(step_length, dim=self._systems, inputs=given, device=device)
        given = [*systems, self._length, p, Ap, problem.x_numbers, r]
        wp.launch(advance, dim=self._size, inputs=given, device=device)
        if problem.M is not None:
            given = [*systems, self._length, y, numbers(self._z)]
            wp.launch(subtract, dim=self._size, inputs=given, device=device)
        z = self._r if problem.M is None else self._z
        problem.multiply_and_dot(z, self._Az, z, self._dots, self._zAz_new)
        self._dots.compute(r, r, self._residual_sq)
        wp.launch(renew, dim=self._systems, inputs=[self._zAz_new, self._zAz, self._length], device=device)
        for target, source in ((p, numbers(z)), (Ap, Az)):
            wp.launch(turn, dim=self._size, inputs=[*systems, self._length, source, target], device=device)


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
