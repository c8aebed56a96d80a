"""None in place of an array: the kernel can ask for it, and what it must have it says."""

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define, everywhere

F32 = np.float32


@wp.struct
class Fields:
    weights: wp.array(dtype=float)
    scale: float


@wp.func
def weight(weights: wp.array(dtype=float), i: int):
    if weights:
        return weights[i]
    return 1.0


@wp.kernel
def weighted(x: wp.array(dtype=float), weights: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] * weight(weights, i)
    if not weights:
        out[i] += 100.0
    if weights and weights[i] > 1.5:
        out[i] += 1000.0
    out[i] += wp.where(weights, 0.25, 0.5) + float(weights.shape[0]) * 0.0


def test_a_kernel_asks_whether_there_is_an_array():
    x, out = np.array([1, 2], F32), np.zeros(2, F32)
    wp.launch(weighted, 2, inputs=[x, None, out])
    np.testing.assert_array_equal(out, [101.5, 102.5])
    wp.launch(weighted, 2, inputs=[x, np.array([1, 2], F32), out])
    np.testing.assert_array_equal(out, [1.25, 1004.25])
    wp.launch(weighted, 2, inputs=[x, None], outputs=[out])  # again, with the native path armed
    np.testing.assert_array_equal(out, [101.5, 102.5])


