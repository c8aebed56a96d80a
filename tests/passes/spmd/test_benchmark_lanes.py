"""How the programs of the throughput table run in lanes: what their speed rests on, without taking a time.

The golden table has for each program how many lanes and rows there are for AVX-512, and how often these reach memory:
``alike`` is one element for all lanes, ``dense`` are neighbouring ones, ``apart`` is an address for each lane. Where
lanes are expected to be neighbours but need not be, both ways count.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import warp_like as wp
from warp_like.analysis.memory import analyse
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function, Op
from warp_like.ir.types import Lanes
from warp_like.passes.spmd.choice import choose
from warp_like.passes.sums import reduced_arrays

FOLDER = Path(__file__).parents[3] / "examples" / "benchmarks"


@pytest.fixture
def entries(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import programs

    yield programs.ENTRIES
    for name in [name for name in sys.modules if name.partition(".")[0] == "programs"]:
        del sys.modules[name]


def place(o: Op) -> str:
    """How the lanes' elements of an access lie."""
    if isinstance(o.array.type, Lanes):
        return "own"
    if not any(isinstance(i.type, Lanes) for i in o.indices):
        return "alike"
    *outer, last = o.indices
    dense = isinstance(last.op, ops.Iota) and last.op.stride == 1 and not any(isinstance(i.type, Lanes) for i in outer)
    return "dense" if dense else "apart"


def accesses(f: Function) -> str:
    kinds = {ops.Load: "loads", ops.Store: "stores", ops.Atomic: "atomics"}
    found = Counter((kinds[type(o)], place(o)) for o in f.body.walk() if type(o) in kinds)
    parts = []
    for kind in kinds.values():
        counts = [f"{n} {where}" for where in ("alike", "dense", "apart", "own") if (n := found[kind, where])]
        parts += [f"{kind} {', '.join(counts)}"] * bool(counts)
    return "; ".join(parts)


def test_benchmarks(entries, golden):
    rows = []
    for entry in entries:
        kernel = entry.case.kernel(wp, getattr(wp, np.dtype(entry.real).name))
        scalar = optimised(kernel.source, Signature(kernel.types))
        choice = choose(scalar, 512, 32, 0, reduced_arrays(analyse(scalar)))
        if choice.width == 1:
            rows.append(f"{entry.name:16}{choice.reason}")
            continue
        f = choice.function.schedule.coarsened or choice.function
        times = f" x {f.schedule.rows} rows" if f.schedule.rows > 1 else ""
        rows.append(f"{entry.name:16}{f'{f.schedule.lanes} lanes{times}':20}{accesses(f)}")
    golden("lanes_of_benchmarks", "\n".join(rows) + "\n")
