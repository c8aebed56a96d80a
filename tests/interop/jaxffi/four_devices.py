"""Run by test_transformations.py in a process of its own, in which the host counts as four devices."""

import inspect
import re
import sys

import jax
import numpy as np

import warp_like as wp
from tests.interop.jaxffi.kernels import advance, lookup, matmul, rotate, scale, stencil, stencil_np, total
from warp_like.interop.jaxffi import jax_callable, jax_kernel

jnp = jax.numpy
P = jax.sharding.PartitionSpec
assert jax.device_count() == 4
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
grid = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("i", "j"))
x = jnp.asarray(np.random.default_rng(3).random(24, dtype=np.float32))
if hasattr(jax, "shard_map"):
    shard_map = jax.shard_map
else:
    from jax.experimental.shard_map import shard_map
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


def check_derivatives(check):
    f = jax_kernel(scale, enable_backward=True)
    parts = over_devices(lambda x, a: f(x, a)[0] ** 2, (P("i"), P()), P("i"), check)

    def plain(x, a):
        return (a * x) ** 2

    a, t = jnp.float32(3.0), jnp.cos(x)
    for ours, theirs in zip(
        jax.jvp(parts, (x, a), (t, jnp.float32(2.0))), jax.jvp(plain, (x, a), (t, jnp.float32(2.0))), strict=True
    ):
        assert np.allclose(ours, theirs, rtol=1e-5)
    if check:
        ours = jax.jit(jax.hessian(lambda x, a: parts(x, a).sum(), (0, 1)))(x, a)
        theirs = jax.hessian(lambda x, a: plain(x, a).sum(), (0, 1))(x, a)
        for one, two in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert np.allclose(one, two, rtol=1e-4)


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


def spread(x, *spec):
    return jax.device_put(x, jax.sharding.NamedSharding(grid, P(*spec)))


def same_sharding(x, *spec):
    return x.sharding.is_equivalent_to(jax.sharding.NamedSharding(grid, P(*spec)), x.ndim)


def run_apart(f, *args):
    """Run a function under plain jit; no device may need another's data."""
    compiled = jax.jit(f).lower(*args).compile()
    for collective in ("all-gather", "all-reduce", "all-to-all", "collective-permute"):
        assert collective not in compiled.as_text(), collective
    return compiled(*args)


def check_elementwise_kernels_keep_the_sharding():
    s = spread(x, ("i", "j"))
    y = run_apart(lambda x: jax_kernel(scale)(x, 3.0)[0], s)
    assert np.allclose(y, 3 * x)
    assert same_sharding(y, ("i", "j"))
    f = jax_kernel(scale, enable_backward=True)
    g = run_apart(jax.grad(lambda x: jnp.vdot(f(x, 3.0)[0], jax.lax.stop_gradient(x))), s)
    assert np.allclose(g, 3 * x)
    assert same_sharding(g, ("i", "j"))
    y, dy = run_apart(lambda x, t: jax.jvp(lambda x: f(x, 3.0)[0], (x,), (t,)), s, s)
    assert np.allclose(dy, 3 * x)
    assert same_sharding(dy, ("i", "j"))
    new, old = run_apart(
        lambda v, x: jax_kernel(advance, num_outputs=2, in_out_argnames=["x"])(v, x, 0.5),
        spread(x + 1, "i"),
        spread(x, "i"),
    )
    assert np.allclose(new, x * x + 0.5 * (x + 1))
    assert np.allclose(old, x)
    assert same_sharding(new, "i")
    m = jnp.tile(jnp.eye(3), (8, 1, 1))
    v = jnp.arange(24.0).reshape(8, 3)
    w, n = run_apart(jax_kernel(rotate, num_outputs=2), spread(m, "j"), spread(v, "j"))
    assert np.allclose(w, v)
    assert np.allclose(n, (v**2).sum(-1))
    assert same_sharding(w, "j")


def check_each_axis_of_the_grid():
    a, b = x[:16].reshape(4, 4), x[:24].reshape(4, 6)
    f = jax_kernel(matmul, launch_dims=(4, 6))
    c = run_apart(lambda a, b: f(a, b)[0], spread(a, "i"), spread(b, None, "j"))
    assert np.allclose(c, a @ b)
    assert same_sharding(c, "i", "j")
    gathered = jax.jit(f)(spread(a, None, "j"), spread(b, "i"))[0]  # what the threads loop over is gathered
    assert np.allclose(gathered, a @ b)
    indexed = jax_kernel(lookup, launch_dims=8)
    index = jnp.arange(8, dtype=jnp.int32) * 3 % 7
    y = run_apart(lambda t, i: indexed(t, i, launch_dims=8)[0], x, spread(index, "i"))
    assert np.allclose(y, x[index] ** 2)
    assert same_sharding(y, "i")