def test_none_has_no_gradient():
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(weighted, 2, inputs=[x, None, out])
    tape.backward(grads={out: wp.ones(2, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 1.0])


def test_none_for_an_array_of_several_dimensions_and_an_indexed_one():
    @wp.kernel
    def k(a: wp.array3d(dtype=wp.vec3), b: wp.indexedarray2d(dtype=int), f: Fields, out: wp.array(dtype=int)):
        if a:
            out[0] = 1
        if b:
            out[1] = b[0, 0]
        if f.weights:
            out[2] = 1
        out[3] = a.shape[2] + b.shape[1] + len(f.weights)

    out = np.zeros(4, np.int32)
    wp.launch(k, 1, inputs=[None, None, Fields(), out])
    np.testing.assert_array_equal(out, [0, 0, 0, 0])
    whole = wp.array(np.array([[7, 8]], np.int32))
    full = [wp.zeros((1, 1, 2), dtype=wp.vec3), wp.indexedarray(whole), Fields(weights=wp.zeros(3, dtype=float))]
    wp.launch(k, 1, inputs=[*full, out])
    np.testing.assert_array_equal(out, [1, 7, 1, 2 + 2 + 3])


def test_none_is_refused_where_every_thread_needs_the_array():
    @wp.kernel
    def k(x: wp.array2d(dtype=float), f: Fields, out: wp.array(dtype=float)):
        i = wp.tid()
        row = x[i]
        out[i] = row[0] + f.weights[i]

    f = Fields(weights=wp.ones(1, dtype=float))
    with pytest.raises(TypeError) as caught:
        wp.launch(k, 1, inputs=[None, f, np.zeros(1, F32)])
    assert str(caught.value) == (
        "kernel `k`, argument 1 `x`: expected array2d[float32], got None, and every thread accesses its elements"
    )
    with pytest.raises(TypeError, match=r"`f.weights`: expected array1d\[float32\], got None, and every thread"):
        wp.launch(k, 1, inputs=[np.zeros((1, 1), F32), Fields(), np.zeros(1, F32)])
    wp.launch(k, 0, inputs=[None, Fields(), None])  # no thread


def test_debug_mode_finds_an_access_to_none():
    k = wp.kernel(
        define(
            """
            def k(x: wp.array(dtype=float), use: int, out: wp.array(dtype=float)):
                if use == 1:
                    out[0] = x[0]
            """
        )["k"],
        mode="debug",
    )
    wp.launch(k, 1, inputs=[None, 0, np.zeros(1, F32)])
    with pytest.raises(IndexError, match=r"index 0 is out of range for array `x` of shape \(0,\)"):
        wp.launch(k, 1, inputs=[None, 1, np.zeros(1, F32)])


def test_none_has_no_type_of_its_own():
    @wp.kernel
    def k(x: wp.array(dtype=wp.Any), out: wp.array(dtype=float)):
        if x:
            out[0] = 1.0

    with pytest.raises(TypeError, match="kernel `k`, argument 1 `x`: None has no type to infer"):
        wp.launch(k, 1, inputs=[None, np.zeros(1, F32)])
    instance = wp.overload(k, [wp.array(dtype=float), wp.array(dtype=float)])
    wp.launch(instance, 1, inputs=[None, np.zeros(1, F32)])


def test_none_for_a_number_is_refused():
    @wp.kernel
    def k(x: float, v: wp.vec3, f: Fields):
        pass

    with pytest.raises(TypeError, match="argument 1 `x`: expected float32, got None"):
        wp.launch(k, 1, inputs=[None, wp.vec3(), Fields()])
    with pytest.raises(TypeError, match=r"argument 2 `v`: expected vec3\[float32\], got None"):
        wp.launch(k, 1, inputs=[1.0, None, Fields()])
    with pytest.raises(TypeError, match="argument 3 `f`: expected struct Fields, got None"):
        wp.launch(k, 1, inputs=[1.0, wp.vec3(), None])


@wp.func
def with_weights(weights: wp.array(dtype=float), scale: float):
    f = Fields()
    f.weights = weights
    f.scale = scale
    return f


def test_an_array_field_that_a_kernel_does_not_give():
    @wp.kernel
    def k(a: wp.array(dtype=float), out: wp.array(dtype=float)):
        f = Fields()
        if f.weights:
            out[0] = 1.0
        out[1] = float(f.weights.shape[0])
        f.weights = a
        if f.weights:
            out[2] = f.weights[0]
        g = with_weights(a, 3.0)
        out[3] = g.weights[1] * g.scale

    (_, out) = everywhere(k, 1, np.array([7, 8], F32), np.full(4, -1, F32))
    np.testing.assert_array_equal(out, [-1, 0, 7, 24])


def test_a_field_that_one_path_gives():
    @wp.kernel
    def k(a: wp.array(dtype=float), i: int, out: wp.array(dtype=float)):
        f = Fields()
        if i > 0:
            f.weights = a
        if f.weights:
            out[0] = 1.0

    for i in (0, 1):
        (_, _, out) = everywhere(k, 1, np.zeros(1, F32), i, np.zeros(1, F32))
        np.testing.assert_array_equal(out, [i])


def test_the_native_path_takes_none():
    x, out = np.array([1, 2], F32), np.zeros(2, F32)
    wp.launch(weighted, 2, inputs=[x, None, out])
    assert weighted.fast.explain(2, [x, None, out], []) is None
    assert weighted.fast.explain(2, [None, None, out], []) == ("needs an array", "x")

    @wp.kernel
    def generic(x: wp.array(dtype=wp.Any), out: wp.array(dtype=float)):
        if x:
            out[0] = 1.0

    wp.launch(generic, 1, inputs=[x, out])
    assert generic.latest.fast.explain(1, [None, out], []) == ("needs an array", "x")
    with pytest.raises(TypeError, match="None has no type to infer"):
        wp.launch(generic, 1, inputs=[None, out])


def test_none_where_threads_would_add():
    @wp.kernel
    def k(x: wp.array(dtype=float), total: wp.array(dtype=float), count: wp.array(dtype=int)):
        i = wp.tid()
        if total:
            wp.atomic_add(total, 0, x[i])
        if count:
            wp.atomic_add(count, i % 2, 1)

    n = 100_000  # shared by several OS threads
    x = np.ones(n, F32)
    for _ in range(3):
        total, count = np.zeros(1, F32), np.zeros(2, np.int32)
        wp.launch(k, n, inputs=[x, None, count])
        wp.launch(k, n, inputs=[x, total, None])
        wp.launch(k, n, inputs=[x, None, None])
        assert total[0] == n
        np.testing.assert_array_equal(count, [n // 2, n // 2])


def test_an_array_that_is_used_after_a_check_has_to_be_given():
    @wp.kernel
    def k(x: wp.array(dtype=float), n: int):
        i = wp.tid()
        wp.expect_eq(n, 0)
        x[i] = 1.0

    for _ in range(2):
        with pytest.raises(TypeError, match="expected array1d.float32., got None, and every thread accesses"):
            wp.launch(k, 2, inputs=[None, 0])
        wp.launch(k, 2, inputs=[np.zeros(2, F32), 0])
