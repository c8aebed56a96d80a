"""Gradients of kernels in JAX programs, against JAX's own of the same formula."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from tests.interop.jaxffi.kernels import advance, lookup, matmul, rotate, scale, stencil, total  # noqa: E402
from warp_like.interop.jaxffi import jax_kernel  # noqa: E402

jnp = jax.numpy
random = np.random.default_rng(2)


def floats(*shape):
    return jnp.asarray(random.random(shape, dtype=np.float32))


def stencil_jnp(x):
    padded = jnp.concatenate([x[:1], x, x[-1:]])
    return padded[:-2] * padded[2:] + x


def same_gradient(f, g, *args, transform=lambda f: f):
    which = tuple(range(len(args)))
    ours = transform(jax.grad(lambda *a: jnp.sum(jnp.sin(f(*a))), which))(*args)
    theirs = jax.jit(jax.grad(lambda *a: jnp.sum(jnp.sin(g(*a))), which))(*args)
    for a, b in zip(ours, theirs, strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-5)


sten = jax_kernel(stencil, enable_backward=True)
mat = jax_kernel(matmul, launch_dims=(2, 4), enable_backward=True)
summed = jax_kernel(total, output_dims=1, enable_backward=True)
step = jax_kernel(advance, num_outputs=2, in_out_argnames=["x"], enable_backward=True)
turn = jax_kernel(rotate, num_outputs=2, enable_backward=True)


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_plain(transform):
    same_gradient(lambda x: sten(x)[0], stencil_jnp, floats(9), transform=transform)
    same_gradient(lambda a, b: mat(a, b)[0], lambda a, b: a @ b, floats(2, 3), floats(3, 4), transform=transform)
    same_gradient(lambda x: summed(x)[0], lambda x: (x**2).sum(), floats(100), transform=transform)


def test_in_out_arguments():
    def plain(v, x):
        return x * x + 0.5 * v + 3 * x

    def ours(v, x):
        new, old = step(v, x, 0.5)
        return new + 3 * old

    same_gradient(ours, plain, floats(6), floats(6), transform=jax.jit)
    # the result that is not used has no cotangent
    same_gradient(lambda v, x: step(v, x, 0.5)[1], lambda v, x: x, floats(6), floats(6))


def test_vectors_and_several_outputs():
    def plain(m, v):
        return jnp.einsum("nij,nj->ni", m, v) + (v**2).sum(-1, keepdims=True)

    def ours(m, v):
        w, n = turn(m, v)
        return w + n[:, None]

    same_gradient(ours, plain, floats(5, 3, 3), floats(5, 3))


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_vmap_of_grad_and_grad_of_vmap(axes):
    a = floats(6, 2, 3) if axes[0] == 0 else floats(2, 3)
    b = floats(6, 3, 4) if axes[1] == 0 else floats(3, 4)
    same_gradient(jax.vmap(lambda a, b: mat(a, b)[0], axes), jax.vmap(jnp.matmul, axes), a, b, transform=jax.jit)
    ours = jax.vmap(jax.grad(lambda a, b: jnp.sin(mat(a, b)[0]).sum(), (0, 1)), axes)(a, b)
    theirs = jax.jit(jax.vmap(jax.grad(lambda a, b: jnp.sin(a @ b).sum(), (0, 1)), axes))(a, b)
    for x, y in zip(ours, theirs, strict=True):
        assert np.allclose(x, y, rtol=1e-4, atol=1e-5)


def test_gradients_of_different_arguments_of_one_function():
    f = jax.jit(lambda a, b: jnp.sin(mat(a, b)[0]).sum())
    plain = jax.jit(lambda a, b: jnp.sin(a @ b).sum())
    a, b = floats(2, 3), floats(3, 4)
    f(a, b)
    for which in (0, 1, (0, 1), 0):
        ours, theirs = jax.grad(f, which)(a, b), jax.grad(plain, which)(a, b)
        for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert np.allclose(x, y, rtol=1e-4, atol=1e-5)


def test_integer_arguments_have_no_gradient():
    f = jax_kernel(lookup, launch_dims=3, enable_backward=True)
    index = jnp.array([1, 1, 4])
    g = jax.grad(lambda t: f(t, index)[0].sum())(jnp.arange(5.0))
    assert g.tolist() == [0, 4, 0, 0, 8]


def test_scalars_vectors_and_matrices_as_arguments_have_gradients():
    f = jax_kernel(scale, enable_backward=True)
    x = floats(400)
    assert np.isclose(jax.grad(lambda a: f(x, a)[0].sum())(2.0), x.sum(), rtol=1e-4)
    g = jax.jit(lambda x, a: jax.grad(lambda x: f(x, a)[0].sum())(x))(x, 2.0)
    assert np.allclose(g, 2)
    same_gradient(lambda x, a: f(x, a)[0], lambda x, a: a * x, floats(5), jnp.float32(0.5), transform=jax.jit)
    many = jax.vmap(jax.grad(lambda a, x: f(x, a)[0].sum()), (0, None))(floats(3), x)
    assert np.allclose(many, x.sum(), rtol=1e-4)

    @wp.kernel
    def affine(x: wp.array(dtype=wp.vec2), m: wp.mat22, t: wp.vec2, y: wp.array(dtype=wp.vec2)):
        i = wp.tid()
        y[i] = m * x[i] + t

    g = jax_kernel(affine, enable_backward=True)
    same_gradient(lambda x, m, t: g(x, m, t)[0], lambda x, m, t: x @ m.T + t, floats(7, 2), floats(2, 2), floats(2))


def test_a_zero_dimensional_argument_has_a_gradient():
    f = jax_kernel(stencil, enable_backward=True)
    assert jax.grad(lambda x: f(x)[0][0])(3.0) == 7


def test_derivatives_without_enable_backward_are_refused():
    f = jax_kernel(stencil)
    with pytest.raises(TypeError, match=r"kernel `stencil`: a derivative is asked of it.*enable_backward=True"):
        jax.grad(lambda x: f(x)[0].sum())(floats(3))
    assert jax.grad(lambda x: (x * f(jax.lax.stop_gradient(x))[0]).sum())(floats(3)).shape == (3,)

    @wp.kernel(enable_backward=False)
    def off(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i]

    with pytest.raises(RuntimeError, match="gradients are switched off"):
        jax_kernel(off, enable_backward=True)(floats(3))


def test_scan_and_checkpoint():
    def roll(x, n, f, policy):
        return jax.lax.scan(lambda c, _: (policy(f)(c) * 0.5, None), x, None, length=n)[0]

    for policy in (lambda f: f, jax.checkpoint):
        same_gradient(
            lambda x, p=policy: roll(x, 5, lambda x: sten(x)[0], p),
            lambda x, p=policy: roll(x, 5, stencil_jnp, p),
            floats(8),
            transform=jax.jit,
        )


def test_a_training_loop_learns():
    # Numbers of its own: how fast descent is depends on them, and what others draw depends on the order of tests.
    target, a = jnp.eye(2, 4), jnp.asarray([[1.0, 0.5, -0.25], [-0.5, 1.0, 0.75]], jnp.float32)

    @jax.jit
    def update(b):
        loss, g = jax.value_and_grad(lambda b: jnp.mean((mat(a, b)[0] - target) ** 2))(b)
        return b - 0.5 * g, loss

    b, losses = jnp.ones((3, 4)), []
    for _ in range(200):
        b, loss = update(b)
        losses.append(float(loss))
    assert losses[-1] < 0.02 * losses[0]
