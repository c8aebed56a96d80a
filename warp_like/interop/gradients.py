"""Foreign arrays as launches and tapes see them: with their gradient, where their library keeps one.

Libraries that watch for writes in place (PyTorch and Paddle save tensors for their backward passes) are told of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from warp_like import _native
from warp_like.interop import versions, view
from warp_like.runtime.arrays.array import array


def _converter(obj: Any) -> Callable[..., array] | None:
    """What makes an array with a gradient of ``obj``; None where it is no tensor of a library that has gradients."""
    if _is_tensor(obj, "torch"):
        from warp_like.interop.torch import from_torch

        return from_torch
    if _is_tensor(obj, "paddle"):
        from warp_like.interop.paddle import from_paddle

        return from_paddle
    return None


def _is_tensor(obj: Any, library: str) -> bool:
    framework = sys.modules.get(library)
    return framework is not None and isinstance(obj, framework.Tensor)


def as_array(obj: Any, dtype: Any = None, gradients: bool = False) -> array:
    """Return an array over the memory of ``obj``; with ``gradients`` a tensor's gradient is shared as well.

    This is what the runtime calls for all that is no ``array``; see ``view.as_array`` for what it raises.
    """
    if gradients:
        convert = _converter(obj)
        if convert is not None:
            return convert(obj, dtype)
    return view.as_array(obj, dtype)


def meet_class(cls: type) -> None:
    """Prepare for a class of tensors, before its first tensor is used: launches will tell it of their writes."""
    for library in _WATCHING:
        framework = sys.modules.get(library)
        if framework is not None and issubclass(cls, framework.Tensor):
            _native.set_write_hook(framework.Tensor, _write_hook(library), library == "torch")
            versions.set_stream_hook(cls)


def before_write(owner: Any) -> None:
    """Tell the library of a tensor that the host is about to write to its memory."""
    for library in _WATCHING:
        if _is_tensor(owner, library):
            _write_hook(library)((owner,))


def is_guarded(obj: Any) -> bool:
    """Return whether ``obj`` is a leaf that requires a gradient while gradients are recorded.

    PyTorch and Paddle refuse to change such a tensor in place: the change would be no part of any gradient.
    """
    library = next((name for name in _WATCHING if _is_tensor(obj, name)), None)
    if library is None or not obj.is_leaf:
        return False
    wants = obj.requires_grad if library == "torch" else not obj.stop_gradient
    return bool(wants and sys.modules[library].is_grad_enabled())


_WATCHING = ("torch", "paddle")


def _write_hook(library: str) -> Callable[[tuple[Any, ...]], object]:
    if library == "torch":
        from warp_like.interop import torch

        return torch.write_hook()
    from warp_like.interop import paddle

    return paddle.write_hook()
