"""What a kernel computes when JAX calls it, and what is refused when JAX traces it."""

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from tests.interop.jaxffi.kernels import advance, lookup, matmul, rotate, scale, stencil, stencil_np, total  # noqa: E402
from tests.long_tail import crossed  # noqa: E402
from warp_like.compiler.pipeline import optimised  # noqa: E402
from warp_like.compiler.signature import Signature  # noqa: E402
from warp_like.interop.jaxffi import jax_kernel  # noqa: E402
from warp_like.interop.jaxffi.covering import elementwise_stores  # noqa: E402

jnp = jax.numpy


def arange(*shape):
    return jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit])
def test_elementwise(jit):
    f = jit(jax_kernel(scale))
    out = f(arange(5), 3.0)
    assert isinstance(out, list)
    assert np.array_equal(out[0], 3.0 * np.arange(5))


def test_more_threads_than_one_chunk():
    x = np.random.default_rng(0).random(2_000_003, dtype=np.float32)
    assert np.allclose(jax_kernel(stencil)(x)[0], stencil_np(x))


@wp.kernel
def add_rows(x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] += x[i, 0] * x[i, 1]


@pytest.mark.parametrize("dims, each", [(None, 1), (3, 1), ((3, 2), 2), ((3, 1, 50), 50)])
def test_threads_that_share_their_index(dims, each):
    f = jax_kernel(add_rows, launch_dims=dims, output_dims={"y": 3}, enable_backward=True)
    x = arange(3, 2)
    assert np.array_equal(f(x)[0], each * x[:, 0] * x[:, 1])
    assert np.array_equal(jax.grad(lambda x: f(x)[0].sum())(x), each * x[:, ::-1])
    many = jnp.stack([x, x + 1])
    assert np.array_equal(jax.vmap(lambda x: f(x)[0])(many), each * many[..., 0] * many[..., 1])
    (tangent,) = jax.jvp(lambda x: f(x)[0], (x,), (jnp.ones_like(x),))[1:]
    assert np.array_equal(tangent, each * x.sum(1))


def test_scalars_of_every_sort():
    f = jax_kernel(scale)
    x = arange(3)
    for a in (2, 2.0, np.float32(2), np.float64(2), np.array(2, np.float32), jnp.float32(2), jnp.array(2.0)):
        assert np.array_equal(f(x, a)[0], 2 * x)
    traced = jax.jit(lambda x, a: f(x, a)[0])
    assert np.array_equal(traced(x, 2.0), 2 * x)
    assert np.array_equal(traced(x, 2), 2 * x)  # a weakly typed integer
    assert np.array_equal(traced(x, jnp.float32(2)), 2 * x)
    with pytest.raises(TypeError, match="argument 2 `a`: expected float32, got a JAX array of dtype int32"):
        f(x, jnp.int32(2))
    with pytest.raises(TypeError, match="argument 2 `a`: expected float32"):
        f(x, jnp.ones(3))
    with pytest.raises(TypeError, match="argument 2 `a`: expected float32, got str 'two'"):
        f(x, "two")


def test_a_new_number_compiles_nothing():
    f = jax_kernel(scale)
    f(arange(3), 1.0)
    ((jitted, _),) = f._jitted.values()
    known = jitted._cache_size()
    for a in range(5):
        f(arange(3), float(a))
    assert [used for used, _ in f._jitted.values()] == [jitted]
    assert jitted._cache_size() == known


@wp.kernel
def wide_scalars(
    x: wp.array(dtype=float), a: wp.float64, n: wp.uint64, v: wp.vec2d, w: wp.vec3, flag: bool, y: wp.array(dtype=float)
):
    i = wp.tid()
    if flag:
        y[i] = float(a * wp.float64(1.0e12)) + float(n >> wp.uint64(60)) + float(v[1]) + w[2] + x[i]


def test_scalars_that_jax_has_no_type_for_keep_their_precision():
    args = (1e-12 + 1e-24, 2**63, wp.vec2d(1.0, 2.0), (1.0, 2.0, 4.0), True)
    (y,) = jax_kernel(wide_scalars)(jnp.zeros(2), *args)
    assert np.allclose(y, 1 + 8 + 2 + 4)
    w = jnp.array([0.0, 0.0, 4.0])
    (z,) = jax.jit(lambda w: jax_kernel(wide_scalars)(jnp.zeros(2), *args[:3], w, True))(w)
    assert np.allclose(z, y)


