"""Arithmetic on constants, with the meaning that compiled code gives it.

Every result is rounded or wrapped as its type does it. What a target might compute differently (NaN, whose
bits nothing fixes, bfloat16, transcendental functions) is not computed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warp_like.ir.types import Scalar, bfloat16, bool_

Number = bool | int | float


def dtype_of(t: Scalar) -> np.dtype[Any]:
    """Return the NumPy dtype of ``t``, which is not bfloat16."""
    return np.dtype(np.bool_ if t.is_bool else str(t))


def compute(fn: str, args: Sequence[Number], types: Sequence[Scalar], result: Scalar) -> Number | None:
    """Return builtin ``fn`` of constant scalars, or None when that is not known here."""
    rule = _RULES.get(fn)
    if rule is None or bfloat16 in types or len(args) != len(types):
        return None
    with np.errstate(all="ignore"):
        got = rule(*(_numpy(a, t) for a, t in zip(args, types, strict=True)))
        return None if got is None else _python(_numpy(got, result))


def convert(x: Number, source: Scalar, to: Scalar) -> Number | None:
    """Return ``x`` cast from ``source`` to ``to``: saturating from float to int, wrapping between ints."""
    if bfloat16 in (source, to):
        return None
    with np.errstate(all="ignore"):
        value = _numpy(x, source)
        if to == bool_:
            return bool(value != 0)
        if source.is_float and to.is_int:
            return _saturate(float(value), to)
        return _python(_numpy(value, to))


def reinterpret(x: Number, source: Scalar, to: Scalar) -> Number | None:
    """Return the bits of ``x`` as ``to``."""
    if bfloat16 in (source, to) or source == bool_ or to == bool_:
        return None
    return _python(np.asarray(x, dtype_of(source)).view(dtype_of(to))[()])


def rounded(x: Number, t: Scalar) -> Number:
    """Return ``x`` as ``t`` holds it; bfloat16 is left alone."""
    if not t.is_float or t == bfloat16:
        return x
    with np.errstate(all="ignore"):
        return float(dtype_of(t).type(x))


def _numpy(x: Any, t: Scalar) -> Any:
    return np.asarray(x).astype(dtype_of(t))[()]


def _saturate(x: float, to: Scalar) -> int:
    info = np.iinfo(dtype_of(to))
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return int(info.max if x > 0 else info.min)
    return min(max(int(x), int(info.min)), int(info.max))


def _python(x: Any) -> Number | None:
    value: Number = x.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def _wrap(x: int, like: Any) -> Any:
    info = np.iinfo(like.dtype)
    return like.dtype.type((x - int(info.min)) % (1 << info.bits) + int(info.min))


def _quotient(a: Any, b: Any) -> int:
    return abs(int(a)) // abs(int(b)) * (-1 if (a < 0) != (b < 0) else 1)


def _is_int(x: Any) -> bool:
    return isinstance(x, np.integer)


def _divide(a: Any, b: Any) -> Any:
    if not _is_int(a):
        return a / b
    return 0 if b == 0 else _wrap(_quotient(a, b), a)


def _remainder(a: Any, b: Any) -> Any:
    if not _is_int(a):
        return None
    return 0 if b == 0 else _wrap(int(a) - int(b) * _quotient(a, b), a)


def _shift_left(a: Any, b: Any) -> Any:
    return _wrap(int(a) << (int(b) & a.dtype.itemsize * 8 - 1), a)


def _shift_right(a: Any, b: Any) -> Any:
    return _wrap(int(a) >> (int(b) & a.dtype.itemsize * 8 - 1), a)


def _smaller(a: Any, b: Any) -> Any:
    return min(a, b) if a != b and not (np.isnan(a) or np.isnan(b)) else None


def _larger(a: Any, b: Any) -> Any:
    return max(a, b) if a != b and not (np.isnan(a) or np.isnan(b)) else None


_RULES: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "mod": _remainder,
    "neg": lambda a: -a,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "unot": lambda a: not a,
    "min": _smaller,
    "max": _larger,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "invert": lambda a: ~a,
    "lshift": _shift_left,
    "rshift": _shift_right,
}
