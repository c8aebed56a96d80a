"""Kernels run as plain Python on dual numbers: the derivative that reverse mode is compared with.

Nothing of the project takes part: Python executes the kernel's source, with ``Wp`` in place of the package and
``Dual`` numbers in the arrays. A dual number carries its derivatives with respect to all inputs at once, so that
one run gives the whole Jacobian. Threads run one after the other.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np


class Dual:
    """A number and its derivatives.

    Numbers are ``rounded`` after every operation; derivatives are exact. ``size`` is what the derivatives would be if
    no two terms in them cancelled: it says how large an error is that rounding them can make.
    """

    __slots__ = ("d", "size", "x")
    largest = 0.0
    """The largest absolute value of any number or derivative since this was last set to 0."""
    rounded: Any = staticmethod(float)

    def __init__(self, x: float, d: Any, size: Any = None) -> None:
        self.x, self.d = Dual.rounded(x), d
        self.size = np.abs(d) if size is None else size
        Dual.largest = max(Dual.largest, abs(x), float(np.max(np.abs(d), initial=0.0)))

    def __add__(self, o: Any) -> Dual:
        o = dual(o)
        return Dual(self.x + o.x, self.d + o.d, self.size + o.size)

    def __sub__(self, o: Any) -> Dual:
        o = dual(o)
        return Dual(self.x - o.x, self.d - o.d, self.size + o.size)

    def __mul__(self, o: Any) -> Any:
        if isinstance(o, Vector):
            return o * self
        o = dual(o)
        size = self.size * abs(o.x) + o.size * abs(self.x)
        return Dual(self.x * o.x, self.d * o.x + o.d * self.x, size)

    def __truediv__(self, o: Any) -> Dual:
        o = dual(o)
        ratio = self.x / o.x
        return Dual(ratio, (self.d - o.d * ratio) / o.x, (self.size + o.size * abs(ratio)) / abs(o.x))

    def __radd__(self, o: Any) -> Dual:
        return dual(o) + self

    def __rsub__(self, o: Any) -> Dual:
        return dual(o) - self

    def __rmul__(self, o: Any) -> Any:
        return dual(o) * self

    def __rtruediv__(self, o: Any) -> Dual:
        return dual(o) / self

    def __neg__(self) -> Dual:
        return Dual(-self.x, -self.d, self.size)

    def __lt__(self, o: Any) -> bool:
        return self.x < dual(o).x

    def __gt__(self, o: Any) -> bool:
        return self.x > dual(o).x

    def chain(self, x: float, slope: float, largest_slope: float = 0.0) -> Dual:
        """A function of this number, by its value and its derivative, which is a difference of ``largest_slope``."""
        return Dual(x, self.d * slope, self.size * max(abs(slope), largest_slope))


def dual(x: Any) -> Dual:
    """``x`` as a dual number; one without derivatives is a constant."""
    return x if isinstance(x, Dual) else Dual(float(x), 0.0)


class Vector:
    """A vector of dual numbers, with the operations that kernels use."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Any) -> None:
        self.parts = [dual(p) for p in parts]

    def __getitem__(self, i: Any) -> Any:
        return Vector(*self.parts[i]) if isinstance(i, slice) else self.parts[i]

    def __setitem__(self, i: Any, x: Any) -> None:
        self.parts[i] = x.parts if isinstance(i, slice) else dual(x)

    def copy(self) -> Vector:
        return Vector(*self.parts)

    def __add__(self, o: Vector) -> Vector:
        return Vector(*(a + b for a, b in zip(self.parts, o.parts, strict=True)))

    def __sub__(self, o: Vector) -> Vector:
        return Vector(*(a - b for a, b in zip(self.parts, o.parts, strict=True)))

    def __mul__(self, s: Any) -> Vector:
        return Vector(*(p * s for p in self.parts))

    def __truediv__(self, s: Any) -> Vector:
        return Vector(*(p / s for p in self.parts))


class Matrix:
    """A matrix of 2 by 2 dual numbers."""

    def __init__(self, *parts: Any) -> None:
        self.parts = [dual(p) for p in parts]

    def __getitem__(self, at: tuple[int, int]) -> Dual:
        return self.parts[2 * at[0] + at[1]]

    def __setitem__(self, at: tuple[int, int], x: Any) -> None:
        self.parts[2 * at[0] + at[1]] = dual(x)

    def copy(self) -> Matrix:
        return Matrix(*self.parts)

    def __mul__(self, o: Any) -> Any:
        if not isinstance(o, Vector):
            return Matrix(*(p * o for p in self.parts))
        a, b, c, d = self.parts
        return Vector(a * o[0] + b * o[1], c * o[0] + d * o[1])


class Struct:
    """A struct: the fields of its class, in order."""

    def __init__(self) -> None:
        for name, t in self.__annotations__.items():
            setattr(self, name, zero(t))

    @property
    def fields(self) -> list[Any]:
        return [getattr(self, name) for name in self.__annotations__]

    def copy(self) -> Struct:
        new = type(self)()
        for name, x in zip(self.__annotations__, self.fields, strict=True):
            setattr(new, name, copied(x))
        return new


def zero(t: Any) -> Any:
    return t(0.0, 0.0, 0.0) if t is Vector else dual(0.0)


def copied(x: Any) -> Any:
    """What an assignment of ``x`` gives: values are copied, arrays are not."""
    return x.copy() if isinstance(x, (Vector, Matrix, Struct)) else x


