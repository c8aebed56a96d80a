"""Which versions of other libraries can be used, and what is done for those without DLPack's C exchange API.

PyTorch has that API since 2.10, and so has Paddle. Native code finds it by itself, so nothing here runs at a launch on
tensors that have it. Tensors without it are unknown to native code: the first one comes to ``require_readable``, which
lets a function in Python read them or refuses them.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

from warp_like import _native

OLDEST = {"torch": (2, 6), "jax": (0, 6, 2), "paddle": (3, 3, 1)}
"""The oldest versions that are supported, by the name of the module; docs/versions.md says why and what was tested."""

_PACKAGES = {"torch": "torch", "jax": "jax", "paddle": "paddlepaddle"}
_API = "__dlpack_c_exchange_api__"


def require_version(module: Any) -> None:
    """Refuse versions that are too old.

    Raises:
        ImportError: ``module``, which is a key of ``OLDEST``, has such a version.
    """
    name, found = module.__name__, str(module.__version__)
    release = re.match(r"\d+(\.\d+)*", found)
    version = tuple(map(int, release[0].split("."))) if release else ()
    if any(version) and version < OLDEST[name]:  # own builds of Paddle say 0.0.0
        oldest = ".".join(map(str, OLDEST[name]))
        package = _PACKAGES[name]
        raise ImportError(
            f"{package} {found} is too old to be used with warp_like; install {package} {oldest} or later: "
            f'pip install "{package}>={oldest}"'
        )


@functools.cache
def require_readable(module: Any) -> None:
    """See to it that native code can read the tensors of ``module``, which is PyTorch or Paddle.

    Raises:
        ImportError: Its version is too old.
    """
    if not hasattr(module.Tensor, _API) or module.__name__ == "paddle":
        require_version(module)
    if hasattr(module.Tensor, _API):
        return
    if module.__name__ != "torch":
        raise ImportError(f"this build of Paddle ({module.__version__}) has no DLPack exchange API, which is needed")
    from warp_like.interop.torch_reader import reader

    _native.set_tensor_reader(module.Tensor, reader(module), module.utils.dlpack.from_dlpack)


def is_readable(obj: Any) -> bool:
    """Return whether native code can read ``obj`` after all, which it did not know: a tensor of an older version.

    Raises:
        ImportError: The version is too old.
    """
    for name in ("torch", "paddle"):
        module = sys.modules.get(name)
        if module is not None and isinstance(obj, module.Tensor):
            require_readable(module)
            return True
    return False


def set_stream_hook(cls: type) -> None:
    """Let native code ask PyTorch for its current stream where ``cls``, a class of its tensors, has no exchange API."""
    if not hasattr(cls, _API):
        from warp_like.interop.torch_reader import current_stream

        _native.set_stream_hook(cls, current_stream)
