"""Tuples as arguments and results of functions: they live while a kernel is compiled, and cost nothing at run time."""

from __future__ import annotations

import typing
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, define, everywhere

F32 = np.float32
LIMITS = (-2.0, 4.0)


@wp.func
def sum_and_difference(a: float, b: float) -> tuple[float, float]:
    return a + b, a - b


@wp.func
def product(t: Any):
    return t[0] * t[1]


@wp.func
def swapped(t: tuple[float, int]):
    return (t[1], t[0])


@wp.func
def total(t: tuple):
    s = 0.0
    for x in t:
        s += float(x)
    return s + 100.0 * float(len(t))


@wp.func
def add(a: float, b: float):
    return a + b


@wp.func
def nested(t: Any, f: Any):
    a, (b, c) = t
    return f(a, b) * c


@wp.func
def which(t: tuple[float, float]):
    return t[0]


@wp.func
def which(t: tuple[float, ...]):  # noqa: F811
    return t[-1]


@wp.func
def which(t: float):  # noqa: F811
    return t * 100.0


@wp.func
def with_default(x: float, window: tuple[float, float] = (0.0, 1.0)):
    return wp.clamp(x, window[0], window[1])


@wp.func
def applied(t: tuple[Callable, tuple[float, int]]):
    f, (x, n) = t
    return f(x, float(n))


@wp.func
def fill(target: tuple[wp.array(dtype=float), int], value: float):
    target[0][target[1]] = value


@wp.kernel
def tuples(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    t = sum_and_difference(x[i, 0], x[i, 1])
    out[0] = product(t)
    out[1] = product((2.0, x[i, 2]))
    n, f = swapped((5.0, 2))
    out[2] = f + float(n)
    out[3] = total((1.0, 2, wp.float64(3.0)))
    out[4] = nested((1.0, (2.0, 3.0)), add)
    out[5] = which((1.0, 2.0))
    out[6] = which((1.0, 2.0, 3.0))
    out[7] = which(1.0)
    out[8] = float(product(x.shape))
    out[9] = product(t=(x[i, 1], x[i, 2]))
    fill((out, 10), 7.0)
    out[11] = with_default(3.0)
    out[12] = with_default(3.0, (2.0, 2.5))
    out[13] = with_default(-3.0, LIMITS)
    low, high = LIMITS
    limits = LIMITS
    out[14] = low * high + limits[0]
    out[15] = applied((add, (3.0, 4)))


def test_tuples_are_arguments_and_results_of_functions():
    x = np.array([[3.0, 1.0, 4.0]], F32)
    _, out = everywhere(tuples, 1, x, np.zeros(16, F32))
    np.testing.assert_array_equal(out, [8, 8, 7, 306, 9, 1, 3, 100, 3, 4, 7, 1, 2.5, -2, -10, 7])


def test_tuples_carry_gradients():
    @wp.kernel
    def k(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        out[0] = product(sum_and_difference(x[0], x[1]))  # the difference of squares

    x = wp.array([3.0, 2.0], dtype=float, requires_grad=True)
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 1, inputs=[x, out])
    tape.backward(out)
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, -4.0])


def test_a_function_is_built_once_for_tuples_of_the_same_types():
    k = define(
        """
        @wp.func
        def first(t: wp.Any):
            return t[0]

        def k(out: wp.array(dtype=float)):
            out[0] = first((1.0, 2.0)) + first((3.0, 4.0)) + float(first((1, 2.0)))
        """
    )["k"]
    callees = {o.callee for o in build(k).body.walk() if hasattr(o, "callee")}
    assert len(callees) == 2


