"""JAX: arrays are immutable there, so ours over them are read-only."""

import gc
import os
import weakref

import numpy as np
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")

import warp_like as wp  # noqa: E402
from warp_like.interop.view import as_array  # noqa: E402

jnp = jax.numpy


def test_jax_array_is_shared_and_read_only():
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    for w in (wp.from_jax(x), as_array(x), wp.from_dlpack(x)):
        assert w.ptr == x.unsafe_buffer_pointer()
        assert w.readonly
        assert np.array_equal(w.numpy(), x)
        with pytest.raises(ValueError, match="read-only"):
            w.zero_()
    assert wp.from_jax(x, dtype=wp.vec3).shape == (2,)
    with pytest.raises(TypeError, match="needs a JAX array"):
        wp.from_jax(np.zeros(3))


def test_pending_work_is_waited_for():
    x = jnp.ones((400, 400))
    for _ in range(5):
        x = x @ x / 400
    assert (wp.from_jax(x).numpy() == 1).all()


@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint8", "int16", "uint32", "int32", "float16", "bfloat16", "float32"]
)
def test_every_dtype_both_ways(name):
    x = jnp.ones(3, dtype=name)
    w = wp.from_jax(x)
    assert w.list() == [1, 1, 1]
    assert w.dtype is getattr(wp, name)
    assert wp.dtype_from_jax(x.dtype) is w.dtype
    assert jnp.dtype(wp.dtype_to_jax(w.dtype)) == x.dtype
    back = wp.to_jax(w)
    assert back.dtype == x.dtype
    assert bool((back == x).all())


def test_to_jax_shares_our_aligned_memory():
    w = wp.full((4, 4), 3.0)
    x = wp.to_jax(w)
    assert x.unsafe_buffer_pointer() == w.ptr
    assert x.sum() == 48
    del w
    assert x.sum() == 48
    w = wp.array([1.0, 2.0, 3.0], dtype=float)
    assert wp.to_jax(w[::-1]).tolist() == [3, 2, 1]  # a copy: JAX knows no gaps and no negative strides


def test_devices():
    assert wp.device_from_jax(jax.devices("cpu")[0]) is wp.get_device("cpu")
    assert wp.device_to_jax("cpu") == jax.devices("cpu")[0]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint32", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(1,), (0,), (5,), (4, 3), (2, 3, 4, 5), ()])
def test_arrays_of_every_dtype_and_shape_are_shared(dtype, shape):
    x = jnp.ones(shape, dtype)
    a = wp.from_jax(x)
    assert a.readonly
    assert a.shape == (shape or (1,))
    assert a.dtype is wp.dtype_from_jax(x.dtype)
    if x.size:
        assert a.ptr == x.unsafe_buffer_pointer()
        assert {float(v) for v in np.ravel(a._values())} == {1.0}


def test_components_of_vectors_come_from_the_last_dimension():
    x = jnp.arange(12.0).reshape(4, 3)
    a = wp.from_jax(x, dtype=wp.vec3)
    assert (a.shape, a.ptr) == ((4,), x.unsafe_buffer_pointer())
    with pytest.raises(ValueError, match="expected trailing dimensions"):
        wp.from_jax(x, dtype=wp.vec2)
    with pytest.raises(TypeError, match="expected elements of int32, got a JAX array of float32"):
        wp.from_jax(x, dtype=int)


def test_the_memory_of_a_deleted_array_stays():
    x = jnp.arange(1000.0)
    a = wp.from_jax(x)
    expected = np.arange(1000.0, dtype=np.float32)
    del x
    gc.collect()
    np.testing.assert_array_equal(a.numpy(), expected)
    y = jnp.arange(10.0)
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        wp.from_jax(y)


def test_donating_an_array_that_is_shared_leaves_its_memory():
    x = jnp.arange(1000.0)
    a = wp.from_jax(x)
    step = jax.jit(lambda v: v + 1.0, donate_argnums=0)
    y = step(x)
    np.testing.assert_array_equal(np.asarray(y), np.arange(1000.0) + 1.0)
    np.testing.assert_array_equal(a.numpy(), np.arange(1000.0))


@pytest.mark.parametrize("t", [wp.bool, wp.int8, wp.uint8, wp.int32, wp.uint32, wp.float16, wp.bfloat16, wp.float32])
def test_the_short_way_gives_what_from_dlpack_does(t):
    from warp_like.interop.jax import _importer

    if _importer() is None and jax.__version_info__ < (0, 7):
        pytest.skip("this jaxlib has no such function under this name")
    assert _importer() is not None, "jaxlib has changed: to_jax() takes three times as long"
    w = wp.array(np.eye(4), dtype=t)
    x, y = wp.to_jax(w), jax.dlpack.from_dlpack(w)
    assert type(x) is type(y)
    assert (x.dtype, x.shape, x.sharding, x.committed) == (y.dtype, y.shape, y.sharding, y.committed)
    assert not x.weak_type
    assert x.unsafe_buffer_pointer() == y.unsafe_buffer_pointer() == w.ptr
    assert jax.jit(lambda v: v + v)(x).tolist() == jax.jit(lambda v: v + v)(y).tolist()
    inside = jax.jit(lambda v: v + wp.to_jax(w))(x)
    assert inside.tolist() == (x + y).tolist()


@pytest.mark.parametrize("copy", [1, "yes", 0])
def test_copy_is_none_true_or_false(copy):
    with pytest.raises(TypeError, match="copy is None, True or False"):
        wp.ones(4).to_jax(copy=copy)


def test_what_the_short_way_does_not_take():
    halves = wp.array(np.arange(40.0), dtype=float)
    for w in (halves[1:], halves[::2], halves[:0], wp.zeros(3, dtype=wp.float64), wp.zeros((3, 4), dtype=wp.vec3)[1:]):
        assert np.array_equal(np.asarray(wp.to_jax(w)), w.numpy())
    with pytest.raises(TypeError, match="needs a warp_like array"):
        wp.to_jax(np.zeros(3))


def test_jax_arrays_keep_the_memory_and_give_it_back():
    w = wp.full(1000, 3.0)
    gone = weakref.ref(w.owner)
    x = wp.to_jax(w)
    del w
    gc.collect()
    assert x.sum() == 3000
    assert gone() is not None
    del x
    gc.collect()
    wp.to_jax(wp.zeros(1))
    gc.collect()
    assert gone() is None


def test_devices_of_other_processes():
    here = jax.devices("cpu")[0]
    assert wp.device_to_jax("cpu") is here

    class Elsewhere:
        platform, id, process_index, local_hardware_id = "cpu", 9, here.process_index + 1, None

        def __repr__(self):
            return "CpuDevice(id=9)"

    with pytest.raises(RuntimeError, match=r"CpuDevice\(id=9\) belongs to process 1 of a JAX program of several"):
        wp.device_from_jax(Elsewhere())
