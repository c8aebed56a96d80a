"""``vmap`` of kernels for which running the batch as one longer grid would be wrong."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from tests.interop.jaxffi.kernels import advance, lookup, matmul, scale, stencil, stencil_np, total  # noqa: E402
from warp_like.interop.jaxffi import jax_kernel  # noqa: E402

jnp = jax.numpy
random = np.random.default_rng(1)


def floats(*shape):
    return random.random(shape, dtype=np.float32)


methods = pytest.mark.parametrize("method", ["broadcast_all", "expand_dims", "sequential", "sequential_unrolled"])


@methods
def test_a_stencil_sees_its_own_row(method):
    f = jax_kernel(stencil, vmap_method=method)
    x = floats(5, 7)
    for g in (jax.vmap(f), jax.jit(jax.vmap(f))):
        assert np.allclose(g(x)[0], [stencil_np(row) for row in x])
    columns = jax.vmap(lambda c: f(c)[0], in_axes=1, out_axes=1)(x)
    assert np.allclose(columns, np.stack([stencil_np(c) for c in x.T], 1))


@methods
def test_nested(method):
    f = jax_kernel(stencil, vmap_method=method)
    x = floats(3, 4, 6)
    y = jax.jit(jax.vmap(jax.vmap(lambda r: f(r)[0])))(x)
    assert np.allclose(y, [[stencil_np(r) for r in m] for m in x])


@methods
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (0, 1)])
def test_batched_and_unbatched_tables(method, axes):
    f = jax_kernel(lookup, vmap_method=method)
    batch, n, m = 4, 6, 5
    table = floats(batch, n) if axes[0] == 0 else floats(n)
    index = random.integers(0, n, {None: (m,), 0: (batch, m), 1: (m, batch)}[axes[1]]).astype(np.int32)
    y = jax.vmap(lambda t, i: f(t, i, launch_dims=m)[0], axes)(table, index)
    for b in range(batch):
        t = table[b] if axes[0] == 0 else table
        i = {None: index, 0: index[b % len(index)], 1: index[..., b % index.shape[-1]]}[axes[1]]
        assert np.allclose(y[b], t[i] ** 2)


@methods
def test_nested_over_different_arguments(method):
    f = jax_kernel(matmul, launch_dims=(2, 4), vmap_method=method)
    a, b = floats(5, 2, 3), floats(6, 3, 4)
    every = jax.vmap(jax.vmap(lambda a, b: f(a, b)[0], (None, 0)), (0, None))
    assert np.allclose(jax.jit(every)(a, b), np.einsum("xij,yjk->xyik", a, b), atol=1e-5)


@methods
def test_a_reduction_sums_each_row(method):
    f = jax_kernel(total, output_dims=1, vmap_method=method)
    x = floats(50, 40)
    assert np.allclose(jax.vmap(lambda r: f(r)[0][0])(x), (x**2).sum(1))


@methods
def test_batched_scalars(method):
    f = jax_kernel(scale, vmap_method=method)
    x, a = floats(6), floats(3)
    assert np.allclose(jax.vmap(lambda a: f(x, a)[0])(a), a[:, None] * x)
    assert np.allclose(jax.vmap(lambda x: f(x, a[1])[0])(np.stack([x, x])), [a[1] * x] * 2)


@methods
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_in_out_arguments_batched_or_not(method, axes):
    f = jax_kernel(advance, num_outputs=2, in_out_argnames=["x"], vmap_method=method)
    v = floats(3, 5) if axes[0] == 0 else floats(5)
    x = floats(3, 5) if axes[1] == 0 else floats(5)
    new, old = jax.jit(jax.vmap(lambda v, x: f(v, x, 0.5), axes))(v, x)
    assert np.allclose(new, np.broadcast_to(x * x + 0.5 * v, (3, 5)))
    assert np.allclose(old, np.broadcast_to(x, (3, 5)))


def test_a_large_batch_is_shared_by_threads():
    f = jax_kernel(stencil)
    x = floats(30_000, 11)
    y = jax.jit(jax.vmap(lambda r: f(r)[0]))(x)
    padded = np.concatenate([x[:, :1], x, x[:, -1:]], 1)
    assert np.allclose(y, padded[:, :-2] * padded[:, 2:] + x)


def test_an_empty_batch():
    assert jax.vmap(lambda r: jax_kernel(stencil)(r)[0])(jnp.zeros((0, 4))).shape == (0, 4)
