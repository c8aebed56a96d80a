"""The older place of what makes kernels callable from JAX; ``wp.jax_kernel`` is today's.

``jax_kernel`` here takes its outputs to be the parameters that a call leaves out; that of ``ffi`` is the newer one.
"""

from warp_like.interop.jaxffi.older import jax_kernel
from warp_like.jax_experimental import ffi

__all__ = ["ffi", "jax_kernel"]
