"""``wp.map`` against NumPy: broadcasting, kinds of functions, dtypes, several results, gradients, refusals."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import warp_like as wp


@wp.func
def both(x: float, y: float):
    return x + y, wp.vec2(x, y)


@wp.func
def lookup(table: wp.array(dtype=float), i: int):
    return table[i]


@wp.func
def nothing(x: float):
    pass


def plain(x, y):
    return x * y


def annotated(x: Any, y: float):
    return x * y


SHAPES = [
    ((0,), (0,)),
    ((1,), (5,)),
    ((5,), (1,)),
    ((3, 1, 4), (5, 4)),
    ((2, 1), (1, 1)),
    ((1, 1), (1, 1)),
    ((2, 3, 1, 2), (3, 7, 1)),
    ((1000,), (1000,)),
]


@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_broadcasting(first, second):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=first), rng.normal(size=second)
    got = wp.map(lambda x, y: x + 2.0 * y, wp.array(a, dtype=wp.float64), wp.array(b, dtype=wp.float64))
    np.testing.assert_allclose(got.numpy(), a + 2.0 * b, rtol=1e-15)


def test_strided_inputs_and_outputs():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.zeros((4, 6), np.float32)
    wp.map(lambda x: -x, a[::-1].T, out=out[:, ::2])
    np.testing.assert_array_equal(out[:, ::2], -a[::-1].T)
    assert not out[:, 1::2].any()


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32, wp.float64, wp.int8, wp.int64, wp.uint32])
def test_python_numbers_take_the_type_of_the_arrays(dtype):
    got = wp.map(lambda x, y: x * y + x, wp.array([1, 2, 3], dtype=dtype), 2)
    assert got.dtype is dtype
    assert got.numpy().tolist() == [3, 6, 9]


def test_kinds_of_functions():
    a = wp.array([1.0, 2.0], dtype=float)
    factor = 3.0
    for f, args, expected in (
        (wp.sin, (a,), np.sin([1.0, 2.0])),
        (wp.clamp, (a, 1.25, 1.75), [1.25, 1.75]),
        (plain, (a, 3.0), [3.0, 6.0]),
        (annotated, (a, 3), [3.0, 6.0]),
        (lambda x: factor * x, (a,), [3.0, 6.0]),
        (wp.func(lambda x: x - 1.0), (a,), [0.0, 1.0]),
        (lambda x, v: x * v.y, (a, wp.vec2(1.0, 5.0)), [5.0, 10.0]),
    ):
        np.testing.assert_allclose(wp.map(f, *args).numpy(), expected, rtol=1e-6)


def test_a_lambda_that_captures_something_else_is_another_function():
    a = wp.array([1.0], dtype=float)
    assert [wp.map(lambda x: x + c, a).numpy()[0] for c in (1.0, 2.0, 3)] == [2.0, 3.0, 4.0]  # noqa: B023
    assert [wp.map(lambda x: x + c, a).numpy()[0] for c in (1.0, 2.0, 1.0)] == [2.0, 3.0, 2.0]  # noqa: B023


def test_several_results():
    sums, pairs = wp.map(both, wp.array([1.0, 2.0], dtype=float), 10.0)
    assert sums.numpy().tolist() == [11.0, 12.0]
    assert pairs.dtype is wp.vec2
    assert pairs.numpy().tolist() == [[1.0, 10.0], [2.0, 10.0]]
    out = [np.zeros(2, np.float32), wp.zeros(2, dtype=wp.vec2)]
    assert wp.map(both, wp.array([1.0, 2.0], dtype=float), 10.0, out=out)[0] is out[0]
    assert out[0].tolist() == [11.0, 12.0]


def test_arguments_that_are_the_same_for_all_elements():
    @wp.struct
    class Line:
        slope: float
        start: float

    line = Line()
    line.slope, line.start = 2.0, 1.0
    assert wp.map(lambda s, x: s.slope * x + s.start, line, wp.array([1.0, 2.0], dtype=float)).numpy().tolist() == [
        3.0,
        5.0,
    ]
    table, at = wp.array([10.0, 20.0, 30.0], dtype=float), wp.array([2, 0, 1, 2], dtype=int)
    assert wp.map(lookup, table, at).numpy().tolist() == [30.0, 10.0, 20.0, 30.0]
    turned = wp.map(wp.quat_rotate, wp.quat(0.0, 0.0, 1.0, 0.0), wp.array([[1.0, 2.0, 3.0]], dtype=wp.vec3))
    np.testing.assert_allclose(turned.numpy(), [[-1.0, -2.0, 3.0]], atol=1e-6)


def test_in_place():
    a = wp.array([-1.0, 0.25, 3.0], dtype=float)
    assert wp.map(wp.clamp, a, 0.0, 1.0, out=a) is a
    assert a.numpy().tolist() == [0.0, 0.25, 1.0]


def test_arrays_of_other_frameworks():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, 4.0])
    out = torch.zeros(2)
    assert wp.map(wp.sqrt, x, out=out) is out
    assert out.tolist() == [1.0, 2.0]
    assert wp.map(wp.sqrt, x.numpy()).numpy().tolist() == [1.0, 2.0]


def test_indexed_arrays():
    a = wp.array(np.arange(10), dtype=float)
    got = wp.map(lambda x: 10.0 * x, wp.indexedarray(a, wp.array([7, 1], dtype=int)))
    assert got.numpy().tolist() == [70.0, 10.0]


def test_tapes_record_it():
    x = wp.array([1.0, 2.0], dtype=wp.float64, requires_grad=True)
    y = wp.array([[3.0], [4.0]], dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        z = wp.map(lambda a, b: a * a * b, x, y)
        total = wp.map(lambda v: wp.sin(v), z)
    assert z.requires_grad
    tape.backward(grads={total: wp.ones((2, 2), dtype=wp.float64)})
    a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    slope = np.cos(a * a * b)
    np.testing.assert_allclose(x.grad.numpy(), (slope * 2 * a * b).sum(0), rtol=1e-12)
    np.testing.assert_allclose(y.grad.numpy(), (slope * a * a).sum(1, keepdims=True), rtol=1e-12)
    assert not wp.map(lambda v: int(v), x).requires_grad


def test_the_kernel():
    a = wp.array([[1.0, 2.0]], dtype=float)
    kernel = wp.map(wp.add, a, 1.0, return_kernel=True)
    assert kernel is wp.map(wp.add, a, 2.0, return_kernel=True)
    assert kernel is not wp.map(wp.add, wp.array([1.0]), 2.0, return_kernel=True)
    assert kernel.key == "map_add"
    out = wp.zeros((1, 2), dtype=float)
    wp.launch(kernel, out.shape, inputs=[a, 5.0], outputs=[out])
    assert out.numpy().tolist() == [[6.0, 7.0]]
    assert ".entry" in kernel.inspect_ptx()


A = wp.array([1.0, 2.0], dtype=float)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wp.map(wp.sin, 1.0), ValueError, "map() of `sin` needs at least one array to map the function over"),
        (
            lambda: wp.map(wp.add, A, wp.zeros(3, dtype=float)),
            ValueError,
            "map() of `add`: the shapes (2,), (3,) do not broadcast",
        ),
        (lambda: wp.map(nothing, A), TypeError, "map() of `nothing`: the function returns nothing"),
        (lambda: wp.map(3, A), TypeError, "map() takes a function, got int"),
        (lambda: wp.map(both, A), TypeError, "map() of `both`, which takes 2 arguments, got 1"),
        (
            lambda: wp.map(wp.sin, A, out=wp.zeros(2, dtype=int)),
            TypeError,
            "map() of `sin`: out is an array of float32, got one of int32",
        ),
        (
            lambda: wp.map(both, A, 1.0, out=[A, wp.zeros(3, dtype=wp.vec2)]),
            TypeError,
            "map() of `both`: out[1] has shape (2,), got (3,)",
        ),
        (lambda: wp.map(both, A, 1.0, out=A), TypeError, "map() of `both`: 2 results, got 1 arrays in out"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def test_a_function_that_does_not_take_the_elements():
    with pytest.raises(wp.WarpCodegenTypeError, match=r"`\+` does not take float32 and vec2") as caught:
        wp.map(lambda x: x + wp.vec2(1.0, 2.0), A)
    assert "wp.map(lambda x: x + wp.vec2(1.0, 2.0), A)" in str(caught.value)


def test_functions_made_of_python_functions():
    def scaled(x: float, factor: float):
        return x * factor

    made, module = wp.utils.create_warp_function(scaled)
    assert (made.module, module.functions) == (module, {made.key: made})
    assert made.input_types == {"x": Any, "factor": Any}
    twice, _ = wp.utils.create_warp_function(lambda x: x + x)

    @wp.kernel
    def run(v: wp.array(dtype=wp.vec3), d: wp.array(dtype=wp.float64)):
        v[0] = twice(made(v[0], 3.0))
        d[0] = twice(made(d[0], wp.float64(3.0)))

    v, d = wp.array([[1.0, 2.0, 3.0]], dtype=wp.vec3), wp.array([1.0], dtype=wp.float64)
    wp.launch(run, 1, inputs=[v, d])
    assert (v.list(), d.list()) == ([wp.vec3(6.0, 12.0, 18.0)], [6.0])
    with pytest.raises(TypeError, match="takes a function, got int"):
        wp.utils.create_warp_function(3)


def test_what_was_made_of_a_dropped_function_goes():
    def once(c):
        @wp.func
        def scaled(x: float):
            return x * c

        kernel = wp.map(scaled, wp.ones(3), return_kernel=True)
        assert wp.map(scaled, wp.ones(3)).list() == [c, c, c]
        return weakref.ref(scaled), weakref.ref(kernel)

    made = [once(c) for c in (2.0, 3.0, 4.0)]
    gc.collect()
    assert [ref() for pair in made[:-1] for ref in pair] == [None] * 4  # the module lists the last one by its name
