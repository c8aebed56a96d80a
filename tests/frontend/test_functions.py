"""User functions: arguments, overloads, results, nesting, and what a kernel's cache key sees of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, define, functions, launch
from warp_like.frontend.closure import capture
from warp_like.frontend.function import make_function
from warp_like.frontend.source import parse
from warp_like.ir import types as ir


@wp.func
def square(v: float):
    return v * v


@wp.func
def scaled(x: float, factor: float = 2.0, *, offset: float = 0.5):
    return x * factor + offset


@wp.func
def pick(a: int):
    return a * 10


@wp.func
def pick(a: float):  # noqa: F811
    return a * 100.0


@wp.func
def pick(a: wp.vec2, b: int):  # noqa: F811
    return a * float(b)


@wp.func
def twice(x: Any):
    return x + x


@wp.func
def parts(v: wp.vec2):
    return v.x, v.y, v.x + v.y


@wp.func
def sign_of(x: float) -> int:
    if x > 0.0:
        return 1
    if x < 0.0:
        return -1
    return 0


@wp.func
def find(a: wp.array(dtype=float), limit: float):
    for i in range(a.shape[0]):
        if a[i] > limit:
            return i, a[i]
    return -1, 0.0


@wp.func
def fill(a: wp.array(dtype=float), x: float):
    if x < 0.0:
        return
    a[0] = x


@wp.func
def apply(f: Callable, x: float):
    return f(x)


@wp.func
def apply_later(x: float, f: wp.Function = square):
    return f(x)


def ran(k, *args, n=4, dtype=np.float32):
    out = np.zeros(n, dtype)
    launch(k, 1, out, *args)
    return out.tolist()


def test_arguments_by_position_keyword_and_default():
    def k(out: wp.array(dtype=float), x: float):
        out[0] = scaled(x)
        out[1] = scaled(x, 3.0)
        out[2] = scaled(factor=4, x=x)
        out[3] = scaled(x, offset=square(x))

    assert ran(k, 2.0) == [4.5, 6.5, 8.5, 8.0]


def test_overloads_by_type_and_count():
    def k(out: wp.array(dtype=float), i: int, x: float):
        out[0] = float(pick(i))
        out[1] = pick(x)
        out[2] = pick(wp.vec2(1.0, 2.0), i).y
        out[3] = float(pick(3)) + pick(0.5)

    assert ran(k, 2, 3.0) == [20, 300, 4, 80]


def test_generic_parameters_are_built_once_for_each_type():
    def k(out: wp.array(dtype=float), i: int, x: float):
        out[0] = twice(x) + twice(x * 2.0)
        out[1] = float(twice(i))
        out[2] = twice(wp.vec2(x, 1.0)).x
        out[3] = twice(1.5)

    assert ran(k, 3, 5.0) == [30, 6, 10, 3]
    assert [f.name for f in functions(build(k))[1:]] == ["twice", "twice_2", "twice_3"]


def test_several_results():
    def k(out: wp.array(dtype=float)):
        a, b, c = parts(wp.vec2(1.0, 2.0))
        t = parts(wp.vec2(5.0, 6.0))
        out[0], out[1], out[2] = a, b, c
        out[3] = t[-1]

    assert ran(k) == [1, 2, 3, 11]


def test_early_returns_with_values():
    def k(out: wp.array(dtype=int), a: wp.array(dtype=float), x: float):
        out[0] = sign_of(x)
        i, v = find(a, x)
        out[1] = i
        out[2] = int(v)

    a = np.array([1, 5, 9], np.float32)
    for x, expected in ((3.0, [1, 1, 5]), (-1.0, [-1, 0, 1]), (0.0, [0, 0, 1]), (50.0, [1, -1, 0])):
        assert ran(k, a, x, n=3, dtype=np.int32) == expected


def test_a_function_without_result():
    def k(a: wp.array(dtype=float), x: float):
        fill(a, x)

    a = np.zeros(1, np.float32)
    launch(k, 1, a, -1.0)
    assert a[0] == 0
    launch(k, 1, a, 4.0)
    assert a[0] == 4


def test_functions_as_arguments_and_by_another_name():
    def k(out: wp.array(dtype=float), x: float):
        f = square
        out[0] = apply(square, x) + apply(twice, x)
        out[1] = f(x)
        out[2] = apply(wp.sqrt, 16.0)
        real = wp.float32
        out[3] = real(7)

    assert ran(k, 3.0) == [15, 9, 4, 7]
    assert apply_later(3.0) == 9.0


def test_parameters_that_are_functions_have_defaults():
    def k(out: wp.array(dtype=float), x: float):
        out[0] = apply_later(x)
        out[1] = apply_later(x, twice)
        out[2] = apply_later(f=wp.sqrt, x=16.0)

    assert ran(k, 3.0) == [9, 6, 4, 0]


def test_a_number_is_no_function():
    def k(out: wp.array(dtype=float)):
        out[0] = apply_later(1.0, 2.0)

    with pytest.raises(wp.WarpCodegenError, match="apply_later"):
        ran(k)


@pytest.mark.parametrize(("declare", "role"), [(wp.kernel, "kernel"), (wp.func, "func")])
def test_what_is_no_function_is_refused(declare, role):
    with pytest.raises(TypeError, match=f"^a {role} is made from a function, got int 3$"):
        declare(3)


def test_function_names_in_the_ir_are_distinct():
    def k(out: wp.array(dtype=float), i: int):
        out[0] = pick(1.0) + float(pick(i))

    assert [f.name for f in functions(build(k))] == ["k", "pick", "pick_2"]
    assert all(f.role == "func" for f in functions(build(k))[1:])


def test_overloads_in_a_local_scope_do_not_change_each_other():
    def make(factor):
        @wp.func
        def f(x: float):
            return x * factor

        first = f

        @wp.func
        def f(x: int):
            return x + factor

        return first, f

    (one, both), (other, _) = make(2), make(3)
    assert [len(f.overloads) for f in (one, both, other)] == [1, 2, 1]

    def k(out: wp.array(dtype=float)):
        out[0] = one(5.0)
        out[1] = other(5.0)
        out[2] = float(both(5)) + both(1.0)

    assert ran(k)[:3] == [10, 15, 9]


def test_a_redefinition_with_the_same_types_replaces():
    m = define("""
        @wp.func
        def f(x: float):
            return x
        first = f
        @wp.func
        def f(x: float):
            return x + 1.0
    """)
    assert len(m["f"].overloads) == 1
    assert m["f"].overloads[0].pyfunc is not m["first"].overloads[0].pyfunc


def test_functions_run_in_python_too():
    assert square(3.0) == 9.0


# --- the cache key ---


KEYED = """
    import enum
    SIZE = 4
    TABLE = (1, 2)
    class Mode(enum.IntEnum):
        A = 1
    class Options:
        depth = 2
    def helper(n):
        return n * 2
    @wp.func
    def inner(x: float):
        return x * OFFSET
    @wp.func
    def outer(x: T, y: float = DEFAULT):
        return inner(x) + y
    def k(out: wp.array(dtype=float)):
        out[SIZE] = outer(1.0) + float(TABLE[1]) + float(Mode.A) + float(Options.depth)
        out[0] = wp.static(float(helper(SIZE))) + missing(2.0)
        f = other
        out[1] = f(1.0)
