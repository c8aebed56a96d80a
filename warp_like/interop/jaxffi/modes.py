"""How calls are prepared for CUDA devices. The CPU has no graphs, and compiles kernels when JAX traces them."""

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
