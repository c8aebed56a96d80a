"""Solutions by a factorisation that a library computes: SciPy's SuperLU for sparse matrices, LAPACK for dense ones.

Li, An overview of SuperLU: algorithms, implementation, and user interface, ACM TOMS 31, 2005. Both work on the CPU,
in one thread. On CUDA devices it is cuDSS (``cudss.py``), for sparse matrices. The solution is refined: an iteration
solves for the residual that rounding has left (Wilkinson, Rounding errors in algebraic processes, 1963).
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.optim.linear.cudss import Factors
from warp_like.optim.linear.operators import LinearOperator, numbers
from warp_like.optim.linear.state import LinearSolverState, Problem, Result
from warp_like.optim.linear.steps import subtract
from warp_like.sparse import BsrMatrix, bsr_to_scipy

Inverse = Callable[[np.ndarray], np.ndarray]
Solve = Callable[[], Any]
"""A function that returns an array: what the inverse makes of the residual."""


class Direct(LinearSolverState):
    """A factorisation, for systems with one matrix and many right-hand sides.

    It is computed by the first call, by a call with another ``A``, and by the call after ``update()``.

    Args:
        args: As for ``direct``.
        maxiter: As for ``direct``.
        kwargs: As for ``direct``, but for ``run``. ``M``, ``check_every`` and ``use_cuda_graph`` change nothing.
    """

    def __init__(self, *args: Any, maxiter: float | None = 3, **kwargs: Any) -> None:
        self._factored: tuple[Any, Solve] | None = None
        kwargs |= {"maxiter": maxiter, "check_every": 1, "M": None}
        super().__init__(*args, **kwargs)

    def update(self) -> None:
        """Let the next call factorise the matrix anew, since its numbers have changed."""
        self._factored = None

    def _allocate(self) -> None:
        self._r = self._vector()
        self._length = self._numbers_for_systems()
        self._length.fill_(-1.0)

    def _start(self, problem: Problem) -> None:
        source = problem.A.matrix
        if self._factored is None or self._factored[0] is not source:
            self._factored = None  # whose memory may be needed
            self._factored = source, self._factorise(problem.A)
        self._look_at_residual(problem)

    def _look_at_residual(self, problem: Problem) -> None:
        problem.residual(self._r)
        r = numbers(self._r)
        self._dots.compute(r, r, self._residual_sq)

    def _cycle(self, problem: Problem) -> int:
        assert self._factored is not None
        given = [*self._dots.systems, self._length, self._factored[1](), problem.x_numbers]
        wp.launch(subtract, dim=self._size, inputs=given, device=self._device)
        self._look_at_residual(problem)
        return 1

    def _factorise(self, A: LinearOperator) -> Solve:
        """Return a function that solves for the residual.

        Raises:
            ValueError: The matrix has no elements, or one that is not finite, or it is singular.
            ModuleNotFoundError: The library is not installed.
        """
        source, r = A.matrix, numbers(self._r)
        if source is None:
            raise ValueError("direct() takes a BsrMatrix or an array: a LinearOperator of a function has no elements")
        elements = source.values[: source.nnz_sync()] if isinstance(source, BsrMatrix) else source
        if not np.isfinite(elements.numpy()).all():
            raise ValueError("direct(): the matrix has elements that are not finite")
        if self._device.is_cuda:
            if not isinstance(source, BsrMatrix):
                raise ValueError(f"direct() takes a BsrMatrix on CUDA devices, got {source!r}")
            return Factors(source, r).solve if r.size else lambda: r
        sparse = isinstance(source, BsrMatrix)
        inverse = _factorise_sparse(source) if sparse else _factorise_dense(_widened(source.numpy()))
        return lambda: wp.array(inverse(_widened(r.numpy())), dtype=self._scalar, device=self._device)


def _widened(a: np.ndarray) -> np.ndarray:
    """Numbers that the libraries take: they have none of 16 bits."""
    return a.astype(np.float32) if a.dtype == np.float16 else a


_SINGULAR = "direct(): the matrix is singular"


def _factorise_sparse(A: BsrMatrix) -> Inverse:
    splu = importlib.import_module("scipy.sparse.linalg").splu
    csc = bsr_to_scipy(A).tocsc()
    csc.data = _widened(csc.data)
    if not csc.shape[0]:
        return np.copy
    try:
        solve: Inverse = splu(csc).solve
    except RuntimeError as error:
        raise ValueError(f"{_SINGULAR} ({error})") from None
    return solve


def _factorise_dense(A: np.ndarray) -> Inverse:
    if A.ndim == 1:
        if not A.all():
            raise ValueError(_SINGULAR)
        return lambda b: b / A
    if not A.size:
        return np.copy
    linalg = importlib.import_module("scipy.linalg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)  # of what is an error here
        factor = linalg.lu_factor(A)
    if not np.diagonal(factor[0]).all():
        raise ValueError(_SINGULAR)
    return lambda b: np.asarray(linalg.lu_solve(factor, b))


def direct(
    A: Any,
    b: Any,
    x: Any,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 3,
    callback: Any = None,
    run: bool = True,
) -> Result | Direct:
    """Solve a system with a matrix of any kind by a factorisation.

    On the CPU this needs SciPy. On CUDA devices it needs nvmath-python with cuDSS and PyTorch for CUDA, and the matrix
    is a ``BsrMatrix`` of float32 or float64.

    A tape differentiates the solution with respect to ``b`` and to the values of ``A``.

    Args:
        A: The matrix: a ``BsrMatrix``, or an array of one (a diagonal) or two dimensions.
        b: The right-hand side, of scalars or vectors, contiguous.
        x: The first guess, which becomes the solution; as ``b``.
        tol: The relative tolerance, as for ``cg``.
        atol: The absolute tolerance.
        maxiter: The most solves: those after the first one refine the solution until it reaches the tolerance.
        callback: Called as ``callback(iteration, residual, tolerance)`` after each solve.
        run: Solve at once; otherwise return a ``Direct``, which keeps its factorisation and solves when it is called.

    Returns:
        The number of solves, the norm of the residual, and the tolerance for it; see ``LinearSolverState``.

    Raises:
        ValueError: Shapes, types or devices do not fit, or the matrix is singular (which cuDSS does not
            tell: the residual then stays large) or has elements that are not finite.
        ModuleNotFoundError: The library is not installed.

    Example:
        >>> from warp_like.optim.linear import direct
        >>> from warp_like.sparse import bsr_from_triplets
        >>> rows, columns = wp.array([0, 0, 1], dtype=int), wp.array([0, 1, 0], dtype=int)
        >>> A = bsr_from_triplets(2, 2, rows, columns, wp.array([1.0, 2.0, 4.0]))
        >>> x = wp.zeros(2, dtype=wp.float64)
        >>> solves, residual, tolerance = direct(A, wp.array([5.0, 4.0]), x)
        >>> solves, x.list()
        (1, [1.0, 2.0])
    """
    state = Direct(A, b, x, tol, atol, maxiter=maxiter, callback=callback)
    return state() if run else state
