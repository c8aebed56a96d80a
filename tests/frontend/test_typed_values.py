"""Scalars, vectors, matrices, arrays and assignment to their parts."""

import enum
import math
import re
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, everywhere, launch
from warp_like.ir import ops
from warp_like.ir import types as ir

LIMIT = 3
HALF = wp.float64(0.5)
OFFSET = wp.vec3(1.0, 2.0, 3.0)
TABLE = (1.5, 2.5, wp.float32(4.5))


class Mode(enum.IntEnum):
    SLOW = 1
    FAST = 4


class Settings:
    scale = 2.0


def op_types(f, kind):
    return [o for o in f.body.walk() if isinstance(o, kind)]


def ran(pyfunc, *args, dtype=np.float32, shape=(8,), dims=1, types=None):
    out = np.zeros(shape, dtype)
    launch(pyfunc, dims, out, *args, types=types)
    return out


def test_literals_adapt_to_the_other_operand():
    def k(out: wp.array(dtype=wp.float64), x: wp.float64, h: wp.float16, i: wp.int64, u: wp.uint8):
        out[0] = x + 1
        out[1] = 0.1 * x
        out[2] = wp.float64(h * 3 + 0.5)
        out[3] = wp.float64(i * 3 - 10000000000)
        out[4] = wp.float64(u + 250)
        out[5] = 7
        out[6] = -x if x > 1 else 0

    got = ran(k, 2.0, 1.5, 5, 3, dtype=np.float64)
    assert got.tolist() == [3.0, 0.2, 5.0, 15 - 1e10, 253.0, 7.0, -2.0, 0.0]


def test_literals_have_default_types_in_variables():
    def k(out: wp.array(dtype=int)):
        i = 1
        f = 1.0
        b = True
        out[0] = i + int(f) + int(b)
        out[1] = 1 if f * 2.0 > 1.5 and b else 0

    f = build(k)
    hints = {o.result.hint: o.result.type for o in op_types(f, ops.Constant) if o.result.hint}
    assert hints == {"i": ir.int32, "f": ir.float32, "b": ir.bool_}
    assert ran(k, dtype=np.int32)[:2].tolist() == [3, 1]


def test_a_literal_takes_the_type_of_the_variable():
    def k(out: wp.array(dtype=wp.float64), n: int):
        x = wp.float64(3)
        x = 0.1
        if n > 0:
            x = 2
        out[0] = x

    assert ran(k, 0, dtype=np.float64)[0] == 0.1
    assert ran(k, 1, dtype=np.float64)[0] == 2.0


def test_literals_are_folded_as_the_kernel_computes():
    def k(out: wp.array(dtype=float)):
        out[0] = float(7 / 2)
        out[1] = float(-7 / 2)
        out[2] = float(-7 // 2)
        out[3] = float(-7 % 2)
        out[4] = 1.0 / 3.0
        out[5] = 2.0**0.5
        out[6] = -(1 + 2) * 1.5
        out[7] = float(~5 + (1 << 4) + (3 & 6))

    assert ran(k).tolist() == [3, -3, -4, -1, np.float32(1 / 3), np.float32(math.sqrt(2)), -4.5, 12]
    assert not op_types(build(k), ops.Apply)


def test_casts():
    def k(out: wp.array(dtype=wp.float64), x: float, i: int):
        out[0] = wp.float64(int(x))
        out[1] = wp.float64(wp.uint8(i))
        out[2] = wp.float64(bool(i))
        out[3] = wp.float64(float(i) / 2.0)
        out[4] = wp.float64(wp.uint32(-1))
        out[5] = wp.float64(int(3.9)) + wp.float64()
        out[6] = wp.float64(wp.cast(x, wp.int32))
        out[7] = wp.float64(type(x)(3) + out.dtype(1) * 0 if False else 2)

    got = ran(k, -2.75, 258, dtype=np.float64)
    assert got.tolist() == [-2, 2, 1, 129, 4294967295, 3, float(np.float32(-2.75).view(np.int32)), 2]


def test_vectors():
    def k(out: wp.array(dtype=float), i: int):
        v = wp.vec3(1.0, 2.0, 3.0)
        v.x += 10.0
        v[1] = 5.0
        v[-1] = v[i]
        w = v
        w.y = 0.0
        out[0] = v.x
        out[1] = v[1]
        out[2] = v.z
        out[3] = w[i]
        out[4] = wp.vec2(4.0).y + wp.vec3().x
        out[5] = float(wp.vec3d(v)[0]) + float(len(v))
        out[6] = wp.dot(v, v * 2.0)

    assert ran(k, 1)[:7].tolist() == [11, 5, 5, 0, 4, 14, 2 * (121 + 25 + 25)]


def test_matrices():
    def k(out: wp.array(dtype=float), i: int):
        m = wp.mat22(1.0, 2.0, 3.0, 4.0)
        m[0, 1] = 20.0
        m[i][0] += 30.0
        m[-2] = m[1] * 2.0
        row = m[i]
        row[0] = 0.0
        out[0] = m[0, 0]
        out[1] = m[0][1]
        out[2] = m[i, i - 1]
        out[3] = m[1, -1]
        out[4] = wp.mat22(5.0)[1, 1] + wp.mat22()[0, 0]
        out[5] = wp.determinant(wp.identity(n=2, dtype=float))
        out[6] = wp.matrix_from_rows(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0))[0, 1]
        out[7] = wp.matrix_from_cols(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0))[0, 1]

    assert ran(k, 1).tolist() == [66, 8, 33, 4, 5, 1, 2, 3]


