"""Operators on literals, computed as the kernel would: division of integers truncates toward zero."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from warp_like.base.errors import WarpCodegenValueError
from warp_like.builtins.patterns import Literal

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "floordiv": operator.floordiv,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}

_MAX_BITS = 64


def binary(name: str, a: Literal, b: Literal) -> Literal | None:
    """Return ``a`` and ``b`` combined by the builtin ``name``; None where the kernel has to compute it.

    Raises:
        WarpCodegenValueError: An integer is divided by the literal 0.
    """
    x, y = a.value, b.value
    if (isinstance(x, bool) or isinstance(y, bool)) and name not in (
        "eq",
        "ne",
        "bit_and",
        "bit_or",
        "bit_xor",
    ):
        return None
    integers = isinstance(x, int) and isinstance(y, int)
    if name in ("div", "floordiv", "mod") and integers and y == 0:
        raise WarpCodegenValueError(f"{x} is divided by the literal 0")
    try:
        result = _compute(name, x, y, integers)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return Literal(result) if isinstance(result, (bool, int, float)) else None


def loses_fraction(a: Literal, b: Literal) -> bool:
    """Return whether ``a / b`` divides integers that have a remainder."""
    return type(a.value) is int and type(b.value) is int and a.value % b.value != 0


def _compute(name: str, x: Any, y: Any, integers: bool) -> Any:
    if name == "div":
        return _truncated(x, y) if integers else x / y
    if name == "mod":
        return x - y * _truncated(x, y) if integers else math.fmod(x, y)
    if name == "pow":
        if integers and (y < 0 or y > 4 * _MAX_BITS):
            return None
        return x**y
    if name in ("lshift", "rshift") and not 0 <= y < _MAX_BITS:
        return None
    return _ARITHMETIC[name](x, y) if name in _ARITHMETIC else None


def _truncated(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def unary(name: str, a: Literal) -> Literal | None:
    """Return the builtin ``name`` of ``a``; None where the kernel has to compute it."""
    if name == "unot":
        return Literal(not a.value)
    if isinstance(a.value, bool):
        return None
    if name == "neg":
        return Literal(-a.value)
    if name == "pos":
        return a
    return Literal(~a.value) if name == "invert" and isinstance(a.value, int) else None
