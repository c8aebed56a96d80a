"""Module paths of older programs hold the same functions, and importing them imports no framework."""

import importlib
import os
import subprocess
import sys

import pytest

import warp_like as wp


@pytest.mark.parametrize("name", ["torch", "paddle", "dlpack", "context", "jax"])
def test_the_same_functions(name):
    module = importlib.import_module(f"warp_like.{name}")
    assert getattr(wp, name) is module
    assert module.__all__
    for function in module.__all__:
        assert getattr(module, function) is getattr(wp, function)
    ends = (f"from_{name}", f"to_{name}")
    assert {n for n in dir(wp) if n.endswith(ends)} <= set(module.__all__)


def test_no_framework_is_imported():
    code = (
        "import sys, warp_like as wp, warp_like.torch, warp_like.paddle, warp_like.dlpack, warp_like.context\n"
        "import warp_like.jax, warp_like.jax_experimental.ffi\n"
        "wp.context.init()\n"
        "print(sorted({'torch', 'paddle', 'jax'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_framework_that_is_not_there(tmp_path):
    code = """
import sys

for name in ("torch", "jax", "paddle"):
    sys.modules[name] = None  # importing it raises ImportError
import warp_like as wp


@wp.kernel
def copy(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


a = wp.ones(2)
calls = [
    lambda: wp.from_torch(a), lambda: wp.to_torch(a), a.to_torch, lambda: wp.torch_op(copy),
    lambda: wp.dtype_to_torch(float), lambda: wp.from_jax(a), lambda: wp.to_jax(a), a.to_jax,
    lambda: wp.jax_kernel(copy), lambda: wp.jax_callable(print), lambda: wp.from_paddle(a), lambda: wp.to_paddle(a),
    a.to_paddle, lambda: wp.paddle_op(copy),
]
for call in calls:
    try:
        call()
    except ImportError as e:
        print(e)
wp.launch(copy, 2, [a], [a.numpy()])  # the rest works
"""
    program = tmp_path / "program.py"
    program.write_text(code, encoding="utf-8")
    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    out = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert out.returncode == 0, out.stderr
    assert out.stdout.splitlines() == [
        *["this needs PyTorch: pip install torch"] * 5,
        *["this needs JAX: pip install jax"] * 5,
        *["this needs Paddle: pip install paddlepaddle"] * 4,
    ]


def test_kernels_for_jax():
    from warp_like.jax_experimental.ffi import GraphMode, jax_callable, jax_kernel

    assert (GraphMode, jax_callable, jax_kernel) == (wp.JaxCallableGraphMode, wp.jax_callable, wp.jax_kernel)
    assert wp.jax_experimental.jax_kernel is not jax_kernel  # the form before that
