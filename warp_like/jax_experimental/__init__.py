"""Older names of the functions that make kernels callable from JAX; ``wp.jax_kernel`` is today's."""

from warp_like.interop.jaxffi.older import jax_kernel

__all__ = ["jax_kernel"]
