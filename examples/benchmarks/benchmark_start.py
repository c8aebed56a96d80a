"""The cost of starting: importing, the first launch, a file of many kernels, and compiling larger kernels.

    python examples/benchmarks/benchmark_start.py --json start.json

Every number comes from new processes: the best of three where what they find in the cache is the same, one
process where it is cold. "Beyond NumPy" means that NumPy is imported before the clock starts; all other rows begin
when the framework has been imported. Caches live in a temporary folder. The kernels of a file are all launched once.
numba compiles each function when it is first called, with ``cache=True``.

Python keeps the modules of all frameworks as bytecode, as installers leave them behind: a first run, which is not
timed, sees to that.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import frameworks
import reporting

COLUMNS = [*frameworks.WARPS, "numba"]
REPEATS = 3
SIZES = [50, 200, 800]  # statements of one kernel
Tables = dict[str, dict[str, dict[str, float]]]

PRELUDE = """
import sys, time
import numpy as np
start = time.perf_counter()
import {module} as wp
imported = time.perf_counter() - start
if "{module}" == "warp":
    wp.config.log_level = wp.LOG_ERROR
    wp.init()
"""

# Linux's VmHWM starts anew with a program; getrusage's maximum would be inherited from this process.
EPILOGUE = """
total = time.perf_counter() - start
try:
    status = open("/proc/self/status").read()
    memory = int(status.split("VmHWM:")[1].split()[0])
except OSError:
    memory = 0
print("measured", imported, total, memory)
"""

WARP_KERNEL = """
@wp.kernel
def kernel_{name}(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    v = x[i]
{body}    y[i] = v
"""

NUMBA_KERNEL = """
@wp.njit(cache=True)
def kernel_{name}(x, y, a):
    for i in range(x.shape[0]):
        v = x[i]
{body}        y[i] = v
"""

WARP_CALL = 'wp.launch(kernel_{name}, dim=16, inputs=[x, y, 2.0], device="cpu")\n'
NUMBA_CALL = "kernel_{name}(x, y, np.float32(2.0))\n"
ARRAYS = "x, y = np.ones(16, np.float32), np.ones(16, np.float32)\n"


def statements(count: int, first: int, indent: int) -> str:
    """Return this many statements that nothing can merge."""
    line = " " * indent + "v = v * a + x[i] * {}.5\n"
    return "".join(line.format(first + n) for n in range(count))


def program(column: str, kernels: int, size: int = 4, edited: int | None = None) -> str:
    """Return the text of a file with these kernels, of ``size`` statements each, that launches each once."""
    is_warp = column in frameworks.WARPS
    kernel, call, indent = (WARP_KERNEL, WARP_CALL, 4) if is_warp else (NUMBA_KERNEL, NUMBA_CALL, 8)
    text = PRELUDE.format(module=frameworks.FRAMEWORKS[column].module)
    for n in range(kernels):
        text += kernel.format(name=n, body=statements(size, n + (1000 if n == edited else 0), indent))
    return text + ARRAYS + "".join(call.format(name=n) for n in range(kernels)) + EPILOGUE


class Run(NamedTuple):
    """The cost of a program: seconds for the import, seconds for all that follows, and the most bytes it had."""

    imported: float
    launches: float
    memory: float


class Folder:
    """A folder with one program and its caches."""

    def __init__(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.path = path
        caches = ("WARP_LIKE_CACHE_DIR", "WARP_CACHE_PATH", "NUMBA_CACHE_DIR")
        self.environment = os.environ | {name: str(path / name.lower()) for name in caches}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, text: str) -> Run:
        """Run a program."""
        script = self.path / "kernels.py"
        script.write_text(text)
        done = subprocess.run(
            [sys.executable, str(script)], env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{script} failed:\n{done.stderr}")
        last = [line for line in done.stdout.splitlines() if line.startswith("measured")][-1]
        imported, total, kibibytes = map(float, last.split()[1:])
        return Run(imported, total - imported, kibibytes * 1024)

    def best(self, text: str) -> Run:
        """Run a program several times, and return the least of each number."""
        runs = [self.run(text) for _ in range(REPEATS)]
        return Run(*(min(values) for values in zip(*runs, strict=True)))


def measure_column(column: str, kernels: int, sizes: list[int]) -> dict[str, dict[str, float]]:
    """Return one framework's numbers: seconds by row, and bytes by row."""
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        first, one, many = (Folder(Path(temporary) / name) for name in ("first", "one", "many"))
        text = program(column, 1)
        first.run(text)
        seconds["first launch, nothing cached"] = one.run(text).launches
        best = one.best(text)
        seconds["import, beyond NumPy"] = best.imported
        seconds["first launch, cached"] = best.launches
        text = program(column, kernels)
        seconds[f"{kernels} kernels, nothing cached"] = many.run(text).launches
        seconds[f"{kernels} kernels, cached"] = many.best(text).launches
        edited = program(column, kernels, edited=kernels // 2)
        seconds[f"{kernels} kernels, one edited"] = many.run(edited).launches
        for size in sizes:
            folder = Folder(Path(temporary) / f"size{size}")
            seconds[f"a kernel of {size} statements"] = folder.run(program(column, 1, size)).launches
    return {"seconds": seconds, "bytes": {"one kernel, cached": best.memory}}


def numpy_memory() -> float:
    """Return the bytes of a process that has imported NumPy alone."""
    with tempfile.TemporaryDirectory() as temporary:
        return Folder(Path(temporary)).best(PRELUDE.format(module="numpy") + EPILOGUE).memory


def main(argv: list[str] | None = None) -> Tables:
    """Run the benchmark and return its tables."""
    options = reporting.parser(__doc__).parse_args(argv)
    kernels, sizes = (3, [10]) if options.quick else (50, SIZES)
    measured = {column: measure_column(column, kernels, sizes) for column in frameworks.find_frameworks(COLUMNS)}
    tables: Tables = {}
    for kind in ("seconds", "bytes"):
        names = next(iter(measured.values()))[kind]
        tables[kind] = {row: {column: measured[column][kind][row] for column in measured} for row in names}
    tables["bytes"]["one kernel, cached"]["NumPy"] = numpy_memory()
    report = reporting.Report("start", "seconds: s, bytes: B", options)
    report.table("time in a new process, milliseconds", COLUMNS, tables["seconds"], 1.0e3)
    report.table("memory, MiB", [*COLUMNS, "NumPy"], tables["bytes"], 1.0 / 2**20)
    report.finish(tables)
    return tables


if __name__ == "__main__":
    main()
