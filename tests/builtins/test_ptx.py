"""Every row of the tables, for every dtype that it takes, becomes PTX that the assembler accepts.

The calls of one group for one dtype stand in one kernel, since starting the assembler takes longer than its work. The
suite asks the oldest architecture, and a newer one for the types that it has instructions of its own for.
"""

from __future__ import annotations

import pytest

from tests.backend.test_ptx import accept, needs_libdevice
from tests.builtins.calls import Case, is_query, only
from tests.ir_builder import start, tid
from tests.long_tail import tail
from warp_like.builtins.patterns import ArrayOf, TileOf
from warp_like.builtins.spec import REGISTRY
from warp_like.ir.core import Function
from warp_like.ir.types import (
    SCALARS,
    Array,
    Scalar,
    Type,
    bfloat16,
    float16,
    int8,
    int16,
    int32,
    int64,
    uint16,
    uint32,
)
from warp_like.passes.pipeline import finish

GROUPS = list(dict.fromkeys(row.group for rows in REGISTRY.values() for row in rows))


def calls_of(group: str, scalar: Scalar) -> list[Case]:
    found = [c for c in only(scalar) if c.row.group == group and not c.row.name.startswith("_")]
    return [c for c in found if c.which in (None, 0)]


def kernel_of(calls: list[Case]) -> Function:
    """A kernel that makes all calls: arrays of arguments by type and position, one array of results by type."""
    arguments = {(k, t): f"in{n}" for n, (k, t) in enumerate(dict.fromkeys(_arguments(calls)))}
    results = {t: f"out{n}" for n, t in enumerate(dict.fromkeys(r for c in calls for r in _results(c)))}
    params: dict[str, Type] = {name: Array(t, 1) for (_, t), name in arguments.items()}
    params |= {name: Array(t, 1) for t, name in results.items()}
    f, b = start("calls", **params)
    at = dict(zip(params, f.params, strict=True))
    i = tid(b)
    values = {key: b.load(at[name], [i]) for key, name in arguments.items()}
    for n, call in enumerate(calls):
        got = b.apply(call.row.name, *(values[key] for key in enumerate(call.types)))
        where = b.add(b.mul(i, len(calls)), b.constant(n, int32))
        for value in got if isinstance(got, tuple) else (got,):
            b.store(at[results[value.type]], [where], value)
    b.yield_()
    return f


def _arguments(calls: list[Case]) -> list[tuple[int, Type]]:
    return [key for c in calls for key in enumerate(c.types)]


def _results(call: Case) -> tuple[Type, ...]:
    got = call.row.match(call.types)
    assert not isinstance(got, int)
    return got.results


TAIL = (uint32, int64, int8, int16, uint16)
"""Integers whose sizes and signs other types of the suite have."""
SCALAR_GROUPS = ("Operators", "Scalar Math", "Vector Math")
"""The groups in which instructions for halves appear; other builtins are made of these."""
TABLE = [(g, t) for g in GROUPS for t in SCALARS if calls_of(g, t)]
ARCHITECTURES = [
    (g, t, "sm_80") if g == "Random" or (t not in TAIL and (g in SCALAR_GROUPS or k % 2)) else tail(g, t, "sm_80")
    for k, (g, t) in enumerate(TABLE)
]
NEWER = [(g, t) for g, t in TABLE if g in SCALAR_GROUPS and t in (float16, bfloat16)]
ARCHITECTURES += [(g, t, "sm_90") if (g, t) in NEWER else tail(g, t, "sm_90") for g, t in TABLE]


@needs_libdevice
@pytest.mark.parametrize(("group", "scalar", "arch"), ARCHITECTURES, ids=str)
def test_group_assembles(group: str, scalar: Scalar, arch: str) -> None:
    assert f".target {arch}" in accept(finish(kernel_of(calls_of(group, scalar))), arch)


def test_the_table_holds_every_row() -> None:
    reached = {id(c.row) for g, t in TABLE for c in calls_of(g, t)}
    public = [r for name, rows in REGISTRY.items() if not name.startswith("_") for r in rows]
    missing = {r.name for r in public if id(r) not in reached}
    without = {r.name for r in public if not r.patterns}
    arrays = {r.name for r in public if any(isinstance(p, (Array, ArrayOf, TileOf)) for p in r.patterns)}
    queries = {r.name for r in public if is_query(r)}
    assert missing <= without | arrays | queries