def test_overloads_take_tuples_on_the_host():
    assert which((1.0, 2.0)) == 1.0
    assert which((1.0, 2.0, 3.0)) == 3.0
    assert which(1.0) == 100.0
    with pytest.raises(TypeError, match=r"which\(\) has no overload for \(str\)"):
        which("a")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "swapped((5, 2.0))",
            "swapped() needs a tuple[float32, int32] for argument 1 `t`, got a tuple (literal 5, literal 2.0)",
        ),
        (
            "swapped((x, x, x))",
            "swapped() needs a tuple[float32, int32] for argument 1 `t`, got a tuple (float32, float32, float32)",
        ),
        (
            "applied((add, (3.0, 4.5)))",
            "applied() needs a tuple[function, tuple[float32, int32]] for argument 1 `t`, got a tuple (`add`, a tuple",
        ),
        ("swapped(x)", "swapped() needs a tuple[float32, int32] for argument 1 `t`, got float32"),
        ("add((x, x), x)", "add() needs a float32 for argument 1 `a`, got a tuple (float32, float32)"),
        ("(x, x) + (x,)", "`+` does not take a tuple of 2"),
        ("product(((x, x), (x, x)))", "`*` does not take a tuple of 2"),
        ("wp.sin((x, x))", "expected a value, got a tuple of 2"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    k = define(f"def k(out: wp.array(dtype=float), x: float):\n    y = {call}\n", **globals())["k"]
    with pytest.raises(wp.WarpCodegenError) as caught:
        build(k)
    assert str(caught.value).startswith(message), caught.value


def test_a_kernel_takes_no_tuples():
    @wp.kernel
    def k(t: tuple[float, int]):
        pass

    with pytest.raises(wp.WarpCodegenTypeError, match=r"argument `t` of kernel `k`: tuple\[float, int\] is not a type"):
        wp.launch(k, 1, inputs=[(1.0, 2)])


def test_functions_with_a_gradient_of_their_own_take_no_tuples():
    @wp.func
    def f(t: tuple[float, float]):
        return t[0]

    @wp.func_grad(f)
    def adj_f(t: tuple[float, float], g: float):
        pass

    @wp.kernel
    def k(out: wp.array(dtype=float)):
        out[0] = f((1.0, 2.0))

    with pytest.raises(wp.WarpCodegenTypeError, match="`f` takes a tuple, so it can have no gradient or replay"):
        wp.launch(k, 1, inputs=[wp.zeros(1, dtype=float)])


def test_the_items_of_a_tuple_are_not_assigned():
    k = define("def k(x: float):\n    t = (x, x)\n    t[0] = 1.0\n")["k"]
    with pytest.raises(wp.WarpCodegenTypeError, match="the items of a tuple can't be assigned"):
        build(k)


@wp.func
def several(x: float):
    return x, int(x), wp.vec2(x, 2.0 * x)


@wp.kernel
def parts_not_needed(n: int, out: wp.array(dtype=float)):
    _, _, c = several(3.5)
    out[0] = c[1]
    for _ in range(n):
        _, b, _ = several(float(n))
        out[1] += float(b)
        if b > 2:
            a, _, _ = several(1.0)
            out[2] += a
    for _ in range(3):
        out[3] += float(_)


def test_an_underscore_takes_values_of_any_type():
    _, out = everywhere(parts_not_needed, 1, 3, np.zeros(4, F32))
    np.testing.assert_array_equal(out, [7, 9, 3, 3])


def test_an_underscore_that_took_a_value_is_not_read():
    k = define(
        """
        @wp.func
        def several(x: float):
            return x, int(x)

        def k(x: float, out: wp.array(dtype=float)):
            for _ in range(3):
                a, _ = several(x)
                out[0] = float(_)
        """
    )["k"]
    with pytest.raises(wp.WarpCodegenKeyError, match="`_` takes what is not needed, and can't be read"):
        build(k)


@wp.func
def weighted(t: Any):
    s = wp.float64(0.0)
    for i in range(wp.static(len(t))):
        s += wp.float64(t[i]) * wp.float64(wp.static(WEIGHTS[i]))
    return s


WEIGHTS = (1.0, 10.0, 100.0)


def test_static_knows_lengths_that_follow_from_types():
    @wp.kernel
    def k(out: wp.array(dtype=wp.float64)):
        v = wp.vec3(1.0, 2.0, 3.0)
        out[0] = weighted((1.0, 2))
        out[1] = weighted((wp.float16(1.0), wp.int64(2), 3.0))
        out[2] = wp.float64(wp.static(len(v) * 2 + 1))
        m = wp.identity(n=wp.static(len(v) - 1), dtype=wp.float64)
        out[3] = m[1, 1]

    out = everywhere(k, 1, np.zeros(4))[0]
    np.testing.assert_array_equal(out, [21, 321, 7, 1])


def test_static_values_that_lengths_select_are_in_the_cache_key():
    text = """
        def factor(i):
            return {factor} * (i + 1)

        @wp.func
        def scaled(t: tuple[float, ...]):
            s = float(0.0)
            for i in range(wp.static(len(t))):
                s += t[i] * float(wp.static(factor(i)))
            return s

        @wp.kernel
        def k(out: wp.array(dtype=float)):
            out[0] = scaled((1.0, 1.0))
    """
    found = []
    for factor in (1, 10):
        out = wp.zeros(1, dtype=float)
        wp.launch(define(text.format(factor=factor))["k"], 1, outputs=[out])
        found.append(out.numpy()[0])
    assert found == [3.0, 30.0]


# --- members chosen at run time ---


@wp.kernel
def extents(x: wp.array4d(dtype=float), some: wp.indexedarray2d(dtype=float), n: int, out: wp.array2d(dtype=int)):
    i = wp.tid()
    out[i, 0] = x.shape[i]
    s = x.shape
    total = 1
    for d in range(n):
        total *= s[d]
    out[i, 1] = total
    out[i, 2] = (10, 20, n, 40)[i]
    out[i, 3] = x[0].shape[i % 3] + some.shape[i % 2]


@pytest.mark.parametrize("options", [{}, {"vector_width": 1}, {"mode": "debug"}])
def test_members_of_one_type_are_chosen_at_run_time(options):
    x = np.zeros((2, 3, 4, 5), F32)
    part = wp.indexedarray(wp.array(x[0, 0], dtype=float), [wp.array([0, 2, 1], dtype=int), None])
    out = wp.zeros((4, 5), dtype=int)
    wp.launch(extents, 4, [x, part, 3], [out], options=options)
    expected = [[2, 24, 10, 3 + 3], [3, 24, 20, 4 + 5], [4, 24, 3, 5 + 3], [5, 24, 40, 3 + 5]]
    np.testing.assert_array_equal(out.numpy()[:, :4], expected)
    assert ".visible .entry" in extents.inspect("ptx", target="sm_80")


def test_an_extent_chosen_at_run_time_in_the_gradient():
    @wp.kernel
    def k(x: wp.array2d(dtype=float), d: wp.array(dtype=int), out: wp.array(dtype=float)):
        i = wp.tid()
        a, b = x[i, 0], x[i, 1]
        out[i] = float(x.shape[d[i]]) * (a, b)[d[i]] * (a * b, b)[1 - d[i]]

    x = wp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=float, requires_grad=True)
    d, out = wp.array([0, 1, 0], dtype=int), wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 3, [x, d], [out])
    tape.backward(grads={out: wp.ones(3, dtype=float)})
    assert out.list() == [3 * 1 * 2, 2 * 4 * 3 * 4, 3 * 5 * 6]
    np.testing.assert_array_equal(x.grad.numpy(), [[3 * 2, 3 * 1], [2 * 16, 2 * 2 * 3 * 4], [3 * 6, 3 * 5]])


