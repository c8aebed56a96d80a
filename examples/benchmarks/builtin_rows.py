"""The rows of ``benchmark_builtins.py``: one-line kernels, generated from the declarations of the builtins.

A row is one overload with concrete types. Both Warps compile the text of its kernel, ``out0[i] = wp.sin(a0[i])``.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from warp_like.builtins.overload import Cooperative, Inline, Overload
from warp_like.builtins.patterns import AnyValue, ArrayOf, MatOf, QuatOf, TileOf, TransformOf, VecOf
from warp_like.builtins.spec import REGISTRY, NoGradient
from warp_like.ir import types as ir
from warp_like.values.families import SUFFIXES

OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "floordiv": "//",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
NAMED = frozenset(SUFFIXES) - {ir.bool_, ir.bfloat16}
"""The scalars whose vectors have names."""
SIZE = 3
"""The length of vectors, and the rows and columns of matrices, where a row takes any."""

FORMS = {
    **{f"x ** {y}": f"a0[i] ** a0.dtype({y})" for y in ("2.0", "3.0", "0.5", "1.5", "-0.5", "-1.0", "-2.0", "2.5")},
    "x ** 2": "a0[i] ** a0.dtype(2)",
    "1 / sqrt(x)": "a0.dtype(1.0) / wp.sqrt(a0[i])",
}
"""Calls whose speed depends on a constant, for each type of float."""

CASTS = ("int32", "uint32", "int64", "uint8", "float16", "float32", "float64")


@dataclass(frozen=True)
class Row:
    """A kernel of the table.

    Attributes:
        title: The call, as the table names it.
        names: The parameters.
        types: Their types.
        results: The types of what the kernel stores.
        lines: The kernel's body, which reads ``a0[i]``, ``a1[i]`` and so on and stores ``out0[i]``.
        gradient: Whether there is a backward pass.
    """

    title: str
    name: str
    names: tuple[str, ...]
    types: tuple[ir.Type, ...]
    results: tuple[ir.Type, ...]
    lines: tuple[str, ...]
    gradient: bool

    @property
    def parameters(self) -> tuple[tuple[str, ir.Type], ...]:
        """The names and elements of the kernel's arrays: arguments, then results."""
        given = [(f"a{k}", t) for k, t in enumerate(self.types)]
        return (*given, *((f"out{k}", t) for k, t in enumerate(self.results)))

    @property
    def scalar(self) -> ir.Scalar | None:
        """The float type of all arguments, where these are numbers of one type."""
        (first, *rest) = self.types
        same = isinstance(first, ir.Scalar) and first.is_float and all(t == first for t in rest)
        return first if same and isinstance(first, ir.Scalar) else None


def make_kernel(wp: ModuleType, title: str, parameters: Sequence[tuple[str, ir.Type]], lines: Sequence[str]) -> Any:
    """Return a kernel for one of the Warps, whose arrays have these names and types of elements."""
    declared = ", ".join(f"{name}: wp.array(dtype={type_text(t)})" for name, t in parameters)
    head = ['@wp.kernel(module="unique")', f"def call({declared}):", "    i = wp.tid()"]
    text = "\n".join([*head, *(f"    {line}" for line in lines), ""])
    file = f"<{wp.__name__}: {title}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space: dict[str, Any] = {"wp": wp}
    exec(compile(text, file, "exec"), space)
    return space["call"]


def dtype_of(wp: ModuleType, t: ir.Type) -> Any:
    """Return what one of the Warps has as the type of an array's elements."""
    return eval(type_text(t), {"wp": wp})


def type_text(t: ir.Type) -> str:
    """Return a type as kernels of both Warps write it."""
    scalar = ir.scalar_of(t)
    if scalar not in NAMED:
        return _unnamed(t)
    match t:
        case ir.Vec(n, dtype):
            return f"wp.spatial_vector{SUFFIXES[dtype]}" if n > 4 else f"wp.vec{n}{SUFFIXES[dtype]}"
        case ir.Mat(rows, cols, dtype) if not dtype.is_float:
            return _unnamed(t)
        case ir.Mat(rows, cols, dtype):
            return f"wp.spatial_matrix{SUFFIXES[dtype]}" if rows > 4 else f"wp.mat{rows}{cols}{SUFFIXES[dtype]}"
        case ir.Quat(dtype):
            return f"wp.quat{SUFFIXES[dtype]}"
        case ir.Transform(dtype):
            return f"wp.transform{SUFFIXES[dtype]}"
    return f"wp.{t}"


