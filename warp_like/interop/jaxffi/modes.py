"""Names that Warp's programs give to ``jax_kernel`` and ``jax_callable``, and that change nothing here.

Each launch is a call of its own in JAX's program, whose graphs are XLA's affair; its code is compiled when JAX traces
it.
"""

import enum


class JaxCallableGraphMode(enum.IntEnum):
    """Who puts the launches of a ``jax_callable`` into a CUDA graph."""

    NONE = 0
    JAX = 1
    WARP = 2
    WARP_STAGED = 3
    WARP_STAGED_EX = 4


class JaxModulePreloadMode(enum.IntEnum):
    """On which CUDA devices kernels are loaded ahead of the first call."""

    NONE = 0
    CURRENT_DEVICE = 1
    ALL_DEVICES = 2