def test_vector_and_matrix_of_any_size():
    def k(out: wp.array(dtype=float), x: float):
        v = wp.vector(x, 2.0, 3.0, 4.0, 5.0)
        w = wp.vector(1.0, length=5)
        m = wp.matrix(x, 0.0, 1.0, 2.0, 3.0, 4.0, shape=(2, 3))
        out[0] = wp.dot(v, w)
        out[1] = m[1, 2] + float(m.shape[0])
        out[2] = float(wp.vector(1, 2, dtype=wp.int32)[1])

    assert ran(k, 10.0)[:3].tolist() == [24, 6, 2]


def test_parts_of_array_elements():
    def k(xs: wp.array(dtype=wp.vec3), ms: wp.array(dtype=wp.mat22), i: int):
        xs[i].x = 5.0
        xs[i][1] += 2.0
        xs[i].z -= 1.0
        xs[i][i] *= 3.0
        ms[0][1, 1] = 7.0
        ms[0][1][0] = 6.0
        ms[0][0] += wp.vec2(1.0, 2.0)

    xs = np.ones((2, 3), np.float32)
    ms = np.zeros((1, 2, 2), np.float32)
    launch(k, 1, xs, ms, 1)
    assert xs.tolist() == [[1, 1, 1], [5, 9, 0]]
    assert ms.tolist() == [[[1, 2], [6, 7]]]


def test_augmented_assignment_of_elements_is_atomic_where_it_can_be():
    def k(
        f: wp.array(dtype=float),
        v: wp.array(dtype=wp.vec2),
        u: wp.array(dtype=wp.uint32),
        b: wp.array(dtype=wp.uint8),
    ):
        i = wp.tid()
        f[0] += 2.0
        f[1] -= 1.0
        f[2] *= 2.0
        v[0] += wp.vec2(1.0, 2.0)
        v[1].y += 3.0
        u[0] |= wp.uint32(1) << wp.uint32(i)
        u[1] &= 6
        u[2] ^= 5
        b[0] += 1

    kinds = [o.kind for o in op_types(build(k), ops.Atomic)]
    assert kinds == ["add", "sub", "add", "add", "or", "and", "xor"]
    f, v = np.array([0, 0, 1], np.float32), np.array([[0, 0], [-0.0, 0]], np.float32)
    u, b = np.array([0, 15, 0], np.uint32), np.zeros(1, np.uint8)
    launch(k, 3, f, v, u, b)
    assert f.tolist() == [6, -3, 8]
    assert v.tolist() == [[3, 6], [0, 9]]
    assert np.signbit(v[1, 0])  # the component that was not named keeps even the sign of its zero
    assert u.tolist() == [7, 6, 5]
    assert b.tolist() == [3]


def test_arrays_of_several_dimensions():
    def k(a: wp.array(dtype=int, ndim=4), m: wp.array2d(dtype=int), out: wp.array(dtype=int)):
        row = m[1]
        row[0] = 5
        out[0] = a[1, 0, 2, 1] + a[1][0][2][1] + a[1, 0][2, 1]
        out[1] = m[-1, -2]
        out[2] = len(m) * 100 + m.shape[1] * 10 + m.ndim
        out[3] = a.size
        p = row
        out[4] = p[0] + m[1][2]
        out[-1] = a[1, 0].shape[1]
        m[0][1] += 4

    a = np.arange(2 * 1 * 3 * 2, dtype=np.int32).reshape(2, 1, 3, 2)
    m = np.arange(6, dtype=np.int32).reshape(2, 3)
    out = np.zeros(6, np.int32)
    launch(k, 1, a, m, out)
    assert out.tolist() == [3 * int(a[1, 0, 2, 1]), 4, 232, 12, 10, 2]
    assert m.tolist() == [[0, 5, 2], [5, 4, 5]]


