"""Sparse matrices and solvers: ``wp.sparse`` and ``wp.optim.linear`` beside warp-lang's, SciPy's and PyTorch's.

    python examples/benchmarks/benchmark_sparse.py --json sparse.json
    python examples/benchmarks/benchmark_sparse.py --threads 1 --rows CG transpose

Times are in milliseconds, in float32. The matrix is Poisson's equation with five points on a square grid, and the same
with blocks of 3 x 3. "Finite elements" are the entries of squares with four corners in the order of the squares, of
which up to four are added up at each place. "A + A" are two matrices with the same blocks, "A + B" two with others.
"CG, one of 10" is a tenth of a solve by ten iterations of conjugate gradients, with all that it does before the first.
SciPy has one thread always. The first ``cg`` is timed in a
process of its own.
"""

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

import benchmark_optim
import frameworks
import numpy as np
import reporting
import timing
from timing import Program

COLUMNS = [*frameworks.WARPS, "SciPy", "PyTorch"]
STEPS = {"CG, one of 10 iterations": 10, "CG, one of 50 iterations": 50}
"""Rows of a solve, and how many iterations it has."""

GOALS = {
    "CSR times vector": 1.8,
    "BSR 3 x 3 times vector": 1.8,
    "from finite elements": 1.5,
    "transpose": 1.0,
    "A + A": 1.0,
    "A A": 1.0,
    "Adam": 1.0 / 1.2,
}
"""How many times as fast as SciPy, or PyTorch's fused Adam, this shall be on two cores. For CG, 0.6 ms an iteration."""

FIRST = """
import time
import warp_like as wp
from warp_like.optim.linear import cg
from warp_like.sparse import bsr_diag

A, b, x = bsr_diag(wp.full(1000, 2.0)), wp.ones(1000), wp.zeros(1000)
start = time.perf_counter()
cg(A, b, x)
print(time.perf_counter() - start)
"""