def _unnamed(t: ir.Type) -> str:
    match t:
        case ir.Vec(n, dtype):
            return f"wp.types.vector({n}, wp.{dtype})"
        case ir.Mat(rows, cols, dtype):
            return f"wp.types.matrix(({rows}, {cols}), wp.{dtype})"
        case ir.Quat(dtype):
            return f"wp.types.quaternion(wp.{dtype})"
        case ir.Transform(dtype):
            return f"wp.types.transformation(wp.{dtype})"
    return f"wp.{t}"


# --- what the table has -----------------------------------------------------------------------------------------


def all_rows(dtypes: Sequence[str], only: Sequence[str] = ()) -> list[Row]:
    """Return the rows with numbers of these types; of those, the ones whose titles hold one of the words ``only``."""
    scalars = [t for t in ir.SCALARS if str(t) in dtypes]
    found = {row.title: row for t in scalars for row in (*_of_table(t), *_forms(t), *_casts(t))}
    return [row for row in found.values() if not only or any(word in row.title for word in only)]


def _of_table(scalar: ir.Scalar) -> Iterator[Row]:
    for name, overloads in REGISTRY.items():
        for row in overloads:
            if not name.startswith("_") and _takes_values(row) and (made := _row(row, scalar)) is not None:
                yield made


def _takes_values(row: Overload) -> bool:
    """Whether a thread can call it on its own numbers: not those of blocks, tiles, arrays and objects."""
    if isinstance(row.lower, Cooperative) or (
        isinstance(row.lower, Inline) and (row.lower.called or row.lower.outlined)
    ):
        return False
    return bool(row.patterns) and not any(isinstance(p, (ir.Array, ArrayOf, TileOf)) for p in row.patterns)


def _row(row: Overload, scalar: ir.Scalar) -> Row | None:
    types = tuple(_concrete(p, scalar) for p in row.patterns)
    got = row.match(types)
    if isinstance(got, int) or all(ir.scalar_of(t) != scalar for t in types):
        return None
    args = [f"a{k}[i]" for k in range(len(types))]
    title = f"{row.name}({', '.join(map(_short, types))})"
    if row.name in OPERATORS:
        lines = [f"out0[i] = {args[0]} {OPERATORS[row.name]} {args[1]}"]
    elif row.assigns:
        lines = _assigning(row, args, len(got.results))
    else:
        call = f"wp.{row.name}({', '.join(args)})"
        names = [f"r{k}" for k in range(len(got.results))]
        several = [f"{', '.join(names)} = {call}", *(f"out{k}[i] = {r}" for k, r in enumerate(names))]
        lines = several if len(names) > 1 else [f"out0[i] = {call}"]
    gradient = not isinstance(row.adjoint, NoGradient) and any(map(ir.is_differentiable, got.results))
    gradient = gradient and any(map(ir.is_differentiable, types))
    return Row(title, row.name, row.params, types, got.results, tuple(lines), gradient)


def _assigning(row: Overload, args: Sequence[str], results: int) -> list[str]:
    """A call that changes variables, whose new values are its last results."""
    variables = {p: f"v{k}" for k, p in enumerate(row.params) if p in row.assigns}
    given = ", ".join(variables.get(p, arg) for p, arg in zip(row.params, args, strict=True))
    lines = [f"v{k} = {args[k]}" for k, p in enumerate(row.params) if p in row.assigns]
    own = [f"r{k}" for k in range(results - len(row.assigns))]
    lines.append(f"{', '.join(own)} = wp.{row.name}({given})" if own else f"wp.{row.name}({given})")
    return lines + [f"out{k}[i] = {v}" for k, v in enumerate([*own, *variables.values()])]


def _concrete(pattern: Any, scalar: ir.Scalar) -> ir.Type:
    if isinstance(pattern, ir.Type):
        return pattern
    scalar = pattern.dtype if isinstance(getattr(pattern, "dtype", None), ir.Scalar) else scalar
    match pattern:
        case VecOf(n, _):
            return ir.Vec(n if isinstance(n, int) else SIZE, scalar)
        case MatOf(r, c, _):
            return ir.Mat(r if isinstance(r, int) else SIZE, c if isinstance(c, int) else SIZE, scalar)
        case QuatOf():
            return ir.Quat(scalar)
        case TransformOf():
            return ir.Transform(scalar)
        case AnyValue():
            return scalar
    return scalar


def _forms(scalar: ir.Scalar) -> Iterator[Row]:
    for title, call in FORMS.items() if scalar.is_float else ():
        yield Row(f"{title}, {scalar}", title, ("x",), (scalar,), (scalar,), (f"out0[i] = {call}",), True)


