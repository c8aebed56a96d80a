"""Operators of whole arrays: ``a + b`` is ``wp.map(wp.add, a, b)``, and ``a += b`` writes the result into ``a``.

Like ``wp.map`` they broadcast, take arrays of every library and values, and are recorded by tapes.
"""

from __future__ import annotations

import functools
from typing import Any

from warp_like.frontend.builtin import Builtin
from warp_like.runtime.arrays.operation_hooks import operations
from warp_like.values import Composite


class Elementwise:
    """The arithmetic operators of ``wp.array`` and ``wp.indexedarray``."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return _mapped("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _mapped("add", other, self)

    def __iadd__(self, other: Any) -> Any:
        return _mapped("add", self, other, self)

    def __sub__(self, other: Any) -> Any:
        return _mapped("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _mapped("sub", other, self)

    def __isub__(self, other: Any) -> Any:
        return _mapped("sub", self, other, self)

    def __mul__(self, other: Any) -> Any:
        return _mapped("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _mapped("mul", other, self)

    def __imul__(self, other: Any) -> Any:
        return _mapped("mul", self, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _mapped("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _mapped("div", other, self)

    def __itruediv__(self, other: Any) -> Any:
        return _mapped("div", self, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _mapped("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _mapped("floordiv", other, self)

    def __ifloordiv__(self, other: Any) -> Any:
        return _mapped("floordiv", self, other, self)

    def __mod__(self, other: Any) -> Any:
        return _mapped("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _mapped("mod", other, self)

    def __imod__(self, other: Any) -> Any:
        return _mapped("mod", self, other, self)

    def __pow__(self, other: Any) -> Any:
        return _mapped("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _mapped("pow", other, self)

    def __ipow__(self, other: Any) -> Any:
        return _mapped("pow", self, other, self)

    def __neg__(self) -> Any:
        return _mapped("neg", self)

    def __pos__(self) -> Any:
        return _mapped("pos", self)


def _mapped(name: str, *operands: Any) -> Any:
    """The builtin ``name`` mapped over the operands; a third one is where the result goes."""
    *inputs, out = operands if len(operands) == 3 else (*operands, None)
    if not all(isinstance(x, _OPERANDS) or any(hasattr(x, p) for p in _PROTOCOLS) for x in inputs):
        return NotImplemented
    return operations.get().map(kept_builtin(name), *inputs, out=out)


_OPERANDS = (Elementwise, int, float, Composite)
_PROTOCOLS = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
kept_builtin = functools.cache(Builtin)  # kept, as the kernels that are made for it are kept with it
