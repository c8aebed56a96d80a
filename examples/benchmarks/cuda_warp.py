"""The columns of ``benchmark_cuda.py`` that compile the same kernels: warp_like and warp-lang."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from cuda_kernels import make_kernels
from cuda_rows import (
    COPY,
    GRAPH,
    GRAPH_NODES,
    HISTOGRAM,
    KERNEL_COPY,
    MATMUL,
    NBODY,
    NBODY_FAST,
    SAXPY,
    SMALL,
    STENCIL,
    SUM,
    Data,
    Makers,
)
from timing import Program, Run

Result = Callable[[], np.ndarray]


def warp_programs(wp: ModuleType, data: Data, device: str) -> Makers:
    """Return the rows of warp_like or warp-lang."""
    kernels = make_kernels(wp)

    def wait() -> None:
        wp.synchronize_device(device)

    def array(values: np.ndarray, dtype: Any) -> Any:
        return wp.array(values, dtype=dtype, device=device)

    def program(name: str, dim: int | tuple[int, ...], args: list[Any], result: Result, **how: Any) -> Program:
        return Program(lambda: wp.launch(kernels[name], dim=dim, inputs=args, device=device, **how), result, wait)

    def saxpy() -> Program:
        x, y = array(data.x, wp.vec4), array(data.y, wp.vec4)
        out = wp.zeros(data.count, dtype=wp.vec4, device=device)
        return program("saxpy", data.count, [x, y, out, 2.0], out.numpy)

    def copy() -> Program:
        x, out = array(data.x, wp.vec4), wp.zeros(data.count, dtype=wp.vec4, device=device)
        return Program(lambda: wp.copy(out, x), out.numpy, wait)

    def kernel_copy() -> Program:
        x, out = array(data.x, wp.vec4), wp.zeros(data.count, dtype=wp.vec4, device=device)
        return program("copy", data.count, [x, out], out.numpy)

    def nbody(**how: Any) -> Program:
        p, out = array(data.positions, wp.vec4), wp.zeros(data.bodies, dtype=wp.vec4, device=device)
        return program("nbody", data.bodies, [p, out, data.bodies], lambda: out.numpy()[:64, :3], **how)

    def stencil() -> Program:
        x, out = array(data.image, float), wp.zeros(data.image.shape, dtype=float, device=device)
        inner = (data.side - 2, data.side - 2)
        return program("stencil", inner, [x, out], lambda: out.numpy()[1:-1, 1:-1])

    def total() -> Program:
        x, out = array(data.values, float), wp.zeros(1, dtype=float, device=device)
        return once(program("total", data.summed, [x, out], out.numpy), out.zero_)

    def histogram() -> Program:
        x, out = array(data.bins, int), wp.zeros(1024, dtype=int, device=device)
        return once(program("histogram", data.summed, [x, out], out.numpy), out.zero_)

    def matmul() -> Program:
        a, b = array(data.a, float), array(data.b, float)
        out = wp.zeros((data.edge, data.edge), dtype=float, device=device)
        return program("matmul", (data.edge, data.edge), [a, b, out, data.edge], out.numpy)

    def small() -> Program:
        x, y = array(data.x[:16], wp.vec4), array(data.y[:16], wp.vec4)
        out = wp.zeros(16, dtype=wp.vec4, device=device)
        return program("saxpy", 16, [x, y, out, 2.0], out.numpy)

    def graph() -> Program:
        one = small()
        one.run()  # compiled before
        with wp.ScopedCapture(device=device) as capture:
            for _ in range(GRAPH_NODES):
                one.run()
        return Program(lambda: wp.capture_launch(capture.graph), one.result, wait)

    fast: Makers = {NBODY_FAST: lambda: nbody(options={"fast_math": True})}
    return (fast if hasattr(wp.Kernel, "with_options") else {}) | {
        SAXPY: saxpy,
        COPY: copy,
        KERNEL_COPY: kernel_copy,
        NBODY: nbody,
        STENCIL: stencil,
        SUM: total,
        HISTOGRAM: histogram,
        MATMUL: matmul,
        SMALL: small,
        GRAPH: graph,
    }


def once(program: Program, clear: Run) -> Program:
    """Return a program that adds to its output, whose result is that of one run after ``clear``."""

    def result() -> np.ndarray:
        clear()
        program.run()
        program.wait()
        return program.result()

    return Program(program.run, result, program.wait)
