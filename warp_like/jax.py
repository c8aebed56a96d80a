"""The older place of the functions for JAX; they are those of ``warp_like`` itself."""

from warp_like.interop.jax import (
    device_from_jax,
    device_to_jax,
    dtype_from_jax,
    dtype_to_jax,
    from_jax,
    to_jax,
)
from warp_like.interop.jaxffi import jax_callable, jax_kernel

__all__ = [
    "device_from_jax",
    "device_to_jax",
    "dtype_from_jax",
    "dtype_to_jax",
    "from_jax",
    "jax_callable",
    "jax_kernel",
    "to_jax",
]
