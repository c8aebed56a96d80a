"""An older path to today's functions."""

from warp_like.interop.jaxffi import jax_kernel

__all__ = ["jax_kernel"]
