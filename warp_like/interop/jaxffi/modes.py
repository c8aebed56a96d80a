"""Names that Warp's programs give to ``jax_kernel`` and ``jax_callable``, and that change nothing here.

Each launch is a call of its own in JAX's program, whose graphs are XLA's affair; its code is compiled when JAX traces
it.
"""

import enum
from collections.abc import Sequence
from typing import Any


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


def clear_jax_callable_graph_cache(callable: Any = None) -> None:
    """Do nothing: graphs are XLA's affair. Called by programs written for Warp."""


def require_known(
    parameters: Sequence[str], graph_mode: Any, preload_mode: Any, stage_in: Sequence[str], stage_out: Sequence[str]
) -> None:
    """Refuse what Warp's programs would not say either.

    Raises:
        ValueError: A mode is none, or a name is that of no parameter.
    """
    for cls, mode in ((JaxCallableGraphMode, graph_mode), (JaxModulePreloadMode, preload_mode)):
        if mode is not None:
            cls(mode)
    for what, names in (("stage_in_argnames", stage_in), ("stage_out_argnames", stage_out)):
        for name in names:
            if name not in parameters:
                raise ValueError(f"{what} names `{name}`, which is no parameter; they are {', '.join(parameters)}")