def test_thread_indices():
    def k(out: wp.array(dtype=int, ndim=4)):
        i, j, k, m = wp.tid()
        out[i, j, k, m] = i * 1000 + j * 100 + k * 10 + m

    def flat(out: wp.array(dtype=int)):
        out[wp.tid()] = wp.tid() * 2

    out = np.zeros((2, 2, 2, 2), np.int32)
    launch(k, (2, 2, 2, 2), out)
    assert out[1, 0, 1, 1] == 1011
    got = np.zeros(6, np.int32)
    launch(flat, (2, 3), got)
    assert got.tolist() == [0, 2, 4, 6, 8, 10]


def test_atomics_return_the_old_value():
    def k(a: wp.array(dtype=int), m: wp.array2d(dtype=float), out: wp.array(dtype=int)):
        out[0] = wp.atomic_add(a, 0, 5)
        out[1] = wp.atomic_max(a, 0, 3)
        out[2] = wp.atomic_cas(a, 0, 5, 9)
        out[3] = wp.atomic_exch(a, 0, value=2)
        out[4] = a[-1] + wp.atomic_sub(arr=a, i=-1, value=1)
        wp.atomic_add(m, 1, 0, 2.5)
        wp.atomic_min(m[0], 1, -1)

    a, m, out = np.zeros(1, np.int32), np.zeros((2, 2), np.float32), np.zeros(5, np.int32)
    launch(k, 1, a, m, out)
    assert out.tolist() == [0, 5, 5, 9, 4]
    assert a.tolist() == [1]
    assert m.tolist() == [[0, -1], [2.5, 0]]


def test_captured_constants():
    local = 5

    def k(out: wp.array(dtype=wp.float64)):
        out[0] = wp.float64(LIMIT + local)
        out[1] = HALF * 3
        out[2] = wp.float64(OFFSET.y)
        out[3] = wp.float64(Mode.FAST) + wp.float64(Mode.SLOW.value)
        out[4] = Settings.scale * HALF
        out[5] = wp.static(math.factorial(local) * 1.0)
        out[6] = wp.float64(TABLE[-1]) + TABLE[0]
        out[7] = wp.float64(wp.static(wp.vec2(1.0, 2.0))[1]) + math.pi

    got = ran(k, dtype=np.float64)
    assert got.tolist() == [8, 1.5, 2, 5, 1, 120, 6, 2 + math.pi]


def test_python_functions_that_have_a_meaning():
    def k(out: wp.array(dtype=float), x: float, v: wp.vec3):
        out[0] = min(x, 2.0)
        out[1] = max(x, 2.0)
        out[2] = abs(x)
        out[3] = round(x)
        out[4] = pow(x, 2.0)
        out[5] = float(len(v))

    assert ran(k, -3.25, [0, 0, 0])[:6].tolist() == [-3.25, 2, 3.25, -3, 10.5625, 3]


def test_printing():
    def k(x: float, v: wp.vec2, m: wp.mat22):
        print("x", x, 3)
        print(v)
        print(m)
        wp.printf("%d of 100%%: %f\n", 7, x)

    f = build(k)
    assert [o.parts for o in op_types(f, ops.Print)] == [
        ("x ", " ", "\n"),
        ("", " ", "\n"),
        ("", " ", "\n", " ", "\n"),
        ("", " of 100%: ", "\n"),
    ]


def test_annotated_and_multiple_assignment():
    def k(out: wp.array(dtype=wp.float64)):
        a: wp.float64 = 1
        b = c = a + 1.0
        (d, e), g = (a, b), c
        out[0], out[1] = d + e, g
        out[1], out[0] = out[0], out[1]

    assert ran(k, dtype=np.float64)[:2].tolist() == [2, 3]


def test_names_are_hints_and_literals_are_not_emitted_before_use():
    def k(out: wp.array(dtype=float), x: float):
        unused = 3.0  # noqa: F841
        y = x * 2.0
        out[0] = y

    names = [r.hint for o in build(k).body.ops for r in o.results]
    assert "y" in names
    assert names.index("y") < len(names) - 1
    assert build(k).params[1].hint == "x"


