"""Sparse matrices and solvers: ``wp.sparse`` and ``wp.optim.linear`` beside warp-lang's, SciPy's and PyTorch's.

    python examples/benchmarks/benchmark_sparse.py --json sparse.json

Times are in milliseconds, in float32. The matrix is Poisson's equation with five points on a square grid, and the same
with blocks of 3 x 3. "Finite elements" are the entries of squares with four corners in the order of the squares, of
which up to four are added up at each place. A row of conjugate gradients is ten iterations.
"""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import frameworks
import numpy as np
import reporting
import timing
from timing import Program

COLUMNS = [*frameworks.WARPS, "SciPy", "PyTorch"]
STEPS = 10


class Data:
    """The matrices, as entries and as arrays of SciPy."""

    def __init__(self, n: int) -> None:
        sparse = importlib.import_module("scipy.sparse")
        one = sparse.eye_array(n)
        line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
        self.size = n * n
        self.matrix = sparse.csr_array(sparse.kron(line, one) + sparse.kron(one, line)).astype(np.float32)
        self.matrix.sum_duplicates()
        block = np.arange(9, dtype=np.float32).reshape(3, 3)
        self.blocks = sparse.bsr_array(sparse.kron(self.matrix, block, format="bsr"))
        self.other = self.matrix * np.float32(0.5)
        corner = np.arange(n * n).reshape(n, n)[:-1, :-1].ravel()
        corners = np.stack([corner, corner + 1, corner + n, corner + n + 1], axis=1)
        self.rows = np.repeat(corners, 4, axis=1).ravel().astype(np.int32)
        self.columns = np.tile(corners, (1, 4)).ravel().astype(np.int32)
        self.values = np.random.default_rng(0).random(self.rows.size, dtype=np.float32)
        self.x = np.random.default_rng(1).random(self.size, dtype=np.float32)
        self.long_x = np.random.default_rng(2).random(3 * self.size, dtype=np.float32)


def warp_programs(wp: ModuleType, data: Data) -> dict[str, Program]:
    """Return the rows by one of the Warps."""
    s = importlib.import_module(f"{wp.__name__}.sparse")
    linear = importlib.import_module(f"{wp.__name__}.optim.linear")
    n = data.size

    def made(matrix: Any, dtype: Any) -> Any:
        A = s.bsr_zeros(n, n, dtype)
        A.offsets, A.columns = wp.array(matrix.indptr, dtype=int), wp.array(matrix.indices, dtype=int)
        A.values = wp.array(matrix.data, dtype=dtype)
        A.nnz = matrix.indices.size
        return A

    A, B, blocks = made(data.matrix, float), made(data.other, float), made(data.blocks, wp.mat33)
    x, y = wp.array(data.x), wp.zeros(n, dtype=float)
    long_x, long_y = wp.array(data.long_x.reshape(-1, 3), dtype=wp.vec3), wp.zeros(n, dtype=wp.vec3)
    rows, columns, values = wp.array(data.rows), wp.array(data.columns), wp.array(data.values)
    assembled, turned = s.bsr_zeros(n, n, float), s.bsr_zeros(n, n, float)
    found = wp.zeros(n, dtype=float)

    def solve() -> None:
        found.zero_()
        linear.cg(A, x, found, tol=0.0, atol=0.0, maxiter=STEPS, check_every=STEPS, use_cuda_graph=False)

    def times_x(matrix: Callable[[], Any]) -> Callable[[], np.ndarray]:
        return lambda: s.bsr_mv(matrix(), x).numpy()

    last: dict[str, Any] = {}
    return {
        "CSR times vector": Program(lambda: s.bsr_mv(A, x, y), lambda: y.numpy()),
        "BSR 3 x 3 times vector": Program(lambda: s.bsr_mv(blocks, long_x, long_y), lambda: long_y.numpy().ravel()),
        "from finite elements": Program(
            lambda: s.bsr_set_from_triplets(assembled, rows, columns, values), times_x(lambda: assembled)
        ),
        "transpose": Program(lambda: s.bsr_set_transpose(turned, A), times_x(lambda: turned)),
        "sum": Program(lambda: last.update(sum=A + B), times_x(lambda: last["sum"])),
        "product": Program(lambda: last.update(product=s.bsr_mm(A, B)), times_x(lambda: last["product"])),
        "conjugate gradients": Program(solve, lambda: found.numpy()),
    }


