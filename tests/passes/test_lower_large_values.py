"""Large vectors and matrices in memory: the same numbers as in registers, by code that does not grow with them.

What is large is set to a few components, so that the interpreter, which is the oracle, is done soon.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import CudaKernel
from tests.frontend.support import build
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.long_tail import crossed, name
from warp_like.backend.compile import to_ptx
from warp_like.backend.nvptx import assemble
from warp_like.backend.target import Options as Lowering
from warp_like.backend.target import cuda_target
from warp_like.ir import ops
from warp_like.ir import types as ir
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, is_large
from warp_like.ir.verify import verify
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.ad.forward import forward_mode
from warp_like.passes.pipeline import Options, finish, optimise, prepare
from warp_like.passes.spmd.widen import widen
from warp_like.passes.stages import NO_LARGE_VALUES

R, K, C, N, THREADS = 3, 5, 9, 11, 5
A = wp.types.matrix((R, K), wp.float64)
B = wp.types.matrix((K, C), wp.float64)
D = wp.types.matrix((R, C), wp.float64)
V = wp.types.vector(N, wp.float64)
U = wp.types.vector(R, wp.float64)
W = wp.types.vector(C, wp.float64)
H = wp.types.vector(N, wp.float16)
f64 = wp.float64
ARGS: Any = (
    wp.array(dtype=A),
    wp.array(dtype=B),
    D,
    wp.array(dtype=V),
    wp.array(dtype=D),
    wp.array(dtype=V),
    int,
)


def products(a: ARGS[0], b: ARGS[1], p: ARGS[2], v: ARGS[3], out: ARGS[4], last: ARGS[5], n: ARGS[6]):
    i = wp.tid()
    m = a[i] * b[i]
    out[i] = m + wp.outer(m * W(f64(0.5)), U(f64(1.0), f64(2.0), f64(3.0)) * m) - p
    last[i] = v[i] * wp.dot(v[i], v[0]) * wp.trace(m * wp.transpose(m))


def by_component(a: ARGS[0], b: ARGS[1], p: ARGS[2], v: ARGS[3], out: ARGS[4], last: ARGS[5], n: ARGS[6]):
    i = wp.tid()
    x = wp.max(v[i], v[0]) / f64(3.0)
    y = -wp.cw_div(wp.abs(x), v[i] + V(f64(1.5)))
    z = wp.where(n > 2, x, y)
    z = wp.where(x == y, y, z + wp.cw_mul(y, x))
    last[i] = wp.normalize(z) * (wp.length(y) + wp.norm_l1(x) + wp.min(z)) + V(f64(wp.argmax(z)))
    out[i] = wp.cw_mul(p, p) * wp.ddot(p, p)


def indexed(a: ARGS[0], b: ARGS[1], p: ARGS[2], v: ARGS[3], out: ARGS[4], last: ARGS[5], n: ARGS[6]):
    i = wp.tid()
    m = p
    old = m
    m[0, 3] = f64(7.0)
    m[n - 2, n] = m[0, 3] * old[1, n]
    m[1] = old[2]
    m[0:2, 3] = m[1:3, 4]
    x = V()
    x[2:N] = v[i][0 : N - 2]
    x[n] += x[n + 1] * v[0][3]
    out[i] = m + old
    out[i][1, n] += x[2]
    last[i] = x


def in_branches(a: ARGS[0], b: ARGS[1], p: ARGS[2], v: ARGS[3], out: ARGS[4], last: ARGS[5], n: ARGS[6]):
    i = wp.tid()
    x = v[i]
    y = v[0]
    if i % 2 == 0:
        x[1] = x[2] * f64(2.0)
    else:
        x[3] = y[1]
    if i % 3 == 0:
        x, y = y, x
    elif x[0] > f64(0.2):
        y[2] = x[n]
        x = y
    z = x
    if n > 3:
        if i > 1:
            z[0] = f64(4.0) * y[3]
        z[1] = z[0]
    last[i] = x + y * f64(0.5) + z
    out[i] = p


def in_loops(a: ARGS[0], b: ARGS[1], p: ARGS[2], v: ARGS[3], out: ARGS[4], last: ARGS[5], n: ARGS[6]):
    i = wp.tid()
    x = v[i]
    y = v[0]
    m = p
    for k in range(n):
        if k % 2 == 0:
            m[k % 3, k] = m[1, 2] * x[k]
        x, y = y, x + y * f64(0.25)
        y[k] = x[k + 1] * x[k + 1]
    j = 0
    while j < n:
        old = x
        old[j] = y[j + 1]
        for k in range(j):
            x[k] = old[k + 1] + x[k + 2]
        j += 1
    last[i] = x - y
    out[i] = m


def updates(a: ARGS[0], b: ARGS[1], p: ARGS[2], v: ARGS[3], out: ARGS[4], last: ARGS[5], n: ARGS[6]):
    i = wp.tid()
    wp.atomic_add(out, 0, p)
    wp.atomic_add(last, i, v[i] * f64(2.0))
    x = last[i]
    last[i] = x + v[0]
    last[i] += V(x[1])


KERNELS: list[Callable[..., Any]] = [products, by_component, indexed, in_branches, in_loops, updates]
WRT = (0, 1, 2, 3, 4, 5)


@pytest.fixture
def few_in_registers(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda most: monkeypatch.setattr(ir, "MOST_IN_REGISTERS", most)


def arguments(seed: int = 3) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = ((THREADS, R, K), (THREADS, K, C), (R, C), (THREADS, N), (THREADS, R, C), (THREADS, N))
    return [*(rng.uniform(0.1, 1.0, shape) for shape in shapes), np.int32(4)]


def results(f: Function, args: list[Any], execute: Callable[..., Any] | None = None) -> list[Any]:
    args = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    (execute or run)(f, args, (THREADS,))
    return [x for x in args if isinstance(x, np.ndarray)]


def lowered(f: Function, options: Options = Options(verify=True)) -> Function:  # noqa: B008 (frozen)
    got = finish(optimise(prepare(f, options), options), options)
    verify(got, (NO_LARGE_VALUES,))
    return got


def require_same(found: list[Any], wanted: list[Any]) -> None:
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("kernel", "most"), crossed(KERNELS, [2, 8, 10, 26], every=2), ids=name)
def test_what_a_kernel_computes_is_the_same(kernel: Any, most: int, few_in_registers: Any) -> None:
    f = build(kernel)
    wanted = results(f, arguments())
    few_in_registers(most)
    got = lowered(f)
    assert any(isinstance(o, ops.Components) for o in got.body.walk())
    require_same(results(got, arguments()), wanted)


@pytest.mark.parametrize(("kernel", "debug"), crossed(KERNELS, [False, True], every=2), ids=name)
def test_in_debug_mode(kernel: Any, debug: bool, few_in_registers: Any) -> None:
    f = build(kernel)
    wanted = results(f, arguments())
    few_in_registers(2)
    require_same(results(lowered(f, Options(debug=debug, verify_fp=True, verify=True)), arguments()), wanted)


@pytest.mark.parametrize("kernel", KERNELS)
def test_in_lanes(kernel: Any, few_in_registers: Any) -> None:
    f = build(kernel)
    wanted = results(f, arguments())
    few_in_registers(2)
    wide = widen(lowered(f), 4)
    verify(wide)
    for x, y in zip(results(wide, arguments(), run_lanes), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)  # lanes add up before they meet memory


@pytest.mark.parametrize("kernel", crossed(KERNELS, every=2))
def test_on_cuda(kernel: Any, few_in_registers: Any) -> None:
    f = build(kernel)
    wanted = results(f, arguments())
    few_in_registers(2)
    got = lowered(f)
    found = results(got, arguments(), lambda g, args, dims: CudaKernel(g)(args, dims))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    assemble(to_ptx(got, cuda_target("sm_80"), Lowering()), "sm_80")


@pytest.mark.parametrize("kernel", crossed(KERNELS, every=2))
def test_gradients_are_the_same(kernel: Any, few_in_registers: Any) -> None:
    f = build(kernel)
    few_in_registers(10**6)
    wanted = results(finish(_adjoint(f)), _with_adjoints(f))
    few_in_registers(2)
    g = finish(_adjoint(f), Options(verify=True))
    verify(g, (NO_LARGE_VALUES,))
    for x, y in zip(results(g, _with_adjoints(f)), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-13)


def _adjoint(f: Function) -> Function:
    return adjoint(prepare(f), WRT, Options(verify=True))


def _with_adjoints(f: Function) -> list[Any]:
    args = arguments()
    grads = []
    for k in WRT:
        x = arguments(k + 7)[k]
        grads.append(x if isinstance(f.params[k].type, Array) else x[None])
    copies = [args[k] for k in _adjoint(f).prelaunch_copies]
    return [*args, *grads, *copies]


@pytest.mark.parametrize("kernel", crossed([k for k in KERNELS if k is not updates], every=2))
def test_tangents_are_the_same(kernel: Any, few_in_registers: Any) -> None:
    f = build(kernel)
    tangents = [arguments(k + 7)[k] for k in WRT]
    few_in_registers(10**6)
    wanted = results(finish(forward_mode(prepare(f), WRT, Options())), [*arguments(), *tangents])
    few_in_registers(2)
    options = Options(verify=True)
    g = finish(forward_mode(prepare(f), WRT, options), options)
    for x, y in zip(results(g, [*arguments(), *tangents]), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-13)


def count(f: Function) -> int:
    return sum(1 for _ in f.body.walk())


def _square(n: int) -> Function:
    t = wp.types.matrix((n, n), wp.float32)

    def square(a: wp.array(dtype=t), b: wp.array(dtype=t), s: float):
        i = wp.tid()
        m = a[i] * b[i] + a[i] * s
        m[0, 1] = wp.trace(m) + wp.ddot(m, a[i])
        b[i] = wp.transpose(m)

    return build(square)


@pytest.mark.parametrize("n", [(16, 64), (17, 63)])
def test_code_does_not_grow_with_matrices(n: tuple[int, int]) -> None:
    small, large = (_square(k) for k in n)
    options = Options()
    for f in (small, large):
        assert count(lowered(f)) < 500
        assert count(finish(adjoint(prepare(f), (0, 1), options), options)) < 1500


def _all_kinds(n: int, scalar: Any) -> Function:
    t, other = (wp.types.matrix((n, n), s) for s in (scalar, wp.float16))
    v = wp.types.vector(n, scalar)

    def all_kinds(a: wp.array(dtype=t), b: wp.array(dtype=t), c: wp.array(dtype=t), r: wp.array(dtype=v), k: int):
        i = wp.tid()
        m = t(other(a[i] * b[i]))
        x = wp.where(k > 2, r[i], m * r[i + 1]) + r[i] * m
        m = wp.cw_div(wp.cw_mul(m, wp.outer(x, x)), -m) - wp.diag(wp.get_diag(m)) / scalar(3.0)
        for j in range(k):
            m[j, 1] = m[1, j] + m[j, j]
            m = m * scalar(0.5) + wp.transpose(m)
        if m == a[i]:
            wp.atomic_add(c, i, m)
        b[i + 1] = wp.lerp(m, a[i], scalar(0.25)) + t(scalar(1.0))

    return build(all_kinds)


@pytest.mark.parametrize("scalar", [wp.float32, wp.float64])
def test_code_of_all_operations_stays_as_it_is(scalar: Any) -> None:
    """Between 400 and 3,969 components; rows of up to 64 numbers are in registers, so code grows a little with them."""
    sizes = []
    for n in (20, 63):
        f = _all_kinds(n, scalar)
        made = finish(adjoint(prepare(f), (0, 1, 2, 3), Options()), Options())
        sizes.append((count(lowered(f)), count(made)))
    (forward, backward), (more_forward, more_backward) = sizes
    assert more_forward < 2.5 * forward < 2500
    assert more_backward < 2.5 * backward < 6000


def test_small_ones_stay_in_registers() -> None:
    f = _square(8)
    made = [o.result for o in lowered(f).body.walk() if isinstance(o, (ops.LocalArray, ops.Components, ops.For))]
    assert made == []
    assert not is_large(ir.Mat(8, 8, ir.float32))
    assert is_large(ir.Vec(65, ir.float32))


def buffers(f: Function) -> int:
    return sum(isinstance(o, ops.LocalArray) for o in lowered(f).body.walk())


def test_a_loop_replaces_components_in_place(few_in_registers: Any) -> None:
    def fill(v: wp.array(dtype=V), n: int):
        i = wp.tid()
        x = v[i]
        for k in range(n):
            if k > 1:
                x[k] = x[k - 1] * f64(2.0)
            x[0] = f64(k)
        v[i] = x

    few_in_registers(4)
    assert buffers(build(fill)) == 1


def test_what_is_only_read_is_not_copied(few_in_registers: Any) -> None:
    def total(v: wp.array(dtype=V), s: wp.array(dtype=f64), p: V):
        i = wp.tid()
        s[i] = wp.dot(v[i], p) + v[i][3]

    few_in_registers(4)
    assert buffers(build(total)) == 0


def test_one_number_of_an_element_is_stored_alone(few_in_registers: Any) -> None:
    def one(m: wp.array(dtype=D), n: int):
        i = wp.tid()
        m[i][1, 2] = f64(5.0)
        m[i][n, 0] += m[i][1, 2]

    few_in_registers(4)
    f = build(one)
    got = lowered(f)
    assert not any(isinstance(o, (ops.LocalArray, ops.For)) for o in got.body.walk())
    for n in (-1, 2, 3, 50):  # out of range, nothing is replaced
        x, y = np.ones((2, R, C)), np.ones((2, R, C))
        run(f, [x, n], (2,))
        run(got, [y, n], (2,))
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("n", [-1, 0, 2, 3, 50])
def test_rows_of_an_element_are_stored_alone(n: int, few_in_registers: Any) -> None:
    def rows(m: wp.array(dtype=D), n: int):
        i = wp.tid()
        m[i][1] = m[0][2] * f64(2.0)
        m[i][n] = m[i][1]
        m[i][0:2, 3] = U(f64(7.0))[0:2]

    few_in_registers(10)
    f = build(rows)
    got = lowered(f)
    assert not any(isinstance(o, (ops.LocalArray, ops.For)) for o in got.body.walk())
    x = np.arange(2.0 * R * C).reshape(2, R, C)
    y = x.copy()
    run(f, [x, n], (2,))
    run(got, [y, n], (2,))
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(x[0, 1 if n != 1 else 2, 4:], 2.0 * np.arange(2 * C, 3 * C)[4:])


Z = wp.constant(wp.types.vector(N, int)(0))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_an_atomic_update_by_numbers_that_replace_each_other(n: int, few_in_registers: Any) -> None:
    def update(v: wp.array(dtype=wp.types.vector(N, int)), n: int):
        i = wp.tid()
        x = Z
        x[n] = 1
        x[1] = 2
        wp.atomic_add(v, i, x)
        y = Z
        y[2] = 1
        y[4] = 2
        wp.atomic_add(v, i, y)

    few_in_registers(4)
    f = build(update)
    got = lowered(f)
    assert sum(isinstance(o, ops.Atomic) for o in got.body.walk()) == 3  # a loop's, and two for what is apart
    x, y = (np.zeros((2, N), np.int32) for _ in range(2))
    run(f, [x, n], (2,))
    run(got, [y, n], (2,))
    np.testing.assert_array_equal(x, y)
    assert x[0, 1] == 2


@pytest.mark.parametrize("rows", [9, 64])
def test_rows_of_large_matrices_are_stored(rows: int) -> None:
    t = wp.types.matrix((rows, rows), float)

    @wp.kernel(module="unique")
    def copy_row(x: wp.array(dtype=t), y: wp.array(dtype=t), n: int):
        i = wp.tid()
        y[i][1] = x[i][n]
        y[i][n] = wp.normalize(x[i][0])

    x = np.random.default_rng(0).uniform(size=(3, rows, rows)).astype(np.float32)
    y = wp.zeros(3, dtype=t)
    wp.launch(copy_row, dim=3, inputs=[wp.array(x, dtype=t), y, 2])
    expected = np.zeros_like(x)
    expected[:, 1] = x[:, 2]
    expected[:, 2] = x[:, 0] / np.linalg.norm(x[:, 0], axis=-1, keepdims=True)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("index", [-100, -12, -1, 0, 10, 11, 2**31 - 1])
def test_an_index_out_of_range(index: int, few_in_registers: Any) -> None:
    def pick(v: wp.array(dtype=V), n: wp.array(dtype=wp.int64), out: wp.array(dtype=V)):
        i = wp.tid()
        x = v[i]
        x[n[0]] = f64(9.0)
        x[1] += x[n[0]]
        out[i] = x

    f = build(pick)
    few_in_registers(4)
    got = lowered(f)
    args = [np.arange(2.0 * N).reshape(2, N), np.array([index])]
    x, y = np.zeros((2, N)), np.zeros((2, N))
    run(f, [*args, x], (2,))
    run(clone_function(got), [*args, y], (2,))
    np.testing.assert_array_equal(x, y)
