"""JAX: arrays are immutable there, so ours over them are read-only."""

import os

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
