"""Conversion and arithmetic of host scalars, with the meaning that they have in kernels.

Calling a scalar type converts as a cast does. Operators on two scalars of one type compute in that type: integers wrap,
``/`` truncates toward zero, ``%`` has the sign of the first operand, an integer divided by zero is 0. Together with
anything else, a plain Python number for one, a scalar is the Python number that it is derived from.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.ir.literal import as_float, int_range
from warp_like.values import bfloat

_ROUNDED = {ir.float16: "<e", ir.float32: "<f"}


def rounded(value: float, t: ir.Scalar) -> float:
    """Return the float nearest to ``value`` that ``t`` holds.

    Raises:
        OverflowError: ``value`` is finite and too large for ``t``.
    """
    if t == ir.bfloat16:
        return bfloat.round_to(value)
    code = _ROUNDED.get(t)
    return value if code is None else float(struct.unpack(code, struct.pack(code, value))[0])


def converted(value: float, t: ir.Scalar) -> float:
    """Return a Python number as ``t`` holds it after a cast.

    Integers wrap. Floats are truncated to integers, clamped to their range, NaN is 0; too large a float is infinite.
    """
    if t.is_bool:
        return bool(value)
    if t.is_float:
        number = as_float(value)
        try:
            return rounded(number, t)
        except OverflowError:
            return math.copysign(math.inf, number)
    lo, hi = int_range(t)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return lo if value <= lo else hi if value >= hi else int(value)
    return (int(value) - lo) % (1 << t.bits) + lo


# --- operators ---


def _quotient(a: int, b: int) -> int:
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b) if b else 0


_INTEGERS: dict[str, Callable[[int, int], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": _quotient,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": _remainder,
    "pow": lambda a, b: 0 if b < 0 and abs(a) != 1 else int(a**b),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}
_SHIFTS = ("lshift", "rshift")
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": lambda a, b: np.floor(np.true_divide(a, b)),
    "mod": np.fmod,
    "pow": np.power,
}
_FLOAT_TYPES: dict[ir.Scalar, type] = {
    ir.float16: np.float16,
    ir.bfloat16: np.float32,
    ir.float32: np.float32,
    ir.float64: np.float64,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "pos": operator.pos, "abs": operator.abs}


def typed_operators(result: Callable[[float, ir.Scalar], Any]) -> Callable[[type], type]:
    """Return a class decorator that gives a class derived from int or float the operators of its type.

    Args:
        result: Makes what an operator returns of a number that the type holds.
    """

    def decorate(cls: type) -> type:
        whole = issubclass(cls, int)
        python = int if whole else float
        for name, compute in (_INTEGERS if whole else _FLOATS).items():
            method = f"__{name}__"
            setattr(cls, method, _binary(getattr(python, method), compute, result, shifts=name in _SHIFTS))
        for name, change in (_UNARY | {"invert": operator.invert} if whole else _UNARY).items():
            setattr(cls, f"__{name}__", _unary(change, result))
        return cls

    return decorate


def _binary(
    python: Callable[[Any, Any], Any],
    compute: Callable[[Any, Any], Any],
    result: Callable[[float, ir.Scalar], Any],
    shifts: bool,
) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        t = self._ir_type_
        if type(other) is not type(self) or t.is_bool:
            return python(self, other)
        if t.is_int:
            return result(converted(compute(self.value, other.value % t.bits if shifts else other.value), t), t)
        make = _FLOAT_TYPES[t]
        with np.errstate(all="ignore"):
            number = compute(make(self.value), make(other.value))
        return result(converted(float(number), t), t)

    return operate


def _unary(change: Callable[[Any], Any], result: Callable[[float, ir.Scalar], Any]) -> Callable[[Any], Any]:
    def operate(self: Any) -> Any:
        t = self._ir_type_
        return change(int(self)) if t.is_bool else result(converted(change(self.value), t), t)

    return operate
