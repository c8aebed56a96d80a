"""What the tests of the native extension share: compiled entry points, arrays, dispatchers, subprocesses."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.native.loading import load_native

native = load_native()
ROOT = Path(__file__).resolve().parents[2]

BOOL, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 = range(13)
ARRAY, SCALAR, VALUE = range(3)
CPU = type("Device", (), {"__repr__": lambda self: "cpu"})()
SIZES = [1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8]


class Torch:
    """PyTorch for tests that run without it, too: where it is missing, the test that first uses it is skipped."""

    def __getattr__(self, name: str) -> Any:
        import pytest

        return getattr(pytest.importorskip("torch"), name)


torch = Torch()


def vec(n: int, scalar: int) -> int:
    """Return the type code of a vector."""
    return scalar | n << 8


def mat(rows: int, cols: int, scalar: int) -> int:
    """Return the type code of a matrix."""
    return scalar | rows << 8 | cols << 16


def size_of(code: int) -> int:
    """Return the bytes of an element of the type with this code."""
    if code & 255 > F64:
        return 4  # a struct's code; the tests that use one bind it themselves or do not look
    return SIZES[code & 255] * ((code >> 8 & 255) or 1) * ((code >> 16 & 255) or 1)


@functools.cache
def entries() -> ctypes.CDLL:
    """Return the library of entry points, with the runtime's functions filled in."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None, "the tests of the native extension need a C compiler"
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "entries.so"
        source = Path(__file__).with_name("entries.c")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        lib = ctypes.CDLL(str(library))
    for name, address in native.symbols().items():
        ctypes.c_void_p.in_dll(lib, name).value = address
    return lib


def address(name: str) -> int:
    """Return the address of an entry point."""
    value = ctypes.cast(getattr(entries(), name), ctypes.c_void_p).value
    assert value is not None
    return value


def variable(name: str, kind: Any = ctypes.c_longlong) -> Any:
    """Return a global of the library of entry points."""
    return kind.in_dll(entries(), name)


class Array(native.Array):
    """A subclass as the package makes one."""

    __slots__ = ("extra",)


def bound(
    shape: tuple[int, ...],
    code: int = F32,
    *,
    strides: tuple[int, ...] | None = None,
    readonly: bool = False,
    device: object = CPU,
    offset: int = 0,
    cls: type = Array,
) -> Any:
    """Return an array over fresh zeroed memory, four times what a C-contiguous one needs."""
    nbytes = 4 * size_of(code)
    for n in shape:
        nbytes *= max(n, 1)
    memory = native.alloc(nbytes + abs(offset), True)
    array = cls()
    array._bind(memory.ptr + offset, shape, strides, code, size_of(code), readonly, "dtype", device, memory)
    return array


def param(kind: int, code: int, ndim: int = 0, writes: bool = False, cls: type | None = None, name: str = "p") -> Any:
    """Return a Dispatcher's parameter tuple."""
    return (name, kind, code, ndim, writes, cls)


class KernelError(Exception):
    """What the tests' on_error gives."""


def spec(*params: Any, **facts: Any) -> SimpleNamespace:
    """Return what a Dispatcher for these parameters is made from."""
    usual = {
        "name": "kernel", "params": params, "on_error": lambda *error: KernelError(*error), "device": CPU, "place": -1,
        "cuda": None,
        "types": (), "declared": None, "watch": None, "tid_ndim": 8, "most_narrow": 2**31 - 2**16,
        "shares_indices": False, "short_rows": False, "leaves_short_rows": False,
        "order_dependent": False, "non_associative": False, "prints": False, "bounded": False,
        "recordable": False, "deterministic": False, "no_overlap": False, "fusible": False, "self_contained": False,
    }  # fmt: skip
    return SimpleNamespace(**usual | facts)


def dispatcher(
    *params: Any, entry: str = "echo", variants: Any = ((0, 0), (1, 0), (0, 1), (1, 1)), **facts: Any
) -> Any:
    """Return a Dispatcher with `entry` installed as the given variants; ``facts`` go to its specification."""
    d = native.Dispatcher(spec(*params, **facts))
    for contiguous, wide in variants:
        d.install(contiguous, wide, 0, address(entry), entries())
    return d


def echoed(d: Any, inputs: Any, outputs: Any = (), dim: Any = 1) -> bytes:
    """Launch the echo entry and return the argument block that it saw."""
    variable("echo_size", ctypes.c_int64).value = d.args_size
    assert d.try_launch(dim, inputs, outputs, None) is True, d.explain(dim, inputs, outputs)
    return bytes(variable("echo_args", ctypes.c_uint8 * (1 << 16)))[: d.args_size]


def run_python(code: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter with this module's names in scope; its exit status must be 0."""
    prelude = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom tests.native.support import *\n"
    result = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        **kwargs,
    )
    assert result.returncode == 0, (result.returncode, result.stdout, result.stderr)
    return result
