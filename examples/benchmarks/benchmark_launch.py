"""The cost of one call: 16 elements, so that the work itself is nothing; microseconds.

    python examples/benchmarks/benchmark_launch.py --json launch.json

The first rows differ in who owns the two arrays of a launch; then come launches of other shapes, the calls around a
launch (conversions, allocation, slices), gradients, and graphs, some of which work on large arrays. numba compiles
ordinary functions, so its column is a call of a function that holds the loop, with the same arguments; it takes NumPy
arrays only. NumPy and PyTorch appear where they have the same operation. "aim" is the time that warp_like is to stay
below.

A conversion is "fresh" when the array has not been converted before; making that array is then part of the time.
"""

from dataclasses import dataclass
from types import ModuleType

import frameworks
import launch_graphs
import launch_torch
import numpy as np
import reporting
import timing
from launch_programs import (
    Kernels,
    a_struct,
    adjoint_launch,
    launches,
    numba_call,
    numpy_number,
    record_and_backward,
    recorded,
    ten_arguments,
)
from small_calls import FACTOR, SIZE, numbers, returning, torch_gradient, zeros
from timing import Program

COLUMNS = ["aim", *frameworks.WARPS, "numba", "NumPy", "PyTorch"]
FRAMEWORKS = [*COLUMNS[1:], "JAX", "Paddle"]
X = numbers().astype(float)


@dataclass(frozen=True)
class Row:
    """The result that every column has to compute, and the time to stay below, if there is one.

    The aims are microseconds, on the machine that the tables of the documentation are from.
    """

    expected: np.ndarray
    aim: float | None = None


ROWS = {
    "launch on wp arrays": Row(FACTOR * X, 0.4),
    "launch on NumPy arrays": Row(FACTOR * X, 0.5),
    "launch on PyTorch tensors": Row(FACTOR * X, 0.6),
    "launch on Paddle tensors": Row(FACTOR * X, 1.5),
    "launch on a JAX array": Row(FACTOR * X, 1.5),
    "recorded launch": Row(FACTOR * X, 0.12),
    "launch with ten arguments": Row(5.0 * X + 10.0, 1.0),
    "launch with a struct": Row(FACTOR * X + 1.0, 1.0),
    "launch with a NumPy number": Row(FACTOR * X),
    "from_numpy": Row(X, 1.0),
    ".numpy()": Row(X, 0.5),
    ".numpy(), fresh": Row(0.0 * X),
    "from_torch": Row(X, 0.5),
    "from_torch, with gradient": Row(X, 1.0),
    "to_torch": Row(X, 0.7),
    "to_torch, fresh": Row(0.0 * X),
    "from_jax": Row(X, 3.0),
    "to_jax": Row(X, 15.0),
    "zeros(16)": Row(0.0 * X, 0.6),
    "slice [2:10]": Row(X[2:10], 0.5),
    "adjoint launch": Row(np.full(SIZE, FACTOR), 0.8),
    "tape: record and backward": Row(np.full(SIZE, FACTOR), 4.0),
    "graph of 100 launches": Row(launch_graphs.GROWTH**launch_graphs.LAUNCHES * X, 30.0),
    "graph of 100 launches, with adjoints": Row(np.full(SIZE, launch_graphs.GROWTH**launch_graphs.LAUNCHES), 30.0),
    "graph of one map, 2^20 floats": Row(launch_graphs.flipped(launch_graphs.large(), 1)),
    "graph of ten maps, 2^20 floats": Row(launch_graphs.flipped(launch_graphs.large(), launch_graphs.MAPS)),
    "autograd.Function around a kernel": Row(np.full(SIZE, FACTOR), 55.0),
}


