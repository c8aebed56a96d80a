"""Kernels inside what JAX does with whole programs: several devices, ahead-of-time compiling, export, caches."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from tests.interop.jaxffi.kernels import advance, scale, stencil, stencil_np  # noqa: E402
from warp_like.interop.jaxffi import jax_kernel  # noqa: E402
from warp_like.interop.jaxffi.target import TARGET  # noqa: E402

jnp = jax.numpy
ROOT = Path(__file__).resolve().parents[3]


def python(*args, **env):
    everything = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **env}
    done = subprocess.run([sys.executable, *args], env=everything, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.long
def test_four_devices():
    script = Path(__file__).with_name("four_devices.py")
    assert python(str(script), XLA_FLAGS="--xla_force_host_platform_device_count=4") == "done\n"


def test_ahead_of_time():
    f = jax.jit(lambda x, a: jax_kernel(scale)(x, a)[0])
    lowered = f.lower(jax.ShapeDtypeStruct((4,), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32))
    assert TARGET in lowered.as_text()
    assert np.array_equal(lowered.compile()(jnp.ones(4), jnp.float32(3)), [3] * 4)


_EXPORTED = """
import sys, jax, jax.numpy as jnp, jax.export
from tests.interop.jaxffi.kernels import scale
from warp_like.interop.jaxffi import jax_kernel
f = jax_kernel(scale)
exported = jax.export.deserialize(open(sys.argv[1], "rb").read())
try:
    exported.call(jnp.ones(4)).block_until_ready()
except jax.errors.JaxRuntimeError as e:
    assert "this process has not compiled" in str(e), e
else:
    raise AssertionError("ran a kernel that was never compiled here")
f(jnp.ones(1), 1.0)
print(exported.call(jnp.ones(4)).tolist())
"""


def test_an_exported_program_runs_in_another_process(tmp_path):
    from jax import export

    allowed = [export.DisabledSafetyCheck.custom_call(TARGET)]
    f = jax.jit(lambda x: jax_kernel(scale)(x, 2.0)[0])
    data = export.export(f, disabled_checks=allowed)(jax.ShapeDtypeStruct((4,), jnp.float32)).serialize()
    path = tmp_path / "exported"
    path.write_bytes(data)
    assert python("-c", _EXPORTED, str(path)) == "[2.0, 2.0, 2.0, 2.0]\n"


def test_derivatives_are_exported_with_the_program():
    from jax import export

    allowed = [export.DisabledSafetyCheck.custom_call(TARGET)]
    kernel = jax_kernel(stencil, enable_backward=True)
    f = jax.jit(lambda x: kernel(x)[0].sum())
    data = export.export(f, disabled_checks=allowed)(jax.ShapeDtypeStruct((4,), jnp.float32)).serialize(vjp_order=1)
    x = jnp.arange(4.0)
    assert np.allclose(jax.grad(export.deserialize(data).call)(x), jax.grad(f)(x))


def test_shapes_have_to_be_known():
    from jax import export

    (n,) = export.symbolic_shape("n")
    f = jax.jit(lambda x: jax_kernel(scale)(x, 2.0)[0])
    with pytest.raises(TypeError, match=r"argument 1 `x`: the shape \(n,\) has symbols"):
        export.export(f)(jax.ShapeDtypeStruct((n,), jnp.float32))


_CACHED = """
import sys, jax, jax.numpy as jnp
import importlib.util
spec = importlib.util.spec_from_file_location("kernels_of_a_program", sys.argv[1])
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
from warp_like.interop.jaxffi import jax_kernel
jax.config.update("jax_compilation_cache_dir", sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
print(jax.jit(jax_kernel(program.k))(jnp.ones(2))[0].tolist())
"""

_PROGRAM = """
import warp_like as wp

@wp.kernel
def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] + FACTOR
"""


def test_a_program_that_xla_cached_on_disk_never_runs_another_kernel(tmp_path):
    cache = str(tmp_path / "cache")
    for factor in ("1.0", "2.0", "1.0"):
        path = tmp_path / "program.py"
        path.write_text(_PROGRAM.replace("FACTOR", factor))
        assert python("-c", _CACHED, str(path), cache) == f"[{1 + float(factor)}, {1 + float(factor)}]\n"
    assert any(Path(cache).iterdir())


def test_donation_inside_scan():
    f = jax_kernel(advance, num_outputs=2, in_out_argnames=["x"])

    @jax.jit
    def simulate(x):
        return jax.lax.scan(lambda x, _: (f(jnp.ones(5), x, 0.25)[0], x.sum()), x, None, length=4)

    x = np.full(5, 0.5, np.float32)
    last, sums = simulate(x)
    for s in sums:
        assert np.allclose(s, x.sum())
        x = x * x + 0.25
    assert np.allclose(last, x)


def test_side_effects_stay(capfd):
    @wp.kernel
    def shout(x: wp.array(dtype=int), y: wp.array(dtype=int)):
        wp.printf("%d\n", x[wp.tid()])

    f = jax_kernel(shout, has_side_effect=True)
    g = jax_kernel(shout)

    @jax.jit
    def program(x):
        f(x)
        g(x + 10)
        return x

    jax.block_until_ready(program(jnp.array([7])))
    jax.effects_barrier()
    assert capfd.readouterr().out == "7\n"


def test_cond_and_while():
    f = jax_kernel(stencil)
    x = np.random.default_rng(5).random(6, dtype=np.float32)
    y = jax.jit(lambda c, x: jax.lax.cond(c, lambda x: f(x)[0], lambda x: x, x))
    assert np.allclose(y(True, x), stencil_np(x))
    assert np.array_equal(y(False, x), x)
    z = jax.lax.fori_loop(0, 3, lambda _, x: f(x)[0] * 0.5, jnp.asarray(x))
    for _ in range(3):
        x = stencil_np(x) * np.float32(0.5)
    assert np.allclose(z, x)


def test_importing_the_package_imports_no_jax():
    assert python("-c", "import sys, warp_like; print('jax' in sys.modules)") == "False\n"
