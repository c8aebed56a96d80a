"""What all solvers have in common: the problem, its tolerance, and the loop that ends when it is reached.

Numbers that one iteration leaves for the next stay on the device. The host looks at the residual every few iterations,
or never, where the whole loop shall be part of a graph.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.base.warn import warn
from warp_like.optim.linear import gradient
from warp_like.optim.linear.dots import Dots
from warp_like.optim.linear.operators import LinearOperator, aslinearoperator, numbers, scalar_type
from warp_like.optim.linear.sliced import SlicedMatrix, can_be_sliced
from warp_like.runtime.memory.recorder import paused

EPSILON = {wp.float16: 2.0**-10, wp.float32: 2.0**-23, wp.float64: 2.0**-52}
"""The precision of the types that solvers take."""

WORTH_CAPTURING = 6
"""To capture an iteration takes about as long on the CPU as to launch the kernels of so many."""

WORTH_SLICING = 5
"""To cut a matrix into slices takes about as long as so many products with it save."""

Result = tuple[Any, Any, Any]


@wp.kernel(enable_backward=False)
def _set_tolerance(relative: Any, absolute: Any, norm_sq: wp.array[Any], limit_sq: wp.array[Any]) -> None:
    system = wp.tid()
    limit = wp.max(relative * wp.sqrt(norm_sq[system]), absolute)
    square = limit * limit
    if wp.isinf(square):  # no residual would be above it
        square = limit_sq.dtype(wp.nan)
    limit_sq[system] = square


@wp.kernel(enable_backward=False)
def _look(
    cycle: int,
    most: int,
    residual_sq: wp.array[Any],
    limit_sq: wp.array[Any],
    iteration: wp.array[int],
    going: wp.array[int],
) -> None:
    go_on = 0
    for system in range(residual_sq.shape[0]):
        if residual_sq[system] > limit_sq[system]:  # not so for NaN, which nothing mends
            go_on = 1
    iteration[0] = iteration[0] + cycle
    if iteration[0] >= most:
        go_on = 0
    going[0] = go_on


def tolerances(scalar: Any, tol: float | None, atol: float | None) -> tuple[float, float]:
    """Return the relative and the absolute tolerance, as Warp takes them where they are left out.

    They are the 3/4th power of the type's precision; where one is given, the other is the same. The absolute one is at
    least the 9/4th power, so that zero is a solution of a system whose right-hand side is zero.
    """
    epsilon = EPSILON[scalar]
    if tol is None and atol is None:
        tol = atol = epsilon**0.75
    tol = atol if tol is None else tol
    atol = tol if atol is None else atol
    assert tol is not None
    assert atol is not None
    return float(tol), max(float(atol), epsilon**2.25)


class LinearSolverState:
    """A solver with its memory, for a problem that is solved again and again; call it to solve.

    It is not made by itself: ``CG``, ``CR``, ``BiCGSTAB`` and ``GMRES`` are solvers.

    Args:
        A: The matrix: a ``BsrMatrix``, an array, or a ``LinearOperator``.
        b: The right-hand side, of scalars or vectors, contiguous.
        x: The first guess, which becomes the solution; as ``b``.
        tol: The tolerance for the norm of the residual, relative to that of ``b``. When ``tol`` and ``atol`` are both
            left out, both are the 3/4th power of the type's precision; when one is, it is the other.
        atol: The absolute tolerance; the larger one of the two counts.
        maxiter: The most iterations; the size of a system when left out or 0.
        M: A preconditioner: what approximates the inverse of ``A``.
        callback: Called as ``callback(iteration, residual, tolerance)`` whenever the host looks at the residual; where
            it never does, a kernel that takes arrays of one iteration number, squared residuals and squared tolerances.
        check_every: After how many iterations the host looks at the residual. 0 for never: the results are arrays then,
            and all of it can be captured.
        use_cuda_graph: Record the iterations as a graph on CUDA devices. ``A`` and ``M`` must not wait for the device.
            On the CPU a graph is recorded where it saves time, whatever this says.

    Raises:
        ValueError: Shapes, types or devices do not fit.
    """

    def __init__(
        self,
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
    ) -> None:
        if type(self) is LinearSolverState:
            raise TypeError("LinearSolverState is no solver by itself; use CG, CR, BiCGSTAB or GMRES")
        self._A = aslinearoperator(A)
        self._M = None if M is None else aslinearoperator(M)
        self._b, self._x = b, x
        self._tol, self._atol = tol, atol
        self._callback = callback
        self._check_every = operator.index(check_every)
        self._use_cuda_graph = use_cuda_graph
        self._device = self._A.device
        self._scalar = self._A.scalar_type
        self._require_fitting()
        self._size = numbers(b).size
        self._systems = self._A.batch_count
        self._maxiter = max(1, math.ceil(maxiter)) if maxiter else max(1, self._size // self._systems)
        self._cur_iter_and_condition = wp.zeros(2, dtype=int, device=self._device)
        with paused():
            self._dots = Dots(self._size, self._dot_rows(), self._A.batch_offsets, self._device)
        self._limit_sq, self._residual_sq = (self._numbers_for_systems() for _ in range(2))
        self._sliced: SlicedMatrix | None = None
        self._allocate()

    def _dot_rows(self) -> int:
        return 1

    def _allocate(self) -> None:
        """Make the arrays that the solver needs."""
        raise NotImplementedError

    def _start(self, problem: Problem) -> None:
        """Set what the first iteration needs; ``_residual_sq`` too."""
        raise NotImplementedError

    def _cycle(self, problem: Problem) -> int:
        """Do some iterations, and return how many."""
        raise NotImplementedError

    @property
    def _cycle_size(self) -> int:
        """How many iterations ``_cycle`` does."""
        return 1

    # --- memory ---

    def _vector(self) -> Any:
        """A vector like ``b``."""
        return wp.zeros(self._b.shape, dtype=self._b.dtype, device=self._device)

    def _numbers_for_systems(self) -> Any:
        return wp.zeros(self._systems, dtype=self._scalar, device=self._device)

    # --- checks ---

    def _require_fitting(self) -> None:
        A, b, x, M = self._A, self._b, self._x, self._M
        for name, a in (("b", b), ("x", x)):
            if not isinstance(a, wp.array):
                raise ValueError(f"{name} is an array, got {type(a).__name__}")
            if a.device != A.device:
                raise ValueError(f"A, b and x lie on one device, got {A.device} and {name} on {a.device}")
            if scalar_type(a.dtype) is not A.scalar_type:
                raise ValueError(f"{name} has numbers of {A.scalar_type.__name__} as A, got {a!r}")
        if A.scalar_type not in EPSILON:
            raise ValueError(f"solvers take float16, float32 and float64, got {A.scalar_type.__name__}")
        if b.shape != x.shape or b.dtype is not x.dtype:
            raise ValueError(f"b and x have one shape and dtype, got {b!r} and {x!r}")
        n = numbers(b).size
        numbers(x)
        for name, op in (("A", A), ("M", M)):
            if op is not None and len(op.shape) == 2 and op.shape != (n, n):
                raise ValueError(f"{name} is a square matrix for {n} numbers as b has, got shape {op.shape}")

    def _require_like_first(self, A: LinearOperator, b: Any, x: Any, M: LinearOperator | None) -> None:
        """Check that a problem is like that which the memory was made for.

        Raises:
            ValueError: It is not.
        """
        first = self._A
        if A.batch_offsets is not first.batch_offsets:
            raise ValueError("A has the same batch_offsets, the very array, as when the solver was made")
        pairs = [
            ("A.shape", A.shape, first.shape),
            ("A.dtype", A.dtype, first.dtype),
            ("A.device", A.device, first.device),
            ("A.max_batch_length", A.max_batch_length, first.max_batch_length),
            ("b.shape", b.shape, self._b.shape),
            ("b.dtype", b.dtype, self._b.dtype),
            ("x.shape", x.shape, self._x.shape),
            ("x.dtype", x.dtype, self._x.dtype),
        ]
        if M is not None and self._M is not None:
            pairs += [("M.shape", M.shape, self._M.shape), ("M.dtype", M.dtype, self._M.dtype)]
        for name, given, wanted in pairs:
            if given != wanted:
                raise ValueError(f"{name} is {wanted} as when the solver was made, got {given}")

    # --- the solve ---

    def __call__(self, A: Any = None, b: Any = None, x: Any = None, M: Any = None) -> Result:
        """Solve, with other arguments than at first where these are given.

        Returns:
            The number of iterations, the norm of the residual, and the tolerance for it; with several systems, those of
            the one that is farthest from its tolerance. The residual is not a number, or larger than the tolerance, if
            there is no solution or it has not been reached. The tolerance is not a number if the square of the norm of
            ``b`` is too large for its type; nothing is solved then. With ``check_every`` 0, arrays: the number of
            iterations, and for each system the square of its residual and of its tolerance.

        Raises:
            ValueError: An argument is not like the first one.
        """
        operator_A = self._A if A is None else aslinearoperator(A)
        operator_M = self._M if M is None else aslinearoperator(M)
        b, x = self._b if b is None else b, self._x if x is None else x
        self._require_like_first(operator_A, b, x, operator_M)
        problem, tape = Problem(operator_A, b, x, operator_M), gradient.recording_tape()
        if self._check_every > 0 and self._device.is_capturing:
            raise RuntimeError("a solver in a captured graph can't look at the residual; pass check_every=0")
        return self._solve(problem) if tape is None else self._solve_recorded(problem, tape)

    def _solve_recorded(self, problem: Problem, tape: Any) -> Result:
        """Solve while a tape records: it gets the solution, and the adjoint solve, not each iteration."""
        A, b, x, M = problem.A, problem.b, problem.x, problem.M
        elements = gradient.elements_of(A)
        arrays = [a for a in (b, elements) if a is not None and a.requires_grad]
        with paused():
            found = wp.clone(x, requires_grad=False)
            matrix = gradient.Snapshot(A, self._is_symmetric) if arrays else None
            result = self._solve(Problem(A, b, found, M))
        if matrix is None:
            x.assign(found)
            return result
        if not x.requires_grad:
            x.requires_grad = True
        x.assign(found)

        def backward() -> None:
            with paused():
                adjoint = wp.zeros_like(x, requires_grad=False)
                self._solve_adjoint(matrix.transposed(), x.grad, adjoint, M)
                if b.requires_grad:
                    gradient.add_to(b.grad, adjoint)
                matrix.subtract_outer(adjoint, found)

        tape.record_func(backward, [x, *arrays])
        return result

    _is_symmetric = False
    """Whether the solver is for symmetric matrices alone."""

    def _options(self) -> dict[str, Any]:
        """The arguments that this solver has beside those of all solvers."""
        return {}

    def _solve_adjoint(self, A: LinearOperator, b: Any, x: Any, M: LinearOperator | None) -> None:
        """Solve the system of the backward pass, by the relative tolerance alone: gradients have any size."""
        is_diagonal = M is not None and isinstance(M.matrix, wp.array) and M.matrix.ndim == 1
        if not (self._is_symmetric or is_diagonal):
            M = None  # it may not be its own transpose
        relative, _ = tolerances(self._scalar, self._tol, self._atol)
        state = type(self)(
            A,
            b,
            x,
            tol=relative,
            atol=0.0,
            maxiter=self._maxiter,
            M=M,
            check_every=self._check_every,
            use_cuda_graph=self._use_cuda_graph,
            **self._options(),
        )
        _, residual, tolerance = state()
        if self._check_every > 0 and not residual <= tolerance:
            warn(
                f"the gradient of a solution by {type(self).__name__} is not accurate: its adjoint system ended with "
                f"the residual {residual:.3g}, above the tolerance {tolerance:.3g}"
            )

    def _solve(self, problem: Problem) -> Result:
        b = numbers(problem.b)
        self._dots.compute(b, b, self._limit_sq)
        relative, absolute = tolerances(self._scalar, self._tol, self._atol)
        given = [self._scalar(relative), self._scalar(absolute), self._limit_sq, self._limit_sq]
        wp.launch(_set_tolerance, dim=self._systems, inputs=given, device=self._device)
        self._start(problem)
        if self._check_every > 0:
            return self._loop_on_host(problem)
        return self._loop_on_device(problem)

    def _loop_on_host(self, problem: Problem) -> Result:
        done, step = 0, max(self._check_every, self._cycle_size)
        limit_sq = self._limit_sq.numpy().astype(np.float64)
        graph = None
        while True:
            residual_sq = self._residual_sq.numpy().astype(np.float64)
            worst = _worst(residual_sq, limit_sq)
            found = done, math.sqrt(residual_sq[worst]), math.sqrt(limit_sq[worst])
            if self._callback is not None:
                self._callback(*found)
            if not (residual_sq > limit_sq).any() or done >= self._maxiter:  # NaN ends it, too
                return found
            goal = min(done + step, self._maxiter)
            if done == 0:
                self._slice(problem, goal)
            if graph is None and self._is_worth_capturing(problem, goal - done):
                if not self._device.is_cpu:
                    done += self._cycle(problem)  # whose kernels are loaded then
                graph = self._captured(problem)
            while done < goal:
                if graph is None:
                    done += self._cycle(problem)
                else:
                    wp.capture_launch(graph)
                    done += self._cycle_size

    def _is_worth_capturing(self, problem: Problem, iterations: int) -> bool:
        """Whether so many iterations take less time with a graph. On the CPU a user's function may be no kernels."""
        if self._device.is_capturing or iterations <= self._cycle_size:
            return False
        if self._device.is_cuda:
            return self._use_cuda_graph
        ours = problem.A.matrix is not None and (problem.M is None or problem.M.matrix is not None)
        return ours and iterations >= WORTH_CAPTURING * self._cycle_size

    def _slice(self, problem: Problem, iterations: int) -> None:
        """Let the problem multiply with a copy of its matrix, if that saves time in so many iterations."""
        A = problem.A.matrix
        if iterations < WORTH_SLICING or not can_be_sliced(A):
            return
        if self._sliced is None or not self._sliced.fits(A):
            self._sliced = SlicedMatrix(A)
        self._sliced.cut(A)
        problem.sliced = self._sliced

    def _captured(self, problem: Problem) -> Any:
        with wp.ScopedCapture(device=self._device) as capture:
            self._cycle(problem)
        return capture.graph

    def _loop_on_device(self, problem: Problem) -> Result:
        iteration, going = self._cur_iter_and_condition[:1], self._cur_iter_and_condition[1:]
        iteration.fill_(-self._cycle_size)

        def look() -> None:
            given = [self._cycle_size, self._maxiter, self._residual_sq, self._limit_sq, iteration, going]
            wp.launch(_look, dim=1, inputs=given, device=self._device)
            if self._callback is not None:
                shown = [iteration, self._residual_sq, self._limit_sq]
                wp.launch(self._callback, dim=1, inputs=shown, device=self._device)

        def cycle() -> None:
            self._cycle(problem)
            look()

        look()
        self._slice(problem, self._maxiter)
        wp.capture_while(going, cycle)
        return iteration, self._residual_sq, self._limit_sq


