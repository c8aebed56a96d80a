"""Tensors of PyTorch before 2.10, which has no DLPack exchange API, described for native code by their methods."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_COMPLEX = {"complex32": 32, "complex64": 64, "complex128": 128}


def reader(torch: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return what ``_native.set_tensor_reader`` needs for tensors of ``torch``, the module.

    The function raises RuntimeError for a tensor without memory, and TypeError for one without strides, or with a dtype
    or on a device that DLPack has no number for.
    """
    codes = _codes(torch)

    def read(t: Any) -> tuple[Any, ...]:
        if is_fake(t):
            raise RuntimeError("it is a fake tensor, which has no memory")
        if t.layout is not torch.strided:
            raise TypeError(f"its layout is {t.layout}, and only tensors with strides can be shared")
        if t.device.type not in ("cpu", "cuda"):
            raise TypeError(f"it lies on {t.device}")
        if t.dtype not in codes:
            raise TypeError(f"its dtype {t.dtype} has no counterpart")
        device = (1, 0) if t.device.type == "cpu" else (2, t.device.index)
        return t.data_ptr(), tuple(t.shape), t.stride(), codes[t.dtype], device

    return read


def _codes(torch: Any) -> dict[Any, tuple[int, int]]:
    """DLPack's code and number of bits, by dtype."""
    found = {getattr(torch, name): (5, bits) for name, bits in _COMPLEX.items()}
    found |= {torch.bfloat16: (4, 16), torch.bool: (6, 8)}
    for code, kind in enumerate(("int", "uint", "float")):
        for bits in (8, 16, 32, 64):
            dtype = getattr(torch, f"{kind}{bits}", None)
            if dtype is not None:
                found[dtype] = (code, bits)
    return found


def is_fake(obj: Any) -> bool:
    """Whether ``obj`` is what PyTorch traces programs with: a tensor with a shape and no memory."""
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    return fakes is not None and isinstance(obj, fakes.FakeTensor)


def current_stream(ordinal: int) -> int:
    """Return the stream that PyTorch works on, which the exchange API would tell."""
    stream: int = sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream
    return stream
