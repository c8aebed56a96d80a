"""Operators on structs: functions of the user's that are called ``add``, ``neg`` and so on."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, define, everywhere

F32 = np.float32

DUAL = """
@wp.struct
class Dual:
    x: float
    d: float

@wp.func
def add(a: Dual, b: Dual):
    return Dual(a.x + b.x, a.d + b.d)

@wp.func
def mul(a: Dual, b: Dual):
    return Dual(a.x * b.x, a.x * b.d + a.d * b.x)

@wp.func
def mul(a: float, b: Dual):
    return Dual(a * b.x, a * b.d)

@wp.func
def neg(a: Dual):
    return Dual(-a.x, -a.d)

@wp.func
def lt(a: Dual, b: Dual):
    return a.x < b.x

@wp.kernel
def k(xs: wp.array(dtype=float), out: wp.array(dtype=float), held: wp.array(dtype=Dual)):
    i = wp.tid()
    x = Dual(xs[i], 1.0)
    y = -(x * x * x + 2.0 * x)
    y += x
    if y < x:
        out[i] = y.d
    held[i] = y
    held[i] += x
"""


def test_operators_on_structs_and_numbers():
    made = define(DUAL)
    xs = F32([0.5, 1.0, -2.0, 3.0])
    held = wp.zeros(4, dtype=made["Dual"])
    out = wp.zeros(4, dtype=float)
    wp.launch(made["k"], 4, inputs=[wp.array(xs)], outputs=[out, held])
    y = -(xs**3 + 2 * xs) + xs
    d = -(3 * xs**2 + 2) + 1
    np.testing.assert_allclose(out.numpy(), np.where(y < xs, d, 0), rtol=1e-6)
    np.testing.assert_allclose(held.numpy()["x"], y + xs, rtol=1e-6)
    np.testing.assert_allclose(held.numpy()["d"], d + 1, rtol=1e-6)


def test_numbers_keep_their_operators():
    made = define("@wp.func\ndef add(a: float, b: float):\n    return a - b\n", eager=True)

    def k(out: wp.array(dtype=float)):
        out[0] = out[1] + out[2]

    k.__globals__["add"] = made["add"]
    try:
        out = everywhere(wp.kernel(k), 1, F32([0, 1, 2]))[0]
    finally:
        del k.__globals__["add"]
    assert out[0] == 3


def test_another_operator_is_another_program():
    text = DUAL.replace("Dual(a.x + b.x, a.d + b.d)", "Dual(a.x + b.x + 1.0, a.d + b.d)")
    results = []
    for source in (DUAL, text):
        made = define(source)
        held = wp.zeros(1, dtype=made["Dual"])
        wp.launch(made["k"], 1, inputs=[wp.array(F32([1.0]))], outputs=[wp.zeros(1, dtype=float), held])
        results.append(held.numpy()["x"][0])
    assert results == [-1.0, 0.0]  # 1 more in each of three sums, the first of which is negated


def test_structs_without_the_operator_are_refused():
    made = define(DUAL + "\n@wp.kernel\ndef bad(out: wp.array(dtype=Dual)):\n    out[0] = out[1] - out[2]\n")
    with pytest.raises(wp.WarpCodegenTypeError, match="`-` does not take struct Dual and struct Dual"):
        build(made["bad"].func)
