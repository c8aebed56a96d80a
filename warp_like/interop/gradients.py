"""Foreign arrays as launches and tapes see them: with their gradient, where their library keeps one.

Libraries that watch for writes in place (PyTorch and Paddle save tensors for their backward passes) are told of ours.
"""

from __future__ import annotations

import sys
from typing import Any

from warp_like import _native
from warp_like.interop import paddle, torch, view
from warp_like.interop.paddle import from_paddle
from warp_like.interop.torch import from_torch
from warp_like.runtime.array import array

_WITH_GRADIENTS = {"torch": from_torch, "paddle": from_paddle}
_WRITE_HOOKS = {"torch": torch.write_hook, "paddle": paddle.write_hook}


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


def meet_class(cls: type) -> None:
    """Prepare for a class of tensors, before its first tensor is used: launches will tell it of their writes."""
    for name, hook in _WRITE_HOOKS.items():
        framework = sys.modules.get(name)
        if framework is not None and issubclass(cls, framework.Tensor):
            _native.set_write_hook(framework.Tensor, hook())


def before_write(owner: Any) -> None:
    """Tell the library of a tensor that the host is about to write to its memory."""
    for name, hook in _WRITE_HOOKS.items():
        framework = sys.modules.get(name)
        if framework is not None and isinstance(owner, framework.Tensor):
            hook()((owner,))
