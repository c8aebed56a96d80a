"""Type patterns: how a builtin's signature is written, and how it is matched against arguments.

A signature is an ordinary annotated Python function whose annotations are IR types or the patterns of this file. A
variable (``F``, ``I``, ``S``, a dimension name) stands for the same thing wherever it occurs in one signature.
"""

from __future__ import annotations

from typing import Any

from warp_like.base.frozen import Frozen
from warp_like.ir import types as ir
from warp_like.ir.literal import Literal as Literal
from warp_like.ir.literal import int_range as int_range

Argument = ir.Type | Literal
"""An argument of a builtin: a typed value, or a literal that has no type yet."""


class Var(Frozen):
    """A scalar type out of ``allowed``; ``words`` says so in messages."""

    name: str
    allowed: tuple[ir.Scalar, ...]
    words: str

    def __str__(self) -> str:
        return self.words


class AnyValue(Frozen):
    """Any value type: scalar, vec, mat, quat, transform or struct."""

    name: str

    def __str__(self) -> str:
        return "a value"


class VecOf(Frozen):
    """A vector; ``length`` is a number or the name of a dimension."""

    length: int | str
    dtype: Var | ir.Scalar

    def __str__(self) -> str:
        return f"a vector of {self.length}" if isinstance(self.length, int) else "a vector"


class MatOf(Frozen):
    """A matrix; dimensions are numbers or names."""

    rows: int | str
    cols: int | str
    dtype: Var | ir.Scalar

    def __str__(self) -> str:
        if isinstance(self.rows, int):
            return f"a {self.rows}x{self.cols} matrix"
        return "a square matrix" if self.rows == self.cols else "a matrix"


class QuatOf(Frozen):
    """A quaternion."""

    dtype: Var | ir.Scalar

    def __str__(self) -> str:
        return "a quaternion"


class TransformOf(Frozen):
    """A transform."""

    dtype: Var | ir.Scalar

    def __str__(self) -> str:
        return "a transform"


class TileOf(Frozen):
    """A tile; ``shape`` names its extents, or lists the names or numbers of each."""

    shape: str | tuple[int | str, ...]
    dtype: Pattern

    def __str__(self) -> str:
        size = "" if isinstance(self.shape, str) else f" of {len(self.shape)} dimensions"
        return f"a tile{size} whose elements are each {self.dtype}"


class ArrayOf(Frozen):
    """An array of scalars or vectors of ``dtype``, or of anything; of ``ndim`` dimensions, or of any number."""

    dtype: Var | VecOf | None = None
    ndim: int | None = None

    def __str__(self) -> str:
        size = "" if self.ndim is None else f" of {self.ndim} dimension{'s' * (self.ndim > 1)}"
        return f"an array{size}"


Pattern = ir.Type | Var | AnyValue | VecOf | MatOf | QuatOf | TransformOf | ArrayOf | TileOf

F = Var("F", ir.FLOATS, "a float")
H = Var("H", (ir.float16, ir.bfloat16), "a half-precision float")
W = Var("W", (ir.float32, ir.float64), "a float32 or a float64")
I = Var("I", ir.INTS, "an integer")  # noqa: E741
S = Var("S", ir.INTS + ir.FLOATS, "a number")
B = Var("B", (ir.bool_, *ir.INTS), "an integer or a bool")
X = Var("X", ir.SCALARS, "a scalar")
T = AnyValue("T")
V = VecOf("N", S)
VI = VecOf("N", I)
VF = VecOf("N", F)
V3 = VecOf(3, F)
V3S = VecOf(3, S)
M = MatOf("R", "C", S)
MI = MatOf("R", "C", I)
MF = MatOf("R", "C", F)
SQUARE = MatOf("N", "N", F)
Q = QuatOf(F)
TF = TransformOf(F)
V6 = VecOf(6, F)
M44 = MatOf(4, 4, F)

ARRAY = ArrayOf()
NUMBERS = ArrayOf(S, 1)

Env = dict[str, Any]
_ARRAY = "array"


def unify(pattern: Pattern, t: ir.Type, env: Env) -> bool:
    """Match ``t`` with ``pattern``, binding variables in ``env``."""
    match pattern, t:
        case Var(name, allowed), ir.Scalar():
            return t in allowed and _bind(env, name, t)
        case AnyValue(name), _:
            return not isinstance(t, ir.Array) and _bind(env, name, t)
        case VecOf(n, d), ir.Vec(length, dtype):
            return _unify_dim(n, length, env) and unify(d, dtype, env)
        case MatOf(r, c, d), ir.Mat(rows, cols, dtype):
            return _unify_dim(r, rows, env) and _unify_dim(c, cols, env) and unify(d, dtype, env)
        case (QuatOf(d), ir.Quat(dtype)) | (TransformOf(d), ir.Transform(dtype)):
            return unify(d, dtype, env)
        case TileOf(names, d), ir.Tile(shape, dtype):
            if isinstance(names, str):
                return _bind(env, names, shape) and unify(d, dtype, env)
            same = len(names) == len(shape) and all(_unify_dim(*pair, env) for pair in zip(names, shape, strict=True))
            return same and unify(d, dtype, env)
        case ArrayOf(d, n), ir.Array(dtype, ndim):
            env[_ARRAY] = t  # a signature has at most one
            return n in (None, ndim) and (d is None or unify(d, dtype, env))
    return pattern == t


def substitute(pattern: Pattern, env: Env) -> ir.Type:
    """Return the type that ``pattern`` stands for under ``env``."""
    match pattern:
        case Var(name) | AnyValue(name):
            return env[name]  # type: ignore[no-any-return]
        case VecOf(n, d):
            return ir.Vec(_dim(n, env), substitute(d, env))  # type: ignore[arg-type]
        case MatOf(r, c, d):
            return ir.Mat(_dim(r, env), _dim(c, env), substitute(d, env))  # type: ignore[arg-type]
        case QuatOf(d):
            return ir.Quat(substitute(d, env))  # type: ignore[arg-type]
        case TransformOf(d):
            return ir.Transform(substitute(d, env))  # type: ignore[arg-type]
        case TileOf(names, d):
            shape = env[names] if isinstance(names, str) else tuple(_dim(n, env) for n in names)
            return ir.Tile(shape, substitute(d, env))
        case ArrayOf():
            return env[_ARRAY]  # type: ignore[no-any-return]
    return pattern


def settle(pattern: Pattern, literal: Literal, env: Env) -> bool:
    """Match ``literal`` with ``pattern``: a bound variable decides its type, else its default does."""
    if isinstance(pattern, (Var, AnyValue)):
        if pattern.name in env:
            return literal.fits(env[pattern.name])
        default = literal.default
        if isinstance(pattern, Var) and default not in pattern.allowed:
            default = next((t for t in (ir.int32, ir.float32) if t in pattern.allowed), default)
        env[pattern.name] = default
        return literal.fits(default) and (isinstance(pattern, AnyValue) or default in pattern.allowed)
    return isinstance(pattern, ir.Scalar) and literal.fits(pattern)


def _bind(env: Env, name: str, value: object) -> bool:
    return bool(env.setdefault(name, value) == value)


def _unify_dim(pattern: int | str, n: int, env: Env) -> bool:
    return pattern == n if isinstance(pattern, int) else _bind(env, pattern, n)


def _dim(pattern: int | str, env: Env) -> int:
    return pattern if isinstance(pattern, int) else int(env[pattern])
