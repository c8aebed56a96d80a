"""Run by test_devices.py in a process of its own, in which the host counts as four devices."""

import inspect
import sys

import jax
import numpy as np

from tests.interop.jax.kernels import advance, matmul, scale, stencil, stencil_np, total
from warp_like.interop.jaxffi import jax_kernel

jnp = jax.numpy
P = jax.sharding.PartitionSpec
assert jax.device_count() == 4
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
x = jnp.asarray(np.random.default_rng(3).random(24, dtype=np.float32))
shard_map = jax.shard_map if hasattr(jax, "shard_map") else jax.experimental.shard_map.shard_map
CHECK = "check_vma" if "check_vma" in inspect.signature(shard_map).parameters else "check_rep"


def over_devices(f, in_specs, out_specs, check):
    return jax.jit(shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **{CHECK: check}))


def check_elementwise(check):
    f = over_devices(lambda x, a: jax_kernel(scale)(x, a)[0], (P("i"), P()), P("i"), check)
    assert np.allclose(f(x, 3.0), 3 * x)
    constant = over_devices(lambda x: jax_kernel(scale)(x, 2.0)[0], (P("i"),), P("i"), check)
    assert np.allclose(constant(x), 2 * x)
    y = over_devices(lambda x: jax_kernel(stencil)(x)[0], (P("i"),), P("i"), check)(x)
    assert np.allclose(y, np.concatenate([stencil_np(np.asarray(part)) for part in jnp.split(x, 4)]))
    assert not y.is_fully_replicated


def check_matmul(check):
    f = jax_kernel(matmul, launch_dims=(2, 4), enable_backward=True)
    a, b = x[:24].reshape(8, 3), jnp.ones((3, 4))
    sharded = over_devices(lambda a, b: f(a, b)[0], (P("i"), P()), P("i"), check)
    assert np.allclose(sharded(a, b), a @ b)
    if check:  # without, JAX does not know that it has to sum the gradients of `b`
        ours = jax.jit(jax.grad(lambda a, b: jnp.sin(sharded(a, b)).sum(), (0, 1)))(a, b)
        theirs = jax.grad(lambda a, b: jnp.sin(a @ b).sum(), (0, 1))(a, b)
        for one, two in zip(ours, theirs, strict=True):
            assert np.allclose(one, two, atol=1e-5)


def check_collectives(check):
    f = jax_kernel(total, output_dims=1)
    y = over_devices(lambda x: jax.lax.psum(f(x)[0], "i"), (P("i"),), P(), check)(x)
    assert np.allclose(y, (x**2).sum())


def check_in_out(check):
    f = jax_kernel(advance, num_outputs=2, in_out_argnames=["x"])
    sharded = over_devices(lambda v, x: f(v, x, 0.5), (P(), P("i")), [P("i"), P("i")], check)
    new, old = sharded(jnp.ones(6), x)
    assert np.allclose(new, x * x + 0.5)
    assert np.allclose(old, x)


def check_jit_on_sharded_input():
    sharded = jax.device_put(x, jax.sharding.NamedSharding(mesh, P("i")))
    assert np.allclose(jax.jit(jax_kernel(stencil))(sharded)[0], stencil_np(np.asarray(x)))


def check_pmap():
    y = jax.pmap(lambda x: jax_kernel(stencil)(x)[0])(x.reshape(4, 6))
    assert np.allclose(y, [stencil_np(np.asarray(r)) for r in x.reshape(4, 6)])


for check in (True, False):
    check_elementwise(check)
    check_matmul(check)
    check_collectives(check)
    check_in_out(check)
check_jit_on_sharded_input()
check_pmap()
sys.stdout.write("done\n")
