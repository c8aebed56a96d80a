"""Operations that methods of arrays run although they launch kernels: ``runtime/operations`` registers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from warp_like.base.provider import Provider


class Operations(Protocol):
    """What arrays need of ``runtime/operations/mapping.py``."""

    def map(self, func: Callable[..., Any], /, *inputs: Any, out: Any = None, device: Any = None) -> Any:
        """Apply a function to the elements of arrays; see ``wp.map``."""


operations: Provider[Operations] = Provider("operations on whole arrays")
