"""The C++ column of the benchmarks: ``reference.cpp``, compiled by the system's compiler when a benchmark runs."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("reference.cpp")
FLAGS = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-std=c++17", "-shared", "-fPIC"]


def load() -> ctypes.CDLL | None:
    """Return the compiled functions; None, with a word about it, where there is no C++ compiler with OpenMP."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        print("C++: not here (no g++)", file=sys.stderr)
        return None
    text = SOURCE.read_bytes() + " ".join([compiler, *FLAGS]).encode()
    library = Path(tempfile.gettempdir()) / f"warp_like-benchmark-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")
        done = subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(made)], capture_output=True, text=True)
        if done.returncode:
            print(f"C++: not here ({done.stderr.strip().splitlines()[-1]})", file=sys.stderr)
            return None
        made.replace(library)
    return ctypes.CDLL(str(library))


def call(function, *args):
    """Return a function without arguments that calls ``function``: arrays by their address, ints as 64-bit."""
    function.restype = None
    given = [_argument(a) for a in args]

    def run(keep=args):  # the arrays live as long as the function that has their addresses
        function(*given)

    return run


def _argument(a):
    if isinstance(a, np.ndarray):
        return ctypes.c_void_p(a.ctypes.data)
    return ctypes.c_float(a) if isinstance(a, (float, np.floating)) else ctypes.c_int64(a)
