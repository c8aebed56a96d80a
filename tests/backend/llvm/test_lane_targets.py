"""Lanes on processors other than the one that runs the tests: how many there are, and what the assembly holds."""

from __future__ import annotations

import re

import pytest

import warp_like as wp
from warp_like.backend.compile import to_asm
from warp_like.backend.target import Options, Target
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.passes.spmd.choice import choose

AVX2 = Target("cpu", "haswell", "+avx,+avx2,+fma,+f16c,+sse4.2,+bmi2", "x86_64-unknown-linux-gnu", "libmvec")
AVX512 = AVX2.replace(
    name="skylake-avx512", features=AVX2.features + ",+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd"
)
SSE = AVX2.replace(name="x86-64", features="+sse2")
NEON = Target("cpu", "generic", "+neon", "aarch64-unknown-linux-gnu")

PACKED = {
    "avx512": (AVX512, r"\tv(?:mul|add|fn?m\w+)ps\t.*zmm"),
    "avx2": (AVX2, r"\tv(?:mul|add|fn?m\w+)ps\t.*ymm"),
    "sse": (SSE, r"\t(?:mul|add)ps\t.*xmm"),
    "neon": (NEON, r"\tf(?:mul|add|mla|mls)\tv\d+\.4s"),
}


@wp.kernel
def attraction(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    total = wp.vec3()
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        total += d / (wp.dot(d, d) + 0.01)
    out[i] = total


@wp.kernel
def escape(points: wp.array(dtype=wp.vec2), out: wp.array(dtype=int)):
    i = wp.tid()
    c = points[i]
    x = 0.0
    y = 0.0
    n = 0
    while n < 256 and x * x + y * y <= 4.0:
        t = x * x - y * y + c[0]
        y = 2.0 * x * y + c[1]
        x = t
        n += 1
    out[i] = n


@wp.kernel
def scale(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = 2.0 * x[i] * x[i]


@wp.kernel
def filtered(x: wp.array2d(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    own = wp.zeros(shape=12, dtype=float)
    for k in range(12):
        own[k] = 0.5 * own[(k + at[i]) % 12] + x[k, i] * x[k, i]
    wp.expect_eq(own[3] < 1.0e30, True)
    wp.atomic_cas(at, 0, i, i + 1)
    total = 0.0
    for k in range(12):
        total += own[k] * own[k]
    out[i] = total


def lanes(kernel, target: Target, wanted: int = 0):
    found = choose(
        optimised(kernel.source, Signature(kernel.types)), target.vector_bits, target.vector_registers, wanted
    )
    return found, to_asm(found.function, target, Options(contiguous=True))


@pytest.mark.parametrize("target", PACKED)
@pytest.mark.parametrize("kernel", [attraction, escape, scale, filtered], ids=lambda k: k.key)
def test_arithmetic_is_packed(kernel, target):
    chosen, packed = PACKED[target]
    native = chosen.vector_bits // 32
    found, text = lanes(kernel, chosen, native if kernel is filtered else 0)
    assert found.width % native == 0
    assert found.width > 1
    assert re.search(packed, text), text


@pytest.mark.parametrize(("target", "widths"), [("avx512", (64, 32, 16)), ("avx2", (16, 16, 8)), ("neon", (16, 8, 4))])
def test_as_many_lanes_as_registers_allow(target, widths):
    chosen, _ = PACKED[target]
    assert tuple(lanes(k, chosen)[0].width for k in (attraction, escape, scale)) == widths


def test_elements_that_lie_apart_are_gathered_where_the_processor_can():
    _, text = lanes(filtered, AVX512, 16)
    assert re.search(r"\tvgather\w+\t.*zmm", text)


@wp.kernel
def alike(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.bool)):
    i = wp.tid()
    out[i] = x[i] == y[i]


def test_components_are_taken_apart_before_they_are_compared():
    """LLVM would compare whole registers and then move the bits of their masks one by one."""
    for target in (AVX512, AVX2):
        _, text = lanes(alike, target)
        compared = re.findall(r"\tvcmp\w+ps\t", text)
        assert compared
        assert not re.search(r"\tkshiftr[qd]\t", text)
        assert len(re.findall(r"\tv(?:cmp|perm|blend|shuf)\w*\t", text)) > len(compared)
