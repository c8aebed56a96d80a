"""Forward mode and second derivatives of kernels in JAX programs, against JAX's own of the same formula.

What JAX is asked for itself is jitted: op by op it would compile each primitive by itself.
"""

import functools
import itertools

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from tests.interop.jaxffi.kernels import advance, lookup, matmul, rotate, scale, total  # noqa: E402
from tests.long_tail import crossed, tail  # noqa: E402
from warp_like.interop.jaxffi import jax_kernel  # noqa: E402

jnp = jax.numpy
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
random = np.random.default_rng(4)


def floats(*shape):
    return jnp.asarray(random.random(shape, dtype=np.float32))


@wp.kernel
def couple(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
    i = wp.tid()
    n = x.shape[0]
    y[i] = wp.sin(x[i]) * x[(i + 1) % n] * a + a * a * x[i]


def couple_jnp(x, a):
    return jnp.sin(x) * jnp.roll(x, -1) * a + a * a * x


def matmul_jnp(a, b):
    return a @ b


def advance_jnp(v, x):
    return x * x + 0.5 * v, x


def rotate_jnp(m, v):
    return jnp.einsum("nij,nj->ni", m, v), (v**2).sum(-1)


_couple = jax_kernel(couple, enable_backward=True)
_matmul = jax_kernel(matmul, launch_dims=(2, 4), enable_backward=True)
_advance = jax_kernel(advance, num_outputs=2, in_out_argnames=["x"], enable_backward=True)
_rotate = jax_kernel(rotate, num_outputs=2, enable_backward=True)
_total = jax_kernel(total, output_dims=1, enable_backward=True)

PAIRS = {
    "couple": (lambda x, a: _couple(x, a)[0], couple_jnp, (floats(5), jnp.float32(0.7))),
    "matmul": (lambda a, b: _matmul(a, b)[0], matmul_jnp, (floats(2, 3), floats(3, 4))),
    "advance": (lambda v, x: tuple(_advance(v, x, 0.5)), advance_jnp, (floats(4), floats(4))),
    "rotate": (lambda m, v: tuple(_rotate(m, v)), rotate_jnp, (floats(3, 3, 3), floats(3, 3))),
    "total": (lambda x: _total(x)[0], lambda x: (x**2).sum()[None], (floats(9),)),
}
pairs = pytest.mark.parametrize("name", PAIRS)
MODES = [lambda f: f, jax.jit]
modes = pytest.mark.parametrize("transform", MODES, ids=["eager", "jit"])


def close(ours, theirs):
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-5)


def loss_of(f):
    """A number that depends on the result beyond the first order."""
    return lambda *args: sum(jnp.sum(jnp.sin(y) + y * y) for y in jax.tree.leaves(f(*args)))


@pytest.mark.parametrize(("name", "transform"), crossed(PAIRS, MODES, every=2))
def test_jvp(name, transform):
    ours, theirs, args = PAIRS[name]
    for moving in itertools.product([True, False], repeat=len(args)):
        which = [k for k, m in enumerate(moving) if m]
        tangents = [floats(*args[k].shape) for k in which]

        def directional(f, which=which, tangents=tangents):
            def some(*parts):
                every = list(args)
                for k, p in zip(which, parts, strict=True):
                    every[k] = p
                return f(*every)

            return jax.jvp(some, [args[k] for k in which], tangents)

        if which:
            close(transform(lambda d=directional: d(ours))(), jax.jit(lambda d=directional: d(theirs))())


@pairs
@pytest.mark.parametrize("derivative", crossed([jax.jacfwd, jax.jacrev], every=2))
def test_jacobians(name, derivative):
    ours, theirs, args = PAIRS[name]
    which = tuple(range(len(args)))
    close(jax.jit(derivative(ours, which))(*args), jax.jit(derivative(theirs, which))(*args))


