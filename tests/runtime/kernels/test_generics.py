"""Generic kernels and functions: inference at launch, declared instances, types of any size and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define

NUMBERS = [wp.float16, wp.float32, wp.float64, wp.int8, wp.uint16, wp.int32, wp.int64]


@wp.kernel
def scale(x: wp.array(dtype=Any), factor: Any, out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x.dtype(factor) * x[i] + x.dtype(1)


@wp.kernel
def rooted(x: wp.array(dtype=wp.Float), n: wp.Int, out: wp.array(dtype=wp.Scalar)):
    i = wp.tid()
    out[i] = type(out[i])(wp.sqrt(x[i])) + type(out[i])(n)


@wp.func
def total(v: wp.types.vector(length=Any, dtype=wp.Float)):
    s = v.dtype(0.0)
    for i in range(len(v)):
        s += v[i]
    return s


@wp.func
def total(m: wp.types.matrix(shape=(Any, Any), dtype=wp.Scalar)):  # noqa: F811
    s = m.dtype(0)
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            s += m[i, j]
    return s


@wp.kernel
def totals(x: wp.array(dtype=Any), out: wp.array(dtype=wp.Scalar)):
    i = wp.tid()
    out[i] = total(x[i])


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_the_types_of_arrays_and_numbers_are_inferred(dtype, n):
    x = wp.array(np.arange(n), dtype=dtype)
    out = wp.zeros(n, dtype=dtype)
    wp.launch(scale, n, inputs=[x, 3], outputs=[out])
    assert out.numpy().tolist() == [3 * i + 1 for i in range(n)]
    assert out.dtype is dtype


def test_the_array_of_another_framework_has_the_type_of_its_elements():
    torch = pytest.importorskip("torch")
    for x, out in ((np.ones(3), np.zeros(3)), (torch.ones(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))):
        wp.launch(scale, 3, inputs=[x, 2, out])
        assert out.tolist() == [3, 3, 3]


def test_vectors_and_matrices_of_any_size():
    rng = np.random.default_rng(0)
    for t, dtype, shape in (
        (wp.types.vector(7, wp.float64), wp.float64, (7,)),
        (wp.vec3, wp.float32, (3,)),
        (wp.types.matrix((2, 3), wp.float64), wp.float64, (2, 3)),
        (wp.mat44d, wp.float64, (4, 4)),
    ):
        data = rng.normal(size=(5, *shape))
        x = wp.array(data, dtype=t)
        out = wp.zeros(5, dtype=dtype)
        wp.launch(totals, 5, inputs=[x, out])
        np.testing.assert_allclose(out.numpy(), data.reshape(5, -1).sum(1), rtol=1e-5)


def test_a_struct_for_a_parameter_of_any_type():
    @wp.struct
    class Ball:
        radius: float
        centre: wp.vec2

    @wp.struct
    class Box:
        centre: wp.vec2
        radius: float

    @wp.kernel
    def reach(shape: Any, out: wp.array(dtype=float)):
        out[0] = shape.radius + shape.centre[0]

    for cls in (Ball, Box):
        shape = cls()
        shape.radius = 2.0
        shape.centre = wp.vec2(5.0, 9.0)
        out = np.zeros(1, np.float32)
        wp.launch(reach, 1, inputs=[shape, out])
        assert out[0] == 7.0


def test_the_gradient_of_a_generic_kernel():
    for dtype in (wp.float32, wp.float64):
        x = wp.array([1.0, 2.0], dtype=dtype, requires_grad=True)
        out = wp.zeros(2, dtype=dtype, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(scale, 2, inputs=[x, 3.0], outputs=[out])
        tape.backward(grads={out: wp.ones(2, dtype=dtype)})
        assert x.grad.numpy().tolist() == [3.0, 3.0]


def refusal(*args: Any) -> str:
    with pytest.raises(TypeError) as caught:
        wp.launch(rooted, 2, inputs=list(args))
    return str(caught.value)


def test_what_does_not_fit_a_generic_parameter_is_refused():
    x, out = wp.ones(2, dtype=float), wp.ones(2, dtype=float)
    assert refusal(wp.ones(2, dtype=int), 1, out) == (
        "kernel `rooted`, argument 1 `x`: expected array(ndim=1, dtype=Float), got array1d[int32]"
    )
    assert refusal(wp.ones((2, 2), dtype=float), 1, out) == (
        "kernel `rooted`, argument 1 `x`: expected array(ndim=1, dtype=Float), got array2d[float32]"
    )
    assert refusal(x, 1.5, out) == "kernel `rooted`, argument 2 `n`: expected Int, got float32"
    assert refusal(2.0, 1, out) == ("kernel `rooted`, argument 1 `x`: expected array(ndim=1, dtype=Float), got float32")
    assert "argument 3 `out`" in refusal(x, 1, None)
    with pytest.raises(ValueError, match=r"kernel `rooted` takes 3 arguments \(x, n, out\), got 2"):
        wp.launch(rooted, 2, inputs=[x, 1])


def test_a_vector_that_a_generic_function_does_not_take():
    @wp.kernel
    def k(out: wp.array(dtype=int)):
        out[0] = total(wp.vec3i(1, 2, 3))

    with pytest.raises(wp.WarpCodegenTypeError, match=r"total\(\) has no overload for \(vec3\[int32\]\)") as e:
        wp.launch(k, 1, inputs=[np.zeros(1, np.int32)])
    assert e.value.help == (
        "total(v: vector(length=Any, dtype=Float)) or total(m: matrix(shape=(Any, Any), dtype=Scalar))"
    )


def test_generic_types_make_no_values():
    for t in (wp.types.vector(Any, float), wp.types.matrix((2, Any), wp.Float), wp.types.quaternion(wp.Float)):
        with pytest.raises(TypeError, match="is generic and makes no"):
            t(1.0)
    assert repr(wp.types.vector(Any, wp.Float)) == "vector(length=Any, dtype=Float)"
    assert repr(wp.types.matrix((2, Any), float)) == "matrix(shape=(2, Any), dtype=float32)"


def test_launches_after_the_first_choose_by_their_own_arguments():
    @wp.kernel
    def double(x: wp.array(dtype=Any)):
        i = wp.tid()
        x[i] = x[i] + x[i]

    torch = pytest.importorskip("torch")
    given = [
        np.ones(2, np.float32),
        np.ones(2, np.float32),
        np.ones(2),
        torch.ones(2, dtype=torch.int16),
        wp.ones(2, dtype=wp.float16),
        np.ones(2, np.float32),
    ]
    for x in given:
        wp.launch(double, 2, inputs=[x])
        assert np.asarray(x.numpy() if isinstance(x, wp.array) else x).tolist() == [2, 2]
    assert double.latest is not None
    assert double.latest.types[0].dtype.bits == 32
    vectors = wp.ones(2, dtype=wp.vec3)
    wp.launch(double, 2, inputs=[vectors])
    assert vectors.numpy().tolist() == [[2.0] * 3] * 2
    with pytest.raises(TypeError, match="got array2d"):
        wp.launch(double, 2, inputs=[np.ones((2, 3), np.float32)])
    with pytest.raises(TypeError, match="got float32"):
        wp.launch(double, 2, inputs=[1.0])

    @wp.kernel
    def add(x: wp.array(dtype=wp.float64), y: Any):
        x[0] = wp.float64(y / type(y)(2))

    x = np.zeros(1)
    for y, expected in ((3.0, 1.5), (3, 1.0), (3.0, 1.5)):  # the type of a number is its own, each time
        wp.launch(add, 1, inputs=[x, y])
        assert x[0] == expected


# --- declared instances ---


def fresh() -> wp.Kernel:
    @wp.kernel
    def add(x: wp.array(dtype=Any), y: Any, n: int):
        i = wp.tid()
        x[i] = x[i] + y * x.dtype(n)

    return add


def test_overloads_by_list_and_by_name():
    add = fresh()
    by_list = wp.overload(add, [wp.array(dtype=wp.float64), wp.float64, int])
    by_name = wp.overload(add, {"x": wp.array(dtype=wp.vec2), "y": wp.vec2})
    assert list(add.overloads) == ["array1d[float64], float64, int32", "array1d[vec2[float32]], vec2[float32], int32"]
    assert wp.overload(add, {"y": wp.float64, "x": wp.array(dtype=wp.float64)}) is by_list
    x = np.ones(2)
    wp.launch(by_list, 2, inputs=[x, 0.5, 2])
    wp.launch(add, 2, inputs=[x, wp.float64(0.5), 2])
    assert x.tolist() == [3.0, 3.0]
    assert not by_name.is_generic
    assert by_name.generic is add


def test_an_instance_takes_the_fast_path_and_its_own_types_only():
    instance = wp.overload(fresh(), [wp.array(dtype=wp.float64), wp.float64, int])
    x = np.ones(2)
    wp.launch(instance, 2, inputs=[x, 1, 1])  # the literal 1 is a float64 here
    assert instance.fast is not None
    wp.launch(instance, 2, inputs=[x, 1, 1])
    assert x.tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match=r"argument 1 `x`: expected array1d\[float64\]"):
        wp.launch(instance, 2, inputs=[np.ones(2, np.float32), 1.0, 1])


@wp.kernel
def shift(x: wp.array(dtype=Any), by: Any):
    i = wp.tid()
    x[i] = x[i] + by


@wp.overload
def shift(x: wp.array(dtype=float), by: float): ...  # noqa: F811


@wp.overload
def shift(x: wp.array(dtype=wp.vec3), by: wp.vec3): ...  # noqa: F811


def test_overloads_as_decorators():
    assert shift.is_generic
    assert len(shift.overloads) == 2
    x = wp.zeros(1, dtype=wp.vec3)
    wp.launch(shift, 1, inputs=[x, wp.vec3(1.0, 2.0, 3.0)])
    assert x.numpy().tolist() == [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("types", "error", "message"),
    [
        ([float], ValueError, "kernel `add` has 3 parameters (x, y, n), got 1 types"),
        ({"z": float}, ValueError, "kernel `add` has no parameter `z`; it has x, y, n"),
        ({"x": wp.array(dtype=float)}, ValueError, "kernel `add`, parameter `y` is generic and needs a type"),
        ([float, float, int], TypeError, "kernel `add`, parameter `x`: expected array(ndim=1, dtype=Any), got float32"),
        (
            [wp.array(dtype=Any), float, int],
            TypeError,
            "kernel `add`, parameter `x`: array(ndim=1, dtype=Any) is generic itself; give a concrete type",
        ),
        (
            [wp.array(dtype=float), "text", int],
            TypeError,
            "kernel `add`, parameter `y`: 'text' is not a type of the kernel language; those are int, float, bool, "
            "wp.float64, wp.vec3, ...",
        ),
        ([wp.array(dtype=float), float, float], TypeError, "kernel `add`, parameter `n`: expected int32, got float32"),
        (None, TypeError, "overload() of kernel `add` needs the types of its arguments"),
    ],
)
def test_wrong_overloads_are_refused(types, error, message):
    with pytest.raises(error) as caught:
        wp.overload(fresh(), types)
    assert str(caught.value) == message


def test_only_generic_kernels_have_overloads():
    @wp.kernel
    def plain(x: float):
        pass

    with pytest.raises(TypeError, match="kernel `plain` is not generic"):
        wp.overload(plain, [float])
    with pytest.raises(TypeError, match="overload\\(\\) takes a generic kernel, got int"):
        wp.overload(3, [float])
    with pytest.raises(TypeError, match="there is no kernel `nowhere` in module"):

        @wp.overload
        def nowhere(x: float): ...


# --- code made by factories ---


def test_static_takes_numbers_that_the_kernel_names_once():
    def made(scale):
        @wp.kernel
        def k(out: wp.array(dtype=int)):
            n = 3
            low = -2
            out[0] = wp.static(scale * n + low)
            for i in range(n):
                out[i + 1] = wp.static(i * 10 + n)

        return k

    for scale in (7, 8):  # the cache tells them apart
        out = np.zeros(4, dtype=np.int32)
        wp.launch(made(scale), 1, inputs=[out])
        assert out.tolist() == [3 * scale - 2, 3, 13, 23]


def test_static_evaluates_an_expression_once():
    calls = []

    def number():
        calls.append(len(calls))
        return len(calls)

    def made():
        @wp.kernel
        def k(out: wp.array(dtype=int), x: wp.array(dtype=Any)):
            out[0] = wp.static(number()) * 10 + wp.static(number())
            for i in range(2):
                out[i + 1] = wp.static(number() + 100 * i)

        return k

    kernel, out = made(), np.zeros(3, dtype=np.int32)
    for x in (np.zeros(4), np.zeros(8)[::2], np.zeros(4, dtype=np.float32)):
        wp.launch(kernel, 1, inputs=[out, x])
        assert out.tolist() == [12, 3, 104]
    wp.launch(kernel, 1, inputs=[out, x], options={"mode": "debug"})
    assert (out.tolist(), len(calls)) == ([12, 3, 104], 4)
    wp.launch(made(), 1, inputs=[out, x])  # another kernel, whose expressions are its own
    assert (out.tolist(), len(calls)) == ([56, 7, 108], 8)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("c = 3\n    c += 1\n    out[0] = wp.static(c)", "`c` has a value only when it runs"),
        ("c = i\n    out[0] = wp.static(c)", "`c` has a value only when it runs"),
        ("if i > 0:\n        c = 3\n    out[0] = wp.static(c)", "`c` has a value only when it runs"),
    ],
)
def test_static_takes_no_other_variables(body, reason):
    k = define(f"@wp.kernel\ndef k(out: wp.array(dtype=int), i: int):\n    {body}\n")["k"]
    with pytest.raises(wp.WarpCodegenError, match=reason):
        wp.launch(k, 1, inputs=[np.zeros(1, dtype=np.int32), 1])


def test_each_closure_is_code_of_its_own():
    def make(power: int, dtype: Any) -> wp.Kernel:
        @wp.func
        def raised(x: dtype):
            y = x
            for _ in range(wp.static(power - 1)):
                y = y * x
            return y

        @wp.kernel
        def k(x: wp.array(dtype=dtype)):
            i = wp.tid()
            x[i] = raised(x[i]) + dtype(power)

        return k

    kernels = {(p, t): make(p, t) for p in (1, 2, 3) for t in (wp.float32, wp.float64)}
    for (p, t), k in kernels.items():
        x = wp.array([2.0], dtype=t)
        wp.launch(k, 1, inputs=[x])
        assert x.numpy()[0] == 2.0**p + p


def test_structs_made_by_a_factory():
    def make(dtype: Any) -> Any:
        @wp.struct
        class Pair:
            a: dtype
            b: dtype

        @wp.kernel
        def k(p: Pair, out: wp.array(dtype=dtype)):
            out[0] = p.a + p.b

        return Pair, k

    for dtype in (wp.float32, wp.int64):
        cls, k = make(dtype)
        p = cls()
        p.a, p.b = 2, 3
        out = wp.zeros(1, dtype=dtype)
        wp.launch(k, 1, inputs=[p, out])
        assert out.numpy()[0] == 5


@wp.func
def total_of(a: wp.array(dtype=float, ndim=Any)):
    found = 0.0
    if a.ndim == 1:
        for x in a:
            found += x
    else:
        for row in a:
            found += element_sum(row)
    return found


@wp.func
def element_sum(a: wp.array(dtype=float)):
    found = 0.0
    for x in a:
        found += x
    return found


@wp.kernel
def totals_of(a: wp.array(dtype=float, ndim=Any), out: wp.array(dtype=float)):
    out[0] = total_of(a) + 100.0 * float(a.ndim)


def test_arrays_of_any_number_of_dimensions():
    out = np.zeros(1, np.float32)
    for shape, expected in (((3,), 103.0), ((3, 2), 206.0), ((4,), 104.0)):
        wp.launch(totals_of, 1, inputs=[np.ones(shape, np.float32), out])
        assert out[0] == expected
    with pytest.raises(TypeError, match=r"expected array\(ndim=Any, dtype=float32\), got array1d"):
        wp.launch(totals_of, 1, inputs=[np.ones(3), out])
    instance = wp.overload(totals_of, [wp.array2d(dtype=float), wp.array(dtype=float)])
    wp.launch(instance, 1, inputs=[np.ones((2, 2), np.float32), out])
    assert out[0] == 204.0
    with pytest.raises(wp.WarpCodegenError, match="total_of"):
        wp.launch(wrong_total, 1, inputs=[1.0])
    assert wp.array(dtype=Any, ndim=Any) == wp.array(dtype=Any, ndim=Any) != wp.array(dtype=Any)


@wp.kernel
def wrong_total(x: float):
    total_of(x)


@wp.func
def alternating(v: wp.types.vector(length=Any, dtype=Any)):
    if len(v) == 1:
        return v[0]
    return v[0] - alternating(v[1:])


@wp.func
def twice(f: wp.Function, a: Any):
    return f(f(a))


@wp.func
def doubled(a: Any):
    return a + a


@wp.func
def fourfold(a: Any):
    return twice(doubled, a)


@wp.kernel
def nest(out: wp.array(dtype=wp.float64), x: wp.array(dtype=wp.vec4d)):
    i = wp.tid()
    out[i] = alternating(x[i]) + twice(fourfold, x[i][0])


def test_a_generic_function_inside_of_itself_for_other_types():
    x = np.random.default_rng(2).normal(size=(5, 4))
    out = np.zeros(5)
    wp.launch(nest, 5, inputs=[out, x])
    np.testing.assert_allclose(out, x @ [1, -1, 1, -1] + 16 * x[:, 0], rtol=1e-12)


def test_a_generic_function_that_calls_itself_without_end():
    @wp.func
    def longer(v: Any):
        return longer(wp.types.vector(length=len(v) + 1, dtype=float)())

    @wp.kernel
    def endless(out: wp.array(dtype=float)):
        out[0] = longer(wp.vec2())

    with pytest.raises(wp.WarpCodegenError, match="`longer` calls itself: longer -> longer") as caught:
        wp.launch(endless, 1, outputs=[np.zeros(1, np.float32)])
    assert "may call itself for other types, but not more than 32 times" in str(caught.value)


@wp.kernel
def shifted(x: wp.array(dtype=Any), by: Any, which: wp.array(dtype=int), out: wp.array(dtype=Any)):
    i = wp.tid()
    if which:
        out[i] = x[i] + out.dtype(by)
    else:
        out[i] = x[i] - out.dtype(by)


def test_a_second_launch_infers_nothing(monkeypatch):
    chosen = wp.zeros(2, dtype=int)
    for dtype in (wp.float32, wp.float64, wp.float16):
        for by in (2, 2.5, wp.float64(2.5)):
            x, out = wp.ones(2, dtype=dtype), wp.zeros(2, dtype=dtype)
            for which in (chosen, None):
                for _ in range(2):
                    wp.launch(shifted, dim=2, inputs=[x, by, which], outputs=[out])
                sign = -1 if which is None else 1
                np.testing.assert_array_equal(out.numpy(), x.numpy() + sign * float(by))
    assert len(shifted._instances) == 9
    monkeypatch.setattr("warp_like.runtime.kernels.generics.infer_type", None)
    wp.launch(shifted, dim=2, inputs=[x, 2.5, None], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), x.numpy() - 2.5)
    with pytest.raises(TypeError):  # what has not been launched has to be inferred
        wp.launch(shifted, dim=2, inputs=[wp.ones(2, dtype=int), 2.5, None], outputs=[wp.zeros(2, dtype=int)])


@wp.kernel
def added_where_given(x: wp.array(dtype=Any), more: wp.array(dtype=wp.int32), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[i]
    if more:
        out[i] = x[i] + x.dtype(more[i])


def test_none_for_an_array_of_a_declared_type_is_launched_natively(monkeypatch):
    x, more, out = wp.array([1.5, 2.5]), wp.array([1, 2], dtype=int), wp.zeros(2, dtype=wp.float64)
    wp.launch(added_where_given, dim=2, inputs=[x, more], outputs=[out])
    with monkeypatch.context() as patched:
        patched.setattr("warp_like.runtime.launching.launch.concrete", None)  # Python's part of a launch needs it
        for given, expected in ((None, [1.5, 2.5]), (more, [2.5, 4.5]), (None, [1.5, 2.5])):
            wp.launch(added_where_given, dim=2, inputs=[x, given], outputs=[out])
            assert out.list() == expected
        with pytest.raises(TypeError, match="'NoneType' object is not callable"):
            wp.launch(added_where_given, dim=2, inputs=[x, None], outputs=[None])
    with pytest.raises(TypeError, match="`out`"):
        wp.launch(added_where_given, dim=2, inputs=[x, None], outputs=[None])