@pytest.mark.parametrize("members", ["(1, 2.0)", "(x, n)", "(wp.vec2(x, x), wp.vec2(x, x))", "((x, x), (x, x))"])
def test_members_of_several_types_are_not_chosen_at_run_time(members):
    k = define(f"def k(out: wp.array(dtype=float), x: float, n: int):\n    y = {members}[n]\n")["k"]
    with pytest.raises(wp.WarpCodegenTypeError, match="indexed by a constant, got a value of run time") as caught:
        build(k)
    assert "that works for tuples of numbers of one type, as a.shape" in str(caught.value)


# --- tuples in results ---


@wp.func
def found(x: float) -> tuple[int, tuple[wp.vec3, float]]:
    if x < 0.0:
        return -1, (wp.vec3(), 0.0)
    for k in range(3):
        if float(k) > x:
            return k, (wp.vec3(x), float(k))
    return 1, (wp.vec3(x, 2.0 * x, 3.0 * x), x * x)


@wp.func
def found_like_that(x: float) -> typing.Tuple[int, typing.Tuple[wp.vec3, float]]:  # noqa: UP006
    return found(x)


@wp.func
def without_annotation(x: float, n: int):
    if n > 1:
        return ((x, n), (x * x, (n, 2.0 * x)))
    return ((x, 0), (1.0, (1, x)))


@wp.func
def by_reference(x: wp.ref[float], n: int):
    x = x * 2.0
    return n, (x, n + 1)


