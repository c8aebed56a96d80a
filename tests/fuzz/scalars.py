"""Numbers as the language's documentation defines them, in plain Python and NumPy: the oracle's arithmetic.

No code is shared with the compiler. A number is a NumPy scalar of its type; a Python number is a literal, which takes
the type of its neighbour. Integers wrap, ``/`` truncates, ``%`` has the sign of the dividend, a division of integers by
zero gives 0, and the amount of a shift counts modulo the width.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np


class InvalidProgram(Exception):
    """The program means nothing that can be compared: it is not typed, leaves an array, or its threads race."""


class BFloat16(np.float32):
    """A bfloat16, kept as the float32 of the same value."""


class ScalarType:
    """A type of numbers; called, it casts."""

    def __init__(self, name: str, numpy: Any) -> None:
        self.name, self.numpy = name, numpy
        self.kind = np.dtype(numpy).kind
        self.bits = 16 if numpy is BFloat16 else 8 * np.dtype(numpy).itemsize

    def __call__(self, x: Any = 0) -> Any:
        return cast(x, self)

    def __repr__(self) -> str:
        return f"wp.{self.name}"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def low(self) -> int:
        """The least integer."""
        return -(1 << self.bits - 1) if self.kind == "i" else 0

    def wrapped(self, x: int) -> Any:
        """The integer ``x`` modulo the width."""
        return self.numpy((x - self.low) % (1 << self.bits) + self.low)


TYPES = {
    name: ScalarType(name, getattr(np, name))
    for name in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}
TYPES["bool"] = ScalarType("bool", np.bool_)
TYPES["bfloat16"] = ScalarType("bfloat16", BFloat16)
BY_CLASS = {t.numpy: t for t in TYPES.values()}
INT32, FLOAT32, BOOL = TYPES["int32"], TYPES["float32"], TYPES["bool"]


def type_of(x: Any) -> ScalarType | None:
    """The type of a number; None for a literal and whatever is no number."""
    return BY_CLASS.get(type(x))


def is_literal(x: Any) -> bool:
    return type(x) in (int, float, bool)


def default(x: Any) -> Any:
    """What a variable holds that starts from ``x``: a literal gets its default type."""
    if type(x) is bool:
        return np.bool_(x)
    if type(x) is int:
        return cast(x, INT32)
    return cast(x, FLOAT32) if type(x) is float else x


def to_bfloat16(x: np.float32) -> BFloat16:
    """Round to nearest, ties to even."""
    if np.isnan(x):
        return BFloat16(x)
    bits = int(np.float32(x).view(np.uint32))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return BFloat16(np.uint32(bits).view(np.float32))


def rounded(x: Any, t: ScalarType) -> Any:
    """A float that is held by ``t``."""
    if t.numpy is not BFloat16:
        return t.numpy(x)
    if isinstance(x, np.float64) and np.isfinite(x) and np.float64(np.float32(x)) != x:  # once, not twice
        return to_bfloat16(_rounded_to_odd(x))
    return to_bfloat16(np.float32(x))


def _rounded_to_odd(x: np.float64) -> np.float32:
    """A float32 beside ``x`` whose last bit says that ``x`` is none."""
    near = np.float32(x)
    if not np.isfinite(near):
        return near
    if abs(np.float64(near)) > abs(x):
        near = np.nextafter(near, np.float32(0))
    return np.uint32(int(near.view(np.uint32)) | 1).view(np.float32)


def cast(x: Any, t: ScalarType) -> Any:
    """The number ``x`` as ``t``: integers wrap; floats are cut off and stay in range, NaN becomes 0."""
    if not is_literal(x) and type_of(x) is None:
        raise InvalidProgram(f"{x!r} is no number")
    if t.kind == "b":
        return np.bool_(x != 0)
    if t.is_float:
        return rounded(np.float64(x), t) if isinstance(x, (float, np.floating)) else _of_integer(int(x), t)
    if isinstance(x, (float, np.floating)):
        return _saturated(float(x), t)
    return t.wrapped(int(x))


def _of_integer(x: int, t: ScalarType) -> Any:
    """The float nearest to an integer."""
    if t.bits == 16:  # 50 bits tell how to round, if the last one says whether any were left out
        left_out = max(0, x.bit_length() - 50)
        most = abs(x) >> left_out
        most |= bool(abs(x) - (most << left_out))
        return rounded(np.float64((most << left_out) * (-1 if x < 0 else 1)), t)
    return t.numpy(x) if t.bits == 64 else t.numpy(np.uint64(x) if x >= 0 else np.int64(x))


def _saturated(x: float, t: ScalarType) -> Any:
    if math.isnan(x):
        return t.numpy(0)
    low, high = t.low, t.low + (1 << t.bits) - 1
    return t.numpy(low if x <= low else high if x >= high else int(x))


def alike(a: Any, b: Any) -> tuple[Any, Any, ScalarType]:
    """Two operands of one type, and the type; a literal takes that of the other."""
    s, t = type_of(a), type_of(b)
    if s is None and t is not None:
        return cast(a, t), b, t
    if t is None and s is not None:
        return a, cast(b, s), s
    if s is None or t is None or s is not t:
        raise InvalidProgram(f"{a!r} and {b!r} do not mix")
    return a, b, s


LITERALS = {"Add": operator.add, "Sub": operator.sub, "Mult": operator.mul}
"""What is computed before literals get a type."""


def binary(op: str, a: Any, b: Any) -> Any:
    """``a op b`` of two numbers; ``op`` is the name of the node in Python's syntax tree."""
    if is_literal(a) and is_literal(b):
        if op in LITERALS:
            return LITERALS[op](a, b)
        a, b = default(a), default(b)
    a, b, t = alike(a, b)
    if t.is_int:
        return _of_integers(op, int(a), int(b), t)
    if t.is_float:
        return _of_floats(op, a, b, t)
    return np.bool_({"BitAnd": a & b, "BitOr": a | b, "BitXor": a ^ b}[op])