def test_wide_grids_mix_the_thread_index_with_int32():
    def k(out: wp.array(dtype=int), n: int):
        i = wp.tid()
        j = i % n
        last = 0
        last = i
        for q in range(i, n):
            out[0] += q
        if i < n:
            out[j] += last

    assert op_types(build(k, wide=True), ops.Tid)[0].result.type == ir.int64
    narrow, wide = np.zeros(4, np.int32), np.zeros(4, np.int32)
    launch(k, 6, narrow, 4)
    from tests.interpreter import run

    run(build(k, wide=True), [wide, 4], (6,))
    assert narrow.tolist() == wide.tolist()


def test_generic_kernels_are_built_for_given_types():
    from typing import Any

    def k(a: wp.array(dtype=Any), s: Any):
        a[0] = a[0] * s + a.dtype(1)

    for t, dtype in ((ir.float64, np.float64), (ir.int32, np.int32)):
        a = np.full(1, 3, dtype)
        launch(k, 1, a, 5, types=[ir.Array(t, 1), t])
        assert a[0] == 16


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_thread_index_ops(n):
    from tests.frontend.support import define

    names = ", ".join("ijkl"[:n])
    k = define(f"""
        def k(out: wp.array(dtype=int)):
            {names} = wp.tid()
            out[0] = {"ijkl"[n - 1]}
    """)["k"]
    assert [(o.axis, o.ndim) for o in op_types(build(k), ops.Tid)] == [(a, n) for a in range(n)]


@wp.func
def padded(v: Any):
    wider = wp.types.vector(length=len(v) + 2, dtype=v.dtype)
    found = wider(v.dtype(1.0))
    for i in range(len(v)):
        found[i + 1] = v[i]
    return found


@wp.func
def outer_square(v: Any):
    return wp.types.matrix(shape=(len(v), len(v)), dtype=v.dtype)(v.dtype(2.0)) * v


@wp.kernel
def types_of_arguments(out: wp.array(dtype=wp.float64)):
    v = padded(wp.vec3d(2.0, 3.0, 4.0))
    for i in range(len(v)):
        out[i] = v[i]
    w = outer_square(wp.vec2(1.0, 2.0))
    out[5] = wp.float64(w[0] + w[1])
    q = wp.types.quaternion(dtype=wp.float64)(0.0, 0.0, 0.0, 1.0)
    t = wp.types.transformation(dtype=wp.float64)(wp.vec3d(1.0, 2.0, 3.0), q)
    out[6] = wp.transform_point(t, wp.vec3d(1.0, 1.0, 1.0))[2]
    out[7] = wp.vector(length=len(v), dtype=wp.float64)[1] + q.w


def test_types_are_made_in_kernels():
    (out,) = everywhere(types_of_arguments, 1, np.zeros(8))
    np.testing.assert_array_equal(out, [1, 2, 3, 4, 1, 12, 4, 1])


@wp.kernel
def made_by_types(out: wp.array(dtype=wp.float64), x: wp.float64):
    v = wp.types.vector(x, wp.float64(2.0), x)
    out[0] = wp.float64(len(v)) + v[0]
    zeros = wp.types.vector(length=4, dtype=wp.float64)
    zeros[3] = x
    out[1] = zeros[2] + zeros[3]
    out[2] = wp.types.vector(x, length=5)[4]
    m = wp.types.matrix(x, wp.float64(2.0), wp.float64(3.0), x, shape=(2, 2))
    out[3] = (m * m)[1, 0]
    empty = wp.types.matrix(shape=(2, 2), dtype=wp.float64)
    empty += m
    out[4] = empty[0, 1]
    out[5] = wp.float64(wp.types.vector(v, dtype=wp.float16)[0])
    q = wp.types.quaternion(wp.vec3d(x, x, x), wp.float64(7.0))
    t = wp.types.transformation(wp.vec3d(x, x, x), q)
    out[6] = t.q.w + t.p.x
    three = wp.types.vector(3, wp.float64)
    out[7] = three(x)[2] + wp.types.vector(3, dtype=wp.float64)(x)[1]
    local = wp.zeros(shape=(2,), dtype=wp.types.vector(length=2, dtype=wp.float64))
    local[1] = wp.vec2d(x)
    out[8] = local[1].y + local[0].x
    out[9] = wp.mat22d(m, shape=(2, 2), dtype=wp.float64)[1, 1] + wp.vec2d(x, x, length=2)[0]


