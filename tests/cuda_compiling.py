"""Compiling for CUDA, too, whatever is compiled for the CPU: ``pytest --for-cuda`` does so in each test.

What can't be lowered, or what PTX the assembler refuses, fails the test whose kernel it is. Left out are kernels that
call native code (``tests/backend/test_snippets.py`` has its own tests of CUDA's side), and most of those that a
test makes at random, of which each run sees others.

What has been assembled once is remembered in ``KNOWN`` by the hash of its LLVM IR and of all that makes PTX of it, so
that a run that was interrupted goes on where it stopped, and the next one assembles what has changed. A program that a
test starts takes part where it is started by ``interpreter()``.
"""

from __future__ import annotations

import functools
import hashlib
import os
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from warp_like.analysis.memory import analyse
from warp_like.backend import compile as backend
from warp_like.backend import libdevice, llvm_tools, nvptx
from warp_like.backend.target import Target, cuda_target
from warp_like.compiler import pipeline
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.passes.expand import expand

needs_disassembler = pytest.mark.skipif(
    libdevice.find_ptxas() is None or libdevice.find_disassembler() is None,
    reason="needs ptxas, and nvdisasm or cuobjdump",
)
"""Marks tests of machine code."""

ARCHITECTURES = ("sm_80", "sm_90")
RANDOM_KERNELS = 4
"""How many of the kernels that one test makes at random are compiled."""

KNOWN = Path(__file__).resolve().parents[1] / "build" / "ptx" / "assembled.txt"
FOLDER = "WARP_LIKE_TESTS_FOR_CUDA"
"""The variable of the environment that names the folder of a run: its kernel cache, and what its processes counted."""

counts: Counter[str] = Counter()
_random: Counter[str] = Counter()


@functools.lru_cache(maxsize=1)
def _assembled() -> set[str]:
    return set(KNOWN.read_text().split()) if KNOWN.exists() else set()


@functools.lru_cache(maxsize=1)
def _tools() -> bytes:
    """What makes a cubin of LLVM IR: LLVM, libdevice, ptxas, and how we call them."""
    import llvmlite

    sources = [Path(module.__file__).read_bytes() for module in (nvptx, llvm_tools)]
    library = libdevice.find_libdevice()
    version = subprocess.run([str(libdevice.require_ptxas()), "--version"], capture_output=True, check=True).stdout
    parts = [*sources, llvmlite.__version__.encode(), version, b"" if library is None else library.read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).digest()


def require_cuda_code(f: Function, signature: Signature, architectures: Sequence[str] = ARCHITECTURES) -> None:
    """Lower the finished ``f`` for each architecture, and assemble what was not assembled before."""
    counts["kernels"] += 1
    if any(isinstance(o, ops.Native) for o in f.body.walk()):
        counts["native"] += 1
        return
    if _is_one_of_many():
        counts["random"] += 1
        return
    if any(isinstance(o, ops.Search) for o in f.body.walk()):
        f = expand(clone_function(f))
    for arch in architectures:
        target = cuda_target(arch)
        text = backend.lower_to_llvm(f, target, pipeline._lowering(signature, analyse(f), target))
        key = hashlib.sha256(_tools() + arch.encode() + text.encode()).hexdigest()
        if key in _assembled():
            counts["known"] += 1
            continue
        nvptx.assemble(nvptx.compile_ptx(text, target), arch)
        counts["assembled"] += 1
        _assembled().add(key)
        KNOWN.parent.mkdir(parents=True, exist_ok=True)
        with KNOWN.open("a") as file:
            file.write(f"{key}\n")


def _is_one_of_many() -> bool:
    """Whether the running test makes kernels at random, and enough of them were compiled."""
    if "hypothesis" not in sys.modules or not sys.modules["hypothesis"].currently_in_test_context():
        return False
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    _random[test] += 1
    return _random[test] > RANDOM_KERNELS


@contextmanager
def also_for_cuda() -> Iterator[None]:
    """Compile for CUDA whatever is compiled for the CPU meanwhile; between ``begin`` and ``end`` of a run."""
    import warp_like as wp

    libdevice.require_ptxas()
    before = pipeline._in_lanes

    def both(f: Function, signature: Signature, target: Target, *more: Any) -> Any:
        if not target.is_cuda or f.team > 1:  # for the emulated device, or as it is for CUDA alone
            require_cuda_code(f, signature)
        return before(f, signature, target, *more)

    folder = os.environ[FOLDER]
    pipeline._in_lanes = both
    wp.config.kernel_cache_dir = tempfile.mkdtemp(dir=folder)  # what is cached is not compiled
    try:
        yield
    finally:
        pipeline._in_lanes = before
        del wp.config.kernel_cache_dir
        with Path(folder, "counts").open("a") as file:
            file.write("".join(f"{name} {n}\n" for name, n in counts.items()))


def begin() -> None:
    """Begin a run; the processes that it starts belong to it."""
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="warp_like_for_cuda_")


def end() -> str:
    """End the run, and return what all its processes have counted."""
    import shutil

    folder = Path(os.environ.pop(FOLDER))
    total: Counter[str] = Counter()
    if (folder / "counts").exists():
        for line in (folder / "counts").read_text().splitlines():
            name, n = line.split()
            total[name] += int(n)
    shutil.rmtree(folder, ignore_errors=True)
    return (
        f"for CUDA ({' and '.join(ARCHITECTURES)}): {total['kernels']} variants of kernels; {total['assembled']} PTX "
        f"texts assembled, {total['known']} known from before; left out: {total['native']} that call native code, "
        f"{total['random']} of those made at random"
    )


def interpreter() -> list[str]:
    """The command that a program is started by, which compiles for CUDA, too, if the run does."""
    return [sys.executable, "-m", "tests.cuda_compiling"] if FOLDER in os.environ else [sys.executable]


if __name__ == "__main__":
    _, *sys.argv = sys.argv
    from tests import cuda_compiling  # not `__main__`, which the program becomes

    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    with cuda_compiling.also_for_cuda():
        runpy.run_path(sys.argv[0], run_name="__main__")
