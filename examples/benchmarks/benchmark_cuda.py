"""Kernels on a GPU beside CUDA C++ and other libraries: bandwidth, arithmetic, atomics, launches; in microseconds.

    python examples/benchmarks/benchmark_cuda.py --json docs/benchmarks/cuda.json

A call is one launch; calls are timed in batches that end with waiting for the device. Every result is checked before
it gets a time, and a program that fails says why and gets no time, while the others go on. Two rows end with what they
are to be measured by: saxpy moves three bytes where a copy moves two, so its bandwidth is a share of that of a copy
between two arrays of the device, and n-body's is that of the same loop in CUDA C++, compiled by NVRTC.

The file of ``--json`` is written after each row of each library, so that whatever ends the program early loses
nothing; ``--seconds`` ends it by itself. Libraries take turns as a whole, this one first: an error that makes the
device unusable for the rest of the process costs those that come later.

``--device cpu`` runs the same programs on the processor, which shows that they agree but times nothing of interest.
"""

import ctypes
import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import harness
import numpy as np

COLUMNS = ["warp_like", "warp-lang", "CUDA C++", "PyTorch", "Triton", "CuPy", "numba-cuda"]
MODULES = {
    "warp_like": "warp_like",
    "warp-lang": "warp",
    "PyTorch": "torch",
    "Triton": "triton",
    "CuPy": "cupy",
    "numba-cuda": "numba.cuda",
}
SOFTENING = 1.0e-3
BLOCK = 256


@dataclass
class Program:
    """One library's program: ``run`` starts one call, ``wait`` waits for all, ``result`` is what they computed."""

    run: Callable[[], object]
    wait: Callable[[], object]
    result: Callable[[], np.ndarray]


def make_kernels(wp):
    """The kernels, which warp_like and warp-lang compile from this same text."""

    @wp.kernel
    def saxpy(x: wp.array(dtype=wp.vec4), y: wp.array(dtype=wp.vec4), out: wp.array(dtype=wp.vec4), a: float):
        i = wp.tid()
        out[i] = a * x[i] + y[i]

    @wp.kernel
    def nbody(p: wp.array(dtype=wp.vec4), out: wp.array(dtype=wp.vec4), n: int):
        i = wp.tid()
        mine = p[i]
        total = wp.vec3(0.0, 0.0, 0.0)
        for j in range(n):
            other = p[j]
            d = wp.vec3(other[0] - mine[0], other[1] - mine[1], other[2] - mine[2])
            r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + SOFTENING
            inverse = 1.0 / wp.sqrt(r2)
            total = total + d * (other[3] * inverse * inverse * inverse)
        out[i] = wp.vec4(total[0], total[1], total[2], 0.0)

    @wp.kernel
    def stencil(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
        i, j = wp.tid()
        i = i + 1
        j = j + 1
        out[i, j] = 0.2 * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])

    @wp.kernel
    def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(out, 0, x[i])

    @wp.kernel
    def histogram(bins: wp.array(dtype=int), out: wp.array(dtype=int)):
        i = wp.tid()
        wp.atomic_add(out, bins[i], 1)

    @wp.kernel
    def matmul(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), out: wp.array2d(dtype=float), n: int):
        i, j = wp.tid()
        acc = float(0.0)  # noqa: UP018 (a variable for warp-lang, not a constant)
        for k in range(n):
            acc += a[i, k] * b[k, j]
        out[i, j] = acc

    names = ("saxpy", "nbody", "stencil", "total", "histogram", "matmul")
    return dict(zip(names, (saxpy, nbody, stencil, total, histogram, matmul), strict=True))


CPP = """
extern "C" __global__ void saxpy(const float4* __restrict__ x, const float4* __restrict__ y, float4* __restrict__ out,
                                 float a, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 p = x[i], q = y[i];
    out[i] = make_float4(a * p.x + q.x, a * p.y + q.y, a * p.z + q.z, a * p.w + q.w);
}
extern "C" __global__ void nbody(const float4* __restrict__ p, float4* __restrict__ out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 mine = p[i];
    float x = 0.0f, y = 0.0f, z = 0.0f;
    for (int j = 0; j < n; ++j) {
        const float4 other = p[j];
        const float dx = other.x - mine.x, dy = other.y - mine.y, dz = other.z - mine.z;
        const float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1.0e-3f);
        const float f = other.w * inverse * inverse * inverse;
        x += dx * f; y += dy * f; z += dz * f;
    }
    out[i] = make_float4(x, y, z, 0.0f);
}
"""


