"""What the names of kernel code mean to Python itself: the numbers, vectors and builtins that random programs use.

``run`` executes a kernel's source as the Python that it is. Numbers here behave as the guide says that those of the
kernel language do: integers wrap, ``/`` cuts off, ``%`` has the sign of the dividend, and dividing by zero gives 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Int:
    """An int32."""

    def __init__(self, value: Any = 0) -> None:
        self.value = (int(value) + 2**31) % 2**32 - 2**31

    def __index__(self) -> int:
        return self.value

    __int__ = __index__

    def __bool__(self) -> bool:
        return self.value != 0

    def __float__(self) -> float:
        return float(self.value)

    def __eq__(self, other: Any) -> bool:
        return self.value == int(other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Int({self.value})"


class Float:
    """A float32."""

    def __init__(self, value: Any = 0.0) -> None:
        self.value = np.float32(value.value if isinstance(value, (Int, Float)) else value)

    def __bool__(self) -> bool:
        return bool(self.value != 0)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __eq__(self, other: Any) -> bool:
        return bool(self.value == np.float32(float(other)))

    def __hash__(self) -> int:
        return hash(self.value)


class Vec:
    """A vector of float32. Operators make new ones; components are changed in place."""

    def __init__(self, *parts: Any) -> None:
        self.parts = [Float(p) for p in (parts if len(parts) > 1 else parts * 3)]

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, i: Any) -> Any:
        return Vec(*self.parts[i]) if isinstance(i, slice) else self.parts[operator.index(i)]

    def __setitem__(self, i: Any, value: Any) -> None:
        if isinstance(i, slice):
            self.parts[i] = value.parts
        else:
            self.parts[operator.index(i)] = Float(value)


for _name, _i in (("x", 0), ("y", 1), ("z", 2)):
    setattr(Vec, _name, property(lambda v, i=_i: v[i], lambda v, value, i=_i: v.__setitem__(i, value)))


def _quotient(a: int, b: int) -> int:
    return 0 if b == 0 else int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": _quotient,
    "floordiv": lambda a, b: 0 if b == 0 else a // b,
    "mod": lambda a, b: 0 if b == 0 else a - b * _quotient(a, b),
    "lshift": lambda a, b: a << (b % 32),
    "rshift": lambda a, b: a >> (b % 32),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


def _define(kind: type, name: str, apply: Callable[[Any, Any], Any]) -> None:
    setattr(kind, f"__{name}__", lambda a, b: apply(a, b))
    setattr(kind, f"__r{name}__", lambda a, b: apply(b, a))


for _name, _of in _INTEGERS.items():
    _define(Int, _name, lambda a, b, of=_of: Int(of(int(a), int(b))))
for _name in ("add", "sub", "mul"):
    _of = getattr(operator, _name)
    _define(Float, _name, lambda a, b, of=_of: Float(of(np.float32(float(a)), np.float32(float(b)))))
_define(Vec, "add", lambda a, b: Vec(*map(operator.add, a.parts, b.parts)))
_define(Vec, "sub", lambda a, b: Vec(*map(operator.sub, a.parts, b.parts)))
Int.__neg__ = lambda a: Int(-a.value)  # type: ignore[attr-defined]
Int.__invert__ = lambda a: Int(~a.value)  # type: ignore[attr-defined]
Float.__neg__ = lambda a: Float(-a.value)  # type: ignore[attr-defined]
for _of in (operator.lt, operator.le, operator.gt, operator.ge):
    for _kind in (Int, Float):
        setattr(_kind, f"__{_of.__name__}__", lambda a, b, of=_of: of(float(a), float(b)))


class Python:
    """The module ``wp`` as such a program sees it."""

    vec3 = Vec

    def __init__(self) -> None:
        self.thread = 0

    def func(self, f: Any) -> Any:
        """A function is what it is."""
        return f

    def tid(self) -> Int:
        """The thread that runs."""
        return Int(self.thread)

    def atomic_add(self, array: Any, *where: Any) -> Any:
        """Add, and return what was there."""
        *at, value = where
        index = tuple(map(operator.index, at))
        old = array[index]
        array[index] = old + value
        return old

    def clamp(self, x: Any, low: Any, high: Any) -> Any:
        """Clamp."""
        return type(x)(min(max(float(x), float(low)), float(high)))

    def dot(self, a: Vec, b: Vec) -> Float:
        """The scalar product, of numbers for which it is exact."""
        return Float(sum(float(x) * float(y) for x, y in zip(a.parts, b.parts, strict=True)))


def _range(*bounds: Any) -> list[Int]:
    return [Int(i) for i in range(*map(operator.index, bounds))]


def run(source: str, threads: int, args: Sequence[Any]) -> list[Any]:
    """Run kernel ``k`` of ``source`` for each thread after the other; arrays in ``args`` are given as copies.

    Returns the arrays and numbers as the program left them.
    """
    wp = Python()
    module: dict[str, Any] = {"wp": wp, "int": Int, "float": Float, "range": _range}
    exec(compile(source, "<program>", "exec"), module)
    kinds = {np.dtype(np.int32): Int, np.dtype(np.float32): Float}
    arrays = [np.array([kinds[a.dtype](x) for x in a.flat], object).reshape(a.shape) for a in args]
    for wp.thread in range(threads):
        module["k"](*arrays)
    return [np.array([x.value for x in o.flat], a.dtype).reshape(a.shape) for o, a in zip(arrays, args, strict=True)]