def first_solve() -> float:
    """Return the seconds that the first ``cg`` of a process takes with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder, "WARP_LIKE_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True, check=True
        )
    return float(done.stdout.split()[-1])


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
        self.shifted = sparse.csr_array(self.matrix[:, np.roll(np.arange(self.size), 1)])
        self.shifted.sort_indices()
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
    shifted = made(data.shifted, float)
    x, y = wp.array(data.x), wp.zeros(n, dtype=float)
    long_x, long_y = wp.array(data.long_x.reshape(-1, 3), dtype=wp.vec3), wp.zeros(n, dtype=wp.vec3)
    rows, columns, values = wp.array(data.rows), wp.array(data.columns), wp.array(data.values)
    assembled, turned = s.bsr_zeros(n, n, float), s.bsr_zeros(n, n, float)
    found = wp.zeros(n, dtype=float)

    def solve(steps: int) -> None:
        found.zero_()
        linear.cg(A, x, found, tol=0.0, atol=0.0, maxiter=steps, check_every=steps, use_cuda_graph=False)

    def solving(steps: int) -> Program:
        return Program(lambda: solve(steps), lambda: found.numpy())

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
        "A + A": Program(lambda: last.update(same=A + B), times_x(lambda: last["same"])),
        "A + B": Program(lambda: last.update(sum=A + shifted), times_x(lambda: last["sum"])),
        "A A": Program(lambda: last.update(product=s.bsr_mm(A, B)), times_x(lambda: last["product"])),
        **{row: solving(steps) for row, steps in STEPS.items()},
    }


def scipy_programs(data: Data) -> dict[str, Program]:
    """Return the rows by SciPy, whose results the others have to agree with."""
    sparse = importlib.import_module("scipy.sparse")
    solvers = importlib.import_module("scipy.sparse.linalg")
    A, B, shape = data.matrix, data.other, (data.size, data.size)
    entries = (data.values, (data.rows, data.columns))

    def solving(steps: int) -> Callable[[], np.ndarray]:
        return lambda: solvers.cg(A, data.x, rtol=0.0, atol=0.0, maxiter=steps)[0]

    calls: dict[str, tuple[Callable[[], Any], Any]] = {
        "CSR times vector": (lambda: A @ data.x, None),
        "BSR 3 x 3 times vector": (lambda: data.blocks @ data.long_x, None),
        "from finite elements": (lambda: sparse.coo_array(entries, shape=shape).tocsr(), data.x),
        "transpose": (lambda: A.T.tocsr(), data.x),
        "A + A": (lambda: A + B, data.x),
        "A + B": (lambda: A + data.shifted, data.x),
        "A A": (lambda: A @ B, data.x),
        **{row: (solving(steps), None) for row, steps in STEPS.items()},
    }
    return {row: remembered(*call) for row, call in calls.items()}


def torch_programs(torch: ModuleType, data: Data) -> dict[str, Program]:
    """Return the rows that PyTorch has."""

    def made(matrix: Any) -> Any:
        make = torch.sparse_csr_tensor if matrix.data.ndim == 1 else torch.sparse_bsr_tensor
        parts = (torch.from_numpy(a) for a in (matrix.indptr, matrix.indices, matrix.data))
        return make(*parts, size=matrix.shape)

    A, B, blocks, shifted = made(data.matrix), made(data.other), made(data.blocks), made(data.shifted)
    x, long_x = torch.from_numpy(data.x), torch.from_numpy(data.long_x)
    places = torch.from_numpy(np.stack([data.rows, data.columns]).astype(np.int64))
    values, shape = torch.from_numpy(data.values), (data.size, data.size)
    calls: dict[str, tuple[Callable[[], Any], Any]] = {
        "CSR times vector": (lambda: A @ x, None),
        "BSR 3 x 3 times vector": (lambda: blocks @ long_x, None),
        "from finite elements": (lambda: torch.sparse_coo_tensor(places, values, shape).to_sparse_csr(), x),
        "A + A": (lambda: A + B, x),
        "A + B": (lambda: A + shifted, x),
        "A A": (lambda: A @ B, x),
    }
    return {row: remembered(*call) for row, call in calls.items()}


def remembered(call: Callable[[], Any], x: Any) -> Program:
    """Return a program whose result is that of its last run, times ``x`` where that is a matrix."""
    last: list[Any] = []

    def run() -> None:
        last[:] = [call()]

    return Program(run, lambda: np.asarray(last[0] if x is None else last[0] @ x))


def set_threads(found: dict[str, ModuleType], threads: int) -> None:
    """Let the frameworks that can be told use so many threads."""
    found["warp_like"].config.num_threads = threads
    if "PyTorch" in found:
        found["PyTorch"].set_num_threads(threads)


def measured(found: dict[str, ModuleType], data: Data, words: list[str], budget: float) -> dict[str, dict[str, float]]:
    """Return the times of all rows whose names have one of the words."""
    programs = {column: warp_programs(found[column], data) for column in frameworks.WARPS if column in found}
    programs["SciPy"] = scipy_programs(data)
    if "PyTorch" in found:
        programs["PyTorch"] = torch_programs(found["PyTorch"], data)
    rows = {}
    for row, reference in programs["SciPy"].items():
        if not any(word in row for word in words):
            continue
        reference.run()
        of_row = {column: of[row] for column, of in programs.items() if row in of}
        times = timing.measure_row(row, of_row, reference.result(), budget, rtol=1.0e-3, atol=1.0e-4)
        rows[row] = {column: time / STEPS.get(row, 1) for column, time in times.items()}
    return rows


def adam(found: dict[str, ModuleType], n: int, budget: float) -> dict[str, float]:
    """Return the times of a step of Adam."""
    row = benchmark_optim.rows(n)[0]
    made = benchmark_optim
    programs = {c: made.of_torch(m, row) if c == "PyTorch" else made.of_warp(m, row) for c, m in found.items()}
    expected = np.concatenate([row.expected(p.astype(float), g.astype(float)) for p, g in row.data()])
    there = {column: program for column, program in programs.items() if program is not None}
    return timing.measure_row(row.title, there, expected, budget, rtol=1.0e-4, atol=1.0e-6)


def ratios(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return how many times as fast as SciPy warp_like is, or as PyTorch where SciPy has no such row."""
    peers = {row: of.get("SciPy", of.get("PyTorch")) for row, of in rows.items()}
    return {row: peer / rows[row]["warp_like"] for row, peer in peers.items() if peer is not None}


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="numbers of threads")
    parser.add_argument("--rows", nargs="+", default=[""], metavar="WORD", help="those with one of these words")
    options = parser.parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS)
    n, size = (32, 10_000) if options.quick else (512, 1 << 22)
    data, budget = Data(n), reporting.budget(options, 1.0)
    report = reporting.Report("sparse", "s", options)
    all_rows: dict[str, dict[str, float]] = {}
    faster: dict[str, dict[str, float]] = {}
    for threads in options.threads:
        set_threads(found, threads)
        named = f"{threads} thread{'s' if threads > 1 else ''}"
        rows = measured(found, data, options.rows, budget)
        if any(word in "Adam" for word in options.rows):
            rows["Adam"] = adam({c: m for c, m in found.items() if c != "SciPy"}, size, budget)
        report.table(f"{named}, {n} x {n}, milliseconds", COLUMNS, rows, 1.0e3)
        for row, ratio in ratios(rows).items():
            faster.setdefault(row, {"goal on two": GOALS.get(row)})[named] = ratio  # type: ignore[dict-item]
        all_rows |= {f"{row}, {named}": of for row, of in rows.items()}
    columns = [column for of in faster.values() for column in of if column != "goal on two"]
    report.table("peer / warp_like", [*dict.fromkeys(columns), "goal on two"], faster)
    if any(word in "first cg" for word in options.rows):
        seconds = first_solve()
        all_rows["first cg"] = {"warp_like": seconds}
        report.text(f"The first cg with nothing cached takes {seconds:.2f} s.")
    report.finish(all_rows)
    return all_rows


if __name__ == "__main__":
    main()