class Problem:
    """A system to solve, and views of its vectors as numbers."""

    def __init__(self, A: LinearOperator, b: Any, x: Any, M: LinearOperator | None) -> None:
        self.A, self.M = A, M
        self.b, self.x = b, x
        self.x_numbers = numbers(x)
        self.sliced: SlicedMatrix | None = None

    def multiply(self, v: Any, out: Any) -> None:
        """Write ``A v``."""
        if self.sliced is None:
            self.A.matvec(v, out, out, 1.0, 0.0)
        else:
            self.sliced.multiply(numbers(v), numbers(out))

    def multiply_and_dot(self, v: Any, out: Any, other: Any, dots: Dots, result: Any) -> None:
        """Write ``A v``, and the inner products of ``other`` with it."""
        if self.sliced is None or dots.offsets is not None:
            self.multiply(v, out)
            dots.compute(numbers(other), numbers(out), result)
        else:  # while the numbers are in the cache
            partial = dots.parts(1)
            self.sliced.multiply(numbers(v), numbers(out), numbers(other), partial)
            dots.sum_parts(partial, result.reshape((1, 1)))

    def residual(self, out: Any) -> None:
        """Write ``b - A x``."""
        self.A.matvec(self.x, self.b, out, -1.0, 1.0)

    def precondition(self, r: Any, out: Any) -> Any:
        """Return ``M r``, in ``out``; ``r`` itself without a preconditioner."""
        if self.M is None:
            return r
        self.M.matvec(r, out, out, 1.0, 0.0)
        return out


def _worst(residual_sq: Any, limit_sq: Any) -> int:
    """The system that is farthest from its tolerance; one with numbers that are none comes first."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(residual_sq == 0.0, 0.0, residual_sq / limit_sq)
    return int(np.argmax(np.where(np.isnan(residual_sq + limit_sq), np.inf, ratio)))


def restart_interval(restart: Any) -> int | None:
    """Return the number of iterations between restarts.

    Raises:
        TypeError: It is no integer.
        ValueError: It is not positive.
    """
    if restart is None:
        return None
    if isinstance(restart, bool):
        raise TypeError("restart is an integer or None, got a bool")
    try:
        found = operator.index(restart)
    except TypeError:
        raise TypeError(f"restart is an integer or None, got {type(restart).__name__}") from None
    if found < 1:
        raise ValueError(f"restart is positive, got {found}")
    return found
