"""Slices and parts of vectors, matrices and arrays: read, assigned, updated in place, differentiated."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import everywhere
from tests.gradients import check

vec5d = wp.types.vector(length=5, dtype=wp.float64)
mat34 = wp.types.matrix(shape=(3, 4), dtype=wp.float32)
RNG = np.random.default_rng(3)


@wp.kernel
def vector_parts(v: wp.array(dtype=wp.vec4), out: wp.array2d(dtype=float), last: int):
    i = wp.tid()
    x = v[i]
    head = x[:2]
    back = x[::-1]
    tail = x[-3:]
    odd = x[1::2]
    out[i, 0] = head[1]
    out[i, 1] = back[0]
    out[i, 2] = tail[0] + float(len(tail))
    out[i, 3] = odd[1]
    out[i, 4] = x[last]
    out[i, 5] = x[1:10][2]
    x[:2] = wp.vec2(7.0, 8.0)
    x[2:] += wp.vec2(1.0, 2.0)
    x[::3] *= 2.0
    out[i, 6] = x[0] + 10.0 * x[1] + 100.0 * x[2] + 1000.0 * x[3]
    x[1:3] = 5.0
    x[last] -= 3.0
    v[i] = x
    v[i][1:3] = 4.0


def test_parts_of_vectors():
    given = RNG.integers(0, 9, (3, 4)).astype(np.float32)
    v, out, _ = everywhere(vector_parts, 3, given, np.zeros((3, 7), np.float32), -1)
    expected = np.zeros((3, 7), np.float32)
    for x, row in zip(given.copy(), expected, strict=True):
        row[:6] = x[:2][1], x[::-1][0], x[-3:][0] + 3, x[1::2][1], x[-1], x[1:10][2]
        x[:2] = 7.0, 8.0
        x[2:] += 1.0, 2.0
        x[::3] *= 2.0
        row[6] = x @ [1, 10, 100, 1000]
        x[1:3] = 4.0
        x[-1] -= 3.0
        np.testing.assert_array_equal(v[0], x)
        v = v[1:]
    np.testing.assert_array_equal(out, expected)


@wp.kernel
def matrix_parts(ms: wp.array(dtype=mat34), out: wp.array2d(dtype=float), j: int):
    i = wp.tid()
    m = ms[i]
    column = m[:, 1]
    block = m[0:2, 1:3]
    rows = m[1:]
    out[i, 0] = column[2]
    out[i, 1] = block[1, 0]
    out[i, 2] = rows[1, 3] + float(len(rows))
    out[i, 3] = m[j, ::2][1]
    out[i, 4] = m[:, j][0]
    out[i, 5] = m[j][j]
    m[0] = wp.vec4(1.0, 2.0, 3.0, 4.0)
    m[:, 2] = wp.vec3(0.5, 0.25, 0.125)
    m[1:, :2] = wp.mat22(9.0, 8.0, 7.0, 6.0)
    m[1:3][1][3] = 11.0
    m[:, j] += wp.vec3(10.0, 20.0, 30.0)
    m[0:2][j] *= 2.0
    m[:1, :] = 3.0
    m[-1, -1] += 4.0
    ms[i] = m
    ms[i][2, :2] += 100.0 * wp.vec2(1.0, 2.0)


def test_parts_of_matrices():
    given = RNG.integers(0, 9, (2, 3, 4)).astype(np.float32)
    for j in (1, 0, -1):
        ms, out, _ = everywhere(matrix_parts, 2, given, np.zeros((2, 6), np.float32), j)
        for m, after, row in zip(given.copy(), ms, out, strict=True):
            read = m[2, 1], m[1, 1], m[2, 3] + 2, m[j, ::2][1], m[0, j], m[j, j]
            np.testing.assert_array_equal(row, read)
            m[0] = 1, 2, 3, 4
            m[:, 2] = 0.5, 0.25, 0.125
            m[1:, :2] = [[9, 8], [7, 6]]
            m[2, 3] = 11
            m[:, j] += 10, 20, 30
            m[0:2][j] *= 2
            m[:1] = 3
            m[-1, -1] += 4
            m[2, :2] += 100, 200
            np.testing.assert_array_equal(after, m)


@wp.struct
class Body:
    spin: wp.vec3
    pose: wp.mat22


@wp.kernel
def parts_in_structs(bodies: wp.array(dtype=Body), qs: wp.array(dtype=wp.quat)):
    i = wp.tid()
    b = bodies[i]
    b.spin[1:] = wp.vec2(5.0, 6.0)
    b.pose[:, 0] += wp.vec2(1.0, 1.0)
    b.spin.x += 2.0
    bodies[i] = b
    bodies[i].spin[:2] *= 3.0
    bodies[i].pose[1, 1] -= 1.0
    q = qs[i]
    q[:3] = -q[:3]
    q.w += q[0:4][2]
    qs[i] = q


def test_parts_in_structs_and_quaternions():
    bodies = wp.zeros(1, dtype=Body)
    qs = wp.array([[1.0, 2.0, 3.0, 4.0]], dtype=wp.quat)
    wp.launch(parts_in_structs, dim=1, inputs=[bodies, qs])
    got = bodies.numpy()[0]
    np.testing.assert_array_equal(got["spin"], [6.0, 15.0, 6.0])
    np.testing.assert_array_equal(got["pose"], [[1.0, 0.0], [1.0, -1.0]])
    np.testing.assert_array_equal(qs.numpy(), [[-1.0, -2.0, -3.0, 1.0]])


@wp.kernel
def index_types(v: wp.vec4, i: wp.int8, j: wp.uint8, k: wp.int64, out: wp.array(dtype=float)):
    out[0] = v[i]
    out[1] = v[j]
    out[2] = v[k]


@pytest.mark.parametrize("at", [(-1, 3, -4), (2, 0, 1)])
def test_negative_indices_of_every_type(at):
    (*_, out) = everywhere(index_types, 1, wp.vec4(1.0, 2.0, 3.0, 4.0), *at, np.zeros(3, np.float32))
    np.testing.assert_array_equal(out, np.array([1.0, 2.0, 3.0, 4.0], np.float32)[list(at)])


@wp.kernel
def array_parts(a: wp.array2d(dtype=float), out: wp.array(dtype=float), lo: int, hi: int):
    part = a[lo:hi]
    out[0] = float(len(part))
    column = a[1:, 2]
    out[1] = column[0]
    row = a[-1, ::2]
    out[2] = row[1]
    flipped = a[::-1, ::-1]
    out[3] = flipped[0, 0]
    out[4] = float(a[:, lo:hi:3].shape[1])
    out[5] = a[1:3][1][1:][0]
    out[6] = float(a[hi:lo:-2].shape[0])
    column[0] = 70.0
    row[0] += 80.0
    flipped[1, 0] = 90.0
    a[:2, 1][1] = 60.0
    for i in range(len(part)):
        part[i, 0] = part[i, 0] + 1.0


@pytest.mark.parametrize("bounds", [(0, 4), (1, 3), (-3, 100), (-100, 2), (3, 1), (4, 4), (2, -1)])
@pytest.mark.parametrize("strided", [False, True])
def test_parts_of_arrays(bounds, strided):
    lo, hi = bounds
    given = np.arange(20, dtype=np.float32).reshape(4, 5)
    a, out, *_ = everywhere(array_parts, 1, given, np.zeros(7, np.float32), lo, hi)
    expected = given.copy()
    read = [
        len(expected[lo:hi]),
        expected[1, 2],
        expected[-1, 2],
        expected[3, 4],
        expected[:, lo:hi:3].shape[1],
        expected[2, 1],
        len(expected[hi:lo:-2]),
    ]
    expected[1, 2] = 70
    expected[-1, 0] += 80
    expected[2, 4] = 90
    expected[1, 1] = 60
    expected[lo:hi, 0] += 1
    if strided:
        a = np.zeros((8, 10), np.float32)[::2, ::2]
        a[:] = given
        out = np.zeros(7, np.float32)
        wp.launch(array_parts, dim=1, inputs=[a, out, lo, hi])
    np.testing.assert_array_equal(a, expected)
    np.testing.assert_array_equal(out, read)


@wp.func
def total(a: wp.array(dtype=float)):
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i]
    return s


@wp.kernel
def pass_parts(a: wp.array3d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = total(a[i, 1:, 0]) + total(a[i][0, ::-1]) + total(a[::2, 0, i])


def test_parts_go_to_functions():
    given = RNG.integers(0, 9, (3, 4, 5)).astype(np.float32)
    _, out = everywhere(pass_parts, 3, given, np.zeros(3, np.float32))
    expected = [given[i, 1:, 0].sum() + given[i, 0].sum() + given[::2, 0, i].sum() for i in range(3)]
    np.testing.assert_array_equal(out, expected)


@wp.kernel
def struct_parts(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    part = bodies[1::2]
    part[0].spin = wp.vec3(1.0, 2.0, 3.0)
    part[1].pose[0, 1] = 4.0
    out[0] = part[0].spin.y + float(len(part))


def test_parts_of_arrays_of_structs():
    bodies, out = wp.zeros(5, dtype=Body), wp.zeros(1, dtype=float)
    wp.launch(struct_parts, dim=1, inputs=[bodies, out])
    np.testing.assert_array_equal(bodies.numpy()["spin"][1], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(bodies.numpy()["pose"][3], [[0.0, 4.0], [0.0, 0.0]])
    assert out.numpy()[0] == 4.0


@wp.kernel
def differentiable(xs: wp.array(dtype=vec5d), a: wp.array2d(dtype=wp.float64), j: int, out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x = xs[i]
    x[1:4] = x[:3] * x[j] + x[2:]
    x[j] *= 2.0
    m = wp.matrix_from_rows(x[:3], x[2:], x[::2])
    m[:, j] *= x[0]
    m[1:, 1:] = m[:2, :2] * m[0:2, 1:3]
    column = a[1:, i]
    back = a[i, ::-1]
    total = wp.trace(m) + m[-1, 0] + wp.length_sq(m[:, 2])
    for k in range(len(column)):
        total += column[k] * wp.sin(column[k]) * back[k]
    out[i] = total


def test_gradients():
    for j in (1, -1):
        check(differentiable, 2, [RNG.normal(size=(2, 5)), RNG.normal(size=(4, 3)), j], 2)


@wp.kernel
def through_views(a: wp.array2d(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    back = out[::-1]
    line = a[i, 1:]
    back[i] = line[0] * line[0] + wp.exp(line[1])


def test_gradients_of_assignment_through_views():
    check(through_views, 3, [RNG.normal(size=(3, 3))], 3)


def test_tuples_are_sliced():
    @wp.kernel
    def k(out: wp.array(dtype=int)):
        t = (1, 2, 3, 4)
        a, b = t[1:3]
        out[0] = a * 10 + b
        out[1] = len(t[::2])

    (out,) = everywhere(k, 1, np.zeros(2, np.int32))
    np.testing.assert_array_equal(out, [23, 2])


@wp.kernel
def indexed_parts(a: wp.indexedarray2d(dtype=float), out: wp.array(dtype=float), lo: int):
    part = a[lo:, ::2]
    row = a[1, 1:]
    out[0] = part[0, 1]
    out[1] = row[0]
    out[2] = float(part.shape[0] * 10 + part.shape[1] + 100 * row.shape[0])
    a[1:][0, 1] = 50.0


def test_parts_of_indexed_arrays():
    data = wp.array(np.arange(20, dtype=np.float32).reshape(4, 5), dtype=float)
    rows, columns = np.array([3, 0, 2], np.int32), np.array([4, 1, 2], np.int32)
    view = wp.indexedarray2d(data, [wp.array(rows, dtype=int), wp.array(columns, dtype=int)])
    out = wp.zeros(3, dtype=float)
    wp.launch(indexed_parts, dim=1, inputs=[view, out, 1])
    np.testing.assert_array_equal(out.numpy(), [2.0, 1.0, 222.0])
    assert data.numpy()[0, 1] == 50.0


def test_accesses_through_slices_are_accesses_of_the_array():
    assert " slice " in array_parts.inspect("ir")
    assert " slice " not in array_parts.inspect("optimised")
    wp.config.mode = "debug"  # which checks indices against the slice
    try:
        assert " slice " in array_parts.inspect("optimised")
    finally:
        del wp.config.mode


@wp.kernel
def strided_parts(
    a: wp.array(dtype=float),
    lo: int,
    hi: int,
    step: int,
    lengths: wp.array(dtype=int),
    out: wp.array2d(dtype=float),
):
    part = a[lo:hi:step]
    whole = a[::step]
    lengths[0] = part.shape[0]
    lengths[1] = whole.shape[0]
    for i in range(part.shape[0]):
        out[0, i] = part[i]
    for i in range(whole.shape[0]):
        out[1, i] = whole[i] * whole[i]


@pytest.mark.parametrize("step", [-8, -3, -2, -1, 1, 2, 3, 8])
def test_steps_that_are_computed(step):
    x = np.arange(1, 8, dtype=np.float32)
    a = wp.array(x)
    for lo, hi in itertools.product((-9, -3, 0, 2, 6, 9), repeat=2):
        lengths, out = wp.zeros(2, dtype=int), wp.zeros((2, 8))
        wp.launch(strided_parts, 1, inputs=[a, lo, hi, step], outputs=[lengths, out])
        part, whole = x[lo:hi:step], x[::step]
        assert lengths.list() == [len(part), len(whole)]
        np.testing.assert_array_equal(out.numpy()[0, : len(part)], part)
        np.testing.assert_array_equal(out.numpy()[1, : len(whole)], whole * whole)


def test_a_computed_step_of_zero_selects_nothing():
    lengths, out = wp.zeros(2, dtype=int), wp.zeros((2, 8))
    wp.launch(strided_parts, 1, inputs=[wp.ones(7), 0, 7, 0], outputs=[lengths, out])
    assert lengths.list() == [0, 0]


def test_computed_steps_are_differentiated():
    a = wp.array(np.arange(1.0, 8.0), dtype=float, requires_grad=True)
    out = wp.zeros((2, 8), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(strided_parts, 1, inputs=[a, 1, 7, 3], outputs=[wp.zeros(2, dtype=int), out])
    tape.backward(grads={out: wp.ones((2, 8))})
    assert a.grad.list() == [2.0, 1.0, 0.0, 8.0, 1.0, 0.0, 14.0]
    assert ".visible .entry" in strided_parts.inspect("ptx", target="sm_80")


# --- slices without components ---


@wp.func
def twice(v: wp.Any):
    return v + v


@wp.kernel
def nothing(x: wp.array(dtype=wp.vec3), m: wp.array(dtype=wp.mat33), out: wp.array2d(dtype=float)):
    i = wp.tid()
    v = x[i]
    none = v[1:1]
    u = none * v[0] - none
    if v[0] > 0.0:
        u = -twice(none)
    for _ in range(i):
        u += none
    total = v[2]
    for c in u:
        total += c
    out[i, 0] = total + wp.dot(u, none) + wp.length(u) + float(len(u))
    out[i, 1] = 1.0 if u == none else 2.0
    rows, columns = m[i][2:2], m[i][0:2, 1:1]
    across = columns @ rows[:, 1]
    out[i, 2] = float(len(rows)) + 10.0 * float(len(columns)) + across[0] + across[1]
    v[2:2] = none
    v[:0] += u
    empty = wp.vector(length=0, dtype=float)
    out[i, 3] = v[1] + float(len(empty))


@pytest.mark.parametrize("options", [{}, {"vector_width": 1}, {"mode": "debug"}])
def test_slices_without_components(options):
    x = wp.array(RNG.normal(size=(5, 3)).astype(np.float32), dtype=wp.vec3, requires_grad=True)
    m, out = wp.zeros(5, dtype=wp.mat33), wp.zeros((5, 4), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(nothing, 5, [x, m], [out], options=options)
    numbers = x.numpy()
    np.testing.assert_array_equal(
        out.numpy(), np.stack([numbers[:, 2], *np.full((2, 5), [[1], [20]]), numbers[:, 1]], 1)
    )
    tape.backward(grads={out: wp.ones((5, 4), dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [[0.0, 1.0, 1.0]] * 5)
    assert ".visible .entry" in nothing.inspect("ptx", target="sm_80")


def test_the_interpreter_agrees_about_slices_without_components():
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    everywhere(nothing, 5, x, np.zeros((5, 3, 3), np.float32), np.zeros((5, 4), np.float32))


def test_types_without_components_are_made_and_compared():
    empty = wp.types.vector(length=0, dtype=float)

    @wp.kernel
    def compare(y: wp.array(dtype=int)):
        v = wp.vec3(1.0, 2.0, 3.0)
        if v[7:] == empty():
            y[0] = 1 + len(empty())

    y = wp.zeros(1, dtype=int)
    wp.launch(compare, dim=1, inputs=[y])
    assert y.list() == [1]
