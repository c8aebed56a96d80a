"""Which kernels take LLVM's short pipeline, and that it costs them nothing."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from warp_like.backend.compile import lower_to_llvm, to_asm
from warp_like.backend.llvm import straight
from warp_like.backend.llvm.straight import is_straight
from warp_like.backend.target import Options, Target
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.passes.spmd.choice import choose

AVX512 = Target(
    "cpu",
    "skylake-avx512",
    "+avx,+avx2,+fma,+f16c,+sse4.2,+bmi2,+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd",
    "x86_64-unknown-linux-gnu",
    "libmvec",
)


@wp.kernel
def polynomial(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = (x[i] * a + 2.0) * x[i] + a * 0.5 + wp.sin(x[i])


@wp.kernel
def vectors(x: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.quat), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = wp.quat_rotate(q[i], x[i])


@wp.kernel
def in_place(x: wp.array(dtype=float), a: float):
    i = wp.tid()
    x[i] = x[i] * a


@wp.kernel
def gathers(x: wp.array(dtype=float), at: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[at[i]] + x[at[i] + 1]


@wp.kernel
def branches(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i > 3:
        y[i] = x[i]


@wp.kernel
def uniform(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = x[i] * wp.sin(a)


@wp.kernel
def twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]
    y[i + 1] = x[i] * 2.0


@wp.kernel
def again(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]
    x[i] = y[i] + y[0]


@wp.kernel
def adds(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i / 2, x[i])


@wp.kernel
def own(x: wp.array(dtype=float), y: wp.array(dtype=wp.vec2), z: wp.array2d(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i, wp.vec2(x[i], 2.0))


@wp.kernel
def own_row(x: wp.array(dtype=float), y: wp.array(dtype=wp.vec2), z: wp.array2d(dtype=float)):
    i = wp.tid()
    wp.atomic_add(z, i, 0, x[i])


@wp.kernel
def own_and_again(x: wp.array(dtype=float), y: wp.array(dtype=wp.vec2), z: wp.array2d(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i, wp.vec2(x[i], 2.0))
    wp.atomic_add(y, i, wp.vec2(3.0, x[i]))


@wp.kernel
def own_maximum(x: wp.array(dtype=float), y: wp.array(dtype=wp.vec2), z: wp.array2d(dtype=float)):
    i = wp.tid()
    wp.atomic_max(y, i, wp.vec2(x[i], 2.0))


@wp.kernel
def square(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = x[i, j] * x[i, j]


def widened(kernel):
    f = optimised(kernel.source, Signature(kernel.types, contiguous=True))
    return choose(f, AVX512.vector_bits, AVX512.vector_registers, 16).function


@pytest.mark.parametrize("kernel", [polynomial, vectors, in_place, gathers], ids=lambda k: k.key)
def test_one_block_is_straight(kernel):
    assert is_straight(widened(kernel))


@pytest.mark.parametrize("kernel", [branches, uniform, twice, again, adds, square], ids=lambda k: k.key)
def test_where_llvm_may_gain_something(kernel):
    assert not is_straight(widened(kernel))


def test_additions_to_elements_of_a_thread_alone_are_straight(monkeypatch):
    f = widened(own)
    assert is_straight(f, (1,))
    assert not is_straight(f)
    assert not is_straight(f, (0, 2))
    assert not any(is_straight(widened(k), (1, 2)) for k in (own_row, own_and_again, own_maximum))
    assert not is_straight(widened(adds), (1,))
    monkeypatch.setattr(straight, "_SMALL", 3)
    assert not is_straight(f, (1,))
    text = lower_to_llvm(f, AVX512, Options(contiguous=True, thread_private=(1,)))
    assert "atomicrmw" not in text
    assert "cmpxchg" not in text


@pytest.mark.parametrize("n", [0, 1, 16, 1003])
def test_gradients_of_straight_kernels(n):
    rng = np.random.default_rng(n)
    x = wp.array(rng.random(n, np.float32), requires_grad=True)
    y = wp.zeros(n, dtype=wp.float32, requires_grad=True)
    seed = rng.random(n, np.float32)
    with wp.Tape() as tape:
        wp.launch(polynomial, n, [x, y, 3.0])
    tape.backward(grads={y: wp.array(seed)})
    v = x.numpy().astype(float)
    np.testing.assert_allclose(x.grad.numpy(), seed * (6.0 * v + 2.0 + np.cos(v)), rtol=1e-5)


def test_one_thread_at_a_time_is_left_to_llvm():
    assert not is_straight(optimised(polynomial.source, Signature(polynomial.types, contiguous=True)))


def test_what_is_uniform_is_computed_once():
    """Constants and what comes from the arguments are in registers before the loop over the grid begins."""
    f = widened(polynomial)
    options = Options(contiguous=True)
    assert "fmul contract <16 x float>" in lower_to_llvm(f, AVX512, options)
    lines = [line.split("#")[0].strip() for line in to_asm(f, AVX512, options).splitlines()]
    start = next(k for k, line in enumerate(lines) if line.startswith("vmovups") and "(" in line.split(",")[0])
    label = next(k for k in range(start, 0, -1) if lines[k].startswith(".LBB"))
    end = next(k for k in range(start, len(lines)) if lines[k].startswith("j"))
    assert not [line for line in lines[label:end] if "broadcast" in line]


def test_only_whole_vectors_are_in_a_loop():
    """LLVM's optimiser does not turn the loop, so it is written as the code generator wants it: tested at its end."""
    for kernel in (vectors, gathers):
        lines = [line for line in to_asm(widened(kernel), AVX512, Options(contiguous=True)).splitlines() if line]
        labels = {line.split(":")[0]: k for k, line in enumerate(lines) if line.startswith(".LBB")}
        jumps = [(k, line.split()) for k, line in enumerate(lines) if line.startswith("\tj")]
        back = [(k, op) for k, (op, to) in jumps if labels.get(to, k) < k]
        assert [op for _, op in back] == ["jle"]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 1003])
def test_results(n):
    rng = np.random.default_rng(n)
    x, q = rng.random((n, 3), np.float32), rng.random((n, 4), np.float32)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    y = np.zeros((n, 3), np.float32)
    wp.launch(vectors, n, [x, q, y])
    v, w = q[:, :3].astype(float), q[:, 3:].astype(float)
    np.testing.assert_allclose(y, x + 2 * np.cross(v, np.cross(v, x) + w * x), atol=1e-5)
