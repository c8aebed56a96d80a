"""Module paths of older programs hold the same functions, and importing them imports no framework."""

import importlib
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


def test_kernels_for_jax():
    from warp_like.jax_experimental.ffi import GraphMode, jax_callable, jax_kernel

    assert (GraphMode, jax_callable, jax_kernel) == (wp.JaxCallableGraphMode, wp.jax_callable, wp.jax_kernel)
    assert wp.jax_experimental.jax_kernel is not jax_kernel  # the form before that