@wp.kernel
def nested_results(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    n, t = found_like_that(x[i])
    v = t[0]
    out[i, 0] = float(n) + v[1] + t[1]
    (a, k), (b, (m, c)) = without_annotation(x[i], i)
    out[i, 1] = a * b * c + float(k + m)
    y = x[i]
    _, (z, p) = by_reference(y, i)
    out[i, 2] = y + z * float(p)
    out[i, 3] = product((without_annotation(x[i], 2)[1][1][1], 3.0))


def test_results_hold_tuples():
    x = np.array([-1.0, 0.5, 5.0], F32)
    _, out = everywhere(nested_results, 3, x, np.zeros((3, 4), F32))
    expected = [
        [-1.0, -1.0 * 1.0 * -1.0 + 1, -2.0 - 2.0 * 1, -6.0],
        [1 + 0.5 + 1.0, 0.5 * 0.5 + 1, 1.0 + 1.0 * 2, 3.0],
        [1 + 10.0 + 25.0, 5.0 * 25.0 * 10.0 + 4, 10.0 + 10.0 * 3, 30.0],
    ]
    np.testing.assert_array_equal(out, expected)


def test_tuples_in_results_carry_gradients():
    x = wp.array([0.5, 5.0, 3.0], dtype=float, requires_grad=True)
    out = wp.zeros((3, 4), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(nested_results, 3, [x], [out])
    tape.backward(grads={out: wp.ones((3, 4), dtype=float)})
    columns = [[1, 2 * 0.5, 2 + 2, 6], [2 + 2 * 5, 2 * 5, 2 + 4, 6], [2 + 2 * 3, 8 * 3**3, 2 + 6, 6]]
    np.testing.assert_allclose(x.grad.numpy(), np.sum(columns, axis=1))


@pytest.mark.parametrize(
    ("first", "second", "annotation", "message"),
    [
        ("x, (x, x)", "(x, x), x", "", "returns `((., .), .)` here, and line 4 returns `(., (., .))`"),
        ("x, (x, x)", "x, x, x", "", "returns `(., ., .)` here, and line 4 returns `(., (., .))`"),
        ("x, x", "x, x, x", "", "returns 3 values here, and line 4 returns 2 values"),
        (
            "x, x, x",
            "x, x, x",
            " -> tuple[float, tuple[float, float]]",
            "returns `(., ., .)` here, and its annotation says",
        ),
        (
            "x, (x, wp.vec2(x))",
            "x, (x, x)",
            " -> tuple[float, tuple[float, float]]",
            "returns a vec2[float32] here, and its annotation says a float32",
        ),
    ],
)
def test_results_that_hold_other_tuples_are_refused(first, second, annotation, message):
    source = f"""\
    @wp.func
    def f(x: float){annotation}:
        if x > 1.0:
            return {first}
        return {second}

    def k(out: wp.array(dtype=float), x: float):
        y = f(x)
    """
    with pytest.raises(wp.WarpCodegenTypeError) as caught:
        build(define(source)["k"])
    assert message in str(caught.value)


# --- the shape of an array has four entries ---


@wp.kernel
def four_extents(a: wp.array(dtype=float), b: wp.array2d(dtype=float), d: int, out: wp.array2d(dtype=int)):
    i = wp.tid()
    shape = b.shape
    for k in range(4):
        out[i, k] = a.shape[k] * 100 + b.shape[k] * 10 + shape[k]
    out[i, 4] = shape[d + i]
    out[i, 5] = a[1:].shape[d + i]
    out[i, 6] = wp.zeros(shape=(3, 2), dtype=int).shape[i]
    out[i, 7] = len(shape)


@pytest.mark.parametrize("options", [{}, {"mode": "debug"}, {"vector_width": 1}])
def test_entries_of_a_shape_beyond_the_dimensions_are_zero(options):
    out = np.full((4, 8), -1, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wp.launch(four_extents, 4, inputs=[np.zeros(5, "f"), np.zeros((6, 7), "f"), 0, out], options=options)
    assert out[:, :4].tolist() == [[5 * 100 + 60 + 6, 70 + 7, 0, 0]] * 4
    assert out[:, 4:].T.tolist() == [[6, 7, 0, 0], [4, 0, 0, 0], [3, 2, 0, 0], [2] * 4]


def test_a_constant_entry_beyond_the_dimensions():
    @wp.kernel
    def k(a: wp.array(dtype=float), b: wp.indexedarray2d(dtype=float), out: wp.array(dtype=int)):
        out[0] = a.shape[3] + b.shape[2] + b.shape[1]

    a, out = wp.zeros((4, 5)), wp.zeros(1, dtype=int)
    with pytest.warns(match=r"`a.shape\[3\]` is 0, as the array has 1 dimension"):
        wp.launch(k, 1, inputs=[wp.zeros(3), wp.indexedarray(a, [wp.array([0, 2], dtype=int), None]), out])
    assert out.numpy().tolist() == [5]