class Copies(ast.NodeTransformer):
    """Gives assignments and loops over values the meaning that they have in kernels."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self.copied(node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        node.iter = self.copied(node.iter)
        self.generic_visit(node)
        return node

    def copied(self, node: ast.expr) -> ast.expr:
        return ast.Call(ast.Name("copied", ast.Load()), [node], [])


class Wp:
    """What the kernels use of the package, for dual numbers."""

    thread = 0

    def kernel(self, f: Any = None, **options: Any) -> Any:
        return f if f is not None else lambda g: g

    def func(self, f: Any) -> Any:
        return lambda *args: f(*map(copied, args))

    def struct(self, t: type) -> type:
        return type(t.__name__, (Struct,), {"__annotations__": t.__annotations__})

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        made = np.empty(shape, object)
        for at in np.ndindex(shape):
            made[at] = zero(dtype)
        return made

    def tid(self) -> int:
        return self.thread

    def array(self, **_: Any) -> None:
        return None

    array2d = array

    float64 = staticmethod(dual)
    vec3d = vec2d = Vector
    mat22d = Matrix

    def sin(self, a: Dual) -> Dual:
        return a.chain(math.sin(a.x), math.cos(a.x), 1.0)

    def cos(self, a: Dual) -> Dual:
        return a.chain(math.cos(a.x), -math.sin(a.x), 1.0)

    def exp(self, a: Dual) -> Dual:
        return a.chain(math.exp(a.x), math.exp(a.x))

    def tanh(self, a: Dual) -> Dual:
        return a.chain(math.tanh(a.x), 1.0 - math.tanh(a.x) ** 2, 1.0)

    def sqrt(self, a: Dual) -> Dual:
        return a.chain(math.sqrt(a.x), 0.5 / math.sqrt(a.x))

    def abs(self, a: Dual) -> Dual:
        return a.chain(abs(a.x), float(np.sign(a.x)))

    def min(self, a: Dual, b: Dual) -> Dual:
        return b if b < a else a

    def max(self, a: Dual, b: Dual) -> Dual:
        return b if b > a else a

    def where(self, c: bool, a: Any, b: Any) -> Any:
        return dual(a) if c else dual(b)

    def dot(self, a: Vector, b: Vector) -> Dual:
        return sum((p * q for p, q in zip(a.parts, b.parts, strict=True)), dual(0.0))

    def cross(self, a: Vector, b: Vector) -> Vector:
        return Vector(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])

    def atomic_add(self, a: np.ndarray, *rest: Any) -> None:
        a[rest[:-1]] = a[rest[:-1]] + rest[-1]

    def atomic_sub(self, a: np.ndarray, *rest: Any) -> None:
        a[rest[:-1]] = a[rest[:-1]] - rest[-1]


def launch(source: str, name: str, threads: int, args: Sequence[Any]) -> None:
    """Run the kernel ``name`` of ``source`` for each thread, on arrays of ``Dual`` and ``Vector`` (dtype object)."""
    wp = Wp()
    space: dict[str, Any] = {"wp": wp, "f64": dual, "V3": Vector, "V2": Vector, "M22": Matrix, "copied": copied}
    tree = ast.fix_missing_locations(Copies().visit(ast.parse(source)))
    exec(compile(tree, "<kernel>", "exec", dont_inherit=True), space)
    for wp.thread in range(threads):
        space[name](*args)


def inputs(arrays: Sequence[np.ndarray], makers: Sequence[Any]) -> list[np.ndarray]:
    """The arrays with each number a dual one, which has the derivative 1 with respect to itself.

    A maker is the type of the elements, given the numbers along the last axis, or None for numbers.
    """
    unit = iter(np.eye(sum(a.size for a in arrays)))
    made = []
    for a, maker in zip(arrays, makers, strict=True):
        flat = np.empty(a.size, object)
        flat[:] = [Dual(float(x), next(unit)) for x in a.ravel()]
        if maker is not None:
            groups = flat.reshape(-1, a.shape[-1])
            flat = np.empty(len(groups), object)
            flat[:] = [maker(*g) for g in groups]
        made.append(flat.reshape(a.shape if maker is None else a.shape[:-1]))
    return made


def pair(u: Dual, *t: Dual) -> Struct:
    """The struct of the random kernels."""
    made = Wp().struct(type("Pair", (), {"__annotations__": {"u": dual, "t": Vector}}))()
    made.u, made.t = u, Vector(*t)
    return made


def pulled_back(arrays: Sequence[np.ndarray], seeds: Sequence[np.ndarray], count: int) -> np.ndarray:
    """The gradient of ``sum(seed * array)`` with respect to the ``count`` inputs."""
    total = np.zeros(count)
    for a, seed in zip(arrays, seeds, strict=True):
        for n, s in zip(numbers(a), seed.ravel(), strict=True):
            total = total + n.d * s
    return total


def pulled_back_sizes(arrays: Sequence[np.ndarray], seeds: Sequence[np.ndarray], count: int) -> np.ndarray:
    """The gradient that ``pulled_back`` gives if no terms cancel."""
    total = np.zeros(count)
    for a, seed in zip(arrays, seeds, strict=True):
        for n, s in zip(numbers(a), seed.ravel(), strict=True):
            total = total + n.size * abs(s)
    return total


def values(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The numbers in ``arrays``, flat and without derivatives."""
    return [np.array([n.x for n in numbers(a)]) for a in arrays]


def numbers(a: np.ndarray) -> list[Dual]:
    """The dual numbers in an array, in order."""
    return [n for x in a.ravel() for n in flattened(x)]


def flattened(x: Any) -> list[Dual]:
    if isinstance(x, Struct):
        return [n for f in x.fields for n in flattened(f)]
    return x.parts if isinstance(x, Vector) else [dual(x)]
