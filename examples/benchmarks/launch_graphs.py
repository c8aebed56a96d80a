"""The graphs of ``benchmark_launch.py``: many small launches, with and without their adjoints, and chains of maps."""

import itertools

import numpy as np
from launch_programs import Kernels
from small_calls import SIZE, numbers, values_of
from timing import Program

LAUNCHES = 100
GROWTH = 1.001
MAPS = 10
LENGTH = 1 << 20


def make_flip(wp):
    @wp.kernel
    def flip(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = 1.0 - 0.5 * x[i]

    return flip


def flipped(x: np.ndarray, times: int) -> np.ndarray:
    """Return what so many maps make of ``x``, in float64."""
    for _ in range(times):
        x = 1.0 - 0.5 * x
    return x


def large() -> np.ndarray:
    """Return the numbers that are mapped."""
    return np.linspace(0.0, 1.0, LENGTH, dtype=np.float32)


def graph_of_launches(k: Kernels, backward: bool) -> Program:
    """Return the replay of a chain of launches; with ``backward`` on a tape, with zeroing, seed and adjoints."""
    wp = k.wp
    x = [k.array(numbers(), requires_grad=backward) for _ in range(LAUNCHES + 1)]
    seed = k.array(np.ones(SIZE, np.float32))

    def forward() -> None:
        for source, to in itertools.pairwise(x):
            wp.launch(k.scale, dim=SIZE, inputs=[source, to, GROWTH])

    with wp.ScopedCapture() as capture:
        if backward:
            with wp.Tape() as tape:
                forward()
            tape.zero()
            tape.backward(grads={x[-1]: seed})
        else:
            forward()
    return Program(lambda: wp.capture_launch(capture.graph), lambda: values_of(x[0].grad if backward else x[-1]))


def graph_of_maps(k: Kernels, count: int) -> Program:
    """Return the replay of maps, one after the other, in place."""
    wp, flip, x = k.wp, make_flip(k.wp), k.array(large())
    with wp.ScopedCapture() as capture:
        for _ in range(count):
            wp.launch(flip, dim=LENGTH, inputs=[x])

    def result() -> np.ndarray:
        x.assign(large())
        wp.capture_launch(capture.graph)
        return values_of(x)

    return Program(lambda: wp.capture_launch(capture.graph), result)


def numpy_maps(count: int) -> Program:
    """Return the same by NumPy, without temporary arrays."""
    x = large()

    def run() -> None:
        for _ in range(count):
            np.multiply(x, np.float32(-0.5), out=x)
            np.add(x, np.float32(1.0), out=x)

    def result() -> np.ndarray:
        x[:] = large()
        run()
        return x.copy()

    return Program(run, result)
