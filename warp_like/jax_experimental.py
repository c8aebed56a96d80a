"""The older names of what makes kernels callable from JAX; ``wp.jax_kernel`` is today's.

``jax_kernel`` here takes its outputs to be the parameters that a call leaves out; ``ffi.jax_kernel`` is the newer one.
"""

from warp_like.interop import jaxffi as ffi
from warp_like.interop.jaxffi.older import jax_kernel

__all__ = ["ffi", "jax_kernel"]
