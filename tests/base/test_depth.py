"""Kernels that nest deeply, and long ones, compile; beyond the large stack they are refused with one clear message."""

import sys
import threading

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from tests.long_tail import tail
from warp_like.base import depth

HEADER = "def k(x: wp.array(dtype=float), i: int, out: wp.array(dtype=float)):\n"


def elifs(n):
    lines = "    if i == 0:\n        out[0] = x[0]\n"
    lines += "".join(f"    elif i == {k}:\n        out[0] = x[0] * {float(k)}\n" for k in range(1, n))
    return define(HEADER + lines)["k"]


def exits(n):
    lines = "".join(f"        if i == {k}:\n            v = v * {float(k)}\n            break\n" for k in range(n))
    text = "    v = x[0]\n    for j in range(i):\n" + lines + "    out[0] = v\n"
    return define(HEADER + text)["k"]


def ifs(n):
    lines = "".join(f"{'    ' * (k + 1)}if x[0] > {float(-k)}:\n" for k in range(n))
    return define(f"{HEADER}{lines}{'    ' * (n + 1)}out[0] = 2.0 * x[0]\n")["k"]


def statements(n):
    lines = "".join(f"    v = v * 0.5 + {float(k % 7)}\n" for k in range(n))
    return define(f"{HEADER}    v = x[0]\n{lines}    out[0] = v + 2.0 * x[0]\n")["k"]


def gradient(k):
    x, out = (wp.array([3.0], dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(k, 1, inputs=[x, 2, out])
    tape.backward(loss=out)
    return x.grad.numpy()[0]


@pytest.mark.parametrize(
    ("make", "n"), [(elifs, 30), tail(elifs, 300), tail(exits, 30), (exits, 200), tail(ifs, 40), (ifs, 90)]
)
def test_deep_kernels_compile_with_their_gradients(make, n):
    before = sys.getrecursionlimit(), threading.stack_size()
    assert gradient(wp.kernel(make(n))) == 2.0
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_a_kernel_of_2000_lines():
    out = np.zeros(1, np.float32)
    wp.launch(wp.kernel(statements(2000)), 1, inputs=[np.array([3.0], np.float32), 0, out])
    v = 3.0
    for k in range(2000):
        v = v * 0.5 + k % 7
    assert out[0] == pytest.approx(v + 6.0)


def test_each_branch_of_a_long_chain():
    k = wp.kernel(elifs(300))
    x, out = np.array([1.0], np.float32), np.zeros(1, np.float32)
    for i in (1, 150, 299):
        wp.launch(k, 1, inputs=[x, i, out])
        assert out[0] == i
    wp.launch(k, 1, inputs=[x, 300, out])
    assert out[0] == 299  # no branch


def test_errors_deep_inside_have_their_place():
    chain = "".join(f"    elif i == {k}:\n        out[0] = 1.0\n" for k in range(1, 299))
    k = wp.kernel(define(f"{HEADER}    if i == 0:\n        pass\n{chain}    else:\n        out[0] = i\n")["k"])
    with pytest.raises(wp.WarpCodegenTypeError, match="is a float32, got int32\n.*:601:18 in kernel `k`"):
        gradient(k)


@pytest.mark.parametrize("make", [elifs, exits])
def test_what_the_large_stack_can_not_hold_is_refused(make, monkeypatch):
    monkeypatch.setattr(depth, "LIMIT", 0)
    k = wp.kernel(make(400))
    with pytest.raises(wp.WarpCodegenError, match="^kernel `k` nests statements or expressions too deeply\n"):
        gradient(k)
    with pytest.raises(wp.WarpCodegenError, match="too deeply"):
        k.inspect("llvm")


def test_no_memory_for_a_large_stack(monkeypatch):
    monkeypatch.setattr(depth, "STACK_BYTES", 1 << 62)
    with pytest.raises(wp.WarpCodegenError, match="^kernel `k` nests statements or expressions too deeply\n"):
        gradient(wp.kernel(elifs(400)))
