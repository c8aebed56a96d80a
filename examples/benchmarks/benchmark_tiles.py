"""Kernels on tiles, beside warp-lang, NumPy, SciPy and PyTorch; milliseconds a launch.

    python examples/benchmarks/benchmark_tiles.py --json tiles.json
    taskset -c 0 python examples/benchmarks/benchmark_tiles.py --rows gemm softmax

Every result is checked against NumPy's, in float64, before it is timed. warp-lang's CPU runs on one thread, all others
use the cores that they may run on: give them one core to compare threads. NumPy's and PyTorch's products and
factorisations are those of the BLAS and LAPACK that they come with, for all matrices of a row in one call; Fourier
transforms are SciPy's. PyTorch's tensors hold its results, so each call makes new ones.

The last table is the first launch of each of the kernels, which compiles it: the folders of compiled kernels are empty.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import frameworks
import numpy as np
import reporting
import scipy.fft
import tile_kernels as kernels
import timing
from timing import Program

COLUMNS = ["warp_like", "warp-lang", "NumPy", "PyTorch"]
Results = Callable[..., Any]
"""From arrays or tensors to the result."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: What the table says.
        kernel: Makes the kernel of ``wp``, a type and ``extent``.
        extent: The extent that the kernel is made for.
        dim: The grid of blocks.
        inputs: The arrays that the kernel reads.
        out: An array like the kernel's output.
        numpy: The result by NumPy or SciPy.
        torch: The result by PyTorch, of the library and of tensors.
        tolerance: See ``timing.check``.
        gradient: Whether the gradients of all inputs are the result, of a loss that is the sum of the output.
        threads: The threads of a block, where they work together; 0 where a block is one thread.
        narrow: Whether the arrays are bfloat16, which NumPy does not have; they are given as such float32.
    """

    title: str
    kernel: Callable[[ModuleType, Any, int], Any]
    extent: int
    dim: Sequence[int]
    inputs: Sequence[np.ndarray]
    out: np.ndarray
    numpy: Results | None
    torch: Results | None
    tolerance: dict[str, float] = field(default_factory=dict)
    gradient: bool = False
    threads: int = 0
    narrow: bool = False


def real(shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
    """Return random numbers around 0."""
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def definite(count: int, side: int) -> np.ndarray:
    """Return matrices that have a Cholesky factor."""
    x = real((count, side, side))
    return (x @ x.transpose(0, 2, 1) + side * np.eye(side)).astype(np.float32)


def dense_rows(quick: bool) -> list[Row]:
    """Products and networks."""
    n, count, batch = (128, 8, 128) if quick else (1024, 4096, 16384)
    rows = [
        Row(
            f"gemm {n}^3 {np.dtype(t).name}",
            kernels.gemm,
            n,
            (n // kernels.SIDE, n // kernels.SIDE),
            [real((n, n), t), real((n, n), t)],
            np.zeros((n, n), t),
            np.matmul,
            lambda torch, a, b: a @ b,
            {"atol": 1e-3},
        )
        for t in (np.float32, np.float64)
    ]
    rows.append(bfloat16_row(n))
    for side in (16, 32):
        a = real((count, side, side))
        args = (side, (count,), [a, a[::-1].copy()], a)
        title = f"products {side} x {side}, {count} times"
        rows.append(Row(title, kernels.products, *args, np.matmul, lambda torch, a, b: a @ b, {"atol": 1e-3}))
    side = kernels.SIDE
    weights = [real((side, side)) / np.float32(side**0.5) for _ in range(3)]
    x = real((side, batch))
    args = (0, (batch // side,), [*weights, x], x)
    tolerance = {"atol": 1e-3, "rtol": 1e-3}
    rows.append(Row(f"layers 3 x {side}, {batch}", kernels.layers, *args, layers, torch_layers, tolerance))
    tolerance = {"atol": 0.05, "rtol": 1e-3, "outliers": 1e-3}
    title = f"layers 3 x {side}, {batch}, gradient"
    rows.append(Row(title, kernels.layers, *args, layer_gradients, torch_layers, tolerance, gradient=True))
    return rows


def bfloat16_row(n: int) -> Row:
    """A large product of bfloat16; the result has 8 digits."""
    a, blocks = rounded_to_bfloat16(real((n, n))), n // kernels.SIDE
    args = ([a, a], a, np.matmul, lambda torch, a, b: a @ b, {"rtol": 2.0**-8, "atol": 1e-2})
    return Row(f"gemm {n}^3 bfloat16", kernels.gemm_bfloat16, n, (blocks, blocks), *args, narrow=True)


def rounded_to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Return the nearest numbers that bfloat16 has, away from zero between two."""
    return ((x.astype(np.float32).view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)


def from_bits(bits: np.ndarray) -> np.ndarray:
    """Return the float32 that these bits of bfloat16 are."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def layers(u: np.ndarray, v: np.ndarray, w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Three layers."""
    return w @ np.maximum(v @ np.maximum(u @ x, 0.0), 0.0)


def layer_gradients(u: np.ndarray, v: np.ndarray, w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradients of the sum of the last layer's outputs."""
    y = np.maximum(u @ x, 0.0)
    z = np.maximum(v @ y, 0.0)
    ones = np.ones_like(z)
    gz = (w.T @ ones) * (z > 0.0)
    gy = (v.T @ gz) * (y > 0.0)
    return joined([gy @ x.T, gz @ y.T, ones @ z.T, u.T @ gy])


def torch_layers(torch: ModuleType, u: Any, v: Any, w: Any, x: Any) -> Any:
    """Three layers by PyTorch."""
    return w @ torch.relu(v @ torch.relu(u @ x))


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return all elements of the arrays in one."""
    return np.concatenate([np.ravel(a) for a in arrays])


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    """Softmax of each row."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def solutions(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The solutions of linear equations; NumPy has none for Cholesky factors of many matrices."""
    return np.linalg.solve(a, y[..., None])[..., 0]


def torch_solutions(torch: ModuleType, a: Any, y: Any) -> Any:
    """The solutions by PyTorch."""
    return torch.cholesky_solve(y[..., None], torch.linalg.cholesky(a))[..., 0]


def row_rows(quick: bool) -> list[Row]:
    """Sums, softmax, sorts and scans of rows."""
    count, n = (16, 128) if quick else (4096, 1024)
    x, sums, short = real((count, n)), np.zeros(count, np.float32), real((count // 4, n))
    args, tolerance = (n, (count,), [x]), {"atol": 1e-3}
    part = (n, (count // 4,), [short])
    order = np.zeros(short.shape, np.int32)
    ties = {"outliers": 1e-4}  # equal keys may change places
    stable = lambda x: np.argsort(x, axis=1, kind="stable")  # noqa: E731
    return [
        Row(f"row sum {count} x {n}", kernels.row_sum, *args, sums, lambda x: x.sum(axis=1), torch_sum, tolerance),
        Row(f"softmax {count} x {n}", kernels.softmax, *args, x, numpy_softmax, torch_softmax),
        Row(f"sort of pairs {count // 4} x {n}", kernels.sort, *part, order, stable, torch_order, ties),
        Row(f"scan {count} x {n}", kernels.scan, *args, x, lambda x: np.cumsum(x, axis=1), torch_scan, {"atol": 1e-2}),
        block_row(count),
    ]


def block_row(count: int) -> Row:
    """A sum over the threads of each block."""
    x, threads = real((count, 256)), 256
    title, out = f"sum over blocks of {threads} threads, {count} times", np.zeros(count, np.float32)
    results = lambda x: x.sum(axis=1)  # noqa: E731
    given = (threads, (count,), [x], out, results, torch_sum, {"atol": 1e-3})
    return Row(title, kernels.block_sum, *given, threads=threads)


def torch_sum(torch: ModuleType, x: Any) -> Any:
    """The sum of each row."""
    return x.sum(dim=1)


def torch_softmax(torch: ModuleType, x: Any) -> Any:
    """Softmax of each row."""
    return torch.softmax(x, dim=1)


def torch_order(torch: ModuleType, x: Any) -> Any:
    """The order of each row."""
    return torch.argsort(x, dim=1, stable=True)


def torch_scan(torch: ModuleType, x: Any) -> Any:
    """The running sums of each row."""
    return torch.cumsum(x, dim=1)


def factor_rows(quick: bool) -> list[Row]:
    """Factorisations, solves and Fourier transforms."""
    count, lengths = (8, (16,)) if quick else (1024, (256, 1024))
    small, large = definite(4 * count, 16), definite(count, 32)
    rows = [
        Row(
            f"Cholesky 16 x 16, {len(small)} times",
            kernels.cholesky,
            16,
            (len(small),),
            [small],
            small,
            np.linalg.cholesky,
            lambda torch, a: torch.linalg.cholesky(a),
        )
    ]
    for a in (small, large):
        side = a.shape[1]
        y = real((len(a), side))
        title = f"Cholesky and solve {side} x {side}, {len(a)} times"
        rows.append(Row(title, kernels.solve, side, (len(a),), [a, y], y, solutions, torch_solutions))
    for n in lengths:
        x = (real((count, n)) + 1j * real((count, n))[::-1]).astype(np.complex64)
        title = f"FFT {n}, {count} times"
        transform: Results = lambda torch, x: torch.fft.fft(x)  # noqa: E731
        rows.append(Row(title, kernels.fft, n, (count,), [x], x, scipy.fft.fft, transform, {"atol": 1e-2}))
    return rows


def in_float64(row: Row) -> np.ndarray:
    """Return the result that is expected."""
    assert row.numpy is not None
    wide = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}
    return np.asarray(row.numpy(*(a.astype(wide.get(a.dtype, a.dtype)) for a in row.inputs)))


def number_type(wp: ModuleType, row: Row) -> Any:
    """The type of the row's numbers."""
    if row.narrow:
        return wp.bfloat16
    return wp.float64 if row.inputs[0].dtype == np.float64 else wp.float32


def by_warp(wp: ModuleType, row: Row) -> Program | None:
    """Launches of the row's kernel, or of it and its adjoint; none of bfloat16 in Warp, which lacks the precision."""
    if row.narrow and wp.__name__ == "warp":
        return None
    kernel = row.kernel(wp, number_type(wp, row), row.extent)

    def moved(a: np.ndarray) -> Any:
        if row.narrow:
            return wp.array(a, dtype=wp.bfloat16)
        pairs = a.view(np.float32).reshape(*a.shape, 2) if a.dtype == np.complex64 else a
        return wp.array(pairs, dtype=kernels.dtype(wp, a), requires_grad=row.gradient)

    inputs, out = [moved(a) for a in row.inputs], moved(row.out)

    def run() -> None:
        wp.launch_tiled(kernel, dim=row.dim, inputs=inputs, outputs=[out], block_dim=64)

    if row.threads:
        run = in_blocks(wp, kernel, row, [*inputs, out])
    if row.gradient:
        return taped(wp, run, inputs, out)

    def result() -> np.ndarray:
        got = from_bits(out.numpy()) if row.narrow else out.numpy()
        return got.view(np.complex64)[..., 0] if row.out.dtype == np.complex64 else got

    return Program(run, result)


def in_blocks(wp: ModuleType, kernel: Any, row: Row, arrays: Sequence[Any]) -> Callable[[], None]:
    """A launch in blocks of several threads, recorded while these are enabled."""
    wp.config.enable_cpu_blocks = True
    command = wp.launch_tiled(kernel, dim=row.dim, inputs=arrays, block_dim=row.threads, record_cmd=True)
    wp.config.enable_cpu_blocks = False
    launch: Callable[[], None] = command.launch
    return launch


def taped(wp: ModuleType, launch: Callable[[], None], inputs: Sequence[Any], out: Any) -> Program:
    """The launch, recorded once, and its gradient."""
    tape = wp.Tape()
    with tape:
        launch()
    ones = wp.array(np.ones(out.shape, np.float32), dtype=wp.float32)

    def run() -> None:
        launch()
        tape.zero()
        tape.backward(grads={out: ones})

    return Program(run, lambda: joined([a.grad.numpy() for a in inputs]))


def by_numpy(numpy: ModuleType, row: Row) -> Program | None:
    """The row's function of arrays."""
    last: list[np.ndarray] = []

    def run() -> None:
        assert row.numpy is not None
        last[:] = [np.asarray(row.numpy(*row.inputs))]

    return Program(run, lambda: last[0]) if row.numpy and not row.narrow else None


def by_torch(torch: ModuleType, row: Row) -> Program | None:
    """The row's function of tensors, with the gradient where the row asks for it."""
    if row.torch is None:
        return None
    tensors = [torch.from_numpy(a.copy()).requires_grad_(row.gradient) for a in row.inputs]
    if row.narrow:
        tensors = [t.bfloat16() for t in tensors]
    last: list[Any] = []

    def run() -> None:
        assert row.torch is not None
        with torch.set_grad_enabled(row.gradient):
            made = row.torch(torch, *tensors)
        last[:] = torch.autograd.grad(made.sum(), tensors) if row.gradient else [made]

    def result() -> np.ndarray:
        if row.gradient:
            return joined([t.numpy() for t in last])
        return (last[0].float() if row.narrow else last[0]).numpy()

    return Program(run, result)


MAKERS: Mapping[str, Callable[[ModuleType, Row], Program | None]] = {
    "warp_like": by_warp,
    "warp-lang": by_warp,
    "NumPy": by_numpy,
    "PyTorch": by_torch,
}


def measure(row: Row, found: Mapping[str, ModuleType], budget: float) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the columns of a row, of launches and of the first launch."""
    expected, cells = in_float64(row), {}
    programs: dict[str, timing.Run] = {}
    first: dict[str, float] = {}
    for column, module in found.items():
        start = time.perf_counter()
        try:
            program = MAKERS[column](module, row)
            if program is None:
                continue
            program.run()
            took = time.perf_counter() - start
            timing.check(row.title, column, program.result(), expected, **row.tolerance)
        except Exception as error:  # a peer may fail in any way; the row is about the others then
            if column == "warp_like":
                raise
            print(f"{row.title}: {column}: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)
            cells[column] = "wrong" if isinstance(error, timing.WrongResultError) else "fails"
        else:
            programs[column] = program.run
            if column in frameworks.WARPS:
                first[column] = took
    return {**cells, **timing.measure(programs, budget=budget)}, first


def all_rows(quick: bool) -> list[Row]:
    """Return the rows of the table."""
    return [*dense_rows(quick), *row_rows(quick), *factor_rows(quick)]


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its rows."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="those whose titles begin so (default: all)")
    parser.add_argument("--peers", nargs="*", metavar="COLUMN", choices=COLUMNS, help="columns beside warp_like's")
    options = parser.parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS if options.peers is None else ["warp_like", *options.peers])
    budget = reporting.budget(options, 1.0)
    launches: dict[str, Any] = {}
    first: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for column in found.keys() & frameworks.WARPS:
            found[column].config.kernel_cache_dir = tempfile.mkdtemp(dir=folder)
        for row in all_rows(options.quick):
            if options.rows and not row.title.startswith(tuple(options.rows)):
                continue
            launches[row.title], first[row.title] = measure(row, found, budget)
    report = reporting.Report("tiles", "s", options)
    report.table("one launch, milliseconds", COLUMNS, launches, 1.0e3)
    report.table("first launch, milliseconds", COLUMNS, first, 1.0e3)
    report.finish({title: {**cells, "first": first[title]} for title, cells in launches.items()})
    return launches


if __name__ == "__main__":
    main()
