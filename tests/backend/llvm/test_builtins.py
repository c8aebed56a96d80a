"""Every row of the builtin tables compiles for both targets, those with a body after it took their place.

For scalars of all types ``tests/builtins`` compiles the public rows for both, and runs them on one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

import warp_like.builtins  # noqa: F401  (fills the registry)
from tests.backend.running import to_plain_object
from tests.builtins.calls import cases, has_reference, is_query
from tests.ir_builder import start, tid
from tests.long_tail import more, tail
from warp_like.backend.compile import to_ptx
from warp_like.backend.libdevice import find_libdevice
from warp_like.backend.llvm.instructions import SCALAR, WHOLE
from warp_like.backend.target import Options, cuda_target
from warp_like.builtins.overload import Cooperative, Elementwise, Expand, Inline, Overload, Symbol, Target
from warp_like.builtins.patterns import ArrayOf, Pattern, TileOf, substitute
from warp_like.builtins.spec import REGISTRY, resolve
from warp_like.ir.core import Function
from warp_like.ir.types import (
    FLOATS,
    INTS,
    SCALARS,
    Array,
    Mat,
    Scalar,
    Type,
    Vec,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    scalar_of,
    uint16,
)
from warp_like.passes.blocks import in_single_threads
from warp_like.passes.expand import expand

LOWERED = (Target, Symbol, Elementwise, Expand, Inline, Cooperative)


def shown(x: Overload | bool) -> str:
    return ("some", "others")[x] if isinstance(x, bool) else f"{x.name}({', '.join(map(str, x.patterns))})"


def rows() -> list[Overload]:
    """The rows that the kernels below call: all that is lowered and takes no array; tiles have tests of their own."""
    lowered = [row for name in sorted(REGISTRY) for row in REGISTRY[name] if isinstance(row.lower, LOWERED)]
    apart = [row for row in lowered if any(isinstance(p, (Array, ArrayOf, TileOf)) for p in row.patterns)]
    return [row for row in lowered if row not in apart and not is_query(row)]


def typings(row: Overload) -> Iterator[tuple[Type, ...]]:
    """Argument types of ``row``: every scalar type, vectors of 3 and matrices of 2 by 2."""
    seen = set()
    for scalar in (*FLOATS, *INTS, bool_):
        for whole in (scalar, Vec(3, scalar), Mat(2, 2, scalar)):
            env = {"T": whole, **dict.fromkeys("NRCK", 3 if isinstance(whole, Vec) else 2)}
            types = tuple(_concrete(p, scalar, env) for p in row.patterns)
            if isinstance(row.match(types), int):
                continue  # sooner than by an error that says why
            try:
                fits = resolve(row.name, types).overload is row
            except TypeError:
                continue
            if fits and types not in seen:
                seen.add(types)
                yield types


def _concrete(p: Pattern, scalar: Scalar, env: dict[str, object]) -> Type:
    variables = dict.fromkeys("FISBXHW", scalar)
    return substitute(p, {**variables, **env})


@functools.cache
def compiled_elsewhere() -> set[tuple[Overload, tuple[Type, ...]]]:
    """The rows and types that ``tests/builtins`` compares with references, and assembles."""
    found = (c for scalar in SCALARS for c in cases(scalar) if has_reference(c) and not c.row.name.startswith("_"))
    return {(c.row, c.types) for c in found}


TAIL = {int8, int16, uint16, int64}
"""Integers whose sizes and signs other types of the suite have."""
COMPONENTS = {float16, float32, int32, bool_}
"""The components of the vectors and matrices of the suite; of components the scalars of all types speak."""


def is_in_tail(t: Type) -> bool:
    scalar = scalar_of(t)
    return scalar in TAIL or (not isinstance(t, Scalar) and scalar not in COMPONENTS)


def left(row: Overload, long: bool) -> list[tuple[Type, ...]]:
    """The types that are left to this test: those of the suite, or of the long tail."""
    found = [types for types in typings(row) if (row, types) not in compiled_elsewhere()]
    others = [types for types in found if any(map(is_in_tail, types))]
    few = [types for types in found if types not in others] or found
    return [types for types in found if types not in few] if long else few


def kernel(row: Overload, found: list[tuple[Type, ...]]) -> Function:
    """One kernel that calls ``row`` with all the types."""
    params, calls = {}, []
    for k, types in enumerate(found):
        results = resolve(row.name, types).results
        for j, t in enumerate((*types, *results)):
            params[f"a{k}_{j}"] = Array(t, 1)
        calls.append((len(types), len(types) + len(results)))
    f, b = start(f"all_{row.name}", **params)
    i, at = tid(b), 0
    for n, total in calls:
        args = [b.load(p, [i]) for p in f.params[at : at + n]]
        got = b.apply(row.name, *args)
        for k, x in enumerate(got if isinstance(got, tuple) else (got,)):
            b.store(f.params[at + n + k], [i], x)
        at += total
    b.yield_()
    return f


def table() -> list[Any]:
    """Every row, with the types of the suite and with those of the long tail."""
    few = [(row, False) for row in rows() if left(row, False)]
    return few + [tail(row, True) for row in rows() if left(row, True)]


@more
@pytest.mark.parametrize(("row", "long"), table(), ids=shown)
def test_compiles(row: Overload, long: bool) -> None:
    f = expand(kernel(row, left(row, long)))
    if find_libdevice() is not None:
        assert ".entry wl_all_" in to_ptx(f, cuda_target("sm_80"), Options(contiguous=True))
    assert to_plain_object(in_single_threads(f), Options(contiguous=True))[:4] == b"\x7fELF"


@pytest.mark.parametrize("row", rows(), ids=shown)
def test_takes_types(row: Overload) -> None:
    assert next(typings(row), None) is not None


def test_table_has_no_other_rows() -> None:
    """Each name of the backend's tables is a builtin with a Target lowering, and the other way round."""
    assert set(SCALAR) | set(WHOLE) == {row.name for row in rows() if isinstance(row.lower, Target)}


def test_rows_cover_all_floats() -> None:
    sine = next(r for r in rows() if r.name == "sin")
    assert list(typings(sine)) == [(t,) for t in FLOATS]
    assert (float32, float64) not in list(typings(next(r for r in rows() if r.name == "add")))
    assert (int32, int32) in list(typings(next(r for r in rows() if r.name == "add")))