class Data:
    """The inputs of all rows on the host, and what is expected."""

    def __init__(self, quick: bool) -> None:
        rng = np.random.default_rng(0)
        self.count = 4096 if quick else 1 << 24  # elements of 16 bytes
        self.bodies = 256 if quick else 1 << 15
        self.side = 130 if quick else 8194
        self.summed = 10_000 if quick else 1 << 24
        self.edge = 64 if quick else 2048
        self.x, self.y = (rng.random((self.count, 4), dtype=np.float32) for _ in range(2))
        self.positions = rng.random((self.bodies, 4), dtype=np.float32)
        self.image = rng.random((self.side, self.side), dtype=np.float32)
        self.values = rng.random(self.summed, dtype=np.float32)
        self.bins = rng.integers(0, 1024, self.summed, dtype=np.int32)
        self.a, self.b = (rng.random((self.edge, self.edge), dtype=np.float32) for _ in range(2))

    def forces(self) -> np.ndarray:
        """What acts on the first 64 bodies."""
        p = self.positions.astype(np.float64)
        d = p[None, :, :3] - p[:64, None, :3]
        r2 = (d * d).sum(axis=2) + SOFTENING
        return (d * (p[None, :, 3] / r2**1.5)[..., None]).sum(axis=1)

    def blurred(self) -> np.ndarray:
        x = self.image
        inner = x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        return 0.2 * inner


def warp_programs(wp, data: Data, device: str) -> dict[str, Callable[[], Program]]:
    """The rows of warp_like or warp-lang. Each is made when it is its turn."""
    kernels = make_kernels(wp)

    def wait() -> None:
        wp.synchronize_device(device)

    def array(values, dtype):
        return wp.array(values, dtype=dtype, device=device)

    def program(name, dim, args, result) -> Program:
        return Program(lambda: wp.launch(kernels[name], dim=dim, inputs=args, device=device), wait, result)

    def saxpy() -> Program:
        x, y = array(data.x, wp.vec4), array(data.y, wp.vec4)
        out = wp.zeros(data.count, dtype=wp.vec4, device=device)
        return program("saxpy", data.count, [x, y, out, 2.0], out.numpy)

    def copy() -> Program:
        x, out = array(data.x, wp.vec4), wp.zeros(data.count, dtype=wp.vec4, device=device)
        return Program(lambda: wp.copy(out, x), wait, out.numpy)

    def nbody() -> Program:
        p, out = array(data.positions, wp.vec4), wp.zeros(data.bodies, dtype=wp.vec4, device=device)
        return program("nbody", data.bodies, [p, out, data.bodies], lambda: out.numpy()[:64, :3])

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
            for _ in range(20):
                one.run()
        return Program(lambda: wp.capture_launch(capture.graph), wait, one.result)

    rows = (saxpy, copy, nbody, stencil, total, histogram, matmul, small, graph)
    return dict(zip(ROWS, rows, strict=True))


def once(program: Program, clear: Callable[[], object]) -> Program:
    """A program that adds up: its result is that of one run after ``clear``."""

    def result() -> np.ndarray:
        clear()
        program.run()
        program.wait()
        return program.result()

    return Program(program.run, program.wait, result)


ROWS = [
    "saxpy of vec4",
    "copy on the device",
    "n-body",
    "stencil, 5 points",
    "sum into one element",
    "histogram, 1024 bins",
    "matmul, a thread an element",
    "launch of 16 elements",
    "graph of 20 launches",
]


def expected(data: Data) -> dict[str, np.ndarray]:
    axpy = 2.0 * data.x + data.y
    counts = np.bincount(data.bins, minlength=1024)
    total = data.values.sum(dtype=np.float64, keepdims=True)
    product = data.a.astype(np.float64) @ data.b
    values = (axpy, data.x, data.forces(), data.blurred(), total, counts, product, axpy[:16], axpy[:16])
    return dict(zip(ROWS, values, strict=True))


def torch_programs(torch, data: Data, device: str) -> dict[str, Callable[[], Program]]:
    """What PyTorch has one call for."""
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None

    def made(run, *inputs) -> Callable[[], Program]:
        def make() -> Program:
            given = [torch.from_numpy(a).to(device) for a in inputs]
            out: list = [None]

            def call() -> None:
                out[0] = run(*given)

            return Program(call, wait, lambda: out[0].cpu().numpy())

        return make

    axpy = made(lambda x, y: torch.add(y, x, alpha=2.0), data.x, data.y)
    return {
        ROWS[0]: axpy,
        ROWS[1]: made(lambda x: x.clone(), data.x),
        ROWS[4]: made(lambda x: x.sum().reshape(1), data.values),
        ROWS[5]: made(lambda x: torch.bincount(x, minlength=1024), data.bins),
        ROWS[6]: made(torch.matmul, data.a, data.b),
        ROWS[7]: made(lambda x, y: torch.add(y, x, alpha=2.0), data.x[:16], data.y[:16]),
    }


