"""Concrete calls of builtin rows: types for their patterns, sample arguments, a kernel that makes the call."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import warp_like.builtins  # noqa: F401  (fills the registry)
from tests.interpreter_values import numpy_dtype
from tests.ir_builder import start, tid
from warp_like.builtins.patterns import AnyValue, ArrayOf, MatOf, QuatOf, TileOf, TransformOf, VecOf
from warp_like.builtins.spec import REGISTRY, Inline, Overload, resolve
from warp_like.ir.core import Function
from warp_like.ir.types import SCALARS, Array, Mat, Quat, Scalar, Transform, Type, Vec, element_shape, scalar_of

DIMS = {"N": 3, "R": 2, "C": 3, "K": 4}

DOMAIN = {
    **dict.fromkeys(("sqrt", "log", "log2", "log10"), (0.1, 3.0)),
    **dict.fromkeys(("asin", "acos", "_asin", "_acos"), (-0.9, 0.9)),
    "pow": (0.2, 2.0),
    "tan": (-1.2, 1.2),
    "erfinv": (-0.95, 0.95),
    "erfcinv": (0.05, 1.95),
}
"""Where random arguments lie, for builtins that are not smooth between -3 and 3."""


DECOMPOSITIONS = ("svd3", "svd2", "eig3", "qr3")
"""What is right for these follows from the product of the results, not from each: they have tests of their own."""


def has_reference(case: Case) -> bool:
    """Whether the results can be compared with the row's reference one by one."""
    return case.row.ref is not None and case.row.name not in DECOMPOSITIONS


@dataclass(frozen=True, eq=False)
class Case:
    """A row with types for its arguments, and one of its results; ``which`` is None where it is the only one."""

    row: Overload
    types: tuple[Type, ...]
    result: Type
    which: int | None = None

    def __str__(self) -> str:
        which = "" if self.which is None else f"[{self.which}]"
        return f"{self.row.name}({', '.join(map(str, self.types))}){which}"


def is_query(row: Overload) -> bool:
    """Whether a row asks an object by id: ``tests/runtime/geometry`` tests and compiles these."""
    return isinstance(row.lower, Inline) and (row.lower.called or row.lower.outlined)


def rows() -> list[Overload]:
    """All rows that take values, in order; those that ask objects by id have tests of their own."""
    return [
        row
        for overloads in REGISTRY.values()
        for row in overloads
        if row.patterns
        and not any(isinstance(p, (Array, ArrayOf, TileOf)) for p in row.patterns)
        and not is_query(row)
        and row.name != "_detached"  # whose derivative is 0 although it is the identity
    ]


@functools.cache
def cases(scalar: Scalar) -> tuple[Case, ...]:
    """The rows that take ``scalar``, with types made of it."""
    return tuple(case for row in rows() for case in _cases(row, scalar))


@functools.cache
def only(scalar: Scalar) -> tuple[Case, ...]:
    """The cases of ``scalar`` that are not those of a type before it in ``SCALARS`` as well."""
    before = {str(c) for t in SCALARS[: SCALARS.index(scalar)] for c in cases(t)}
    return tuple(c for c in cases(scalar) if str(c) not in before)


def _cases(row: Overload, scalar: Scalar) -> Iterator[Case]:
    for value in (scalar, Vec(2, scalar)) if any(isinstance(p, AnyValue) for p in row.patterns) else (scalar,):
        types = tuple(_concrete(p, scalar, value) for p in row.patterns)
        got = row.match(types)
        if isinstance(got, int) or all(scalar_of(t) != scalar for t in types):
            continue
        assert resolve(row.name, types).overload is row, f"{row.name}: an earlier overload takes {types}"
        single = len(got.results) == 1
        for k, result in enumerate(got.results):
            yield Case(row, types, result, None if single else k)


def _concrete(pattern: Any, scalar: Scalar, value: Type) -> Type:
    if isinstance(pattern, Type):
        return pattern
    scalar = pattern.dtype if isinstance(getattr(pattern, "dtype", None), Scalar) else scalar
    match pattern:
        case VecOf(n, _):
            return Vec(n if isinstance(n, int) else DIMS[n], scalar)
        case MatOf(r, c, _):
            return Mat(r if isinstance(r, int) else DIMS[r], c if isinstance(c, int) else DIMS[c], scalar)
        case QuatOf():
            return Quat(scalar)
        case TransformOf():
            return Transform(scalar)
        case AnyValue():
            return value
    return scalar


def smooth(case: Case, count: int, seed: int = 5) -> list[np.ndarray]:
    """Random arguments, ``count`` of each, away from where derivatives jump."""
    rng = np.random.default_rng(seed)
    low, high = DOMAIN.get(case.row.name, (-3.0, 3.0))
    return _meant(case, [_random(rng, t, count, low, high) for t in case.types])


