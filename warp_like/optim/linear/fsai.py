"""``FSAI``: a lower triangle ``G`` with ``G.T @ G`` near the inverse of a matrix, as a preconditioner.

Kolotilina and Yeremin, Factorized sparse approximate inverse preconditionings I, SIAM J. Matrix Anal. Appl. 14, 1993.
``fsai_rows.py`` has the kernels that find its rows.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.optim.linear import fsai_rows as kernels
from warp_like.optim.linear.operators import LinearOperator, numbers
from warp_like.runtime.memory.recorder import paused
from warp_like.sparse import BsrMatrix, bsr_transposed, bsr_zeros

_FLOORS = {wp.float16: 1e-3, wp.float32: 1e-6, wp.float64: 1e-12}
_MOST = 64


class FSAI(LinearOperator):
    """An adaptive factorised sparse approximate inverse of a symmetric positive definite matrix, for ``cg`` and ``cr``.

    Each row of ``G`` is found by a thread of its own. Blocks count as the numbers in them. Making it waits for the
    device, applying it does not. It has no gradient.

    Args:
        A: A square matrix with square blocks of float16, float32 or float64, with what is on both sides of its
            diagonal. That it is symmetric and positive definite is not checked.
        max_row_size: The most numbers in a row, 1 to 64. One is the Jacobi preconditioner.
        kap_tolerance: A row stops growing when a step lowers its energy by less than this part, 0 to 1. At 0 it grows
            as far as it can.
        pivot_floor: The smallest pivot that a row may grow by, between 0 and 1, where the diagonal is scaled to 1. 1e-3
            for float16, 1e-6 for float32, 1e-12 for float64 when left out.
        factor_dtype: The type of ``G``: that of the matrix, or float32.
        reuse_pattern: Keep what ``update`` needs. For compact matrices.
        max_step_size: How many numbers a row grows by at a time, 1 to 64. More find a row sooner, and perhaps others.
        regularize_refit: Let ``update`` raise pivots to the floor, and put the diagonal in place of rows that fail,
            rather than refuse the matrix.
        validate_topology: Let ``update`` check that the matrix has the same blocks.
        defer_pattern: Read no values of the matrix now: the first ``update`` that succeeds chooses the numbers of each
            row, also in a captured graph, and until then this is the identity. It takes ``reuse_pattern``.

    Attributes:
        G: The factor, a matrix of numbers; with ``defer_pattern`` a padded one.
        GT: Its transpose, which is compact.
        truncated_rows: How many rows stopped growing because of a pivot. None with ``defer_pattern``.
        pattern_ready: With ``defer_pattern``, an array of one number: 1 once the numbers of each row are chosen. None
            without.
        pattern_status: With ``defer_pattern``, an array of counts of the last such choice: at 1 the rows that stopped
            growing because of a pivot, at 2 those that failed. None without.
        source: The matrix that it was last computed from.
        update_status: With ``reuse_pattern``, an array of four counts of the last update: differences of topology,
            unusable numbers on the diagonal, rows that failed, rows with raised pivots. None without.

    Raises:
        TypeError: The matrix has numbers of another type.
        ValueError: The matrix is not square, an option is out of range, the diagonal is not positive and finite, or the
            type of ``G`` can't hold it.

    Example:
        >>> from warp_like.optim.linear import FSAI, cg
        >>> from warp_like.sparse import bsr_from_triplets
        >>> rows, columns = wp.array([0, 0, 1, 1], dtype=int), wp.array([0, 1, 0, 1], dtype=int)
        >>> A = bsr_from_triplets(2, 2, rows, columns, wp.array([2.0, 1.0, 1.0, 2.0]))
        >>> b, x = wp.array([3.0, 3.0]), wp.zeros(2, dtype=wp.float64)
        >>> iterations, residual, tolerance = cg(A, b, x, M=FSAI(A), check_every=1)
        >>> iterations, x.numpy().round(6).tolist()
        (1, [1.0, 1.0])
    """

    def __init__(
        self,
        A: Any,
        max_row_size: int = 8,
        kap_tolerance: float = 0.001,
        pivot_floor: float | None = None,
        factor_dtype: Any = None,
        reuse_pattern: bool = False,
        max_step_size: int = 1,
        regularize_refit: bool = False,
        validate_topology: bool = True,
        defer_pattern: bool = False,
    ) -> None:
        scalar = _require_square(A)
        most, step = _count("max_row_size", max_row_size), _count("max_step_size", max_step_size)
        tolerance = _part("kap_tolerance", kap_tolerance, zero=True)
        self._floor = _FLOORS[scalar] if pivot_floor is None else _part("pivot_floor", pivot_floor, zero=False)
        dtype = scalar if factor_dtype is None else wp.empty(0, dtype=factor_dtype).dtype
        if dtype is not scalar and (dtype, scalar) != (wp.float32, wp.float64):
            raise ValueError(f"factor_dtype is {scalar.__name__} as the matrix has, or float32, got {dtype.__name__}")
        if reuse_pattern and A.row_counts is not None:
            raise ValueError("reuse_pattern takes a compact matrix, got a padded one; bsr_compress() makes it compact")
        if defer_pattern and not reuse_pattern:
            raise ValueError("defer_pattern requires reuse_pattern: its first update chooses the pattern")
        super().__init__(A.shape, A.dtype, A.device, self._apply)
        self._regularize, self._validate = bool(regularize_refit), bool(validate_topology)
        self._between = wp.empty(A.shape[0], dtype=scalar, device=A.device)
        self.source = A
        self.update_status = wp.zeros(4, dtype=int, device=A.device) if reuse_pattern else None
        self._topology = (wp.clone(A.offsets), wp.clone(A.columns[: A.nnz_sync()])) if reuse_pattern else None
        self._choice = kernels.grow_kernel(most, min(step, most)), tolerance
        self._fit_rows = kernels.fit_kernel(most)
        self._is_chosen = not defer_pattern
        self.truncated_rows: int | None = None
        self.pattern_ready: Any = None
        self.pattern_status: Any = None
        with paused():
            self._allocate(A, most)
            if defer_pattern:
                self._be_identity(A, most, dtype)
            else:
                self._make(A, dtype)

    # --- how it is made ---

    def _allocate(self, A: BsrMatrix, most: int) -> None:
        n, device = A.shape[0], A.device
        self._lengths = wp.zeros(n + 1, dtype=int, device=device)
        self._supports = wp.empty((n, most), dtype=int, device=device)
        self._rows = wp.empty((n, most), dtype=wp.float64, device=device)
        self._scales = wp.empty(n, dtype=wp.float64, device=device)

    def _make(self, A: BsrMatrix, dtype: Any) -> None:
        n, device = A.shape[0], A.device
        status, chosen = (wp.zeros(4, dtype=int, device=device) for _ in range(2))
        self._find_scales(A, status)
        _require_diagonal(status.numpy())
        self._choose(A, chosen)
        self.truncated_rows = int(chosen.numpy()[kernels.TRUNCATED])
        self.G = bsr_zeros(n, n, dtype, device)
        wp.utils.array_scan(self._lengths, self.G.offsets, inclusive=False)
        size = self.G.nnz_sync()
        self.G.columns = wp.empty(size, dtype=int, device=device)
        self.G.values = wp.empty(size, dtype=dtype, device=device)
        self._list(self.G)
        self._fit(A, 0.0, False, status)
        if status.numpy()[kernels.FAILED]:
            raise ValueError(
                f"FSAI: {dtype.__name__} can't hold the factor with finite numbers and a positive diagonal"
            )
        self._store(status, False)
        self.GT, self._turned = bsr_transposed(self.G), _sources(self.G, _places(self.G)).values
        self._turn()

    def _be_identity(self, A: BsrMatrix, most: int, dtype: Any) -> None:
        n, device = A.shape[0], A.device
        self.pattern_ready = wp.zeros(1, dtype=int, device=device)
        self.pattern_status = wp.zeros(4, dtype=int, device=device)
        self.G = bsr_zeros(n, n, dtype, device, row_capacity=most, nnz_capacity=n * most)
        self.GT = bsr_zeros(n, n, dtype, device)
        self.GT.notify_nnz_changed(nnz=n * most)
        self._turned, self._places = wp.zeros(n * most, dtype=wp.float64, device=device), _places(self.G)
        given = [*_parts(self.G), self.GT.offsets, self.GT.columns, self.GT.values]
        wp.launch(kernels.set_identity, dim=n + 1, inputs=given, device=device)

    def _choose(self, A: BsrMatrix, chosen: Any) -> None:
        """Choose the numbers of each row, unless that has been done."""
        kernel, tolerance = self._choice
        given = [tolerance, self._floor, *_stored(A), self._scales, self.pattern_ready]
        outputs = [self._lengths, self._supports, chosen]
        wp.launch(kernel, dim=A.shape[0], inputs=given, outputs=outputs, device=A.device)

    def _list(self, G: BsrMatrix) -> None:
        given = [self._lengths, self._supports, G.offsets, G.row_counts, G.columns]
        wp.launch(kernels.list_columns, dim=G.nrow, inputs=given, device=self.device)

    def _publish(self, status: Any) -> None:
        """Let ``G`` and ``GT`` have the numbers that were chosen, if these can be used."""
        draft: BsrMatrix = self.G.__copy__()  # type: ignore[attr-defined]
        draft.row_counts, draft.columns = wp.empty_like(self.G.row_counts), wp.empty_like(self.G.columns)
        self._list(draft)
        turned = _sources(draft, self._places)
        for source, target in (
            (draft.row_counts, self.G.row_counts),
            (draft.columns, self.G.columns),
            (turned.offsets, self.GT.offsets),
            (turned.columns, self.GT.columns),
            (turned.values, self._turned),
        ):
            given = [self._regularize, status, source, target]
            wp.launch(kernels.publish, dim=target.size, inputs=given, device=self.device)
        given = [self._regularize, status, self.pattern_status, self.pattern_ready]
        wp.launch(kernels.end_selection, dim=1, inputs=given, device=self.device)

    def _find_scales(self, A: BsrMatrix, status: Any) -> None:
        given = [*_stored(A), self._scales, status]
        wp.launch(kernels.find_scales, dim=A.shape[0], inputs=given, device=A.device)

    def _fit(self, A: BsrMatrix, floor: float, regularize: bool, status: Any) -> None:
        n, known = A.shape[0], [self._scales, self._lengths, self._supports]
        given = [floor, regularize, *_stored(A), *known]
        wp.launch(self._fit_rows, dim=n, inputs=given, outputs=[self._rows, status], device=A.device)
        if not regularize:
            given = [self._lengths, self._rows, self.G.values, status]
            wp.launch(kernels.check_rows, dim=n, inputs=given, device=A.device)

    def _store(self, status: Any, keep_failed: bool) -> None:
        given = [keep_failed, status, self._lengths, self._supports, self._rows, *_parts(self.G)]
        wp.launch(kernels.store_rows, dim=self.G.nrow, inputs=given, device=self.device)

    def _turn(self) -> None:
        given = [self._turned, self.G.values, self.GT.nrow, self.GT.offsets, self.GT.values]
        wp.launch(kernels.turn_values, dim=self._turned.size, inputs=given, device=self.device)

    # --- how it is used ---

    def update(self, A: BsrMatrix | None = None) -> FSAI:
        """Compute ``G`` anew for other values of the matrix, with the same numbers in each row.

        With ``defer_pattern`` the first update that succeeds chooses them.

        In a captured graph it waits for nothing and raises nothing; look at ``update_status`` after the graph has run.

        Args:
            A: A matrix with the same blocks as the first one; ``source`` when left out.

        Raises:
            ValueError: There is no ``reuse_pattern``, the matrix has other blocks, or it is not positive definite.
                ``G`` stays as it was then.
        """
        if self._topology is None or self.update_status is None:
            raise ValueError("FSAI.update() needs reuse_pattern=True when the preconditioner is made")
        A = self.source if A is None else A
        self._require_like_first(A)
        status, device = self.update_status, self.device
        with paused():
            status.zero_()
            if self._validate:
                for expected, found in zip(self._topology, (A.offsets, A.columns), strict=True):
                    wp.launch(kernels.compare, dim=expected.size, inputs=[expected, found, status], device=device)
            self._find_scales(A, status)
            if not self._is_chosen:
                given = [self.pattern_ready, self.pattern_status]
                wp.launch(kernels.begin_selection, dim=4, inputs=given, device=device)
                self._choose(A, self.pattern_status)
            self._fit(A, self._floor, self._regularize, status)
            if not self._is_chosen:
                self._publish(status)
            self._store(status, self._regularize)
            self._turn()
        if not device.is_capturing and (self._validate or not self._regularize):
            self._require_success(status.numpy())
            self._is_chosen = True
        self.source = A
        return self

    def _require_like_first(self, A: Any) -> None:
        if not isinstance(A, BsrMatrix) or A.row_counts is not None:
            raise ValueError(f"FSAI.update() takes a compact BSR matrix, got {A!r}")
        known, found = ((m.shape, m.dtype, m.device) for m in (self.source, A))
        if known != found:
            raise ValueError(f"FSAI.update() takes a matrix of the same shape, dtype, device {known}, got {found}")
        assert self._topology is not None
        if A.columns.size < self._topology[1].size:
            raise ValueError("FSAI.update(): the matrix has another sparsity pattern, with fewer blocks")

    def _require_success(self, counts: Any) -> None:
        if counts[kernels.MISMATCH]:
            raise ValueError("FSAI.update(): the matrix has another sparsity pattern than the first one")
        bad, failed = counts[kernels.BAD_DIAGONAL], counts[kernels.FAILED]
        if not self._regularize and not self._is_chosen:
            _require_diagonal(counts)
        if not self._regularize and (bad or failed):
            raise ValueError(
                f"FSAI.update(): the matrix is not SPD, or its factor too large or small: {bad} numbers on the "
                f"diagonal and {failed} rows failed"
            )

    def _apply(self, x: Any, y: Any, z: Any, alpha: Any, beta: Any) -> None:
        x, y, z = numbers(x), numbers(y), numbers(z)
        scalar, n = self.scalar_type, self.G.nrow
        one, zero = scalar(1.0), scalar(0.0)
        if alpha == 0:
            self._between.zero_()
        else:
            given = [one, *_parts(self.G), x, zero, x]
            wp.launch(kernels.apply, dim=n, inputs=given, outputs=[self._between], device=self.device)
        given = [scalar(alpha), *_parts(self.GT), self._between, scalar(beta), y]
        wp.launch(kernels.apply, dim=n, inputs=given, outputs=[z], device=self.device)


def _stored(A: BsrMatrix) -> list[Any]:
    return [A.offsets, A.row_counts, A.columns, A.scalar_values]


def _parts(A: BsrMatrix) -> list[Any]:
    return [A.offsets, A.row_counts, A.columns, A.values]


def _places(G: BsrMatrix) -> Any:
    return wp.array(np.arange(G.nnz), dtype=wp.float64, device=G.device)


def _sources(G: BsrMatrix, places: Any) -> BsrMatrix:
    """The transpose of a matrix whose values are ``places``: it says where each number stands in ``G.values``."""
    numbered: BsrMatrix = bsr_zeros(G.nrow, G.ncol, wp.float64, G.device)
    numbered.offsets, numbered.row_counts, numbered.columns = G.offsets, G.row_counts, G.columns
    numbered.nnz, numbered.values = G.nnz, places
    return bsr_transposed(numbered)


def _require_square(A: Any) -> Any:
    """Return the type of the numbers of a matrix.

    Raises:
        ValueError: It is no square matrix of square blocks.
        TypeError: Its numbers are of another type than FSAI takes.
    """
    if not isinstance(A, BsrMatrix) or A.nrow != A.ncol or A.block_shape[0] != A.block_shape[1]:
        shown = repr(A) if isinstance(A, BsrMatrix) else type(A).__name__
        raise ValueError(f"FSAI ('fsai') takes a BsrMatrix, a square matrix with square blocks, got {shown}")
    if A.scalar_type not in _FLOORS:
        raise TypeError(f"FSAI takes matrices of float16, float32 or float64, got {A.scalar_type.__name__}")
    return A.scalar_type


def _count(name: str, given: Any) -> int:
    try:
        found = operator.index(given)
    except TypeError:
        found = 0
    if not 1 <= found <= _MOST:
        raise ValueError(f"{name} is an integer from 1 to {_MOST}, got {given!r}")
    return found


def _part(name: str, given: float, *, zero: bool) -> float:
    found = float(given)
    if not math.isfinite(found) or not 0.0 <= found < 1.0 or (found == 0.0 and not zero):
        raise ValueError(f"{name} is {'at least' if zero else 'more than'} 0 and less than 1, got {given!r}")
    return found


def _require_diagonal(counts: Any) -> None:
    bad = counts[kernels.BAD_DIAGONAL]
    if bad:
        raise ValueError(f"FSAI takes matrices with finite, positive diagonals; {bad} numbers on it are not")
