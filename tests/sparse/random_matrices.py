"""Random operations on sparse matrices, compared with dictionaries of blocks.

A program has three spaces, of so many blocks of so many numbers each, and matrices between them. Each step is an
operation with arguments of any kind: new and old results, matrices that are their own arguments, all topologies,
factors of 0 and 1. Numbers are small integers, so that every sum is exact and results are compared bit by bit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import warp_like as wp
from tests.sparse.matrices import block, dense
from warp_like import sparse as s

Blocks = dict[tuple[int, int], Any]
LARGE = 1 << 20
"""Numbers of matrices above this are drawn again, so that products of them stay exact."""


MOST = 6
"""Matrices that a program keeps."""


class Known:
    """A matrix, the spaces of its rows and columns, and the blocks that it has."""

    def __init__(self, A: Any, spaces: tuple[int, int], blocks: Blocks) -> None:
        self.A, self.spaces, self.blocks = A, spaces, blocks

    def set(self, blocks: Blocks, topology: str) -> None:
        """Take over the result of an operation; masked matrices keep their blocks, padded ones empty too long rows."""
        if topology == "masked":
            blocks = {place: blocks.get(place, np.zeros(self.A.block_shape)) for place in self.blocks}
        assert topology != "compact" or self.A.row_counts is None
        if topology == "padded":
            capacities = np.diff(self.A.offsets.numpy()[: self.A.nrow + 1])
            counts = np.bincount([i for i, _ in blocks], minlength=self.A.nrow)
            full = counts[: self.A.nrow] > capacities
            blocks = {(i, j): b for (i, j), b in blocks.items() if not full[i]}
            assert (self.A.status_sync() == s.BSR_STATUS_ROW_CAPACITY_EXCEEDED) == full.any()
            self.A.clear_status()
        self.blocks = blocks

    def full(self) -> Any:
        """The matrix as an array."""
        r, c = self.A.block_shape
        found = np.zeros((self.A.nrow, r, self.A.ncol, c))
        for (i, j), b in self.blocks.items():
            found[i, :, j] = b
        return found.reshape(self.A.shape)

    def check(self) -> None:
        A = self.A
        np.testing.assert_array_equal(dense(A), self.full())
        ends = A.offsets.numpy()[1 : A.nrow + 1]
        if A.row_counts is not None:
            ends = A.offsets.numpy()[: A.nrow] + A.row_counts.numpy()[: A.nrow]
        places = {(i, int(j)) for i in range(A.nrow) for j in A.columns.numpy()[A.offsets.numpy()[i] : ends[i]]}
        assert places == set(self.blocks)


class Maker:
    def __init__(self, seed: int) -> None:
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.counts = [self.rng.choice([0, 1, 3, 5, 9, 17, 17, 33, 33, 50]) for _ in range(3)]
        self.extents = [self.rng.randint(1, 6) for _ in range(3)]
        if self.rng.random() < 0.5:
            self.extents = [1, 1, 1]
        self.scalar = self.rng.choice([wp.float64, wp.float64, wp.float32])
        self.known: list[Known] = []

    # --- drawing ---

    def space(self) -> int:
        return self.rng.randrange(3)

    def factor(self) -> int:
        return self.rng.choice([0, 1, 1, 2, -3])

    def values(self, n: int, shape: tuple[int, int]) -> Any:
        found = self.numbers.integers(-3, 4, (n, *shape)).astype(float)
        if self.rng.random() < 0.4:
            found[self.numbers.random(n) < 0.3] = 0.0
        return found

    def vector(self, count: int, length: int) -> tuple[Any, Any]:
        """A vector of numbers in one of its forms, and as an array."""
        numbers = self.numbers.integers(-3, 4, count * length).astype(float)
        if length > 1 and self.rng.random() < 0.5:
            dtype = wp.types.vector(length=length, dtype=self.scalar)
            return wp.array(numbers.reshape(-1, length), dtype=dtype, shape=count), numbers
        return wp.array(numbers, dtype=self.scalar, shape=count * length), numbers

    def pick(self, rows: int | None = None, columns: int | None = None) -> Known:
        """A matrix between two spaces, an old or a new one."""
        fitting = [k for k in self.known if rows in (None, k.spaces[0]) and columns in (None, k.spaces[1])]
        if fitting and self.rng.random() < 0.85:
            return self.rng.choice(fitting)
        return self.new(self.space() if rows is None else rows, self.space() if columns is None else columns)

    def new(self, rows: int, columns: int) -> Known:
        shape = (self.extents[rows], self.extents[columns])
        size = (self.counts[rows], self.counts[columns])
        dtype, more = block(shape, self.scalar), {}
        if self.rng.random() < 0.35:
            capacity = self.rng.choice([0, 1, 3, size[1]])
            per_row = wp.array(self.numbers.integers(0, size[1] + 2, size[0]), dtype=int, shape=size[0])
            more = {"topology": "padded", "row_capacity": self.rng.choice([capacity, per_row])}
        made = Known(s.bsr_zeros(*size, dtype, **more), (rows, columns), {})
        self.fill(made, "padded" if more else "compact")
        self.known.append(made)
        return made

    def topology(self, k: Known) -> str:
        """One that the matrix can have: most padded matrices stay so, and few without blocks are masked."""
        masked = ["masked"] if k.blocks or self.rng.random() < 0.1 else []
        return self.rng.choice(
            ["compact", *masked] if k.A.row_counts is None else ["compact", *masked, *2 * ["padded"]]
        )

    # --- steps ---

    def fill(self, k: Known | None = None, topology: str | None = None) -> None:
        """Entries in any order, also outside of the matrix, behind the count and at one place."""
        k = k or self.pick()
        A, rng = k.A, self.rng
        n = rng.choice([0, 1, 20, 60, 300, 300])
        rows, columns = (self.numbers.integers(-1, m + 1, n).astype(np.int32) for m in (A.nrow, A.ncol))
        if rng.random() < 0.3:
            rows = rows // 3 * 3
        values, prune = self.values(n, A.block_shape), rng.random() < 0.5
        count = rng.choice([None, None, n // 2, n + 3])
        topology, mapping = topology or self.topology(k), None
        if topology == "compact" and not prune and rng.random() < 0.5:
            mapping = True
        given = wp.array(values, dtype=self.scalar, shape=values.shape)
        limit = None if count is None else wp.array([count], dtype=int)
        places = wp.array(rows, dtype=int, shape=n), wp.array(columns, dtype=int, shape=n)
        mapping = s.bsr_set_from_triplets(A, *places, given, limit, prune, topology, mapping)
        kept = [
            e
            for e in range(min(n, n if count is None else count))
            if 0 <= rows[e] < A.nrow and 0 <= columns[e] < A.ncol and (not prune or values[e].any())
        ]
        k.set(self.summed(A, rows, columns, values, kept), topology)
        if mapping is not None:
            k.check()
            values = self.values(n, A.block_shape)
            given = wp.array(values, dtype=self.scalar, shape=values.shape)
            s.bsr_set_from_mapped_values(A, mapping, given, rng.choice(["gather", "atomic"]))
            k.set(self.summed(A, rows, columns, values, kept), topology)

    def summed(self, A: Any, rows: Any, columns: Any, values: Any, kept: list[int]) -> Blocks:
        found: Blocks = {}
        for e in kept:
            place = int(rows[e]), int(columns[e])
            found[place] = found.get(place, np.zeros(A.block_shape)) + values[e]
        return found

    def transpose(self) -> None:
        source, factor = self.pick(), self.rng.choice([1, 2])
        turned = {(j, i): factor * b.T for (i, j), b in source.blocks.items()}
        spaces = source.spaces[::-1]
        if self.rng.random() < 0.4:
            A = (factor * source.A).T if factor != 1 else source.A.T
            self.known.append(Known(A.eval() if factor != 1 else A, spaces, turned))
            return
        dest = source if spaces == source.spaces and self.rng.random() < 0.5 else self.pick(*spaces)
        topology = self.topology(dest)
        s.bsr_set_transpose(dest.A, factor * source.A, topology)
        dest.set(turned, topology)

    def axpy(self) -> None:
        x = self.pick()
        y = x if self.rng.random() < 0.15 else self.pick(*x.spaces)
        alpha, beta, topology = self.factor(), self.factor(), self.topology(y)
        if self.rng.random() < 0.3:
            found = (alpha or 1) * x.A + (beta or 1) * y.A
            self.known.append(Known(found, x.spaces, self.combined(x, y, alpha or 1, beta or 1)))
            return
        if beta == 0 and alpha != 0 and y is not x and self.rng.random() < 0.5:
            y.A.values.fill_(np.nan)  # not read
        mine = self.combined(x, y, alpha, beta)
        s.bsr_axpy(x.A, y.A, alpha, beta, topology=topology)
        if alpha == 0 or x is y:
            factor = alpha + beta if alpha else beta
            y.blocks = {place: factor * b for place, b in y.blocks.items()}
        else:
            y.set(mine, topology)

    def combined(self, x: Known, y: Known, alpha: int, beta: int) -> Blocks:
        found = {place: beta * b for place, b in y.blocks.items()} if beta else {}
        for place, b in x.blocks.items() if alpha else ():
            found[place] = found.get(place, 0.0) + alpha * b
        return found

    def product(self) -> None:
        x = self.pick()
        y = self.pick(rows=x.spaces[1])
        spaces = x.spaces[0], y.spaces[1]
        alpha = self.rng.choice([1, 2, -1])
        if self.rng.random() < 0.5:
            more, work = {}, s.bsr_mm_work_arrays()
            if self.rng.random() < 0.5:
                more["max_new_nnz"] = len(self.multiplied(x, y, 1)) + self.rng.choice([0, 5])
            found = s.bsr_mm(x.A, y.A, alpha=alpha, work_arrays=work, **more)
            product = Known(found, spaces, self.multiplied(x, y, alpha))
            self.known.append(product)
            product.check()
            self.reuse(x, y, product, work)
            return
        z = self.rng.choice([k for k in (x, y, self.pick(*spaces)) if k.spaces == spaces])
        beta, topology = self.factor(), self.topology(z)
        if beta == 0 and z not in (x, y):
            z.A.values.fill_(np.nan)  # not read
        found = self.multiplied(x, y, alpha)
        for place, b in z.blocks.items() if beta else ():
            found[place] = found.get(place, 0.0) + beta * b
        s.bsr_mm(x.A, y.A, z.A, alpha, beta, topology=topology)
        z.set(found, topology)

    def reuse(self, x: Known, y: Known, product: Known, work: Any) -> None:
        """The product with other numbers in the same blocks; the first product may have changed meanwhile."""
        if product not in (x, y) and self.rng.random() < 0.5:
            self.fill(product)
        for k in [x] if x is y else [x, y]:
            self.scale(k)
        found = s.bsr_mm(x.A, y.A, work_arrays=work, reuse_topology=True)
        self.known.append(Known(found, product.spaces, self.multiplied(x, y, 1)))

    def multiplied(self, x: Known, y: Known, alpha: int) -> Blocks:
        rows: dict[int, list[tuple[int, Any]]] = {}
        for (i, j), b in y.blocks.items():
            rows.setdefault(i, []).append((j, b))
        found: Blocks = {}
        for (i, k), a in x.blocks.items():
            for j, b in rows.get(k, ()):
                found[i, j] = found.get((i, j), 0.0) + alpha * (a @ b)
        return found

    def vectors(self) -> None:
        k, alpha, beta = self.pick(), self.factor(), self.factor()
        transpose = self.rng.random() < 0.5
        full, (r, c) = k.full(), k.A.block_shape
        ends = [(k.A.ncol, c), (k.A.nrow, r)]
        if transpose:
            full, ends = full.T, ends[::-1]
        (x, plain_x), (y, plain_y) = (self.vector(*end) for end in ends)
        expected = alpha * full @ plain_x + beta * plain_y
        if ends[0] == ends[1] and self.rng.random() < 0.3:
            y, expected = x, alpha * full @ plain_x + beta * plain_x
        elif beta == 0:
            y.fill_(np.nan)
        found = s.bsr_mv(k.A, x, y, alpha, beta, transpose)
        np.testing.assert_array_equal(found.numpy().ravel(), expected)

    def copy(self) -> None:
        source = self.pick()
        r, c = source.A.block_shape
        numbers = s.bsr_copy(source.A, block_shape=(1, 1), scalar_type=wp.float64)
        np.testing.assert_array_equal(dense(numbers), source.full())
        again = s.bsr_copy(3 * numbers, block_shape=(r, c), scalar_type=self.scalar)
        self.known.append(Known(again, source.spaces, {place: 3 * b for place, b in source.blocks.items()}))
        dest = self.pick(*source.spaces)
        topology = self.topology(dest)
        s.bsr_assign(dest.A, 2 * source.A, topology=topology)
        found = {place: 2 * b for place, b in source.blocks.items()}
        dest.set(found, topology)

    def diagonal(self) -> None:
        space = self.space()
        k = self.pick(space, space)
        n, r = k.A.nrow, k.A.block_shape[0]
        found = s.bsr_get_diag(k.A).numpy().reshape(n, r, r)
        zero = np.zeros((r, r))
        expected = np.stack([k.blocks.get((i, i), zero) for i in range(n)]) if n else np.zeros((0, r, r))
        np.testing.assert_array_equal(found, expected)
        values = self.values(n, (r, r))
        diag = wp.array(values.reshape(-1) if r == 1 else values, dtype=block((r, r), self.scalar), shape=n)
        self.known.append(Known(s.bsr_diag(diag), (space, space), {(i, i): values[i] for i in range(n)}))

    def compress(self) -> None:
        """Columns of a compact matrix in any order, twice and outside, put in order."""
        k = self.pick()
        A, rng = k.A, self.rng
        if A.row_counts is not None:
            return
        counts = self.numbers.integers(0, 5, A.nrow)
        offsets, n = np.concatenate([[0], np.cumsum(counts)]), int(counts.sum())
        rows, columns = np.repeat(np.arange(A.nrow), counts), self.numbers.integers(-1, A.ncol + 1, n)
        values, prune = self.values(n, A.block_shape), rng.random() < 0.5
        dtype = block(A.block_shape, self.scalar)
        A.offsets, A.columns = wp.array(offsets, dtype=int), wp.array(columns, dtype=int, shape=n)
        plain = values.reshape(-1) if A.block_size == 1 else values
        A.values = wp.array(plain, dtype=dtype, shape=n)
        A.nnz = n
        s.bsr_compress(A, prune)
        kept = [e for e in range(n) if 0 <= columns[e] < A.ncol and (not prune or values[e].any())]
        k.set(self.summed(A, rows, columns, values, kept), "compact")

    def exchange(self) -> None:
        k = self.pick()
        theirs = s.bsr_to_scipy(k.A)
        np.testing.assert_array_equal(theirs.toarray(), k.full())
        if k.A.row_counts is None and min(k.A.shape) > 0:
            made = Known(s.bsr_from_scipy(theirs.copy()), k.spaces, dict(k.blocks))
            if made.A.block_shape == k.A.block_shape and made.A.scalar_type is self.scalar:
                self.known.append(made)

    def scale(self, k: Known | None = None) -> None:
        k, factor = k or self.pick(), self.factor()
        k.A *= factor
        k.blocks = {place: factor * b for place, b in k.blocks.items()}

    def step(self) -> None:
        steps: list[Callable[[], None]] = [
            self.fill,
            self.transpose,
            self.axpy,
            self.product,
            self.vectors,
            self.copy,
            self.diagonal,
            self.compress,
            self.exchange,
            self.scale,
        ]
        self.rng.choice(steps)()
        self.known = self.known[-MOST:]
        large = LARGE if self.scalar is wp.float64 else math.sqrt(LARGE)
        for k in self.known:
            if any(np.abs(b).max(initial=0.0) > large for b in k.blocks.values()):
                self.fill(k)


def check(seed: int, steps: int = 12) -> None:
    """Run one program.

    Raises:
        AssertionError: A matrix is wrong.
    """
    maker = Maker(seed)
    for _ in range(steps):
        maker.step()
        for k in maker.known:
            k.check()