def triton_programs(triton, data: Data, device: str) -> dict[str, Callable[[], Program]]:
    torch = importlib.import_module("torch")
    tl = globals()["tl"] = importlib.import_module("triton.language")  # its compiler looks names up among the globals

    @triton.jit
    def saxpy(x, y, out, a, n, size: tl.constexpr):
        at = tl.program_id(0) * size + tl.arange(0, size)
        inside = at < n
        tl.store(out + at, a * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)

    def made(x, y) -> Callable[[], Program]:
        def make() -> Program:
            given = [torch.from_numpy(a).to(device) for a in (x, y)]
            out = torch.empty_like(given[0])
            grid = (triton.cdiv(x.size, 1024),)
            run = lambda: saxpy[grid](*given, out, 2.0, x.size, size=1024)  # noqa: E731
            return Program(run, torch.cuda.synchronize, lambda: out.cpu().numpy())

        return make

    return {ROWS[0]: made(data.x, data.y), ROWS[7]: made(data.x[:16], data.y[:16])}


def cupy_programs(cupy, data: Data, device: str) -> dict[str, Callable[[], Program]]:
    """The CUDA C++ kernels launched by CuPy."""
    module = cupy.RawModule(code=CPP)

    def made(name, inputs, extra, cut) -> Callable[[], Program]:
        def make() -> Program:
            given = [cupy.asarray(a) for a in inputs]
            out = cupy.zeros_like(given[0])
            n, function = len(out), module.get_function(name)
            grid = ((n + BLOCK - 1) // BLOCK,)
            args = (*given, out, *extra, np.int32(n))
            return Program(
                lambda: function(grid, (BLOCK,), args), cupy.cuda.Device().synchronize, lambda: cut(out.get())
            )

        return make

    return {
        ROWS[0]: made("saxpy", [data.x, data.y], [np.float32(2.0)], lambda out: out),
        ROWS[2]: made("nbody", [data.positions], [], lambda out: out[:64, :3]),
        ROWS[7]: made("saxpy", [data.x[:16], data.y[:16]], [np.float32(2.0)], lambda out: out),
    }


def numba_programs(cuda, data: Data, device: str) -> dict[str, Callable[[], Program]]:
    @cuda.jit
    def saxpy(x, y, out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i] + y[i]

    def made(x, y) -> Callable[[], Program]:
        def make() -> Program:
            given = [cuda.to_device(a.reshape(-1)) for a in (x, y, np.zeros_like(x))]
            launch = saxpy[(x.size + BLOCK - 1) // BLOCK, BLOCK]
            run = lambda: launch(*given, np.float32(2.0))  # noqa: E731
            return Program(run, cuda.synchronize, lambda: given[2].copy_to_host().reshape(x.shape))

        return make

    return {ROWS[0]: made(data.x, data.y), ROWS[7]: made(data.x[:16], data.y[:16])}


class Cpp:
    """``CPP`` compiled by NVRTC and launched through the driver."""

    def __init__(self, arch: int) -> None:
        from cuda.bindings import driver, nvrtc

        self.driver = driver
        program = self.checked(nvrtc.nvrtcCreateProgram(CPP.encode(), b"benchmark.cu", 0, [], []))
        self.checked(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=compute_{arch}".encode()]))
        ptx = bytes(self.checked(nvrtc.nvrtcGetPTXSize(program)))
        self.checked(nvrtc.nvrtcGetPTX(program, ptx))
        self.checked(driver.cuInit(0))
        context = self.checked(driver.cuDevicePrimaryCtxRetain(self.checked(driver.cuDeviceGet(0))))
        self.checked(driver.cuCtxSetCurrent(context))
        self.module = self.checked(driver.cuModuleLoadData(ptx))

    @staticmethod
    def checked(answer):
        status, *values = answer
        if int(status):
            raise RuntimeError(status.name)
        return values[0] if values else None

    def program(self, name, arrays, extra, n, result) -> Program:
        """A launch on arrays with pointers, then ``extra`` floats, then ``n``."""
        function = self.checked(self.driver.cuModuleGetFunction(self.module, name.encode()))
        values = (*(a.ptr for a in arrays), *extra, n)
        types = (*[ctypes.c_void_p] * len(arrays), *[ctypes.c_float] * len(extra), ctypes.c_int)
        grid = (n + BLOCK - 1) // BLOCK

        def run() -> None:
            self.checked(self.driver.cuLaunchKernel(function, grid, 1, 1, BLOCK, 1, 1, 0, 0, (values, types), 0))

        return Program(run, lambda: self.checked(self.driver.cuCtxSynchronize()), result)


def cpp_programs(wp, data: Data, device: str) -> dict[str, Callable[[], Program]]:
    """The CUDA C++ kernels on arrays of warp_like."""
    cpp = Cpp(wp.get_device(device).arch)

    def saxpy(count: int) -> Program:
        x, y = (wp.array(a[:count], dtype=wp.vec4, device=device) for a in (data.x, data.y))
        out = wp.zeros(count, dtype=wp.vec4, device=device)
        wp.synchronize_device(device)
        return cpp.program("saxpy", [x, y, out], [2.0], count, out.numpy)

    def nbody() -> Program:
        p, out = (wp.array(a, dtype=wp.vec4, device=device) for a in (data.positions, 0.0 * data.positions))
        wp.synchronize_device(device)
        return cpp.program("nbody", [p, out], [], data.bodies, lambda: out.numpy()[:64, :3])

    return {ROWS[0]: lambda: saxpy(data.count), ROWS[2]: nbody, ROWS[7]: lambda: saxpy(16)}


MAKERS = {
    "warp_like": warp_programs,
    "warp-lang": warp_programs,
    "CUDA C++": cpp_programs,
    "PyTorch": torch_programs,
    "Triton": triton_programs,
    "CuPy": cupy_programs,
    "numba-cuda": numba_programs,
}


def seconds_per_call(program: Program, quick: bool) -> float:
    """The best of several batches, each of as many calls as take about 20 ms."""
    program.run()
    program.wait()

    def batch(calls: int) -> float:
        def run() -> None:
            for _ in range(calls):
                program.run()
            program.wait()

        return harness.seconds_per_call(run, 1) / calls

    calls = max(1, min(2000, int(0.02 / max(batch(1), 1.0e-6))))
    return min(batch(calls) for _ in range(1 if quick else 9))


def measured(
    columns: list[str], data: Data, device: str, quick: bool, until: float, save: Callable[[dict], None]
) -> dict[str, dict[str, float]]:
    """Make, check and time every program, library by library, as long as the clock shows less than ``until``.

    ``save`` gets all rows after each that is done.
    """
    right = expected(data)
    rows: dict[str, dict[str, float]] = {row: {} for row in ROWS}
    for column in columns:
        programs = found(column, data, device)
        for row in ROWS:
            if row not in programs:
                continue
            if time.monotonic() > until:
                print(f"{row}: {column} left out: the time is used up", file=sys.stderr)
                continue
            try:
                program = programs[row]()
                program.run()
                program.wait()
                harness.check(row, column, program.result(), right[row], rtol=1.0e-3, atol=1.0e-3)
                rows[row][column] = seconds_per_call(program, quick)
            except Exception as error:  # whatever a library raises, the others go on
                print(f"{row}: {column} failed: {type(error).__name__}: {error}", file=sys.stderr)
            else:
                save(rows)
    return rows


def found(column: str, data: Data, device: str) -> dict[str, Callable[[], Program]]:
    """A library's programs; none, with the reason, where it is not here or can't use the device."""
    try:
        module = importlib.import_module(MODULES.get(column, "warp_like"))
        if column.startswith("warp"):
            harness.prepare_warp(module)
        return MAKERS[column](module, data, device)
    except Exception as error:
        print(f"{column}: not here: {type(error).__name__}: {error}", file=sys.stderr)
        return {}


def shares(rows: dict[str, dict[str, float]]) -> list[str]:
    """What the rows are measured by."""
    said = []
    saxpy, copy = rows[ROWS[0]].get("warp_like"), rows[ROWS[1]].get("warp_like")
    if saxpy and copy:
        said.append(f"saxpy has {1.5 * copy / saxpy:.1%} of the bandwidth of a copy on the device")
    ours, cpp = rows[ROWS[2]].get("warp_like"), rows[ROWS[2]].get("CUDA C++")
    if ours and cpp:
        said.append(f"n-body has {cpp / ours:.1%} of the speed of CUDA C++")
    return said


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    parser = harness.parser(__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0", help="a CUDA device, or cpu to check the programs")
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=COLUMNS, help="the libraries")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no program after so many seconds")
    options = parser.parse_args(argv)
    columns = [c for c in options.columns if options.device != "cpu" or c in ("warp_like", "warp-lang", "PyTorch")]
    report = harness.Report("cuda", "s", options)
    import warp_like as wp

    device = wp.get_device(options.device)
    name = {"device": {"name": str(getattr(device, "name", device))}}
    until = time.monotonic() + options.seconds
    data = Data(options.quick)
    rows = measured(columns, data, options.device, options.quick, until, lambda rows: report.save({**rows, **name}))
    report.table("microseconds", columns, rows, 1.0e6)
    for line in shares(rows):
        report.text(line)
    report.finish({**rows, **name})
    return rows


if __name__ == "__main__":
    main()