def telling(case: Case, seed: int = 7) -> list[np.ndarray]:
    """Random arguments, and for scalars and zero vectors the edges."""
    scalars = all(isinstance(t, Scalar) for t in case.types)
    rng = np.random.default_rng(seed)
    edges = [_edges(t) for t in case.types]
    if scalars:
        if len(edges) > 2:  # blending amplifies the rounding of large numbers, and the grid grows with the third power
            edges = [e if e.dtype.kind != "f" else e[~(np.isfinite(e) & (np.abs(e) > 9))] for e in edges]
        grids = np.meshgrid(*edges, indexing="ij")
        found = [g.ravel() for g in grids]
        low, high = DOMAIN.get(case.row.name, (-20.0, 20.0))
        return [np.concatenate([a, _random(rng, t, 60, low, high)]) for a, t in zip(found, case.types, strict=True)]
    made = [_random(rng, t, 40, -3, 3) for t in case.types]
    for a in made:
        a[0] = 0
    return _meant(case, made)


AXES = [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 1, 0), (2, 0, 2), (1, 2, 1)]


def _meant(case: Case, args: list[np.ndarray]) -> list[np.ndarray]:
    """Change arguments to what the builtin takes: numbers of axes, few octaves, unit quaternions."""
    for a, name, t in zip(args, case.row.params, case.types, strict=True):
        if case.row.name.endswith("_euler") and name in ("i", "j", "k"):
            a[:] = [AXES[n % len(AXES)]["ijk".index(name)] for n in range(len(a))]
        if case.row.name == "curlnoise" and name in ("octaves", "lacunarity"):  # fine octaves amplify rounding
            a %= 3
        if case.row.name == "quat_slerp" and isinstance(t, Quat):
            a[0] = 0.5
            a /= np.linalg.norm(a.astype(np.float64), axis=1, keepdims=True).astype(a.dtype)
    return args


def _random(rng: np.random.Generator, t: Type, count: int, low: float, high: float) -> np.ndarray:
    scalar = scalar_of(t)
    assert scalar is not None
    shape = (count, *element_shape(t))
    if scalar.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if scalar.is_int:
        return rng.integers(-9 if scalar.is_signed else 0, 10, shape).astype(str(scalar))
    return rng.uniform(low, high, shape).astype(numpy_dtype(scalar))


def _edges(t: Type) -> np.ndarray:
    scalar = scalar_of(t)
    assert scalar is not None
    if scalar.is_bool:
        return np.array([False, True])
    if scalar.is_int:
        info = np.iinfo(str(scalar))
        return np.array([0, 1, 2, 7, info.max, info.min, *([-1, -7] if scalar.is_signed else [])], str(scalar))
    some = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.0,
        1.5,
        2.0,
        2.5,
        -2.5,
        3.5,
        1e-3,
        37.25,
        -1e6,
        math.inf,
        -math.inf,
        math.nan,
    ]
    with np.errstate(over="ignore"):
        return np.array(some).astype(numpy_dtype(scalar))


def kernel(*cases: Case) -> Function:
    """A kernel ``out[i] = builtin(a0[i], a1[i], ...)`` of the arguments and the result of each case."""
    params: dict[str, Type] = {}
    for n, case in enumerate(cases):
        params |= {f"a{n}_{k}": Array(t, 1) for k, t in enumerate(case.types)}
        params[f"out{n}"] = Array(case.result, 1)
    f, b = start("call", **params)
    i, left = tid(b), iter(f.params)
    for case in cases:
        args = [b.load(next(left), [i]) for _ in case.types]
        got = b.apply(case.row.name, *args)
        b.store(next(left), [i], got if case.which is None else got[case.which])
    b.yield_()
    return f


def empty(t: Type, count: int) -> np.ndarray:
    """Memory for ``count`` values of ``t``."""
    scalar = scalar_of(t)
    assert scalar is not None
    return np.zeros((count, *element_shape(t)), numpy_dtype(scalar))


def reference(case: Case, args: list[np.ndarray], double: bool = True) -> np.ndarray:
    """What the row's reference gives, floats computed in double precision or in the dtype of the arguments."""
    assert case.row.ref is not None
    out = empty(case.result, len(args[0]))
    out = out.astype(np.float64) if double and out.dtype.kind == "f" else out
    with np.errstate(all="ignore"):
        for k in range(len(out)):
            values = [a[k] for a in args]
            got = case.row.ref(*(v.astype(np.float64) if double and v.dtype.kind == "f" else v for v in values))
            out[k] = got if case.which is None else got[case.which]
    return out


__all__ = ["Case", "cases", "empty", "has_reference", "kernel", "only", "reference", "rows", "smooth", "telling"]
