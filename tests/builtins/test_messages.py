"""What a user reads when a call of a builtin does not fit: the sentence and the suggestion, word for word."""

from __future__ import annotations

import pickle

import pytest

from warp_like.builtins.patterns import Argument, Literal
from warp_like.builtins.spec import NoMatch, resolve
from warp_like.ir.types import Array, Mat, Vec, bool_, float32, float64, int32, int64, uint8

V2, V3, V4 = (Vec(n, float32) for n in (2, 3, 4))

CALLS: list[tuple[str, list[Argument], list[str], str, str | None]] = [
    ("sin", [int32], ["i"], "sin() needs a float for argument 1 `x`, got int32", "wp.sin(float(i))"),
    ("sin", [Array(float32, 2)], ["a"], "sin() needs a float for argument 1 `x`, got array2d[float32]",
     "wp.sin(a[i, j])"),
    ("sin", [V3], ["v"], "sin() needs a float for argument 1 `x`, got vec3[float32]", None),
    ("atan2", [int32, int32], ["i", "j"], "atan2() needs a float for argument 1 `y`, got int32",
     "wp.atan2(float(i), float(j))"),
    ("clamp", [float32, int32, Literal(1)], ["x", "i", "1"], "clamp() does not mix types: float32 and int32",
     "wp.clamp(x, float(i), 1)"),
    ("clamp", [float32, float32], ["x", "y"], "clamp() takes 3 arguments, got 2", "wp.clamp(x, low, high)"),
    ("min", [float32] * 3, ["x", "y", "z"], "min() takes 1 or 2 arguments, got 3", "wp.min(a, b) or wp.min(a)"),
    ("length", [float32], ["x"], "length() needs a vector or a quaternion for argument 1 `a`, got float32", None),
    ("abs", [bool_], ["p"], "abs() needs a float, an integer or a vector for argument 1 `x`, got bool",
     "wp.abs(int(p))"),
    ("dot", [V3, V4], ["u", "v"], "dot() needs vec3[float32] for argument 2 `b`, got vec4[float32]", None),
    ("dot", [V3, Vec(3, float64)], ["u", "v"], "dot() does not mix types: vec3[float32] and vec3[float64]",
     "wp.dot(wp.vec3d(u), v)"),
    ("cross", [V2, V2], ["u", "v"], "cross() needs a vector of 3 for argument 1 `a`, got vec2[float32]", None),
    ("inverse", [Mat(2, 3, float32)], ["m"],
     "inverse() needs a 2x2 matrix, a 3x3 matrix or a 4x4 matrix for argument 1 `a`, got mat2x3[float32]", None),
    ("where", [float32, float32, float32], ["x", "a", "b"],
     "where() needs a bool, an integer or an array for argument 1 `cond`, got float32", "wp.where(x != 0, a, b)"),
    ("where", [bool_, float32, int32], ["p", "x", "i"], "where() does not mix types: float32 and int32",
     "wp.where(p, x, float(i))"),
]  # fmt: skip

OPERATORS: list[tuple[str, str, list[Argument], list[str], str, str | None]] = [
    ("add", "+", [float32, float64], ["x", "y"], "`+` does not mix types: float32 and float64",
     "wp.float64(x) + y"),
    ("mul", "*", [float32, int32], ["x", "i + j"], "`*` does not mix types: float32 and int32",
     "x * float(i + j)"),
    ("mul", "*", [int32, float32], ["i", "x + y"], "`*` does not mix types: int32 and float32",
     "float(i) * (x + y)"),
    ("add", "+", [int32, int64], ["i", "n"], "`+` does not mix types: int32 and int64", "wp.int64(i) + n"),
    ("add", "+", [int32, Literal(1.5)], ["i", "1.5"], "`+` does not mix types: int32 and literal 1.5",
     "float(i) + 1.5"),
    ("add", "+", [uint8, Literal(300)], ["u", "300"], "300 does not fit uint8, whose range is 0 to 255",
     "wp.int64(u) + 300"),
    ("add", "+", [int32, Literal(1 << 70)], ["i", "1 << 70"],
     f"{1 << 70} does not fit int32, whose range is -2147483648 to 2147483647", None),
    ("add", "+", [int32, Literal(True)], ["i", "True"], "`+` does not take int32 and literal True", None),
    ("add", "+", [bool_, bool_], ["p", "q"], "`+` does not take bool and bool", "int(p) + int(q)"),
    ("add", "+", [V3, float32], ["v", "x"], "`+` does not take vec3[float32] and float32", "v + wp.vec3(x)"),
    ("add", "+", [V3, V4], ["u", "v"], "`+` does not take vec3[float32] and vec4[float32]", None),
    ("add", "+", [Array(float32, 1), float32], ["a", "x"], "`+` does not take array1d[float32] and float32",
     "a[i] + x"),
    ("mul", "*", [V3, V3], ["u", "v"], "`*` does not take vec3[float32] and vec3[float32]",
     "wp.cw_mul(u, v) multiplies by component, wp.dot(u, v) is the dot product"),
    ("mul", "*", [V3, float64], ["u", "s"], "`*` does not mix types: vec3[float32] and float64",
     "wp.vec3d(u) * s"),
    ("mul", "@", [Mat(3, 3, float32), V2], ["m", "v"], "`@` does not take mat3x3[float32] and vec2[float32]",
     None),
    ("pow", "**", [int32, Literal(2)], ["i", "2"], "`**` does not take int32 and literal 2", "i * i"),
    ("pow", "**", [int32, Literal(4)], ["i", "4"], "`**` does not take int32 and literal 4", "float(i) ** 4"),
    ("pow", "**", [int32, int32], ["i", "i"], "`**` does not take int32 and int32", "float(i) ** float(i)"),
    ("bit_and", "&", [float32, int32], ["x", "i"], "`&` does not take float32 and int32", None),
    ("lt", "<", [V3, V3], ["u", "v"], "`<` does not take vec3[float32] and vec3[float32]", None),
    ("unot", "not", [float32], ["x"], "`not` does not take float32", "x == 0"),
    ("neg", "-", [bool_], ["p"], "`-` does not take bool", "-int(p)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "texts", "message", "help"), CALLS)
def test_call(name: str, args: list[Argument], texts: list[str], message: str, help: str | None) -> None:
    with pytest.raises(NoMatch) as caught:
        resolve(name, args, texts=texts)
    assert (str(caught.value), caught.value.help) == (message, help)


@pytest.mark.parametrize(("name", "symbol", "args", "texts", "message", "help"), OPERATORS)
def test_operator(
    name: str, symbol: str, args: list[Argument], texts: list[str], message: str, help: str | None
) -> None:
    with pytest.raises(NoMatch) as caught:
        resolve(name, args, symbol, texts)
    assert (str(caught.value), caught.value.help) == (message, help)


def test_without_source_the_parameters_stand_in() -> None:
    with pytest.raises(NoMatch) as caught:
        resolve("clamp", [float32, int32, Literal(1)])
    assert caught.value.help == "wp.clamp(x, float(low), 1)"


def test_errors_survive_pickling() -> None:
    copy = pickle.loads(pickle.dumps(NoMatch("a", "b")))
    assert (str(copy), copy.help) == ("a", "b")
