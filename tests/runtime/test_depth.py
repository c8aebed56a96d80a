"""A kernel that nests too deeply is refused with one clear message, wherever on the way it is noticed."""

import pytest

import warp_like as wp
from tests.frontend.support import define


def elifs(n):
    lines = "    if i == 0:\n        out[0] = x[0]\n"
    lines += "".join(f"    elif i == {k}:\n        out[0] = x[0] * {float(k)}\n" for k in range(1, n))
    return define(f"def k(x: wp.array(dtype=float), i: int, out: wp.array(dtype=float)):\n{lines}")["k"]


def exits(n):
    lines = "".join(f"        if i == {k}:\n            v = v * {float(k)}\n            break\n" for k in range(n))
    text = "    v = x[0]\n    for j in range(i):\n" + lines + "    out[0] = v\n"
    return define(f"def k(x: wp.array(dtype=float), i: int, out: wp.array(dtype=float)):\n{text}")["k"]


def gradient(k):
    x, out = (wp.array([3.0], dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(k, 1, inputs=[x, 2, out])
    tape.backward(loss=out)
    return x.grad.numpy()[0]


@pytest.mark.parametrize("make", [elifs, exits])
@pytest.mark.parametrize("n", [30, 200, 600])
def test_compiled_or_refused(make, n):
    k = wp.kernel(make(n))
    if n >= 200:
        with pytest.raises(wp.WarpCodegenError, match="^kernel `k` nests statements or expressions too deeply\\n"):
            gradient(k)
    else:
        assert gradient(k) == 2.0


def test_inspect_refuses_as_well():
    with pytest.raises(wp.WarpCodegenError, match="too deeply"):
        wp.kernel(elifs(600)).inspect("llvm")
