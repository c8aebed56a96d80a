"""The older place of ``wp.jax_kernel`` and ``wp.jax_callable``, and the older name of ``wp.JaxCallableGraphMode``."""

from warp_like.interop.jaxffi import JaxCallableGraphMode as GraphMode
from warp_like.interop.jaxffi import jax_callable, jax_kernel

__all__ = ["GraphMode", "jax_callable", "jax_kernel"]
