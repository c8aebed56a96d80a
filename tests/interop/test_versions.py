"""Versions of other libraries: the bounds, what is refused, and tensors of PyTorch without DLPack's exchange API."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from warp_like.interop import versions

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(tmp_path, program):
    """Run a program; kernels need a file."""
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=ENV)


@pytest.mark.parametrize("library, package", [("torch", "torch"), ("jax", "jax"), ("paddle", "paddlepaddle")])
def test_pip_is_told_the_same_bounds(library, package):
    listed = re.search(rf'^{library} = \["{package}>=([\d.]+)"\]$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert listed, f"pyproject.toml has no extra of this form for {library}"
    assert tuple(map(int, listed[1].split("."))) == versions.OLDEST[library]


@pytest.mark.parametrize(
    "name, version, message",
    [
        ("torch", "2.5.1+cu124", 'torch 2.5.1+cu124 is too old to be used with warp_like; install torch 2.6 or later: '
         'pip install "torch>=2.6"'),
        ("torch", "1.13.1", "install torch 2.6 or later"),
        ("jax", "0.6.1", "install jax 0.6.2 or later"),
        ("paddle", "3.3.0", "install paddlepaddle 3.3.1 or later"),
        ("paddle", "3.2.2", "install paddlepaddle 3.3.1 or later"),
        ("paddle", "0.0.0", None),
        ("paddle", "3.3.1", None),
        ("torch", "2.6.0", None),
        ("torch", "2.10.0a0+git1234", None),
        ("paddle", "4.0.0", None),
    ],
)  # fmt: skip
def test_versions_that_are_too_old(name, version, message):
    module = types.ModuleType(name)
    module.__version__ = version
    if message is None:
        versions.require_version(module)
        return
    with pytest.raises(ImportError) as e:
        versions.require_version(module)
    assert message in str(e.value)


def test_a_build_of_paddle_without_the_exchange_api():
    module = types.ModuleType("paddle")
    module.__version__, module.Tensor = "3.3.1", type("Tensor", (), {})
    with pytest.raises(ImportError, match="has no DLPack exchange API"):
        versions.require_readable(module)


OLD = """
import torch

if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    del torch.Tensor.__dlpack_c_exchange_api__  # as before PyTorch 2.10
import numpy as np
import warp_like as wp

@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0

def refusal(*args):
    try:
        wp.launch(double, 2, args)
    except (TypeError, ValueError) as e:
        return str(e)
    return "nothing was refused"
"""

TOO_OLD = """
import sys, types
torch = types.ModuleType("torch")
torch.__version__ = "2.5.1"
torch.Tensor = type("Tensor", (), {"__module__": "torch", "data_ptr": lambda self: 0})
sys.modules["torch"] = torch
import warp_like as wp

@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0

t = torch.Tensor()
for call in (lambda: wp.launch(double, 2, [t, t]), lambda: wp.from_torch(t), lambda: wp.array(t),
             lambda: wp.to_torch(wp.ones(2)), lambda: wp.torch_op(double)):
    try:
        call()
    except Exception as e:
        print(type(e).__name__, str(e).splitlines()[0])
"""


def test_tensors_of_versions_that_are_too_old_are_refused(tmp_path):
    out = run(tmp_path, TOO_OLD)
    assert out.returncode == 0, out.stderr
    refusals = out.stdout.splitlines()
    assert len(refusals) == 5
    assert refusals[0].startswith("TypeError kernel `double`, argument 1 `x`: expected array1d[float32]")
    assert all('pip install "torch>=2.6"' in line for line in refusals), refusals