SECOND = [  # of two kinds of derivative; `jax.hessian` is forward over reverse mode
    lambda f, w, a=a, b=b: a(b(f, w), w) for a, b in itertools.product([jax.jacfwd, jax.jacrev], repeat=2)
]


@pytest.mark.parametrize(("name", "second"), crossed(PAIRS, SECOND, every=2))
def test_second_derivatives(name, second):
    ours, theirs, args = PAIRS[name]
    which = tuple(range(len(args)))
    close(jax.jit(second(loss_of(ours), which))(*args), jax.jit(second(loss_of(theirs), which))(*args))


@pytest.mark.parametrize("name", ["couple", "advance"])
def test_of_vmap_and_under_vmap(name):
    ours, theirs, args = PAIRS[name]
    for k in range(len(args)):  # one argument has the batch, the others have not
        batch = floats(3, *args[k].shape)
        axes = tuple(0 if k == n else None for n in range(len(args)))
        given = [batch if k == n else x for n, x in enumerate(args)]
        which = tuple(range(len(args)))
        for both in (
            lambda f, axes=axes, which=which: jax.vmap(jax.hessian(loss_of(f), which), axes),
            lambda f, axes=axes, which=which: jax.hessian(loss_of(jax.vmap(f, axes)), which),
        ):
            close(jax.jit(both(ours))(*given), jax.jit(both(theirs))(*given))


def test_nested_batches_of_different_arguments():
    def every(f):
        return jax.vmap(jax.vmap(f, (None, 0)), (0, None))

    a, b = floats(5, 2, 3), floats(6, 3, 4)
    ours, theirs = every(PAIRS["matmul"][0]), every(matmul_jnp)
    for derivative in (jax.grad, jax.hessian):
        close(jax.jit(derivative(loss_of(ours), (0, 1)))(a, b), jax.jit(derivative(loss_of(theirs), (0, 1)))(a, b))
    tangents = floats(*a.shape), floats(*b.shape)
    close(jax.jvp(ours, (a, b), tangents), jax.jvp(theirs, (a, b), tangents))


def test_batches_one_after_the_other():
    f = jax_kernel(couple, vmap_method="sequential", enable_backward=True)
    x, a = floats(3, 4), floats(3)
    ours = jax.hessian(loss_of(jax.vmap(lambda x, a: f(x, a)[0])), (0, 1))(x, a)
    close(ours, jax.jit(jax.hessian(loss_of(jax.vmap(couple_jnp)), (0, 1)))(x, a))


def test_linearize_and_transpose():
    ours, theirs, args = PAIRS["couple"]
    y, f = jax.linearize(ours, *args)
    z, g = jax.linearize(theirs, *args)
    tangents = floats(5), jnp.float32(2.0)
    close((y, f(*tangents)), (z, g(*tangents)))
    close(jax.linear_transpose(f, *args)(y), jax.linear_transpose(g, *args)(y))


def test_scan_checkpoint_and_cond():
    def roll(f, policy):
        def loss(x, a):
            step = policy(lambda c, _: (jax.lax.cond(c[0] > 0.1, lambda c: f(c, a) * 0.5, lambda c: c, c), None))
            return jnp.sum(jax.lax.scan(step, x, None, length=3)[0] ** 2)

        return loss

    ours, theirs, args = PAIRS["couple"]
    for policy in (lambda f: f, jax.checkpoint):
        for derivative in (jax.grad, jax.hessian):
            got, wanted = (jax.jit(derivative(roll(f, policy), (0, 1)))(*args) for f in (ours, theirs))
            close(got, wanted)


