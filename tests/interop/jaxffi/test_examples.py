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


def test_the_model_of_several_processes_learns_in_one():
    example = load("jax_distributed")
    x = jax.numpy.linspace(0.0, 1.0, 16)
    params = {"centres": jax.numpy.linspace(0.0, 1.0, 4), "heights": jax.numpy.zeros(4)}
    y = jax.numpy.sin(6.0 * x)
    step = jax.jit(jax.value_and_grad(example.squared_error))
    losses = []
    for _ in range(20):
        loss, found = step(params, x, y)
        params = {name: value - 0.02 * found[name] for name, value in params.items()}
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]


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


@pytest.mark.long
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