def warp_rows(k: Kernels, found: dict[str, ModuleType]) -> dict[str, Program]:
    """Return one Warp's programs by row, those with other frameworks as far as these were found."""
    wp, array, ndarray = k.wp, k.array(numbers()), numbers()
    rows = {
        "launch on wp arrays": launches(k, k.array(numbers()), k.array(zeros())),
        "launch on NumPy arrays": launches(k, numbers(), zeros()),
        "recorded launch": recorded(k),
        "launch with ten arguments": ten_arguments(k),
        "launch with a struct": a_struct(k),
        "launch with a NumPy number": numpy_number(k),
        "from_numpy": returning(lambda: wp.from_numpy(ndarray, dtype=float)),
        ".numpy()": returning(lambda: array.numpy()),
        ".numpy(), fresh": returning(lambda: wp.zeros(SIZE, dtype=float).numpy()),
        "zeros(16)": returning(lambda: wp.zeros(SIZE, dtype=float)),
        "slice [2:10]": returning(lambda: array[2:10]),
        "adjoint launch": adjoint_launch(k),
        "tape: record and backward": record_and_backward(k),
    }
    if k.is_own:  # warp-lang captures on CUDA alone
        rows["graph of 100 launches"] = launch_graphs.graph_of_launches(k, backward=False)
        rows["graph of 100 launches, with adjoints"] = launch_graphs.graph_of_launches(k, backward=True)
        rows["graph of one map, 2^20 floats"] = launch_graphs.graph_of_maps(k, 1)
        rows["graph of ten maps, 2^20 floats"] = launch_graphs.graph_of_maps(k, launch_graphs.MAPS)
    if torch := found.get("PyTorch"):
        x, y = torch.from_numpy(numbers()), torch.from_numpy(zeros())
        rows["launch on PyTorch tensors"] = launches(k, x, y)
        rows |= launch_torch.torch_rows(k, torch)
    if (paddle := found.get("Paddle")) and k.is_own:  # warp-lang hangs
        rows["launch on Paddle tensors"] = launches(k, paddle.to_tensor(numbers()), paddle.to_tensor(zeros()))
    if jax := found.get("JAX"):
        x = jax.numpy.asarray(numbers())
        if k.is_own:  # warp-lang refuses
            rows["launch on a JAX array"] = launches(k, x, k.array(zeros()))
        rows["from_jax"] = returning(lambda: wp.from_jax(x))
        rows["to_jax"] = returning(lambda: wp.to_jax(array))
    return rows


def peer_rows(found: dict[str, ModuleType]) -> dict[str, dict[str, Program]]:
    """Return the programs of the other frameworks: by row, then by column."""
    rows: dict[str, dict[str, Program]] = {}
    ndarray = numbers()
    rows["graph of one map, 2^20 floats"] = {"NumPy": launch_graphs.numpy_maps(1)}
    rows["graph of ten maps, 2^20 floats"] = {"NumPy": launch_graphs.numpy_maps(launch_graphs.MAPS)}
    rows["zeros(16)"] = {"NumPy": returning(lambda: np.zeros(SIZE, np.float32))}
    rows["slice [2:10]"] = {"NumPy": returning(lambda: ndarray[2:10])}
    if torch := found.get("PyTorch"):
        tensor = torch.from_numpy(ndarray)
        rows["zeros(16)"]["PyTorch"] = returning(lambda: torch.zeros(SIZE))
        rows["slice [2:10]"]["PyTorch"] = returning(lambda: tensor[2:10])
        rows["from_numpy"] = {"PyTorch": returning(lambda: torch.from_numpy(ndarray))}
        rows[".numpy()"] = {"PyTorch": returning(lambda: tensor.numpy())}
        rows["tape: record and backward"] = {"PyTorch": torch_gradient(torch, lambda x: FACTOR * x)}
        rows["autograd.Function around a kernel"] = {"PyTorch": launch_torch.empty_function(torch)}
    if numba := found.get("numba"):
        rows["launch on NumPy arrays"] = {"numba": numba_call(numba)}
    return rows


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    found = frameworks.find_frameworks(FRAMEWORKS)
    programs: dict[str, dict[str, Program]] = {row: {} for row in ROWS}
    for column in frameworks.WARPS:
        if wp := found.get(column):
            for row, program in warp_rows(Kernels(wp), found).items():
                programs[row][column] = program
    for row, columns in peer_rows(found).items():
        programs[row].update(columns)
    budget, rows = reporting.budget(options), {}
    for row, wanted in ROWS.items():
        rows[row] = timing.measure_row(row, programs[row], wanted.expected, budget)
        if wanted.aim is not None:
            rows[row]["aim"] = wanted.aim * 1.0e-6
    reporting.report("launch", "one call, microseconds", COLUMNS, rows, 1.0e6, options)
    return rows


if __name__ == "__main__":
    main()
