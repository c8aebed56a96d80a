"""The stabilised method of biconjugate gradients, for matrices of any kind.

Van der Vorst, Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG, SIAM J. Sci. Stat. Comput. 13, 1992. With a
left preconditioner, its parameter omega makes the preconditioned residual small instead of the residual.
"""

from __future__ import annotations

from typing import Any

import warp_like as wp
from warp_like.optim.linear.operators import LinearOperator, numbers
from warp_like.optim.linear.state import LinearSolverState, Problem, Result
from warp_like.optim.linear.steps import advance, quotient, step_length


@wp.kernel(enable_backward=False)
def _factors(
    rho_new: wp.array[Any],
    r0v: wp.array[Any],
    ts: wp.array[Any],
    tt: wp.array[Any],
    beta: wp.array[Any],
    omega: wp.array[Any],
) -> None:
    """Write ``omega = ts / tt`` and ``beta = rho_new / r0v / omega``."""
    system = wp.tid()
    beta[system] = quotient(rho_new[system], r0v[system]) * quotient(tt[system], ts[system])
    omega[system] = quotient(ts[system], tt[system])


@wp.kernel(enable_backward=False)
def _turn(
    batched: bool,
    systems: wp.array[int],
    beta: wp.array[Any],
    omega: wp.array[Any],
    r: wp.array[Any],
    v: wp.array[Any],
    p: wp.array[Any],
) -> None:
    """``p = r + beta * (p - omega * v)``."""
    i = wp.tid()
    if not batched:
        p[i] = r[i] + beta[0] * (p[i] - omega[0] * v[i])
    elif systems[i] >= 0:
        p[i] = r[i] + beta[systems[i]] * (p[i] - omega[systems[i]] * v[i])


class BiCGSTAB(LinearSolverState):
    """BiCGSTAB with its memory, for problems that are solved again and again.

    Args:
        args: As for ``bicgstab``.
        is_left_preconditioner: As for ``bicgstab``. Whether there is a preconditioner stays as it is at first.
        kwargs: As for ``bicgstab``, but for ``run``.
    """

    def __init__(self, *args: Any, is_left_preconditioner: bool = False, **kwargs: Any) -> None:
        self._is_left = bool(is_left_preconditioner)
        super().__init__(*args, **kwargs)

    def _require_like_first(self, A: LinearOperator, b: Any, x: Any, M: LinearOperator | None) -> None:
        super()._require_like_first(A, b, x, M)
        if (M is None) != (self._M is None):
            raise ValueError("whether BiCGSTAB has a preconditioner is decided when it is made")

    def _options(self) -> dict[str, Any]:
        return {"is_left_preconditioner": self._is_left}

    def _allocate(self) -> None:
        self._r, self._r0, self._p, self._v, self._t = (self._vector() for _ in range(5))
        plain = self._M is None
        self._y, self._z = (self._p, self._r) if plain else (self._vector(), self._vector())
        left = self._is_left and not plain
        self._Mt = self._vector() if left else self._t
        self._rho, self._rho_new, self._r0v = (self._numbers_for_systems() for _ in range(3))
        self._ts, self._tt, self._length, self._omega = (self._numbers_for_systems() for _ in range(4))

    def _start(self, problem: Problem) -> None:
        problem.residual(self._r)
        wp.copy(self._r0, self._r)
        wp.copy(self._p, self._r)
        r = numbers(self._r)
        self._dots.compute(r, r, self._residual_sq)
        wp.copy(self._rho, self._residual_sq)

    def _cycle(self, problem: Problem) -> int:
        r, r0, p, v, t = (numbers(a) for a in (self._r, self._r0, self._p, self._v, self._t))
        systems, x = self._dots.systems, problem.x_numbers
        state = [self._residual_sq, self._limit_sq]
        y = problem.precondition(self._p, self._y)
        problem.multiply_and_dot(y, self._v, self._r0, self._dots, self._r0v)
        given = [self._rho, self._r0v, *state, self._length]
        wp.launch(step_length, dim=self._systems, inputs=given, device=self._device)
        given = [*systems, self._length, numbers(y), v, x, r]
        wp.launch(advance, dim=self._size, inputs=given, device=self._device)
        z = problem.precondition(self._r, self._z)
        Mt = self._t
        if self._Mt is self._t:
            problem.multiply_and_dot(z, self._t, self._r, self._dots, self._ts)
        else:
            problem.multiply(z, self._t)
            Mt = problem.precondition(self._t, self._Mt)
            self._dots.compute(numbers(Mt), numbers(z), self._ts)
        self._dots.compute(numbers(Mt), numbers(Mt), self._tt)
        given = [self._ts, self._tt, *state, self._length]
        wp.launch(step_length, dim=self._systems, inputs=given, device=self._device)
        given = [*systems, self._length, numbers(z), t, x, r]
        wp.launch(advance, dim=self._size, inputs=given, device=self._device)
        self._dots.compute(r, r, self._residual_sq)
        self._dots.compute(r0, r, self._rho_new)
        given = [self._rho_new, self._r0v, self._ts, self._tt, self._length, self._omega]
        wp.launch(_factors, dim=self._systems, inputs=given, device=self._device)
        given = [*systems, self._length, self._omega, r, v, p]
        wp.launch(_turn, dim=self._size, inputs=given, device=self._device)
        wp.copy(self._rho, self._rho_new)
        return 1


def bicgstab(
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
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Result | BiCGSTAB:
    """Solve a system with a matrix of any kind by the stabilised method of biconjugate gradients.

    A tape differentiates the solution with respect to ``b`` and to the values of ``A``.

    Args:
        A: The matrix, as for ``cg``.
        b: The right-hand side.
        x: The first guess, which becomes the solution.
        tol: The relative tolerance.
        atol: The absolute tolerance.
        maxiter: The most iterations.
        M: A preconditioner.
        callback: Called whenever the host looks at the residual.
        check_every: After how many iterations it does.
        use_cuda_graph: Record the iterations as a graph on CUDA devices.
        is_left_preconditioner: Make the preconditioned residual small in each iteration, rather than the residual.
        run: Solve at once; otherwise return a ``BiCGSTAB``, which solves when it is called.

    Returns:
        The number of iterations, the norm of the residual, and the tolerance for it; see ``LinearSolverState``.

    Raises:
        ValueError: Shapes, types or devices do not fit.
    """
    options = {"is_left_preconditioner": is_left_preconditioner}
    state = BiCGSTAB(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, **options)
    return state() if run else state