"""


def key(source=KEYED, **names):
    module = define(
        source,
        **{"OFFSET": 1.5, "T": float, "DEFAULT": 0.25, "missing": wp.sqrt, "other": wp.sin, **names},
    )
    return capture(parse(module["k"], "kernel")).meanings


def test_the_key_is_the_same_for_the_same_meaning():
    assert key() == key()
    text = dict(key())
    assert text["SIZE"] == "int 4"
    assert text["wp.sqrt" if "wp.sqrt" in text else "missing"] == "builtin sqrt"


def test_the_key_sees_every_dependency():
    base = key()
    changes = [
        ("SIZE = 4", "SIZE = 5"),
        ("SIZE = 4", "SIZE = 4.0"),
        ("(1, 2)", "(1, 3)"),
        ("A = 1", "A = 2"),
        ("depth = 2", "depth = 3"),
        ("return n * 2", "return n * 3"),
        ("return x * OFFSET", "return OFFSET * x"),
        ("return inner(x) + y", "return inner(x) - y"),
        ("def inner(x: float)", "def inner(x: wp.float32)"),
    ]
    for old, new in changes:
        assert old in KEYED
        assert key(KEYED.replace(old, new)) != base, new
    for names in (
        {"OFFSET": 2.5},
        {"OFFSET": wp.float64(1.5)},
        {"DEFAULT": 0.5},
        {"T": wp.float64},
        {"missing": wp.exp},
        {"missing": square},
        {"other": wp.cos},
        {"other": twice},
        {"OFFSET": wp.vec2(1.0, 2.0)},
    ):
        assert key(**names) != base, names


def test_the_key_ends_for_functions_that_call_each_other():
    m = define("""
        @wp.func
        def f(x: float):
            return g(x)
        @wp.func
        def g(x: float):
            return f(x)
        def k(out: wp.array(dtype=float)):
            out[0] = f(1.0)
    """)
    assert len(capture(parse(m["k"], "kernel")).meanings) < 30


def test_the_key_reads_no_local_names():
    m = define("""
        x = 5
        def k(out: wp.array(dtype=float), y: float):
            x = y
            out[0] = x
    """)
    assert "x" not in dict(capture(parse(m["k"], "kernel")).meanings)


def test_types_of_overloads():
    f = make_function(lambda: None, {})
    assert f.name == "<lambda>"
    assert pick.overloads[2].types == (ir.Vec(2, ir.float32), ir.int32)


@wp.func
def converted(dtype: Any, x: float):
    return dtype(x) + dtype(1)


def test_types_as_arguments():
    def k(out: wp.array(dtype=wp.float64), x: float):
        out[0] = converted(wp.float64, x) + converted(out.dtype, x)
        out[1] = wp.float64(converted(wp.int32, x))

    assert ran(k, 2.5, dtype=np.float64)[:2] == [7, 3]


def cubic(x):
    return sin(x) * x * x  # noqa: F821


def test_builtins_written_in_the_kernel_language(monkeypatch):
    from warp_like.builtins import spec
    from warp_like.builtins.overload import Inline
    from warp_like.builtins.patterns import F
    from warp_like.frontend.builtin import Builtin

    monkeypatch.setitem(spec.REGISTRY, "cubic", [])

    @spec.builtin(group="Test", lower=Inline(cubic), name="cubic")
    def declared(x: F) -> F:
        """Return something."""

    wp_cubic = Builtin("cubic")

    def k(out: wp.array(dtype=float), x: float):
        out[0] = wp_cubic(x) + wp_cubic(x * 2.0)
        out[1] = float(wp_cubic(wp.float64(x)))

    spec._resolve.cache_clear()
    got = ran(k, 2.0)
    spec._resolve.cache_clear()
    assert np.allclose(got[:2], [np.sin(2) * 4 + np.sin(4) * 16, np.sin(2) * 4])
    assert [f.name for f in functions(build(k))] == ["k"]


def test_every_op_has_a_place():
    def k(out: wp.array(dtype=float), a: wp.array(dtype=float), n: int):
        i, v = find(a, 2.0)
        for j in range(n):
            if j > i:
                break
            out[j] += v
            out[-1] = float(j) if j > 2 and a[j] > 1.0 else 0.0
        while n > 3:
            n -= 1
        fill(out, v)

    for f in functions(build(k)):
        for o in f.body.walk():
            assert o.loc is not None, o
            assert o.loc.file == __file__
            assert o.loc.function in (f.name, "k")


# --- on the host ---


def test_the_overload_that_fits_is_called_on_the_host():
    assert pick(2) == 20
    assert pick(2.0) == 200.0
    assert pick(wp.float32(1.0)) == 100.0
    assert pick(a=3) == 30
    assert pick(wp.vec2(1.0, 2.0), 3) == wp.vec2(3.0, 6.0)
    assert twice(wp.vec3(1.0, 2.0, 3.0)) == wp.vec3(2.0, 4.0, 6.0)
    assert scaled(2.0, offset=1.0) == 5.0
    with pytest.raises(TypeError) as caught:
        pick(wp.vec3(0.0, 0.0, 0.0))
    assert str(caught.value) == (
        "pick() has no overload for (vec3f); there is pick(a: int32) or pick(a: float32) or "
        "pick(a: vec2[float32], b: int32)"
    )
