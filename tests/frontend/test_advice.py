"""The advice of error messages, followed: each mistake, the text that its help has to hold, and the program with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, define
from warp_like import WarpCodegenError

F32, I32 = np.float32, np.int32


class Mistake(NamedTuple):
    """A kernel ``k`` whose text ``wrong`` is to be replaced by ``right``, as the help ``says``."""

    name: str
    source: str
    wrong: str
    right: str
    says: str
    args: list[Any]
    expected: Any


def kernel(params: str, *lines: str) -> str:
    return f"def k({params}):\n" + "".join(f"    {line}\n" for line in lines)


X = "x: wp.array(dtype=float)"
V = "x: wp.array(dtype=wp.vec3)"
MISTAKES = [
    Mistake(
        "thread index",
        kernel(X, "x[i] = 1.0"),
        "    x[i]",
        "    i = wp.tid()\n    x[i]",
        "i = wp.tid()",
        [np.zeros(3, F32)],
        [1, 1, 1],
    ),
    Mistake(
        "thread indices",
        kernel("x: wp.array2d(dtype=float)", "x[i, j] = 1.0"),
        "    x[i, j]",
        "    i, j = wp.tid()\n    x[i, j]",
        "i, j = wp.tid()",
        [np.zeros((2, 2), F32)],
        [[1, 1], [1, 1]],
    ),
    Mistake(
        "thread index of another name",
        kernel(X, "i = wp.thread_id()", "x[i] = 1.0"),
        "wp.thread_id()",
        "wp.tid()",
        "wp.tid()",
        [np.zeros(3, F32)],
        [1, 1, 1],
    ),
    Mistake(
        "sum",
        kernel(X, "s = 0", "for j in range(3):", "    s += x[j]", "x[0] = s"),
        "s = 0\n",
        "s = 0.0\n",
        "`s = 0.0` in line 2",
        [np.array([1.5, 2.0, 3.0], F32)],
        [6.5, 2.0, 3.0],
    ),
    Mistake(
        "sum of float64",
        kernel("x: wp.array(dtype=wp.float64)", "s = 0", "for j in range(3):", "    s = s + x[j]", "x[0] = s"),
        "s = 0\n",
        "s = wp.float64(0.0)\n",
        "`s = wp.float64(0.0)` in line 2",
        [np.array([1.5, 2.0, 3.0])],
        [6.5, 2.0, 3.0],
    ),
    Mistake(
        "sum of vectors",
        kernel(V, "s = 0", "for j in range(2):", "    s += x[j]", "x[0] = s"),
        "s = 0\n",
        "s = wp.vec3()\n",
        "`s = wp.vec3()` in line 2",
        [np.ones((2, 3), F32)],
        [[2, 2, 2], [1, 1, 1]],
    ),
    Mistake(
        "largest",
        kernel(X, "m = -1", "for j in range(3):", "    m = wp.max(m, x[j])", "x[0] = m"),
        "m = -1\n",
        "m = -1.0\n",
        "`m = -1.0` in line 2",
        [np.array([1.5, 2.0, 3.0], F32)],
        [3.0, 2.0, 3.0],
    ),
    Mistake(
        "integer on one path",
        kernel(X, "y = 0", "if x[0] > 0.0:", "    y = 0.5", "x[0] = y"),
        "y = 0\n",
        "y = 0.0\n",
        "`y = 0.0` in line 2",
        [np.array([1.5], F32)],
        [0.5],
    ),
    Mistake(
        "integer in 64 bits",
        kernel("x: wp.array(dtype=int)", "n = 5", "n = 3000000000", "x[0] = n"),
        "n = 5\n    n = 3000000000\n    x[0] = n",
        "n = wp.int64(5)\n    n = 3000000000\n    x[0] = int(n >> wp.int64(4))",
        "`n = wp.int64(5)` in line 2",
        [np.zeros(1, I32)],
        [3000000000 >> 4],
    ),
    Mistake(
        "large integer",
        kernel("x: wp.array(dtype=int)", "x[0] = 3000000000"),
        "dtype=int",
        "dtype=wp.int64",
        "wp.array(dtype=wp.int64)",
        [np.zeros(1, np.int64)],
        [3000000000],
    ),
    Mistake(
        "larger integer",
        kernel("x: wp.array(dtype=wp.int64)", "x[0] = 10000000000000000000"),
        "dtype=wp.int64",
        "dtype=wp.uint64",
        "wp.array(dtype=wp.uint64)",
        [np.zeros(1, np.uint64)],
        [10000000000000000000],
    ),
    Mistake(
        "large integer in a sum",
        kernel("x: wp.array(dtype=wp.int64), n: int", "x[0] = n + 3000000000"),
        "n + 3000000000",
        "wp.int64(n) + 3000000000",
        "wp.int64(n) + 3000000000",
        [np.zeros(1, np.int64), 1],
        [3000000001],
    ),
    Mistake(
        "tuple",
        kernel(V, "x[0] = (1.0, 2.0, 3.0)"),
        "(1.0, 2.0, 3.0)",
        "wp.vec3(1.0, 2.0, 3.0)",
        "wp.vec3(1.0, 2.0, 3.0)",
        [np.zeros((1, 3), F32)],
        [[1, 2, 3]],
    ),
    Mistake(
        "tuple of doubles",
        kernel("x: wp.array(dtype=wp.vec2d)", "x[0] = (1.0, 2.0)"),
        "(1.0, 2.0)",
        "wp.vec2d(1.0, 2.0)",
        "wp.vec2d(1.0, 2.0)",
        [np.zeros((1, 2))],
        [[1, 2]],
    ),
    Mistake(
        "quaternion",
        kernel("x: wp.array(dtype=wp.quat)", "x[0] = (0.0, 0.0, 0.0, 1.0)"),
        "(0.0, 0.0, 0.0, 1.0)",
        "wp.quat(0.0, 0.0, 0.0, 1.0)",
        "wp.quat(0.0, 0.0, 0.0, 1.0)",
        [np.zeros((1, 4), F32)],
        [[0, 0, 0, 1]],
    ),
    Mistake(
        "tuple as argument",
        kernel(V, "x[0] = wp.cross(x[0], (0.0, 0.0, 1.0))"),
        "(0.0, 0.0, 1.0)",
        "wp.vec3(0.0, 0.0, 1.0)",
        "wp.vec3(0.0, 0.0, 1.0)",
        [np.array([[1, 0, 0]], F32)],
        [[0, -1, 0]],
    ),
    Mistake(
        "tuple times vector",
        kernel(V, "x[0] = wp.cw_mul(x[0], x[0] + (0.0, 1.0, 2.0))"),
        "(0.0, 1.0, 2.0)",
        "wp.vec3(0.0, 1.0, 2.0)",
        "wp.vec3(0.0, 1.0, 2.0)",
        [np.array([[1, 1, 1]], F32)],
        [[1, 2, 3]],
    ),
    Mistake(
        "square",
        kernel("x: wp.array(dtype=int), n: int", "x[0] = n**2"),
        "n**2",
        "n * n",
        "n * n",
        [np.zeros(1, I32), -3],
        [9],
    ),
    Mistake(
        "cube",
        kernel("x: wp.array(dtype=int), n: int", "x[0] = 2 * (n + 1)**3"),
        "(n + 1)**3",
        "((n + 1) * (n + 1) * (n + 1))",
        "(n + 1) * (n + 1) * (n + 1)",
        [np.zeros(1, I32), 2],
        [54],
    ),
    Mistake(
        "numpy's zeros",
        kernel(X, "t = np.zeros(3)", "t[0] = 2.0", "x[0] = t[0] + t[1]"),
        "np.zeros(3)",
        "wp.zeros(shape=(3,), dtype=float)",
        "wp.zeros(shape=(3,), dtype=float)",
        [np.zeros(1, F32)],
        [2],
    ),
    Mistake(
        "an empty list",
        kernel(X, "t = []", "t[0] = 2.0", "x[0] = t[0] + t[1]"),
        "[]",
        "wp.zeros(shape=(4,), dtype=float)",
        "wp.zeros(shape=(n,), dtype=float)",
        [np.zeros(1, F32)],
        [2],
    ),
    Mistake(
        "a list",
        kernel(X, "t = [1.0, x[0]]", "x[0] = t[0] + t[1]"),
        "[1.0, x[0]]",
        "wp.vec2(1.0, x[0])",
        "wp.vec2(1.0, x[0])",
        [np.ones(1, F32)],
        [2],
    ),
    Mistake(
        "numpy's array",
        kernel(X, "t = np.array([1.0, x[0], 2.0, 3.0, 4.0])", "x[0] = t[4] + t[1]"),
        "np.array([1.0, x[0], 2.0, 3.0, 4.0])",
        "wp.vector(1.0, x[0], 2.0, 3.0, 4.0)",
        "wp.vector(1.0, x[0], 2.0, 3.0, 4.0)",
        [np.ones(1, F32)],
        [5],
    ),
    Mistake(
        "a counter of the module",
        kernel("x: wp.array(dtype=int)", "COUNTER += 1"),
        "k(x: wp.array(dtype=int)):\n    COUNTER += 1",
        "k(COUNTER: wp.array(dtype=int)):\n    wp.atomic_add(COUNTER, 0, 1)",
        "wp.atomic_add(COUNTER, 0, 1)",
        [np.zeros(1, I32)],
        [1],
    ),
    Mistake(
        "a method",
        kernel("self, x: wp.array(dtype=float)", "x[0] = self.value"),
        "self, x: wp.array(dtype=float)):\n    x[0] = self.value",
        "x: wp.array(dtype=float), value: float):\n    x[0] = value",
        "pass what it needs as arguments",
        [np.zeros(1, F32), 2.0],
        [2],
    ),
    Mistake(
        "numpy's class",
        kernel("x: np.ndarray", "x[0] = 1.0"),
        "np.ndarray",
        "wp.array(dtype=float)",
        "x: wp.array(dtype=float)",
        [np.zeros(1, F32)],
        [1],
    ),
    Mistake(
        "a list's class",
        kernel("x: list[float]", "x[0] = 1.0"),
        "list[float]",
        "wp.array(dtype=float)",
        "x: wp.array(dtype=float)",
        [np.zeros(1, F32)],
        [1],
    ),
]


def defined(source: str) -> Any:
    return define(source, eager=True, np=np, COUNTER=0)["k"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_advice_works_when_it_is_followed(mistake):
    with pytest.raises(WarpCodegenError) as caught:
        build(defined(mistake.source))
    assert caught.value.help is not None
    assert mistake.says in caught.value.help
    assert "^" in str(caught.value)
    followed = mistake.source.replace(mistake.wrong, mistake.right)
    assert followed != mistake.source
    dim = mistake.args[0].shape if "wp.tid()" in followed else 1
    wp.launch(wp.kernel(defined(followed)), dim=dim, inputs=mistake.args)
    np.testing.assert_array_equal(mistake.args[0], mistake.expected)


def test_a_counter_keeps_its_type_where_a_float_is_divided_by_it():
    source = kernel(X, "n = 0", "n += 1", "x[0] = x[0] / n")
    with pytest.raises(WarpCodegenError) as caught:
        build(defined(source))
    assert caught.value.help == "x[0] / float(n)"