class Faults:
    """How often an integer was divided by zero, which debug mode reports."""

    divisions_by_zero = 0


def _of_integers(op: str, a: int, b: int, t: ScalarType) -> Any:
    if not b and op in ("Div", "FloorDiv", "Mod"):
        Faults.divisions_by_zero += 1
    match op:
        case "Add":
            return t.wrapped(a + b)
        case "Sub":
            return t.wrapped(a - b)
        case "Mult":
            return t.wrapped(a * b)
        case "Div":
            return t.wrapped(truncated_quotient(a, b))
        case "FloorDiv":
            return t.wrapped(a // b if b else 0)
        case "Mod":
            return t.wrapped(a - b * truncated_quotient(a, b) if b else 0)
        case "LShift":
            return t.wrapped(a << (b & t.bits - 1))
        case "RShift":
            return t.wrapped(a >> (b & t.bits - 1))
        case "BitAnd":
            return t.wrapped(a & b)
        case "BitOr":
            return t.wrapped(a | b)
        case "BitXor":
            return t.wrapped(a ^ b)
    raise InvalidProgram(op)


def truncated_quotient(a: int, b: int) -> int:
    """``a / b`` cut off toward zero; 0 where ``b`` is."""
    if not b:
        return 0
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _of_floats(op: str, a: Any, b: Any, t: ScalarType) -> Any:
    if t.numpy is BFloat16:
        a, b = np.float32(a), np.float32(b)
    match op:
        case "Add":
            return rounded(a + b, t)
        case "Sub":
            return rounded(a - b, t)
        case "Mult":
            return rounded(a * b, t)
        case "Div":
            return rounded(np.true_divide(a, b), t)
        case "FloorDiv":
            return rounded(np.floor(rounded(np.true_divide(a, b), t)), t)
        case "Mod":
            return rounded(np.fmod(a, b), t)
    raise InvalidProgram(op)


def unary(op: str, x: Any) -> Any:
    """``op x`` of a number."""
    if op == "Not":
        return np.bool_(not x)
    if is_literal(x):
        return {"USub": lambda: -x, "UAdd": lambda: x, "Invert": lambda: ~x}[op]()
    t = type_of(x)
    if t is None:
        raise InvalidProgram(f"{op} of {x!r}")
    if op == "UAdd":
        return x
    if t.is_int:
        return t.wrapped(-int(x) if op == "USub" else ~int(x))
    return rounded(-x, t)


COMPARISONS = {
    "Lt": lambda a, b: a < b,
    "LtE": lambda a, b: a <= b,
    "Gt": lambda a, b: a > b,
    "GtE": lambda a, b: a >= b,
    "Eq": lambda a, b: a == b,
    "NotEq": lambda a, b: a != b,
}


def compare(op: str, a: Any, b: Any) -> Any:
    """``a op b``: integers exactly, an integer and a float as that float, two floats as the wider one."""
    s, t = type_of(a), type_of(b)
    if s is None or t is None:
        a, b = (default(a), default(b)) if s is t else alike(a, b)[:2]
        s, t = type_of(a) or BOOL, type_of(b) or BOOL
    if not s.is_float and not t.is_float:
        a, b = int(a), int(b)
    elif s.is_float and t.is_float:
        if s is not t and s.bits == t.bits:
            raise InvalidProgram(f"{a!r} and {b!r} do not mix")
        a, b = np.float64(a), np.float64(b)
    elif s.is_float:
        b = cast(b, s)
    else:
        a = cast(a, t)
    return np.bool_(COMPARISONS[op](a, b))
