"""Foreign arrays as launches and tapes see them: with their gradient, where their library keeps one."""

from __future__ import annotations

import sys
from typing import Any

from warp_like.interop import view
from warp_like.interop.paddle import from_paddle
from warp_like.interop.torch import from_torch
from warp_like.runtime.array import array

_WITH_GRADIENTS = {"torch": from_torch, "paddle": from_paddle}


def as_array(obj: Any, dtype: Any = None, gradients: bool = False) -> array:
    """Return an array over the memory of ``obj``; with ``gradients`` a tensor's gradient is shared as well.

    This is what the runtime calls for all that is no ``array``; see ``view.as_array`` for what it raises.
    """
    if gradients:
        for name, convert in _WITH_GRADIENTS.items():
            framework = sys.modules.get(name)
            if framework is not None and isinstance(obj, framework.Tensor):
                return convert(obj, dtype)
    return view.as_array(obj, dtype)
