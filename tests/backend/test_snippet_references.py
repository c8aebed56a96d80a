"""``wp.ref`` parameters of ``wp.func_native``: snippets that change variables, elements and parts of them."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from warp_like.backend import snippets
from warp_like.backend.libdevice import find_ptxas
from warp_like.backend.nvptx import assemble

pytestmark = pytest.mark.skipif(snippets.host_compiler() is None, reason="there is no C++ compiler")
CUDA = pytest.mark.skipif(
    snippets.cuda_compiler() is None or find_ptxas() is None, reason="there is no nvcc or no ptxas"
)


@wp.func_native("n += 5;")
def add_five(n: wp.ref[int]): ...


@wp.func_native("v[1] = s; double old = s; s = s + (double)v[0]; return old;")
def exchange(v: wp.ref[wp.vec2], s: wp.ref[wp.float64]) -> wp.float64: ...


@wp.func_native(
    "double old = x; x *= y; return old;",
    adj_snippet="adj_y += adj_x * x; adj_x = adj_x * y + adj_ret;",
)
def scale(x: wp.ref[wp.float64], y: wp.float64) -> wp.float64: ...


@wp.func_native("x = 2.0 * y;", adj_snippet="adj_y += 2.0 * adj_x; adj_x = 0.0;")
def double_of(x: wp.ref[wp.float64], y: wp.float64): ...


@wp.struct
class Particle:
    n: int
    x: wp.float64


@wp.kernel
def powers(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    v = x[i]
    total = wp.float64(0.0)
    for _ in range(3):
        total += scale(v, x[i])
    out[i] = total + v  # x + x^2 + x^3 + x^4


@wp.kernel
def doubled(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    double_of(out[i], x[i])


@wp.kernel
def doubled_field(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    p = Particle()
    p.x = x[i]
    double_of(p.x, wp.sin(x[i]))
    out[i] = p.x * p.x


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_variables_elements_and_fields(n):
    @wp.kernel
    def k(ns: wp.array(dtype=int), ps: wp.array(dtype=Particle)):
        i = wp.tid()
        local = i
        add_five(local)
        add_five(n=local)
        add_five(ns[i])
        add_five(ps[i].n)
        ns[i] += local

    ns, ps = wp.zeros(n, dtype=int), wp.zeros(n, dtype=Particle)
    wp.launch(k, n, inputs=[ns, ps])
    np.testing.assert_array_equal(ns.numpy(), np.arange(n) + 15)
    np.testing.assert_array_equal(ps.numpy()["n"], 5)


def test_several_references_and_a_result():
    @wp.kernel
    def k(out: wp.array(dtype=wp.float64)):
        v, s = wp.vec2(3.0, 4.0), wp.float64(10.0)
        out[0] = exchange(v, s)
        out[1], out[2], out[3] = s, wp.float64(v[0]), wp.float64(v[1])

    out = np.zeros(4)
    wp.launch(k, 1, inputs=[out])
    assert out.tolist() == [10.0, 13.0, 3.0, 10.0]


X = np.random.default_rng(0).uniform(0.5, 1.5, 37)


@pytest.mark.parametrize("vector_width", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "value", "slope"),
    [
        (powers, X + X**2 + X**3 + X**4, 1 + 2 * X + 3 * X**2 + 4 * X**3),
        (doubled, 2 * X, 2 + 0 * X),
        (doubled_field, 4 * np.sin(X) ** 2, 4 * np.sin(2 * X)),
    ],
)
def test_gradients(kernel, value, slope, vector_width):
    x = wp.array(X, dtype=wp.float64, requires_grad=True)
    out = wp.zeros(len(X), dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, len(X), inputs=[x, out], options={"vector_width": vector_width})
    np.testing.assert_allclose(out.numpy(), value, rtol=1e-14)
    seed = np.linspace(-1.0, 1.0, len(X))
    tape.backward(grads={out: wp.array(seed, dtype=wp.float64)})
    np.testing.assert_allclose(x.grad.numpy(), seed * slope, rtol=1e-13)


def test_a_replay_changes_its_reference_too():
    @wp.func_native(
        "wp::atomic_add(calls, 0, 1); x = x * x;",
        adj_snippet="adj_x = 2.0 * x * adj_x;",
        replay_snippet="x = x * x;",
    )
    def squared(x: wp.ref[wp.float64], calls: wp.array(dtype=int)): ...

    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), calls: wp.array(dtype=int), out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        v = x[i]
        squared(v, calls)
        out[i] = v * v

    x = wp.array(X, dtype=wp.float64, requires_grad=True)
    out, calls = wp.zeros(len(X), dtype=wp.float64, requires_grad=True), wp.zeros(1, dtype=int)
    with wp.Tape() as tape:
        wp.launch(k, len(X), inputs=[x, calls, out])
    tape.backward(grads={out: wp.ones(len(X), dtype=wp.float64)})
    np.testing.assert_allclose(x.grad.numpy(), 4 * X**3, rtol=1e-13)
    assert calls.list() == [len(X)]


def test_a_reference_without_a_gradient_is_refused():
    @wp.func_native("x = x + 1.0;")
    def bump(x: wp.ref[wp.float64]): ...

    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
        v = x[0]
        bump(v)
        out[0] = v

    x, out = (wp.ones(1, dtype=wp.float64, requires_grad=True) for _ in range(2))
    with pytest.raises(wp.WarpCodegenError, match="`bump` is native code, which has no gradient of its own"):
        wp.launch(k, 1, inputs=[x], outputs=[out], adjoint=True, adj_inputs=[None], adj_outputs=[None])


@pytest.mark.parametrize(
    ("annotation", "argument", "reason"),
    [
        ("wp.ref[S]", "s", "argument `x` of func_native `f` is struct S, which native code can't take by reference"),
        (
            "wp.ref[wp.array(dtype=float)]",
            "a",
            "argument `x` of func_native `f` is array1d[float32], which native code can't take by reference",
        ),
    ],
)
def test_references_to_structs_and_arrays_are_refused(annotation, argument, reason):
    names = define(f"""
        @wp.struct
        class S:
            a: float

        @wp.func_native("")
        def f(x: {annotation}): ...

        @wp.kernel
        def k(a: wp.array(dtype=float)):
            s = S()
            f({argument})
    """)
    with pytest.raises(wp.WarpCodegenError) as error:
        wp.launch(names["k"], 1, inputs=[wp.zeros(1, dtype=float)])
    assert error.value.reason == reason


@CUDA
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_ptx_assembles(arch):
    for kernel in (powers, doubled, doubled_field):
        assert assemble(kernel.inspect_ptx(target=arch), arch)
        assert assemble(kernel.inspect("ptx", target=arch, wrt=["x", "out"]), arch)
