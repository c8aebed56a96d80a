"""Targets and options: plain data with keys that tell them apart."""

from __future__ import annotations

import itertools
import subprocess
import sys

from tests.backend.kernels import saxpy
from warp_like.backend.compile import to_optimized_llvm
from warp_like.backend.target import Options, Target, cuda_target, host_target


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
