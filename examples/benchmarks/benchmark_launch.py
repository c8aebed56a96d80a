"""What one call costs: 16 elements, so that the work itself is nothing; microseconds.

    python examples/benchmarks/benchmark_launch.py --json launch.json

The first rows differ in who owns the two arrays of a launch; then come launches of other shapes, what stands
around a launch (conversions, allocation, slices), and gradients. numba compiles ordinary functions, so its
column is a call of a function that holds the loop, with the same arguments; it takes NumPy arrays only. NumPy
and PyTorch appear where they have the same operation. "aim" is what warp_like is to stay below.

A conversion is "fresh" when the array has not been converted before; making that array is then part of the time.
"""

import harness
import launch_frameworks
import numpy as np
from harness import Program

SIZE = 16
FACTOR = 2.0
COLUMNS = ["aim", *harness.WARPS, "numba", "NumPy", "PyTorch"]
FRAMEWORKS = [*COLUMNS[1:], "JAX", "Paddle"]


def make_saxpy(wp):
    @wp.kernel
    def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
        i = wp.tid()
        y[i] = a * x[i] + y[i]

    return saxpy


def make_scale(wp):
    @wp.kernel
    def scale(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
        i = wp.tid()
        y[i] = a * x[i]

    return scale


def make_sum(wp):
    @wp.kernel
    def sum_of_nine(
        a: wp.array(dtype=float),
        b: wp.array(dtype=float),
        c: wp.array(dtype=float),
        d: wp.array(dtype=float),
        e: wp.array(dtype=float),
        p: float,
        q: float,
        r: float,
        s: float,
        out: wp.array(dtype=float),
    ):
        i = wp.tid()
        out[i] = a[i] + b[i] + c[i] + d[i] + e[i] + p + q + r + s

    return sum_of_nine


def make_struct(wp):
    @wp.struct
    class Line:
        x: wp.array(dtype=float)
        y: wp.array(dtype=float)
        a: float
        b: float

    return Line


def make_line(wp, line_type):
    @wp.kernel
    def line(s: line_type):
        i = wp.tid()
        s.y[i] = s.a * s.x[i] + s.b

    return line


class Kernels:
    """A Warp with its kernels, all made up front: warp-lang compiles a module as a whole."""

    def __init__(self, wp):
        self.wp = wp
        self.line_type = make_struct(wp)
        self.line = make_line(wp, self.line_type)
        self.saxpy, self.scale, self.sum = make_saxpy(wp), make_scale(wp), make_sum(wp)

    def array(self, values: np.ndarray, **options):
        return self.wp.array(values, dtype=float, **options)


def numbers() -> np.ndarray:
    return np.arange(SIZE, dtype=np.float32)


def zeros() -> np.ndarray:
    return np.zeros(SIZE, dtype=np.float32)


def values_of(result) -> np.ndarray:
    return np.array(result.numpy() if hasattr(result, "numpy") else result)


def returning(call) -> Program:
    """Return a program whose result is what the call returns."""
    return Program(call, lambda: values_of(call()))


# --- launches ----------------------------------------------------------------------------------------------


def launches(k: Kernels, x, y) -> Program:
    """Return the launch as a user writes it: the list of arguments is made on every call."""
    wp, saxpy = k.wp, k.saxpy

    def run():
        wp.launch(saxpy, dim=SIZE, inputs=[x, y, FACTOR])

    return Program(run, lambda: values_of(y))


def recorded(k: Kernels) -> Program:
    y = k.array(zeros())
    command = k.wp.launch(k.saxpy, dim=SIZE, inputs=[k.array(numbers()), y, FACTOR], record_cmd=True, device="cpu")
    return Program(command.launch, lambda: values_of(y))


def ten_arguments(k: Kernels) -> Program:
    wp, kernel, out = k.wp, k.sum, k.array(zeros())
    a, b, c, d, e = (k.array(numbers()) for _ in range(5))

    def run():
        wp.launch(kernel, dim=SIZE, inputs=[a, b, c, d, e, 1.0, 2.0, 3.0, 4.0], outputs=[out])

    return Program(run, lambda: values_of(out))


def a_struct(k: Kernels) -> Program:
    wp, kernel, line = k.wp, k.line, k.line_type()
    line.x, line.y, line.a, line.b = k.array(numbers()), k.array(zeros()), FACTOR, 1.0

    def run():
        wp.launch(kernel, dim=SIZE, inputs=[line])

    return Program(run, lambda: values_of(line.y))


def numpy_number(k: Kernels) -> Program:
    wp, kernel, x, y, factor = k.wp, k.scale, k.array(numbers()), k.array(zeros()), np.float32(FACTOR)

    def run():
        wp.launch(kernel, dim=SIZE, inputs=[x, y, factor])

    return Program(run, lambda: values_of(y))


def numba_call(numba) -> Program:
    @numba.njit
    def saxpy(x, y, a):
        for i in range(x.shape[0]):
            y[i] = a * x[i] + y[i]

    x, y, a = numbers(), zeros(), np.float32(FACTOR)
    return Program(lambda: saxpy(x, y, a), lambda: y.copy())


# --- gradients ---------------------------------------------------------------------------------------------


def adjoint_launch(k: Kernels) -> Program:
    wp, kernel, x, y = k.wp, k.scale, k.array(numbers()), k.array(zeros())
    adj_x, adj_y = k.array(zeros()), k.array(np.ones(SIZE, np.float32))

    def run():
        wp.launch(
            kernel,
            dim=SIZE,
            inputs=[x, y, FACTOR],
            adj_inputs=[adj_x, adj_y, None if wp.__name__ == "warp_like" else 0.0],
            adjoint=True,
            device="cpu",
        )

    return Program(run, lambda: values_of(adj_x))


def record_and_backward(k: Kernels) -> Program:
    wp, kernel = k.wp, k.scale
    x, y = k.array(numbers(), requires_grad=True), k.array(zeros(), requires_grad=True)
    seed = k.array(np.ones(SIZE, np.float32))

    def run():
        tape = wp.Tape()
        with tape:
            wp.launch(kernel, dim=SIZE, inputs=[x, y, FACTOR])
        tape.backward(grads={y: seed})

    def result():
        x.grad.zero_()
        y.grad.zero_()
        run()
        return values_of(x.grad)

    return Program(run, result)


# --- the table ---------------------------------------------------------------------------------------------


def warp_rows(k: Kernels, frameworks: dict) -> dict[str, Program]:
    """Return one Warp's programs by row."""
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
    own = wp.__name__ == "warp_like"
    if torch := frameworks.get("PyTorch"):
        x, y = torch.from_numpy(numbers()), torch.from_numpy(zeros())
        rows["launch on PyTorch tensors"] = launches(k, x, y)
        rows |= launch_frameworks.torch_rows(k, torch)
    if (paddle := frameworks.get("Paddle")) and own:  # warp-lang hangs
        rows["launch on Paddle tensors"] = launches(k, paddle.to_tensor(numbers()), paddle.to_tensor(zeros()))
    if jax := frameworks.get("JAX"):
        x = jax.numpy.asarray(numbers())
        if own:  # warp-lang refuses
            rows["launch on a JAX array"] = launches(k, x, k.array(zeros()))
        rows["from_jax"] = returning(lambda: wp.from_jax(x))
        rows["to_jax"] = returning(lambda: wp.to_jax(array))
    return rows


def peer_rows(frameworks: dict) -> dict[str, dict[str, Program]]:
    """Return the programs of those that are no Warp: by row, then by column."""
    rows: dict[str, dict[str, Program]] = {}
    ndarray = numbers()
    rows["zeros(16)"] = {"NumPy": returning(lambda: np.zeros(SIZE, np.float32))}
    rows["slice [2:10]"] = {"NumPy": returning(lambda: ndarray[2:10])}
    if torch := frameworks.get("PyTorch"):
        tensor = torch.from_numpy(ndarray)
        rows["zeros(16)"]["PyTorch"] = returning(lambda: torch.zeros(SIZE))
        rows["slice [2:10]"]["PyTorch"] = returning(lambda: tensor[2:10])
        rows["from_numpy"] = {"PyTorch": returning(lambda: torch.from_numpy(ndarray))}
        rows[".numpy()"] = {"PyTorch": returning(lambda: tensor.numpy())}
        rows["tape: record and backward"] = {"PyTorch": launch_frameworks.plain_operation(torch)}
        rows["autograd.Function around a kernel"] = {"PyTorch": launch_frameworks.empty_function(torch)}
    if numba := frameworks.get("numba"):
        rows["launch on NumPy arrays"] = {"numba": numba_call(numba)}
    return rows


def expected_values() -> dict[str, np.ndarray]:
    x = numbers().astype(float)
    launched = dict.fromkeys(
        (
            *("launch on wp arrays", "launch on NumPy arrays", "launch on PyTorch tensors"),
            *("launch on Paddle tensors", "launch on a JAX array", "recorded launch"),
        ),
        FACTOR * x,
    )
    return launched | {
        "launch with ten arguments": 5.0 * x + 10.0,
        "launch with a struct": FACTOR * x + 1.0,
        "launch with a NumPy number": FACTOR * x,
        "from_numpy": x,
        ".numpy()": x,
        ".numpy(), fresh": 0.0 * x,
        "from_torch": x,
        "from_torch, with gradient": x,
        "to_torch": x,
        "to_torch, fresh": 0.0 * x,
        "from_jax": x,
        "to_jax": x,
        "zeros(16)": 0.0 * x,
        "slice [2:10]": x[2:10],
        "adjoint launch": np.full(SIZE, FACTOR),
        "tape: record and backward": np.full(SIZE, FACTOR),
        "autograd.Function around a kernel": np.full(SIZE, FACTOR),
    }


AIMS = {
    "launch on wp arrays": 0.4,
    "launch on NumPy arrays": 0.5,
    "launch on PyTorch tensors": 0.6,
    "launch on Paddle tensors": 1.5,
    "launch on a JAX array": 1.5,
    "recorded launch": 0.12,
    "launch with ten arguments": 1.0,
    "launch with a struct": 1.0,
    "from_numpy": 1.0,
    ".numpy()": 0.5,
    "from_torch": 0.5,
    "from_torch, with gradient": 1.0,
    "to_torch": 0.7,
    "from_jax": 3.0,
    "to_jax": 15.0,
    "zeros(16)": 0.6,
    "slice [2:10]": 0.5,
    "adjoint launch": 0.8,
    "tape: record and backward": 4.0,
    "autograd.Function around a kernel": 55.0,
}
"""Microseconds, on the machine that the tables of the documentation are from."""


def main(argv: list[str] | None = None) -> dict:
    options = harness.arguments(__doc__.splitlines()[0], argv)
    frameworks = harness.find_frameworks(FRAMEWORKS)
    programs = {row: {} for row in expected_values()}
    for column in harness.WARPS:
        if wp := frameworks.get(column):
            for row, program in warp_rows(Kernels(wp), frameworks).items():
                programs[row][column] = program
    for row, columns in peer_rows(frameworks).items():
        programs[row].update(columns)
    budget = harness.budget(options)
    rows = {row: harness.measure_row(row, programs[row], wanted, budget) for row, wanted in expected_values().items()}
    for row, aim in AIMS.items():
        rows[row]["aim"] = aim * 1.0e-6
    harness.report("launch", "one call, microseconds", COLUMNS, rows, 1.0e6, options)
    return rows


if __name__ == "__main__":
    main()
