"""What one launch costs: 16 elements and three arguments, so that the work itself is nothing.

    python examples/benchmarks/benchmark_launch.py --json launch.json

The rows differ in who owns the two arrays. numba compiles ordinary functions, so its column is a call of a
function that holds the loop, with the same arguments; it takes NumPy arrays only.
"""

import harness
import numpy as np

SIZE = 16
FACTOR = 2.0


def make(wp):
    @wp.kernel
    def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
        i = wp.tid()
        y[i] = a * x[i] + y[i]

    return saxpy


def launcher(wp, kernel, x, y) -> harness.Program:
    """Return the launch as a user writes it: the list of arguments is made on every call."""

    def run():
        wp.launch(kernel, dim=SIZE, inputs=[x, y, FACTOR])

    return harness.Program(run, lambda: np.array(y.numpy() if hasattr(y, "numpy") else y))


def numba_call(numba) -> harness.Program:
    @numba.njit
    def saxpy(x, y, a):
        for i in range(x.shape[0]):
            y[i] = a * x[i] + y[i]

    x, y, a = *numpy_arrays(), np.float32(FACTOR)
    return harness.Program(lambda: saxpy(x, y, a), lambda: y.copy())


def numpy_arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, dtype=np.float32)


def main(argv: list[str] | None = None) -> dict:
    options = harness.arguments(__doc__.splitlines()[0], argv)
    frameworks = harness.find_frameworks()
    programs = {"wp arrays": {}, "NumPy arrays": {}, "PyTorch tensors": {}}
    for column in harness.WARPS:
        if wp := frameworks.get(column):
            kernel = make(wp)
            x, y = (wp.array(a, dtype=float) for a in numpy_arrays())
            programs["wp arrays"][column] = launcher(wp, kernel, x, y)
            programs["NumPy arrays"][column] = launcher(wp, kernel, *numpy_arrays())
            if torch := frameworks.get("PyTorch"):
                tensors = [torch.from_numpy(a) for a in numpy_arrays()]
                programs["PyTorch tensors"][column] = launcher(wp, kernel, *tensors)
    if numba := frameworks.get("numba"):
        programs["NumPy arrays"]["numba"] = numba_call(numba)

    expected = FACTOR * np.arange(SIZE)
    rows = {row: harness.measure_row(row, columns, expected) for row, columns in programs.items()}
    columns = [*harness.WARPS, "numba"]
    harness.report("launch", "one launch, microseconds", columns, rows, 1.0e6, options.json)
    return rows


if __name__ == "__main__":
    main()