def _casts(scalar: ir.Scalar) -> Iterator[Row]:
    for to in (t for t in ir.SCALARS if str(t) in CASTS and t != scalar):
        gradient = to.is_float and scalar.is_float
        line = f"out0[i] = wp.{to}(a0[i])"
        yield Row(f"{to}({scalar})", str(to), ("x",), (scalar,), (to,), (line,), gradient)


def _short(t: ir.Type) -> str:
    """A type in a title, by the name that it has or would have."""
    match t:
        case ir.Mat(rows, cols, dtype) if rows < 5:
            return f"mat{rows}{cols}{SUFFIXES[dtype]}"
        case ir.Vec(n, dtype) if n < 5:
            return f"vec{n}{SUFFIXES[dtype]}"
        case ir.Quat(dtype):
            return f"quat{SUFFIXES[dtype]}"
        case ir.Transform(dtype):
            return f"transform{SUFFIXES[dtype]}"
    return type_text(t).removeprefix("wp.")


# --- arguments --------------------------------------------------------------------------------------------------

DOMAINS = {
    **dict.fromkeys(("sqrt", "log", "log2", "log10", *FORMS), (0.1, 3.0)),
    **dict.fromkeys(("asin", "acos", "erfinv"), (-0.9, 0.9)),
    "pow": (0.2, 2.0),
    "tan": (-1.2, 1.2),
    "erfcinv": (0.05, 1.95),
    "poisson": (1.0, 4.0),
}
"""Where usual arguments lie, for builtins that are not defined or not smooth between -3 and 3."""

KINDS = ("usual", "negative", "denormal", "large", "huge", "zero", "infinite", "NaN", "mixed")
"""The kinds of arguments; ``mixed`` has one of another kind among 16 usual ones."""


def usual(row: Row, count: int) -> list[np.ndarray]:
    """Return arguments of each parameter as a program has them, the same at each call."""
    rng = np.random.default_rng(5)
    low, high = DOMAINS.get(row.name, (-3.0, 3.0))
    made = [_random(rng, t, count, low, high) for t in row.types]
    for a, name, t in zip(made, row.names, row.types, strict=True):
        if row.name.endswith("_euler") and name in ("i", "j", "k"):
            a[:] = "ijk".index(name)
        if row.name == "curlnoise" and name == "octaves":
            a[:] = 1
        if isinstance(t, (ir.Quat, ir.Transform)):
            q = a[..., -4:]
            q /= np.linalg.norm(q.astype(np.float64), axis=-1, keepdims=True).astype(a.dtype)
    return made


def numpy_dtype(t: ir.Type) -> Any:
    """Return the NumPy dtype of a type's numbers: float32 for bfloat16, which NumPy does not have."""
    scalar = ir.scalar_of(t)
    assert scalar is not None
    return np.dtype("float32" if scalar == ir.bfloat16 else str(scalar))


def _random(rng: np.random.Generator, t: ir.Type, count: int, low: float, high: float) -> np.ndarray:
    dtype, shape = numpy_dtype(t), (count, *ir.element_shape(t))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        least = -100 if dtype.kind == "i" else 1
        numbers = rng.integers(least, 100, shape)
        return np.where(numbers == 0, 7, numbers).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def of_kind(kind: str, a: np.ndarray) -> np.ndarray:
    """Return the arguments ``a``, which are usual ones, changed into those of a kind."""
    info, rng, sign = np.finfo(a.dtype), np.random.default_rng(3), np.where(np.arange(len(a)) % 2, a.dtype.type(-1), 1)
    tiny = float(info.smallest_subnormal)
    match kind:
        case "negative":
            return -np.abs(a)
        case "denormal":
            return (rng.integers(1, int(float(info.tiny) / tiny) // 2, len(a)) * tiny).astype(a.dtype) * sign
        case "large":
            return (rng.uniform(1e5, 1e9, len(a)).astype(a.dtype)) * sign
        case "huge":
            return (float(info.max) * rng.uniform(1e-3, 0.9, len(a))).astype(a.dtype) * sign
        case "zero":
            return np.zeros_like(a)
        case "infinite":
            return np.full_like(a, np.inf) * sign
        case "NaN":
            return np.full_like(a, np.nan)
        case "mixed":
            ends = [-a, *(of_kind(k, a) for k in KINDS[2:-1])]
            return np.where(np.arange(len(a)) % 16 == 5, np.choose(np.arange(len(a)) // 16 % len(ends), ends), a)
    return a


def variants(kind: str, args: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Return lists of arguments with each one of them, and with all, of a kind."""
    n = len(args)
    which = [range(n)] if kind == "usual" or n == 1 else [range(n), *([k] for k in range(n))]
    return [[of_kind(kind, a) if k in chosen else a for k, a in enumerate(args)] for chosen in which]
