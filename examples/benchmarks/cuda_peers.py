"""The columns of ``benchmark_cuda.py`` that are other libraries: PyTorch, Triton, CuPy, numba, and CUDA C++ itself."""

import ctypes
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from cuda_kernels import BLOCK, CPP, FAST_CPP
from cuda_rows import COPY, HISTOGRAM, MATMUL, NBODY, NBODY_FAST, SAXPY, SMALL, SUM, Data, Makers
from timing import Program, nothing


def torch_programs(torch: ModuleType, data: Data, device: str) -> Makers:
    """Return the rows that PyTorch has one call for."""
    wait = torch.cuda.synchronize if device != "cpu" else nothing

    def made(run: Callable[..., Any], *inputs: np.ndarray) -> Callable[[], Program]:
        def make() -> Program:
            given = [torch.from_numpy(a).to(device) for a in inputs]
            out: list[Any] = [None]

            def call() -> None:
                out[0] = run(*given)

            return Program(call, lambda: out[0].cpu().numpy(), wait)

        return make

    axpy = made(lambda x, y: torch.add(y, x, alpha=2.0), data.x, data.y)
    return {
        SAXPY: axpy,
        COPY: made(lambda x: x.clone(), data.x),
        SUM: made(lambda x: x.sum().reshape(1), data.values),
        HISTOGRAM: made(lambda x: torch.bincount(x, minlength=1024), data.bins),
        MATMUL: made(torch.matmul, data.a, data.b),
        SMALL: made(lambda x, y: torch.add(y, x, alpha=2.0), data.x[:16], data.y[:16]),
    }


def triton_programs(triton: ModuleType, data: Data, device: str) -> Makers:
    """Return a kernel of Triton on PyTorch's tensors."""
    torch = importlib.import_module("torch")
    tl: Any
    tl = globals()["tl"] = importlib.import_module("triton.language")  # its compiler looks names up among the globals

    @triton.jit
    def saxpy(x, y, out, a, n, size: tl.constexpr):
        at = tl.program_id(0) * size + tl.arange(0, size)
        inside = at < n
        tl.store(out + at, a * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)

    def made(x: np.ndarray, y: np.ndarray) -> Callable[[], Program]:
        def make() -> Program:
            given = [torch.from_numpy(a).to(device) for a in (x, y)]
            out = torch.empty_like(given[0])
            grid = (triton.cdiv(x.size, 1024),)

            def run() -> None:
                saxpy[grid](*given, out, 2.0, x.size, size=1024)

            return Program(run, lambda: out.cpu().numpy(), torch.cuda.synchronize)

        return make

    return {SAXPY: made(data.x, data.y), SMALL: made(data.x[:16], data.y[:16])}


def cupy_programs(cupy: ModuleType, data: Data, device: str) -> Makers:
    """Return the CUDA C++ kernels, launched by CuPy."""
    module = cupy.RawModule(code=CPP)

    def made(
        name: str, inputs: list[np.ndarray], extra: list[Any], cut: Callable[[Any], np.ndarray]
    ) -> Callable[[], Program]:
        def make() -> Program:
            given = [cupy.asarray(a) for a in inputs]
            out = cupy.zeros_like(given[0])
            n, function = len(out), module.get_function(name)
            grid = ((n + BLOCK - 1) // BLOCK,)
            args = (*given, out, *extra, np.int32(n))
            wait = cupy.cuda.Device().synchronize
            return Program(lambda: function(grid, (BLOCK,), args), lambda: cut(out.get()), wait)

        return make

    return {
        SAXPY: made("saxpy", [data.x, data.y], [np.float32(2.0)], lambda out: out),
        NBODY: made("nbody", [data.positions], [], lambda out: out[:64, :3]),
        SMALL: made("saxpy", [data.x[:16], data.y[:16]], [np.float32(2.0)], lambda out: out),
    }


def numba_programs(cuda: ModuleType, data: Data, device: str) -> Makers:
    """Return a kernel of numba."""

    @cuda.jit
    def saxpy(x, y, out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i] + y[i]

    def made(x: np.ndarray, y: np.ndarray) -> Callable[[], Program]:
        def make() -> Program:
            given = [cuda.to_device(a.reshape(-1)) for a in (x, y, np.zeros_like(x))]
            launch = saxpy[(x.size + BLOCK - 1) // BLOCK, BLOCK]

            def run() -> None:
                launch(*given, np.float32(2.0))

            return Program(run, lambda: given[2].copy_to_host().reshape(x.shape), cuda.synchronize)

        return make

    return {SAXPY: made(data.x, data.y), SMALL: made(data.x[:16], data.y[:16])}


class Cpp:
    """CUDA C++ compiled by NVRTC and launched through the driver."""

    def __init__(self, code: str, arch: int) -> None:
        from cuda.bindings import driver, nvrtc

        self.driver = driver
        program = self.checked(nvrtc.nvrtcCreateProgram(code.encode(), b"benchmark.cu", 0, [], []))
        self.checked(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=compute_{arch}".encode()]))
        ptx = bytes(self.checked(nvrtc.nvrtcGetPTXSize(program)))
        self.checked(nvrtc.nvrtcGetPTX(program, ptx))
        self.checked(driver.cuInit(0))
        context = self.checked(driver.cuDevicePrimaryCtxRetain(self.checked(driver.cuDeviceGet(0))))
        self.checked(driver.cuCtxSetCurrent(context))
        self.module = self.checked(driver.cuModuleLoadData(ptx))

    @staticmethod
    def checked(answer: tuple[Any, ...]) -> Any:
        """Return the value of a call of the driver; raise if it failed."""
        status, *values = answer
        if int(status):
            raise RuntimeError(status.name)
        return values[0] if values else None

    def program(
        self, name: str, arrays: list[Any], extra: list[float], n: int, result: Callable[[], np.ndarray]
    ) -> Program:
        """Return a launch on arrays with pointers, then ``extra`` floats, then ``n``."""
        function = self.checked(self.driver.cuModuleGetFunction(self.module, name.encode()))
        values = (*(a.ptr for a in arrays), *extra, n)
        types = (*[ctypes.c_void_p] * len(arrays), *[ctypes.c_float] * len(extra), ctypes.c_int)
        grid = (n + BLOCK - 1) // BLOCK

        def run() -> None:
            self.checked(self.driver.cuLaunchKernel(function, grid, 1, 1, BLOCK, 1, 1, 0, 0, (values, types), 0))

        return Program(run, result, lambda: self.checked(self.driver.cuCtxSynchronize()))


def cpp_programs(wp: ModuleType, data: Data, device: str) -> Makers:
    """Return the CUDA C++ kernels on arrays of warp_like."""
    cpp, fast = (Cpp(code, wp.get_device(device).arch) for code in (CPP, FAST_CPP))

    def saxpy(count: int) -> Program:
        x, y = (wp.array(a[:count], dtype=wp.vec4, device=device) for a in (data.x, data.y))
        out = wp.zeros(count, dtype=wp.vec4, device=device)
        wp.synchronize_device(device)
        return cpp.program("saxpy", [x, y, out], [2.0], count, out.numpy)

    def nbody(compiled: Cpp) -> Program:
        p, out = (wp.array(a, dtype=wp.vec4, device=device) for a in (data.positions, 0.0 * data.positions))
        wp.synchronize_device(device)
        return compiled.program("nbody", [p, out], [], data.bodies, lambda: out.numpy()[:64, :3])

    return {
        SAXPY: lambda: saxpy(data.count),
        NBODY: lambda: nbody(cpp),
        NBODY_FAST: lambda: nbody(fast),
        SMALL: lambda: saxpy(16),
    }