def check_batches_keep_the_sharding():
    batch = x.reshape(4, 6)
    f = jax.vmap(lambda r: jax_kernel(stencil, enable_backward=True)(r)[0])
    y = run_apart(f, spread(batch, "i"))
    assert np.allclose(y, [stencil_np(np.asarray(r)) for r in batch])
    assert same_sharding(y, "i")
    inner = jax.vmap(f)(x.reshape(2, 2, 6))
    assert np.allclose(run_apart(jax.vmap(f), spread(x.reshape(2, 2, 6), None, "j")), inner)
    one = jax.grad(lambda b: jnp.sin(f(b)).sum())
    ours = one(spread(batch, "i"))
    assert np.allclose(ours, one(batch), atol=1e-6)
    many = jax.vmap(lambda a, r: jax_kernel(scale)(r, a)[0], (0, None))
    assert np.allclose(many(spread(x[:4], "i"), x), x[:4, None] * x)
    rows = jax.jacfwd(f)(spread(batch, "i"))
    assert np.allclose(rows, jax.jacfwd(f)(batch), atol=1e-6)


@wp.kernel
def lowest(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_min(y, 0, x[wp.tid()])


@wp.kernel
def add_to_first(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_add(y, 0, x[wp.tid()])


@wp.kernel
def ramp(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] + float(i)


@wp.kernel
def fraction(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] / float(x.shape[0])


@wp.kernel
def square_once(x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[0, i] * x[0, i]


def check_all_others_see_whole_arrays():
    s = spread(x, "i")
    assert np.allclose(jax.jit(jax_kernel(stencil))(s)[0], stencil_np(np.asarray(x)))
    assert np.allclose(jax.jit(jax_kernel(ramp))(s)[0], x + np.arange(24))
    assert np.allclose(jax.jit(jax_kernel(fraction))(s)[0], x / 24)
    assert np.allclose(jax.jit(jax_kernel(total, output_dims=1))(s)[0], (x**2).sum())
    assert np.allclose(jax.jit(jax_kernel(scale, launch_dims=7))(s, 2.0)[0], 2 * x[:7])
    wide = jax_kernel(square_once, launch_dims=12)
    assert np.allclose(jax.jit(wide)(spread(x.reshape(2, 12), "i", "j"))[0], x[:12] ** 2)

    @jax.jit
    def uneven(x):
        x = jax.lax.with_sharding_constraint(x * 2, jax.sharding.NamedSharding(grid, P(("i", "j"))))
        return jax_kernel(lookup, launch_dims=10)(jnp.arange(40.0), x)[0]

    assert np.allclose(uneven(jnp.arange(10)), (2 * np.arange(10)) ** 2)


@wp.kernel
def share(x: wp.array(dtype=float), y: wp.array(dtype=float), sums: wp.array(dtype=float)):
    i = wp.tid()
    total = wp.tile_sum(wp.tile(x[i]))[0]
    y[i] = x[i] / total
    sums[i // 4] = total


def check_blocks_see_whole_arrays():
    wp.config.enable_cpu_blocks = True
    for n in (24, 22):
        f = jax_kernel(share, num_outputs=2, launch_dims=n, output_dims={"y": 24, "sums": 6}, block_dim=4)
        y, sums = jax.jit(f)(spread(x, "i"))
        expected = np.add.reduceat(np.asarray(x)[:n], range(0, n, 4))
        assert np.allclose(sums, expected)
        assert np.allclose(y[:n], x[:n] / np.repeat(expected, 4)[:n])
    wp.config.enable_cpu_blocks = False


def check_sums_over_the_devices():
    def reduced(f, *args):
        compiled = jax.jit(f).lower(*args).compile()
        assert "all-reduce" in compiled.as_text()
        assert "all-gather" not in compiled.as_text()
        return compiled(*args)

    s = spread(x, ("i", "j"))
    f = jax_kernel(total, output_dims=1, enable_backward=True)
    assert np.allclose(reduced(lambda x: f(x)[0], s), (x**2).sum())
    assert np.allclose(run_apart(jax.grad(lambda x: f(x)[0][0]), s), 2 * x)
    batch = spread(x.reshape(4, 6), "i", "j")
    assert np.allclose(reduced(jax.vmap(lambda r: f(r)[0][0]), batch), (x.reshape(4, 6) ** 2).sum(1))

    # the gradients of parameters that all devices share
    g = jax_kernel(matmul, launch_dims=(8, 4), enable_backward=True)
    a, b = x.reshape(8, 3), jnp.ones((3, 4))
    loss = jax.grad(lambda b, a: jnp.sin(g(a, b)[0]).sum())
    assert np.allclose(reduced(loss, b, spread(a, "i")), jax.grad(lambda b: jnp.sin(a @ b).sum())(b), atol=1e-5)
    k = jax_kernel(scale, enable_backward=True)
    slope = jax.grad(lambda a, x: jnp.sin(k(x, a)[0]).sum())
    assert np.allclose(reduced(slope, jnp.float32(2.0), s), (jnp.cos(2 * x) * x).sum(), rtol=1e-5)

    # what was there before counts once
    h = jax_kernel(add_to_first, in_out_argnames=["y"])
    assert np.allclose(jax.jit(h)(s, jnp.ones(2))[0], [1 + x.sum(), 1])


def check_functions_of_several_launches():
    def twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        half = wp.zeros_like(x)
        wp.launch(scale, dim=x.shape, inputs=[x, 0.5], outputs=[half])
        wp.launch(scale, dim=x.shape, inputs=[half, 4.0], outputs=[y])

    y = run_apart(lambda x: jax_callable(twice)(x)[0], spread(x, "i"))
    assert np.allclose(y, 2 * x)
    assert same_sharding(y, "i")


def check_programs_name_their_kernels():
    def text(*args):
        return jax.jit(lambda x: jax_kernel(*args)(x, 3.0)[0]).lower(spread(x, "i")).as_text()

    @wp.kernel
    def other(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = a + x[i]

    pointer = re.compile(r'backend_config = "\d+"')  # XLA's cache on disk may leave it out
    same, again, different = (pointer.sub("", text(k)) for k in (scale, scale, other))
    assert same.replace("scale", "k") == again.replace("scale", "k")
    assert same.replace("scale", "k") != different.replace("other", "k")


def check_kernels_without_a_tangent():
    f = jax_kernel(lowest, in_out_argnames=["y"], enable_backward=True)
    g = jax.grad(lambda x: f(x, jnp.full(1, 9.0))[0].sum())(spread(x, "i"))
    assert np.array_equal(g, np.arange(24) == np.argmin(x))


def check_pmap():
    y = jax.pmap(lambda x: jax_kernel(stencil)(x)[0])(x.reshape(4, 6))
    assert np.allclose(y, [stencil_np(np.asarray(r)) for r in x.reshape(4, 6)])


@wp.kernel
def meet(x: wp.array(dtype=float), address: wp.uint64, y: wp.array(dtype=float)):
    there = wp.array(ptr=address, shape=(1,), dtype=int)
    wp.atomic_add(there, 0, 1)
    waited = wp.int32(0)
    while wp.atomic_add(there, 0, 0) < 4 and waited < 2000000000:
        waited += 1
    y[0] = x[0] * float(wp.atomic_add(there, 0, 0))


def check_calls_run_at_once():
    """Each device's call waits for the others: under a lock that calls share, the first would never end."""
    there = wp.zeros(1, dtype=int)
    call = jax_kernel(meet, launch_dims=1, output_dims=1, has_side_effect=True)
    f = over_devices(lambda x: call(x, there.ptr)[0], P("i"), P("i"), False)
    assert f(jnp.ones(4)).tolist() == [4, 4, 4, 4]


for check in (True, False):
    check_elementwise(check)
    check_matmul(check)
    check_derivatives(check)
    check_collectives(check)
    check_in_out(check)
check_elementwise_kernels_keep_the_sharding()
check_each_axis_of_the_grid()
check_batches_keep_the_sharding()
check_all_others_see_whole_arrays()
check_functions_of_several_launches()
check_sums_over_the_devices()
check_programs_name_their_kernels()
check_kernels_without_a_tangent()
check_pmap()
check_calls_run_at_once()
sys.stdout.write("done\n")
