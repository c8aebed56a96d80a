"""Builtins and types by their names alone, beside names of the user's own."""

import math
import warnings

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define, everywhere
from warp_like.builtins.spec import REGISTRY
from warp_like.frontend.host import MATHEMATICS, NUMPY_DIFFERS


def run(body: str, n: int = 1, head: str = "", **names: object) -> list[float]:
    """What ``out`` holds after a launch of ``n`` threads."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = f"{head}\n@wp.kernel\ndef k(out: wp.array(dtype=float)):\n{lines}"
    found = everywhere(define(source, **names)["k"], n, np.full(n, -7.0, np.float32))[0]
    return list(found.tolist())


def test_builtins_and_types_without_their_module():
    body = "i = tid()\nexpect_eq(i, i)\nv = vec3(1.0, 2.0, 2.0)\nout[i] = length(v) * float(uint8(2)) + float(len(v))"
    assert run(body, 2) == [9.0, 9.0]
    body = "i, j = tid()\natomic_add(out, 0, 1.0)\nw = vector(length=3, dtype=float32)\n"
    body += "z = zeros(shape=(2,), dtype=vec2)\nout[j] += w[0] + z[1][0] + static(3.0)"
    assert run(body) == [-3.0]


def test_static_without_its_module_is_part_of_what_is_compiled():
    names = define("def k(out: wp.array(dtype=float)):\n    out[0] = static(N)\n", N=2.0)
    kernel, out = wp.kernel(names["k"]), np.zeros(1, np.float32)
    wp.launch(kernel, 1, inputs=[out])
    assert out.tolist() == [2.0]
    names = define("def k(out: wp.array(dtype=float)):\n    out[0] = static(N)\n", N=5.0)
    wp.launch(wp.kernel(names["k"]), 1, inputs=[out])
    assert out.tolist() == [5.0]


def test_names_of_the_user_come_first():
    head = "@wp.func\ndef sqrt(x: float):\n    return x + 1.0\n"
    assert run("out[0] = sqrt(4.0)", head=head) == [5.0]
    with pytest.raises(wp.WarpCodegenTypeError, match="`sin` is a Python function"):
        run("out[0] = sin(4.0)", sin=lambda x: x)


def test_a_name_that_is_defined_later_counts_from_then_on():
    names = define("@wp.kernel\ndef k(out: wp.array(dtype=float)):\n    out[0] = sqrt(16.0)\n")
    out = np.zeros(1, np.float32)
    wp.launch(names["k"], 1, inputs=[out])
    assert out.tolist() == [4.0]
    names["sqrt"] = wp.floor
    wp.launch(names["k"], 1, inputs=[out])
    assert out.tolist() == [16.0]


def test_variables_do_not_hide_what_is_called():
    assert run("length = length(wp.vec2(3.0, 4.0))\nout[0] = length + length(wp.vec2(length, 0.0))") == [10.0]
    assert run("min = min(3.0, 4.0)\nmax = max(3.0, min) + max(5.0, 1.0)\nout[0] = min + max") == [11.0]
    assert run("for abs in range(2):\n    out[abs] = abs(float(-abs))", 2) == [0.0, 1.0]
    assert run("if out[0] > 0.0:\n    sqrt = 3.0\nout[0] = sqrt(16.0)") == [4.0]
    assert run("out[0] = sqrt(16.0)", sqrt=3) == [4.0]


def test_variables_may_have_the_name_of_the_function_that_gives_them():
    head = "@wp.func\ndef area(x: float):\n    return x * {}\n"
    body = "for i in range(2):\n    area = area(3.0)\n    out[0] = area"
    assert run(body, head=head.format(2.0)) == [6.0]
    assert run(body, head=head.format(3.0)) == [9.0]  # the cache tells the two apart


def test_reading_a_builtin_is_no_call():
    for body in ("out[0] = step", "step = step", "f = sqrt", "out[0] = PI"):
        with pytest.raises(wp.WarpCodegenKeyError, match=r"`\w+` is not defined"):
            run(body)


def test_functions_of_math_and_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(
            "out[0] = math.sqrt(16.0) + np.arctan2(0.0, 1.0) + power(2.0, 3.0)", math=math, np=np, power=pow
        ) == [12.0]
        assert run("out[0] = root(16.0) + math.fmod(-3.0, 2.0)", math=math, root=math.sqrt) == [3.0]
    with pytest.warns(match="`np.mod` is wp.mod.. in kernel code, which takes the sign of the dividend"):
        assert run("out[0] = np.mod(-3.0, 2.0)", np=np) == [-1.0]
    with pytest.warns(match="`np.sign` is wp.sign.. in kernel code, which is 1 at zero"):
        assert run("out[0] = np.sign(0.0)", np=np) == [1.0]
    assert {*MATHEMATICS.values(), *(name for name, _ in NUMPY_DIFFERS.values())} <= set(REGISTRY)


@pytest.mark.parametrize("name", MATHEMATICS)
def test_each_function_of_math_or_numpy_is_the_builtin(name):
    """The builtins compute on the host what kernels do."""
    for module in (math, np):
        function = getattr(module, name, None)
        if function is not None and name not in ("ceil", "floor", "trunc", "copysign") + ("cbrt",) * (module is math):
            count = getattr(function, "nin", 2 if name in ("atan2", "fmod", "pow") else 1)
            args = (0.75, 0.5)[:count]
            assert float(function(*args)) == pytest.approx(float(getattr(wp, MATHEMATICS[name])(*args)), rel=1e-6)


def test_star_import():
    names = define(
        "from warp_like import *\n\n@kernel\ndef k(out: array(dtype=float)):\n"
        "    i = tid()\n    out[i] = sin(0.0) + types.vector(length=2, dtype=float32)(3.0)[1]\n",
        eager=True,
    )
    out = names["zeros"](2, dtype=names["float32"])
    names["launch"](names["k"], dim=2, inputs=[out])
    assert out.numpy().tolist() == [3.0, 3.0]
    assert {"vec3", "atomic_add", "Tape", "from_torch", "abs", "round", "config", "static", "utils"} <= set(names)
    assert not {"base", "runtime", "importlib", "print", "len", "Any", "annotations", "float", "int"} & set(names)
