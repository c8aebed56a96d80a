"""Functions in C++ for the benchmarks: ``cpp/*.cpp``, compiled by the system's compiler when a benchmark runs.

Each file becomes one library for each set of flags, under ``build/benchmarks`` and named by what went in, so that it is
compiled once. -ffast-math is not given to the linker, which would make the process treat denormal numbers as zero.
"""

import concurrent.futures
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).with_name("cpp")
BUILD = Path(__file__).resolve().parents[2] / "build" / "benchmarks" / "cpp"
FLAGS = ["-O3", "-march=native", "-fopenmp", "-std=c++17", "-fPIC"]
FAST = "-ffast-math"


class Library:
    """The functions of all files, compiled with the same flags."""

    def __init__(self, libraries: list[ctypes.CDLL]) -> None:
        self.libraries = libraries

    def find(self, name: str) -> Any:
        """Return the function of this name, or None."""
        for library in self.libraries:
            if hasattr(library, name):
                return getattr(library, name)
        return None


def load(*extra: str, files: str = "*") -> Library | None:
    """Return the compiled functions of the files of these names.

    None, with a word about it, where there is no C++ compiler with OpenMP.
    """
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        print("C++: not here (no g++)", file=sys.stderr)
        return None
    BUILD.mkdir(parents=True, exist_ok=True)
    headers = b"".join(path.read_bytes() for path in sorted(FOLDER.glob("*.h")))
    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            sources = sorted(FOLDER.glob(f"{files}.cpp"))
            jobs = [pool.submit(_build, compiler, source, extra, headers) for source in sources]
            return Library([ctypes.CDLL(str(job.result())) for job in jobs])
    except subprocess.CalledProcessError as error:
        print(f"C++: not here ({error.stderr.strip().splitlines()[-1]})", file=sys.stderr)
        return None


def _build(compiler: str, source: Path, extra: tuple[str, ...], headers: bytes) -> Path:
    flags = [*FLAGS, *extra]
    key = "\n".join([compiler, *flags, platform.machine(), _processor()]).encode() + headers + source.read_bytes()
    library = BUILD / f"{source.stem}-{hashlib.sha256(key).hexdigest()[:16]}.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")
        steps = [
            [compiler, *flags, "-c", str(source), "-o", f"{made}.o"],
            [compiler, "-shared", "-fopenmp", f"{made}.o", "-o", str(made), "-lm"],
        ]
        for step in steps:
            subprocess.run(step, capture_output=True, text=True, check=True)
        Path(f"{made}.o").unlink()
        made.replace(library)
    return library


def _processor() -> str:
    """Return the properties of the processor that -march=native depends on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else [platform.processor()]
    return next((line for line in lines if line.startswith(("flags", "Features"))), lines[0] if lines else "")


def call(function: Any, *args: Any) -> Callable[[], None]:
    """Return a function without arguments that calls ``function``: arrays by their address, ints as 64-bit."""
    function.restype = None
    given = [_argument(a) for a in args]

    def run(keep: tuple = args) -> None:  # the arrays live as long as the function that has their addresses
        function(*given)

    return run


def _argument(a: Any) -> Any:
    if isinstance(a, np.ndarray):
        return ctypes.c_void_p(a.ctypes.data)
    if isinstance(a, np.float32):
        return ctypes.c_float(float(a))
    return ctypes.c_double(a) if isinstance(a, float) else ctypes.c_int64(a)
