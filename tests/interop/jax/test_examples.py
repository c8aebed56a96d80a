"""The JAX examples run and do what they are there to show."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda_compiling import interpreter

jax = pytest.importorskip("jax")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "interop"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_kernels(capsys):
    load("jax_kernels").main()
    assert "agrees" in capsys.readouterr().out


def test_training():
    assert load("jax_training").main(steps=300) < 1e-3


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="this JAX has no jax.shard_map")
def test_shard_map():
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parents[1]), *sys.path]),
    }
    done = subprocess.run([*interpreter(), EXAMPLES / "jax_shard_map.py"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "4 devices agree with one\n"


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="this JAX has no jax.shard_map")
def test_two_processes():
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parents[1]), *sys.path]),
    }
    command = [sys.executable, EXAMPLES / "jax_distributed.py", "--steps", "100"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "on 2 processes, as on one\n" in done.stdout
