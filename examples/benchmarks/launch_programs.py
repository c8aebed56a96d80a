"""The programs of ``benchmark_launch.py`` on arrays of the Warps and of NumPy: kernels, launches, gradients."""

from types import ModuleType
from typing import Any

import numpy as np
from small_calls import FACTOR, SIZE, numbers, values_of, zeros
from timing import Program


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

    def __init__(self, wp: ModuleType) -> None:
        self.wp = wp
        self.line_type = make_struct(wp)
        self.line = make_line(wp, self.line_type)
        self.saxpy, self.scale, self.sum = make_saxpy(wp), make_scale(wp), make_sum(wp)

    @property
    def is_own(self) -> bool:
        """Whether this is warp_like."""
        return self.wp.__name__ == "warp_like"

    @property
    def no_adjoint(self) -> float | None:
        """What stands for the adjoint of a number, whose gradient nobody wants."""
        return None if self.is_own else 0.0

    def array(self, values: np.ndarray, **options: Any) -> Any:
        return self.wp.array(values, dtype=float, **options)


def launches(k: Kernels, x: Any, y: Any) -> Program:
    """Return the launch as a user writes it: the list of arguments is made on every call."""
    wp, saxpy = k.wp, k.saxpy

    def run() -> None:
        wp.launch(saxpy, dim=SIZE, inputs=[x, y, FACTOR])

    return Program(run, lambda: values_of(y))


def recorded(k: Kernels) -> Program:
    """Return a launch that was recorded once."""
    y = k.array(zeros())
    command = k.wp.launch(k.saxpy, dim=SIZE, inputs=[k.array(numbers()), y, FACTOR], record_cmd=True, device="cpu")
    return Program(command.launch, lambda: values_of(y))


def ten_arguments(k: Kernels) -> Program:
    """Return a launch with six arrays and four numbers."""
    wp, kernel, out = k.wp, k.sum, k.array(zeros())
    a, b, c, d, e = (k.array(numbers()) for _ in range(5))

    def run() -> None:
        wp.launch(kernel, dim=SIZE, inputs=[a, b, c, d, e, 1.0, 2.0, 3.0, 4.0], outputs=[out])

    return Program(run, lambda: values_of(out))


def a_struct(k: Kernels) -> Program:
    """Return a launch whose only argument is a struct."""
    wp, kernel, line = k.wp, k.line, k.line_type()
    line.x, line.y, line.a, line.b = k.array(numbers()), k.array(zeros()), FACTOR, 1.0

    def run() -> None:
        wp.launch(kernel, dim=SIZE, inputs=[line])

    return Program(run, lambda: values_of(line.y))


def numpy_number(k: Kernels) -> Program:
    """Return a launch with a number that is one of NumPy's."""
    wp, kernel, x, y, factor = k.wp, k.scale, k.array(numbers()), k.array(zeros()), np.float32(FACTOR)

    def run() -> None:
        wp.launch(kernel, dim=SIZE, inputs=[x, y, factor])

    return Program(run, lambda: values_of(y))


def numba_call(numba: ModuleType) -> Program:
    """Return a call of a function that holds the loop."""

    @numba.njit
    def saxpy(x, y, a):
        for i in range(x.shape[0]):
            y[i] = a * x[i] + y[i]

    x, y, a = numbers(), zeros(), np.float32(FACTOR)
    return Program(lambda: saxpy(x, y, a), lambda: y.copy())


def adjoint_launch(k: Kernels) -> Program:
    """Return a launch of the adjoint."""
    wp, kernel, x, y, no_adjoint = k.wp, k.scale, k.array(numbers()), k.array(zeros()), k.no_adjoint
    adj_x, adj_y = k.array(zeros()), k.array(np.ones(SIZE, np.float32))

    def run() -> None:
        wp.launch(
            kernel,
            dim=SIZE,
            inputs=[x, y, FACTOR],
            adj_inputs=[adj_x, adj_y, no_adjoint],
            adjoint=True,
            device="cpu",
        )

    return Program(run, lambda: values_of(adj_x))


def record_and_backward(k: Kernels) -> Program:
    """Return a launch on a new tape, and its backward pass."""
    wp, kernel = k.wp, k.scale
    x, y = k.array(numbers(), requires_grad=True), k.array(zeros(), requires_grad=True)
    seed = k.array(np.ones(SIZE, np.float32))

    def run() -> None:
        tape = wp.Tape()
        with tape:
            wp.launch(kernel, dim=SIZE, inputs=[x, y, FACTOR])
        tape.backward(grads={y: seed})

    def result() -> np.ndarray:
        x.grad.zero_()
        y.grad.zero_()
        run()
        return values_of(x.grad)

    return Program(run, result)
