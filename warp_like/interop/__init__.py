"""Arrays of other libraries, in and out. No framework is imported before the user uses it, nor our own part for it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from warp_like import _native
from warp_like.runtime.arrays import interop_hooks

NAMES: dict[str, str] = {
    name: f"warp_like.interop.{module}"
    for module, names in {
        "dlpack": "from_dlpack to_dlpack",
        "jax": "device_from_jax device_to_jax dtype_from_jax dtype_to_jax from_jax to_jax",
        "numpy": "dtype_from_numpy dtype_to_numpy from_numpy",
        "paddle": "device_from_paddle device_to_paddle dtype_from_paddle dtype_to_paddle from_paddle to_paddle",
        "streams": "stream_from_paddle stream_from_torch stream_to_torch",
        "torch": "device_from_torch device_to_torch dtype_from_torch dtype_to_torch from_torch to_torch",
    }.items()
    for name in names.split()
}
"""The public names of this floor and the modules that hold them, which are imported when first used."""


def _as_array(obj: Any, dtype: Any = None, gradients: bool = False) -> Any:
    return _installed().as_array(obj, dtype, gradients)


def _before_write(owner: Any) -> None:
    _installed().before_write(owner)


def _is_guarded(obj: Any) -> bool:
    return bool(_installed().is_guarded(obj))


def _meet_class(cls: type) -> None:
    _installed().meet_class(cls)


def _installed() -> Any:
    """Put the real functions in the place of those above, now that the first foreign object has come."""
    from warp_like.interop import gradients

    interop_hooks.register(gradients.as_array, gradients.before_write, gradients.is_guarded)
    _native.set_class_hook(gradients.meet_class)
    return gradients


def _loaded(table: dict[str, Any], library: str, name: str) -> Callable[..., Any]:
    """Put the real function in its place in the table at the first call."""

    def call(*args: Any) -> Any:
        table[library] = getattr(importlib.import_module(f"warp_like.interop.{library}"), name)
        return table[library](*args)

    return call


interop_hooks.register(_as_array, _before_write, _is_guarded)
for _library in ("torch", "jax", "paddle"):
    interop_hooks.exporters[_library] = _loaded(interop_hooks.exporters, _library, f"export_{_library}")
interop_hooks.readers["torch"] = _loaded(interop_hooks.readers, "torch", "on_host")
_native.set_class_hook(_meet_class)
