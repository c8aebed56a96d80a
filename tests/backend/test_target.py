"""Targets and options: plain data with keys that tell them apart."""

from __future__ import annotations

import itertools
import platform
import subprocess
import sys

import pytest

from tests.backend.kernels import atomic_kernel, blur, divergent, saxpy, unary, vectors
from warp_like import _native
from warp_like.backend.compile import to_object, to_optimized_llvm
from warp_like.backend.target import Options, Target, cuda_target, host_target, object_triple
from warp_like.ir.types import float32, float64


def test_keys_tell_apart() -> None:
    base = Target("cpu", "haswell", "+avx2", "x86_64-unknown-linux-gnu", "libmvec")
    others = [base.replace(**{name: "other"}) for name in base._fields_]
    assert len({t.key for t in [base, cuda_target("sm_80"), *others]}) == len(others) + 2
    names = Options._fields_
    choices = [((), (1,)) if isinstance(getattr(Options, n), tuple) else (False, True) for n in names]
    every = [Options(**dict(zip(names, v, strict=True))) for v in itertools.product(*choices)]
    assert len({o.key for o in every}) == 2 ** len(names)


def test_host() -> None:
    t = host_target()
    assert t.kind == "cpu"
    assert not t.is_cuda
    assert t.name
    assert t.triple
    assert t is host_target()
    assert t.vector_bits in (128, 256, 512)


def test_vector_width() -> None:
    def bits(features: str) -> int:
        return Target("cpu", "x", features).vector_bits

    assert [bits("+sse2,-avx"), bits("+avx,+sse2"), bits("+avx,+avx512f")] == [128, 256, 512]


def test_importing_costs_no_llvm() -> None:
    modules = "warp_like.backend.compile, warp_like.backend.cpu, warp_like.backend.nvptx"
    code = f"import sys, {modules}; print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_optimised_ir_is_vectorised_for_the_host() -> None:
    assert " x float>" in to_optimized_llvm(saxpy(), host_target(), Options(contiguous=True))


WINDOWS = Target("cpu", "x86-64-v3", "+avx2,+f16c,+fma", object_triple("x86_64-pc-windows-msvc"))


def test_windows_gets_elf_objects() -> None:
    assert WINDOWS.triple == object_triple(WINDOWS.triple) == "x86_64-pc-windows-msvc-elf"
    assert object_triple("x86_64-unknown-linux-gnu") == "x86_64-unknown-linux-gnu"
    assert object_triple("arm64-apple-darwin24.1.0") == "arm64-apple-darwin24.1.0"


LOADS_ELF = sys.platform in ("linux", "win32") and platform.machine().lower() in ("x86_64", "amd64")


@pytest.mark.skipif(not LOADS_ELF, reason="objects are loaded through LLVM here")
@pytest.mark.parametrize("contiguous", [True, False])
def test_objects_for_windows_are_read_by_the_native_loader(contiguous) -> None:
    """Elsewhere their calling convention is wrong, so they do not run, but all that they need is found."""
    known = {"__chkstk": 1, **_native.symbols()}  # a frame of more than a page calls the first
    math = [unary(name, t) for name in ("sin", "exp", "tanh") for t in (float32, float64)]
    for f in (saxpy(), blur(), divergent(), vectors(), atomic_kernel("add", float32), *math):
        code = _native.load_object(to_object(f, WINDOWS, Options(contiguous=contiguous)), known)
        assert isinstance(code, _native.Code), code


def test_the_host_is_the_machine_that_llvmlite_names() -> None:
    """The native extension asks LLVM itself; one order of the features lets all of the process use one machine."""
    import llvmlite.binding as llvm

    target = host_target()
    assert target.features == llvm.get_host_cpu_features().flatten()
    assert (target.name, target.triple) == (llvm.get_host_cpu_name(), object_triple(llvm.get_process_triple()))