def test_types_are_called_with_components_or_stand_for_zero():
    x = 1.5
    expected = [3 + x, x, x, 3.0 * x + x * 3.0, 2.0, x, 7.0 + x, 2 * x, x, 2 * x]
    out = wp.zeros(10, dtype=wp.float64)
    wp.launch(made_by_types, 1, inputs=[out, x])
    assert out.list() == expected
    assert ".visible .entry" in made_by_types.inspect("ptx", target="sm_80")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("v = wp.vec3(1.0, length=2)", "the length of wp.vec3() is 3"),
        ("m = wp.mat22(1.0, shape=(2, 3))", "the shape of wp.mat22() is (2, 2)"),
        ("v = wp.vec3(1.0, dtype=wp.float64)", "the dtype of wp.vec3() is float32"),
        ("v = wp.vec3(1.0, size=2)", "wp.vec3() takes its arguments by position"),
    ],
)
def test_keywords_of_a_type_agree_with_it(line, message):
    from tests.frontend.support import define

    k = define(f"""
        def k(out: wp.array(dtype=float)):
            {line}
    """)["k"]
    with pytest.raises(wp.WarpCodegenTypeError, match=re.escape(message)):
        build(k)


@wp.kernel
def by_dtype(x: wp.array(dtype=Any), vectors: wp.array(dtype=wp.vec3h), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    e = x[i]
    half = e.dtype(0.5)
    out[0] = wp.float64(half * e)
    v = vectors[i]
    out[1] = wp.float64(v.dtype(3) + v[1].dtype(2) + v.x.dtype(1.0))
    n = 3
    k = n.dtype(2.7)
    out[2] = wp.float64(k) + wp.float64(x.shape[0].dtype(4))
    s = 1.0
    out[3] = wp.float64(s.dtype(7)) + wp.float64(i.dtype(2))
    out[4] = wp.float64(wp.types.vector(length=2, dtype=e.dtype)(e, half)[1])
    b = e > half
    out[5] = wp.float64(int(b.dtype(5)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_values_know_their_type(dtype):
    x, out = wp.array(np.full(1, 3, dtype)), wp.zeros(6, dtype=wp.float64)
    wp.launch(by_dtype, 1, [x, wp.zeros(1, dtype=wp.vec3h)], [out])
    assert out.list() == [1.5, 6.0, 6.0, 9.0, 0.5, 1.0]
    ptx = by_dtype.inspect("ptx", [x, wp.zeros(1, dtype=wp.vec3h), out], target="sm_80")
    assert ".visible .entry" in ptx


def test_what_is_made_by_the_type_of_a_value_has_a_gradient():
    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        e = x[i]
        out[i] = e.dtype(2.0) * e * e.dtype(float(e))

    x = wp.array([1.0, 2.0], dtype=wp.float64, requires_grad=True)
    out = wp.zeros(2, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 2, [x], [out])
    tape.backward(grads={out: wp.ones(2, dtype=wp.float64)})
    assert x.grad.list() == [4.0, 8.0]


def test_types_in_generic_code_have_dtype_and_ndim():
    @wp.kernel
    def k(a: wp.array(dtype=Any, ndim=2), s: wp.array(dtype=Any), out: wp.array(dtype=Any)):
        made = type(a).dtype(a[0, 0]) * a.dtype.dtype(2.0)
        out[0] = made + type(a[0, 0])()
        out[1] = out.dtype(type(s).dtype.dtype(1.5))
        out[2] = out.dtype(out.dtype.dtype(type(a).ndim + 10 * s.ndim))

    for element, scalar in ((wp.vec3, wp.float32), (wp.mat22d, wp.float64)):
        out = wp.zeros(3, dtype=element)
        wp.launch(k, 1, inputs=[wp.full((1, 1), 4.0, dtype=element), wp.zeros(1, dtype=scalar), out])
        assert out.list() == [element(8.0), element(1.5), element(12.0)]


def test_an_attribute_that_a_type_has_not():
    @wp.kernel
    def k(a: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        out[0] = a.dtype.dtype.shape

    with pytest.raises(AttributeError, match="the type float32 has no attribute `shape` in kernel code"):
        wp.launch(k, 1, inputs=[wp.zeros(1, dtype=wp.vec3), wp.zeros(1, dtype=float)])