def test_vectors_and_matrices_are_trailing_dimensions():
    m, v = arange(4, 3, 3), arange(4, 3)
    w, n = jax.jit(jax_kernel(rotate, num_outputs=2))(m, v)
    assert np.allclose(w, np.einsum("nij,nj->ni", m, v))
    assert np.allclose(n, (v**2).sum(-1))


@wp.kernel
def odd_only(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i % 2 == 0:
        return
    y[i] = x[i]


@wp.kernel
def transposed(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[j, i] = x[i, j]


def test_launch_and_output_dims():
    a, b = arange(2, 3), arange(3, 4)
    for f, kwargs in (
        (jax_kernel(matmul, launch_dims=(2, 4)), {}),
        (jax_kernel(matmul), {"launch_dims": (2, 4)}),
        (jax_kernel(matmul), {"launch_dims": [2, 4], "output_dims": [2, 4]}),
        (jax_kernel(matmul, output_dims={"c": (2, 4)}), {"launch_dims": (2, 4)}),
    ):
        assert np.allclose(f(a, b, **kwargs)[0], a @ b)
    (y,) = jax_kernel(total, output_dims=1)(arange(4))
    assert y.shape == (1,)
    assert y[0] == 14


def test_what_is_not_written_is_zero():
    (y,) = jax_kernel(scale, launch_dims=2)(arange(6) + 1, 1.0, output_dims=6)
    assert np.array_equal(y, [1, 2, 0, 0, 0, 0])
    (y,) = jax_kernel(scale, launch_dims=2, zero_outputs=False)(arange(6) + 1, 1.0, output_dims=6)
    assert np.array_equal(y[:2], [1, 2])


def test_only_what_may_stay_unwritten_is_zeroed():
    def covered(kernel):
        types = tuple(t for _, t in kernel.parameters)
        names = kernel.parameter_names
        return {names[i] for i in elementwise_stores(optimised(kernel.source, Signature(types)))}

    assert covered(scale) == {"y"}
    assert covered(matmul) == {"c"}
    assert covered(rotate) == {"w", "n"}
    assert covered(total) == set()
    assert covered(advance) == {"old"}  # `x` is read as well
    assert covered(odd_only) == set()
    assert covered(transposed) == set()


def test_large_outputs_that_may_stay_unwritten_are_zeroed():
    n = 200_000
    (y,) = jax.jit(jax_kernel(odd_only))(arange(n) + 1)
    assert np.array_equal(y, np.where(np.arange(n) % 2, np.arange(n) + 1, 0))
    (y,) = jax.jit(jax_kernel(scale, launch_dims=n // 2, output_dims=n))(arange(n) + 1, 1.0)
    assert np.array_equal(y[: n // 2], np.arange(n // 2) + 1)
    assert not y[n // 2 :].any()
    (y,) = jax.jit(jax_kernel(scale))(arange(n), 2.0)
    assert np.array_equal(y, 2 * np.arange(n, dtype=np.float32))


@pytest.mark.parametrize("jit", [lambda f, **_: f, jax.jit])
def test_in_out_arguments_are_returned_and_the_callers_stay(jit):
    f = jit(jax_kernel(advance, num_outputs=2, in_out_argnames=["x"]))
    v, x = arange(4), arange(4) + 1
    new, old = f(v, x, 0.5)
    assert np.allclose(new, np.square(np.arange(4) + 1) + 0.5 * np.arange(4))
    assert np.array_equal(old, np.arange(4) + 1)
    assert np.array_equal(x, np.arange(4) + 1)


def test_a_donated_in_out_argument_is_changed_in_place():
    f = jax.jit(jax_kernel(advance, num_outputs=2, in_out_argnames=["x"]), donate_argnums=1)
    x = arange(1000) + 0
    at = x.unsafe_buffer_pointer()
    new, _ = f(arange(1000), x, 0.0)
    assert x.is_deleted()
    assert new.unsafe_buffer_pointer() == at
    assert np.array_equal(new, np.arange(1000, dtype=np.float32) ** 2)


def test_empty_and_single_elements():
    f = jax_kernel(scale)
    assert f(jnp.zeros(0), 2.0)[0].shape == (0,)
    assert f(jnp.float32(3), 2.0)[0].tolist() == [6]  # a 0-d array is an array of one element
    empty = jax.jit(lambda x: f(x, 2.0)[0])(jnp.zeros(0))
    assert empty.shape == (0,)


@pytest.mark.parametrize(
    "dtype",
    crossed(["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32"], every=2),
)
def test_every_dtype(dtype):
    element = getattr(wp, dtype)

    @wp.kernel
    def flip(x: wp.array(dtype=element), y: wp.array(dtype=element)):
        i = wp.tid()
        y[i] = x[x.shape[0] - 1 - i]

    x = jnp.array([0, 1, 1, 0, 0]).astype(dtype)
    (y,) = jax.jit(jax_kernel(flip))(x)
    assert y.dtype == x.dtype
    assert bool((y == x[::-1]).all())


def test_sixty_four_bits():
    @wp.kernel
    def double(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
        i = wp.tid()
        y[i] = x[i] * wp.float64(2.0)

    f = jax_kernel(double)
    with pytest.raises(TypeError, match="expected array1d.float64., got a JAX array of dtype float32"):
        f(jnp.ones(2))
    enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable_x64(True):
        (y,) = f(jnp.array([1 / 3, 2 / 3], jnp.float64))
        assert y.dtype == jnp.float64
        assert y[1] == 4 / 3


def test_denormal_numbers_are_not_flushed():
    tiny = np.float32(1e-40)
    (y,) = jax_kernel(scale)(np.full(3, tiny), 1.0)
    assert np.asarray(y)[1] == tiny


@wp.struct
class Inner:
    scale: float
    shift: wp.vec2


@wp.struct
class Outer:
    n: int
    inner: Inner
    x: wp.array(dtype=wp.vec2)


@wp.kernel
def takes_struct(s: Outer, a: float, y: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    y[i] = a * (s.inner.scale * s.x[i] + float(s.n) * s.inner.shift)


@wp.kernel
def array_of_structs(bodies: wp.array(dtype=Inner), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = bodies[i].scale


@wp.kernel
def indexed(x: wp.indexedarray(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


def test_structs_as_dicts_and_as_instances():
    f = jax_kernel(takes_struct, enable_backward=True)
    x = arange(4, 2)

    def plain(s, a):
        return a * (s["inner"]["scale"] * s["x"] + s["n"] * s["inner"]["shift"])

    given = {"n": 3, "inner": {"scale": 0.5, "shift": jnp.array([1.0, 2.0])}, "x": x}
    for call in (f, jax.jit(f)):
        assert np.allclose(call(given, 2.0)[0], plain(given, 2.0))
    floats = {"inner": given["inner"], "x": x}
    ours = jax.grad(lambda s: jnp.sin(f({"n": 3, **s}, 2.0)[0]).sum())(floats)
    theirs = jax.grad(lambda s: jnp.sin(plain({"n": 3, **s}, 2.0)).sum())(floats)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-5)

    @wp.kernel
    def numbers(s: Inner, x: wp.array(dtype=wp.vec2), y: wp.array(dtype=wp.vec2)):
        i = wp.tid()
        y[i] = s.scale * x[i] + s.shift

    s = Inner()
    s.scale = 3.0
    s.shift = wp.vec2(1.0, -1.0)
    assert np.allclose(jax_kernel(numbers)(s, x)[0], 3 * x + np.array([1, -1]))
    with pytest.raises(
        TypeError, match=re.escape("argument 1 `s`: expected struct Inner or a dict of its fields, got float")
    ):
        jax_kernel(numbers)(3.0, x)
    with pytest.raises(TypeError, match="argument 1 `s`: struct Inner has the fields scale, shift, got scale"):
        jax_kernel(numbers)({"scale": 3.0}, x)
    with pytest.raises(TypeError, match=re.escape("`s.scale`: expected float32, got str")):
        jax_kernel(numbers)({"scale": "x", "shift": (1.0, 2.0)}, x)


def test_refusals():
    f = jax_kernel(scale)
    cases = [
        (lambda: f(arange(2, 2), 1.0), TypeError, "argument 1 `x`: expected array1d[float32], got a JAX array"),
        (lambda: f(jnp.arange(3), 1.0), TypeError, "got a JAX array of dtype int32 and shape (3,)"),
        (lambda: f([1.0, 2.0], 1.0), TypeError, "got list, and not a JAX or NumPy array"),
        (lambda: f(jax.random.key(0), 1.0), TypeError, "argument 1 `x`"),
        (lambda: f(arange(3)), ValueError, "takes 2 arguments (x, a), got 1"),
        (lambda: f(arange(3), 1.0, output_dims=(2, 2)), ValueError, "output_dims gives it the shape (2, 2)"),
        (lambda: f(arange(3), 1.0, launch_dims=(2, 2)), ValueError, "the grid gives it the shape (2, 2)"),
        (lambda: f(arange(3), 1.0, output_dims={"z": 3}), ValueError, "names `z`, which is no output"),
        (lambda: f(arange(3), 1.0, vmap_method="magic"), ValueError, "vmap_method is one of"),
        (lambda: f(arange(3), 1.0, launch_dims=-1), ValueError, "can't be negative"),
        (lambda: jax_kernel(rotate, num_outputs=2)(arange(4, 3), arange(4, 3)), TypeError, "expected array1d[mat3x3"),
        (lambda: jax_kernel(scale, num_outputs=0), ValueError, "num_outputs"),
        (lambda: jax_kernel(scale, num_outputs=2), TypeError, "the output `a` has to be annotated as an array"),
        (lambda: jax_kernel(scale, in_out_argnames=["q"]), ValueError, "names `q`, which is no argument"),
        (
            lambda: jax_kernel(advance, num_outputs=3, in_out_argnames=["x", "x"]),
            ValueError,
            "in_out_argnames names an argument twice: x, x",
        ),
        (
            lambda: jax_kernel(array_of_structs),
            TypeError,
            "the parameter `bodies` is an array of structs, which JAX does not have; take an array for each field",
        ),
        (lambda: jax_kernel(takes_struct, num_outputs=3), TypeError, "the output `s` has to be annotated as an array"),
        (lambda: jax_kernel(indexed)(arange(3)), TypeError, "argument 1 `x`: JAX has no indexed arrays"),
        (lambda: jax_kernel(stencil_np), TypeError, "takes a kernel made by @wp.kernel, got function"),
        (lambda: jax_kernel(advance)(arange(3), arange(3), 0.1), ValueError, 'in_out_argnames=["x"]'),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=re.escape(text)):
            call()


def test_an_error_in_the_kernel_is_reported():
    @wp.kernel
    def shift(x: wp.array(dtype=int), y: wp.array(dtype=int)):
        i = wp.tid()
        y[i] = x[i + 1]

    mode = wp.config.mode
    f = jax_kernel(shift, launch_dims=2)
    assert f(jnp.arange(3))[0].tolist() == [1, 2]
    wp.config.mode = "debug"
    try:
        assert f(jnp.arange(3))[0].tolist() == [1, 2]
        with pytest.raises(jax.errors.JaxRuntimeError, match="kernel `shift`: index . is out of range for array `x`"):
            jax.block_until_ready(jax.jit(jax_kernel(shift))(jnp.arange(3)))
    finally:
        wp.config.mode = mode
    assert f(jnp.arange(3))[0].tolist() == [1, 2]


def test_a_time_limit_ends_a_call():
    @wp.kernel
    def wait(x: wp.array(dtype=float), limit: float, y: wp.array(dtype=float)):
        i = wp.tid()
        v = x[i]
        while v < limit:
            v = v * 1.0
        y[i] = v

    f = jax.jit(jax_kernel(wait), static_argnums=1)
    wp.config.launch_timeout = 0.1
    try:
        for n in (1, 10_000):
            message = "DEADLINE_EXCEEDED.*kernel `wait`: the launch took longer than"
            with pytest.raises(jax.errors.JaxRuntimeError, match=message):
                jax.block_until_ready(f(jnp.ones(n), 2.0))
            assert f(jnp.ones(n), 0.5)[0].tolist() == [1.0] * n
    finally:
        del wp.config.launch_timeout


def test_types_left_open_are_inferred():
    from typing import Any

    @wp.kernel
    def gather(x: Any, index: wp.array(dtype=int), k: Any, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = float(x[index[i]] * k)

    assert jax_kernel(gather)(jnp.arange(5), jnp.array([4, 0]), 2, launch_dims=2)[0].tolist() == [8, 0]
    assert jax_kernel(gather)(arange(5), jnp.array([4, 0]), 2.0, launch_dims=2)[0].tolist() == [8, 0]


def test_results_of_lookup_are_right_in_threads():
    from concurrent.futures import ThreadPoolExecutor

    f = jax.jit(lambda t, i: jax_kernel(lookup)(t, i, launch_dims=i.shape)[0])
    table = arange(100)

    def one(seed):
        index = np.random.default_rng(seed).integers(0, 100, 20_000).astype(np.int32)
        return np.array_equal(f(table, index), (index.astype(np.float32)) ** 2)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(40)))


def test_the_older_form_returns_what_the_call_leaves_out():
    from warp_like.jax_experimental import ffi
    from warp_like.jax_experimental import jax_kernel as older

    assert ffi.jax_kernel is jax_kernel
    m, v = arange(4, 3, 3), arange(4, 3)
    w, n = jax.jit(older(rotate, quiet=True))(m, v)
    assert np.allclose(w, np.einsum("nij,nj->ni", m, v))
    assert np.allclose(n, (v**2).sum(-1))
    (c,) = older(matmul, launch_dims=(2, 4))(arange(2, 3), arange(3, 4))
    assert np.allclose(c, arange(2, 3) @ arange(3, 4))
    with pytest.raises(ValueError, match="of which the last are outputs and not given; got 3"):
        older(scale)(arange(3), 2.0, arange(3))


def test_the_same_choices_give_the_same_function():
    f = jax_kernel(scale, output_dims=[4])
    assert f is jax_kernel(scale, 1, output_dims=(4,))
    assert f is not jax_kernel(scale)
    assert f is not jax_kernel(scale, output_dims=4)
    assert jax_kernel(scale, block_dim=np.int64(64)) is jax_kernel(scale, block_dim=64)


def test_the_shape_of_outputs():
    @wp.kernel
    def planes(x: wp.array3d(dtype=float), y: wp.array3d(dtype=float), v: wp.array(dtype=wp.vec2)):
        i, j = wp.tid()
        for k in range(x.shape[0]):
            y[k, i, j] = 2.0 * x[k, i, j]
        v[i] = wp.vec2(float(i), float(j))

    x = arange(2, 3, 4)
    for dims in (3, (3,), (3, 2), [3, 2]):
        y, v = jax_kernel(planes, num_outputs=2, launch_dims=(3, 4), output_dims={"v": dims})(x)
        assert np.array_equal(y, 2 * x)
        assert v.shape == (3, 2)
    with pytest.raises(ValueError, match=r"output `v` is an array1d\[vec2\[float32\]\], and output_dims gives it"):
        jax_kernel(planes, num_outputs=2, launch_dims=(3, 4), output_dims={"v": (3, 3)})(x)


@wp.kernel
def row_norms(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float), norms: wp.array(dtype=float)):
    i = wp.tid()
    s = 0.0
    for j in range(x.shape[1]):
        s += x[i, j] * x[i, j]
    for j in range(x.shape[1]):
        y[i, j] = x[i, j] / wp.sqrt(s)
    norms[i] = wp.sqrt(s)


def test_the_grid_has_as_many_dimensions_as_indices_are_asked_for():
    """The rule of ``wp.torch_op``: the first dimensions of the first array argument."""
    x = arange(30, 40) + 1.0
    y, norms = jax.jit(jax_kernel(row_norms, num_outputs=2))(x)
    expected = np.linalg.norm(np.asarray(x, np.float64), axis=1)
    assert norms.shape == (30,)
    np.testing.assert_allclose(norms, expected, rtol=1e-5)
    np.testing.assert_allclose(y, np.asarray(x) / expected[:, None], rtol=1e-5)


def test_a_grid_that_does_not_fit_the_arrays():
    f = jax_kernel(row_norms, num_outputs=2, output_dims={"y": (30, 40), "norms": 30})
    words = r"argument 3 `norms`: index 30 is out of range for an array of shape \(30,\): every thread of the grid"
    with pytest.raises(IndexError, match=words):
        f(arange(30, 40), launch_dims=(31, 40))
    with pytest.raises(IndexError, match=words):
        jax.jit(jax.vmap(lambda x: f(x, launch_dims=(31, 40))))(arange(2, 30, 40))
    assert np.array_equal(f(arange(30, 40), launch_dims=(30, 40))[1], f(arange(30, 40), launch_dims=30)[1])


@wp.kernel
def product(x: wp.array(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * w[i]


def test_arguments_that_do_not_fit_together():
    f = jax_kernel(product, enable_backward=True)
    x, w = arange(4, 3), arange(4, 2)
    words = r"argument 2 `w`: index 2 is out of range for an array of shape \(2,\)"
    calls = [
        lambda: f(x[0], w[0]),
        lambda: jax.jit(f)(x[0], w[0]),
        lambda: jax.vmap(f)(x, w),
        lambda: jax.grad(lambda x: f(x, w[0])[0].sum())(x[0]),
        lambda: jax.jvp(lambda x: f(x, w[0])[0], (x[0],), (x[0],)),
    ]
    for call in calls:
        with pytest.raises(IndexError, match=words):
            call()
    assert np.array_equal(f(x[1], x[2])[0], x[1] * x[2])


def test_launches_of_a_callable_that_do_not_fit():
    def twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        half = wp.zeros(2, dtype=float)
        wp.launch(product, dim=x.shape, inputs=[x, x], outputs=[half])
        wp.launch(product, dim=x.shape, inputs=[half, x], outputs=[y])

    with pytest.raises(IndexError, match=r"argument 3 `y`: index 2 is out of range for an array of shape \(2,\)"):
        wp.jax_callable(twice)(arange(3))
