"""Kernels as JAX operations, through one native XLA custom call.

A JAX program holds, at each call of a kernel, the hash of the compiled code and all that is known when JAX traces it;
``native/xla_ffi.h`` says how. Nothing of Python runs in the call itself.
"""

from warp_like.interop.jaxffi.callable import JaxCallable, jax_callable
from warp_like.interop.jaxffi.kernel import JaxKernel, jax_kernel
from warp_like.interop.jaxffi.modes import JaxCallableGraphMode, JaxModulePreloadMode

__all__ = ["JaxCallable", "JaxCallableGraphMode", "JaxKernel", "JaxModulePreloadMode", "jax_callable", "jax_kernel"]