def test_integers_have_no_tangents():
    @wp.kernel
    def split(
        x: wp.array(dtype=float), n: wp.array(dtype=int), whole: wp.array(dtype=int), rest: wp.array(dtype=float)
    ):
        i = wp.tid()
        whole[i] = n[i] + int(wp.floor(x[i]))
        rest[i] = x[i] * x[i] * float(n[i])

    f = jax_kernel(split, num_outputs=2, enable_backward=True)
    x, n = floats(4), jnp.arange(4)
    (_, rest), (dwhole, drest) = jax.jvp(lambda x: tuple(f(x, n)), (x,), (jnp.ones(4),))
    assert dwhole.dtype == jax.dtypes.float0
    close((rest, drest), (x * x * n, 2 * x * n))
    table = jax_kernel(lookup, launch_dims=3, enable_backward=True)
    index = jnp.array([1, 1, 4])
    t = floats(5)
    close(jax.hessian(lambda t: table(t, index)[0].sum())(t), jnp.diag(jnp.array([0.0, 4, 0, 0, 2])))


def test_double_precision():
    with enable_x64(True):

        @wp.kernel
        def cube(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
            i = wp.tid()
            y[i] = x[i] * x[i] * x[i]

        x = jnp.asarray(random.random(5))
        h = jax.hessian(lambda x: jax_kernel(cube, enable_backward=True)(x)[0].sum())(x)
        assert np.allclose(h, np.diag(6 * x), rtol=1e-14, atol=0)


def test_loops_and_branches_at_every_order():
    @wp.kernel
    def series(x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float)):
        i = wp.tid()
        s = 1.0
        for k in range(n[i]):
            if k % 2 == 0:
                s = s * x[i] + 1.0
            else:
                s += wp.exp(-x[i])
        y[i] = s

    def plain(x, n):
        s = jnp.ones_like(x)
        for k in range(5):
            s = jnp.where(k < n, s * x + 1 if k % 2 == 0 else s + jnp.exp(-x), s)
        return s

    f = jax_kernel(series, enable_backward=True)
    x, n = floats(6), jnp.array([0, 1, 2, 3, 4, 5])
    for d in (jax.jacfwd, jax.jacrev, jax.hessian, lambda f: jax.jacfwd(jax.jacfwd(f))):
        close(d(lambda x: f(x, n)[0])(x), jax.jit(d(lambda x: plain(x, n)))(x))


def test_elements_that_nobody_writes_have_no_tangents():
    @wp.kernel
    def some(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        if i % 2 == 1:
            y[i] = x[i] * x[i]

    f = jax_kernel(some, enable_backward=True)
    x = floats(5)
    assert np.allclose(jax.jacfwd(lambda x: f(x)[0])(x), np.diag(2 * x * (np.arange(5) % 2)))


@wp.kernel
def powers(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] + x[i] * x[i]  # y starts as zero
    y[i] = y[i] * x[i]
    y[i] = y[i] * y[i]
    z[i] = y[i] * x[i]


def test_outputs_that_the_kernel_reads_and_overwrites():
    f = jax_kernel(powers, num_outputs=2, enable_backward=True)
    x = floats(5) + 0.5

    def ours(x):
        y, z = f(x)
        return y + jnp.sin(z)

    def theirs(x):
        return x**6 + jnp.sin(x**7)

    for d in (jax.jacfwd, jax.jacrev):
        close(d(ours)(x), jax.jit(d(theirs))(x))
    for second in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f))):
        ours_h, theirs_h = (jax.jit(second(loss_of(f)))(x) for f in (ours, theirs))
        assert np.allclose(ours_h, theirs_h, rtol=1e-3, atol=1e-3)


