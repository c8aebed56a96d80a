"""The grid loop becomes SIMD code: what the assembly of typical kernels must contain.

Code is made for a named processor, so that the outcome does not depend on the machine that runs the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.backend.kernels import blur, divergent, from_index, saxpy, unary, unrolled, vectors
from tests.ir_builder import start, tid
from warp_like.backend.compile import lower_to_llvm, to_asm
from warp_like.backend.target import Options, Target
from warp_like.ir.core import Function
from warp_like.ir.types import Array, float32, float64, int32

FEATURES = "+avx,+avx2,+fma,+f16c,+sse4.2,+bmi2"
AVX2 = Target("cpu", "haswell", FEATURES, "x86_64-unknown-linux-gnu", "libmvec")
AVX512 = AVX2.replace(name="skylake-avx512", features=FEATURES + ",+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd")
CONTIGUOUS = Options(contiguous=True)


def asm(f: Function, target: Target, options: Options = CONTIGUOUS) -> str:
    return to_asm(f, target, options)


@pytest.mark.parametrize("make", [saxpy, blur, divergent, vectors, unrolled, from_index])
@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")], ids=["avx2", "avx512"])
def test_arithmetic_is_packed(make: Callable[[], Function], target: Target, register: str) -> None:
    text = asm(make(), target)
    packed = re.findall(r"\tv(?:mul|add|fmadd\w*|sqrt)ps\b.*", text)
    assert any(register in line for line in packed), text


def test_saxpy_contracts() -> None:
    assert re.search(r"vfmadd\w*ps.*ymm", asm(saxpy(), AVX2))
    assert "vfmadd" not in asm(saxpy(), AVX2, Options(contiguous=True, fuse_fp=False))


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (AVX2, "_ZGVdN8v_sinf"),
        (AVX512, "_ZGVeN16v_sinf"),
        (AVX2.replace(name="sandybridge", features="+avx,+sse4.2"), "_ZGVcN8v_sinf"),
        (AVX2.replace(name="x86-64", features="+sse2"), "_ZGVbN4v_sinf"),
    ],
)
def test_sin_calls_the_vector_math_library(target: Target, name: str) -> None:
    assert asm(unary("sin"), target).count(f"callq\t{name}") == 1


def test_float64_and_two_arguments() -> None:
    assert "_ZGVdN4v_exp" in asm(unary("exp", float64), AVX2)
    f, b = start("powers", x=Array(float32, 1), y=Array(float32, 1))
    i = tid(b)
    b.store(f.params[1], [i], b._pow(b.load(f.params[0], [i]), b.load(f.params[1], [i])))
    b.yield_()
    assert "_ZGVeN16vv_powf" in asm(f, AVX512)


def test_old_glibc_has_few_vector_functions() -> None:
    old = AVX2.replace(vector_math="libmvec-2.22")
    assert "_ZGVdN8v_sinf" in asm(unary("sin"), old)
    assert "_ZGV" not in asm(unary("tan"), old)
    assert "_ZGVdN8v_tanf" in asm(unary("tan"), AVX2)


def test_scalar_libm_when_asked_or_without_library() -> None:
    assert "_ZGV" not in asm(unary("sin"), AVX2, Options(contiguous=True, vector_math=False))
    assert "_ZGV" not in asm(unary("sin"), AVX2.replace(vector_math=""))


def test_rounding_needs_no_call() -> None:
    for name in ("floor", "ceil", "trunc", "rint", "round", "sqrt", "abs"):
        text = asm(unary(name), AVX2)
        assert "call" not in text, name
        assert "ymm" in text, name


def test_strided_arrays_have_no_constant_stride() -> None:
    text = lower_to_llvm(saxpy(), AVX2, Options())
    assert text.count("mul nsw i64") == 3
    assert "mul nsw i64" not in lower_to_llvm(saxpy(), AVX2, CONTIGUOUS)


def test_loads_of_a_thread_are_not_ordered_with_other_threads() -> None:
    text = lower_to_llvm(blur(), AVX2, CONTIGUOUS)
    accesses = [line for line in text.splitlines() if re.search(r"(load|store) float", line)]
    assert len(accesses) == 6
    assert all("!llvm.access.group" in line for line in accesses)
    assert "llvm.loop.parallel_accesses" in text


def test_widened_index_keeps_integers_narrow() -> None:
    """Only addresses are computed in 64 bits: an int32 that is stored is computed as int32."""
    f, b = start("narrow", x=Array(int32, 1))
    i = tid(b)
    b.store(f.params[0], [i], b.mul(i, i))
    b.yield_()
    assert re.search(r"vpmulld.*ymm", asm(f, AVX2))
