"""Factorisations of sparse matrices on CUDA devices, by NVIDIA's cuDSS.

nvmath-python has cuDSS for Python (``nvmath.sparse.advanced.DirectSolver``). It takes PyTorch's tensors, which are
views of the arrays here. All of it happens on the device's current stream.
"""

from __future__ import annotations

import importlib
import weakref
from typing import Any

import warp_like as wp
from warp_like.sparse import BsrMatrix, bsr_copy, bsr_to_torch


def _solver() -> Any:
    """Return the class of cuDSS's solvers.

    Raises:
        ModuleNotFoundError: nvmath-python or PyTorch is not installed.
    """
    try:
        importlib.import_module("torch")
        return importlib.import_module("nvmath.sparse.advanced").DirectSolver
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"direct() on CUDA devices needs nvmath-python with cuDSS, and PyTorch for CUDA ({error}); "
            "use cg() or gmres() without them"
        ) from error


def _operands(A: BsrMatrix, r: Any) -> tuple[Any, Any]:
    """Return a matrix of numbers and a vector as tensors over the same memory."""
    return bsr_to_torch(A), wp.to_torch(r, requires_grad=False)


class Factors:
    """The factors of a matrix on a CUDA device.

    Args:
        A: The matrix, of any blocks, in float32 or float64.
        r: The array of numbers that all right-hand sides are written to.

    Raises:
        ModuleNotFoundError: nvmath-python or PyTorch is not installed.
        ValueError: The matrix has other numbers.
    """

    def __init__(self, A: BsrMatrix, r: Any) -> None:
        if A.scalar_type not in (wp.float32, wp.float64):
            raise ValueError(f"direct() on CUDA devices takes float32 and float64, got {A.scalar_type.__name__}")
        solver = _solver()
        self._matrix = A if A.dtype is A.scalar_type else bsr_copy(A, block_shape=(1, 1))  # cuDSS knows no blocks
        self._matrix.nnz_sync()
        self._device = A.device
        matrix, self._right = _operands(self._matrix, r)
        self._solver = solver(matrix, self._right, **self._stream())
        weakref.finalize(self, self._solver.free)
        self._solver.plan(**self._stream())
        self._solver.factorize(**self._stream())

    def _stream(self) -> dict[str, Any]:
        return {"stream": self._device.stream.cuda_stream}

    def solve(self) -> Any:
        """Return the solution for the right-hand side that is in ``r`` now, an array on the device."""
        self._solver.reset_operands(b=self._right, **self._stream())
        return wp.from_torch(self._solver.solve(**self._stream()), requires_grad=False)