@wp.kernel
def lowest(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_min(y, 0, x[wp.tid()])


@wp.kernel
def exchange(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_add(y, 0, x[wp.tid()] * x[wp.tid()])
    if x[wp.tid()] < 0.0:
        wp.atomic_exch(y, 0, x[wp.tid()])


def test_reverse_mode_does_not_need_a_tangent():
    f = jax_kernel(lowest, in_out_argnames=["y"], enable_backward=True)
    x, y = jnp.array([3.0, 1.0, 2.0]), jnp.array([9.0])
    for transform in (lambda f: f, jax.jit, jax.checkpoint):
        assert jax.grad(transform(lambda x: f(x, y)[0].sum()))(x).tolist() == [0, 1, 0]
    batch = jax.vmap(jax.grad(lambda x: f(x, y)[0].sum()))(jnp.stack([x, x[::-1] + 1]))
    assert batch.tolist() == [[0, 1, 0], [0, 1, 0]]
    with pytest.raises(wp.WarpCodegenError, match="atomic_exch"):
        jax.jvp(lambda x: jax_kernel(exchange, in_out_argnames=["y"], enable_backward=True)(x, y)[0], (x,), (x,))


@wp.kernel
def lowest_square(x: wp.array(dtype=float), y: wp.array(dtype=float), s: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_min(y, i % 2, x[i] * x[i] * x[i])
    wp.atomic_add(s, 0, x[i])


def test_the_tangent_of_a_minimum_is_that_of_the_winner():
    f = jax_kernel(lowest_square, num_outputs=2, in_out_argnames=["y", "s"], enable_backward=True)
    x, t = jnp.array([3.0, 1.0, 2.0, 5.0]), jnp.array([1.0, 10.0, 100.0, 1000.0])
    y, ty = jnp.array([90.0, 0.5]), jnp.array([7.0, 8.0])
    s = jnp.array([0.5])

    def ours(x, y):
        return jnp.concatenate(f(x, y, s))

    def theirs(x, y):
        cubes = x**3
        return jnp.stack([jnp.minimum(y[0], cubes[::2].min()), jnp.minimum(y[1], cubes[1::2].min()), s[0] + x.sum()])

    for transform in (lambda g: g, jax.jit):
        for mine, wanted in zip(*(jax.jvp(transform(g), (x, y), (t, ty)) for g in (ours, theirs)), strict=True):
            assert mine.tolist() == wanted.tolist()
    rows = jax.jacfwd(ours)(x, y)
    assert rows.tolist() == jax.jacfwd(theirs)(x, y).tolist() == jax.jacrev(ours)(x, y).tolist()
    wanted = jax.jit(jax.hessian(theirs))(x, y).tolist()
    for second in (jax.hessian, lambda g: jax.jacfwd(jax.jacfwd(g)), lambda g: jax.jacrev(jax.jacfwd(g))):
        assert second(ours)(x, y).tolist() == wanted
    xs = jnp.stack([x, x[::-1]])
    batches = [jax.vmap(lambda x: jax.jvp(lambda x: g(x, y), (x,), (t,))[1])(xs) for g in (ours, theirs)]  # noqa: B023
    assert batches[0].tolist() == batches[1].tolist()


def test_an_empty_array():
    f = jax_kernel(scale, enable_backward=True)
    y, dy = jax.jvp(lambda x: f(x, 2.0)[0], (jnp.zeros(0),), (jnp.zeros(0),))
    assert y.shape == dy.shape == (0,)


def test_refusals():
    f = jax_kernel(scale)
    with pytest.raises(TypeError, match=r"kernel `scale`: a derivative is asked of it.*enable_backward=True"):
        jax.jvp(lambda x: f(x, 2.0)[0], (floats(3),), (floats(3),))
    g = jax_kernel(couple, enable_backward=True)
    cube = functools.reduce(lambda h, _: jax.jacfwd(h), range(3), lambda x: g(x, 1.0)[0].sum())
    with pytest.raises(NotImplementedError, match="kernel `couple`: a third derivative is asked of it in forward mode"):
        cube(floats(3))
    fourth = functools.reduce(lambda h, _: jax.grad(lambda x: h(x).sum()), range(4), lambda x: g(x, 1.0)[0])
    with pytest.raises(NotImplementedError, match="kernel `couple`: a fourth derivative is asked of it, and there are"):
        fourth(floats(3))


def reverse_thrice(f):
    return jax.jacrev(jax.jacrev(jax.jacrev(f)))


def forward_over_hessian(f):
    return jax.jacfwd(jax.hessian(f))


def reverse_over_forward(f):
    return jax.jacrev(jax.jacfwd(jax.jacfwd(f)))


THIRD = [reverse_thrice, forward_over_hessian, reverse_over_forward]
THIRD_OF = [*zip(("couple", "advance", "advance"), THIRD, strict=True), ("rotate", forward_over_hessian)]
"""Of a scalar argument, of two outputs and of matrices. The others are long tail."""


@pytest.mark.parametrize(
    ("name", "third"),
    [c if c in THIRD_OF else tail(*c) for c in itertools.product(PAIRS, THIRD)],
)
def test_third_derivatives(name, third):
    f, plain, args = PAIRS[name]
    got, wanted = (jax.jit(third(loss_of(g)))(*args) for g in (f, plain))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert np.allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.long
def test_third_derivatives_of_what_is_overwritten_and_of_loops():
    f = jax_kernel(powers, num_outputs=2, enable_backward=True)
    x = floats(3) * 0.5 + 0.5

    def ours(x):
        y, z = f(x)
        return (y + jnp.sin(z)).sum()

    def theirs(x):
        return (x**6 + jnp.sin(x**7)).sum()

    for third in (reverse_thrice, forward_over_hessian):
        assert np.allclose(jax.jit(third(ours))(x), jax.jit(third(theirs))(x), rtol=1e-3, atol=1e-2)


@pytest.mark.long
def test_third_derivatives_of_batches():
    x, a = floats(4, 3), jnp.float32(0.7)

    def thrice(f):
        return functools.reduce(lambda h, _: jax.grad(h), range(3), f)

    def each(f):
        return jax.vmap(lambda x: thrice(lambda a: loss_of(f)(x, a))(a))(x)

    def along(f):
        return jax.vmap(thrice(lambda a: loss_of(f)(x[0], a)))(jnp.asarray([0.3, 0.7], jnp.float32))

    for of in (each, along):
        close(of(PAIRS["couple"][0]), jax.jit(lambda of=of: of(couple_jnp))())


@wp.kernel
def two_sided(x: wp.array(dtype=wp.float64), n: wp.array(dtype=int), y: wp.array(dtype=wp.float64)):
    """A loop of unknown length with branches, whose state the gradient saves."""
    i = wp.tid()
    s = wp.float64(1.0)
    for k in range(n[i]):
        if k % 2 == 0:
            s = wp.sin(s * x[i]) + wp.float64(0.5) * s
        else:
            s = wp.float64(0.3) * s * s + wp.exp(-x[i])
    y[i] = s


@wp.kernel
def in_place(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x[i] = x[i] * x[i] + y[i]
    y[i] = y[i] * x[i]
    x[i] = wp.sin(x[i]) * y[i]


def two_sided_jnp(x, n):
    s = jnp.ones_like(x)
    for k in range(4):
        s = jnp.where(k < n, jnp.sin(s * x) + 0.5 * s if k % 2 == 0 else 0.3 * s * s + jnp.exp(-x), s)
    return s


def in_place_jnp(x, y):
    x = x * x + y
    y = y * x
    return jnp.sin(x) * y, y


@pytest.mark.parametrize("third", [tail(forward_over_hessian), tail(reverse_thrice)])
def test_third_derivatives_in_double_precision(third):
    with enable_x64(True):
        x, n = jnp.array([0.3, -0.7, 1.1, 0.5]), jnp.array([0, 2, 3, 4], dtype=jnp.int32)
        loop = jax_kernel(two_sided, enable_backward=True)
        update = jax_kernel(in_place, num_outputs=2, in_out_argnames=["x", "y"], enable_backward=True)
        for ours, theirs in (
            (lambda x: loop(x, n)[0], lambda x: two_sided_jnp(x, n)),
            (lambda x: tuple(update(x, 0.4 * x)), lambda x: in_place_jnp(x, 0.4 * x)),
        ):
            got, expected = (jax.jit(third(loss_of(f)))(x) for f in (ours, theirs))
            assert np.allclose(got, expected, rtol=1e-9, atol=1e-10)