def scipy_programs(data: Data) -> dict[str, Program]:
    """Return the rows by SciPy, whose results the others have to agree with."""
    sparse = importlib.import_module("scipy.sparse")
    solvers = importlib.import_module("scipy.sparse.linalg")
    A, B, shape = data.matrix, data.other, (data.size, data.size)
    entries = (data.values, (data.rows, data.columns))

    def solve() -> np.ndarray:
        return solvers.cg(A, data.x, rtol=0.0, atol=0.0, maxiter=STEPS)[0]

    calls: dict[str, tuple[Callable[[], Any], Any]] = {
        "CSR times vector": (lambda: A @ data.x, None),
        "BSR 3 x 3 times vector": (lambda: data.blocks @ data.long_x, None),
        "from finite elements": (lambda: sparse.coo_array(entries, shape=shape).tocsr(), data.x),
        "transpose": (lambda: A.T.tocsr(), data.x),
        "sum": (lambda: A + B, data.x),
        "product": (lambda: A @ B, data.x),
        "conjugate gradients": (solve, None),
    }
    return {row: remembered(*call) for row, call in calls.items()}


def torch_programs(torch: ModuleType, data: Data) -> dict[str, Program]:
    """Return the rows that PyTorch has."""

    def made(matrix: Any) -> Any:
        make = torch.sparse_csr_tensor if matrix.data.ndim == 1 else torch.sparse_bsr_tensor
        parts = (torch.from_numpy(a) for a in (matrix.indptr, matrix.indices, matrix.data))
        return make(*parts, size=matrix.shape)

    A, B, blocks = made(data.matrix), made(data.other), made(data.blocks)
    x, long_x = torch.from_numpy(data.x), torch.from_numpy(data.long_x)
    places = torch.from_numpy(np.stack([data.rows, data.columns]).astype(np.int64))
    values, shape = torch.from_numpy(data.values), (data.size, data.size)
    calls: dict[str, tuple[Callable[[], Any], Any]] = {
        "CSR times vector": (lambda: A @ x, None),
        "BSR 3 x 3 times vector": (lambda: blocks @ long_x, None),
        "from finite elements": (lambda: torch.sparse_coo_tensor(places, values, shape).to_sparse_csr(), x),
        "sum": (lambda: A + B, x),
        "product": (lambda: A @ B, x),
    }
    return {row: remembered(*call) for row, call in calls.items()}


def remembered(call: Callable[[], Any], x: Any) -> Program:
    """Return a program whose result is that of its last run, times ``x`` where that is a matrix."""
    last: list[Any] = []

    def run() -> None:
        last[:] = [call()]

    return Program(run, lambda: np.asarray(last[0] if x is None else last[0] @ x))


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS)
    n = 32 if options.quick else 512
    data = Data(n)
    programs = {column: warp_programs(found[column], data) for column in frameworks.WARPS if column in found}
    programs["SciPy"] = scipy_programs(data)
    if "PyTorch" in found:
        programs["PyTorch"] = torch_programs(found["PyTorch"], data)
    budget, rows = reporting.budget(options, 1.0), {}
    for row, reference in programs["SciPy"].items():
        reference.run()
        of_row = {column: of[row] for column, of in programs.items() if row in of}
        rows[row] = timing.measure_row(row, of_row, reference.result(), budget, rtol=1.0e-3, atol=1.0e-4)
    reporting.report("sparse", f"a grid of {n} x {n}, milliseconds", COLUMNS, rows, 1.0e3, options)
    return rows


if __name__ == "__main__":
    main()
