"""Loops that read where they write: which read the initial value then, and in which order they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ir_builder import assert_same, loop, start
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Tile, float64, int32
from warp_like.passes.decouple_iterations import decouple_iterations

N = 12
X = Array(float64, 1)


def updates(
    bounds: tuple[Any, Any, int], read: int = 0, write: int = 0, *, used: bool = True, fill: bool = False, to: str = ""
) -> Function:
    """A loop that adds to elements at its index plus ``write`` what is at its index plus ``read``, and its number."""
    f, b = start(x=X, y=X, n=int32)
    x, y, n = f.params
    t = b.fill(Tile((N,), float64), b.load(x, [b.index(0)]))
    if not fill:
        t = b.insert_component(t, b.load(x, [b.index(1)]), 3)
    lo, hi = (n if v == "n" else v for v in bounds[:2])
    with loop(b, lo, hi, bounds[2], [t]) as body:
        (made,), i = body.carried, body.i
        old = b.extract(made, b.add(i, read) if read else i)
        if to:
            b.atomic("add", y, [b.index(0) if to == "one" else i], old)
        value = b.add(b.mul(old, 3.0), b.cast(i, float64))
        body.next = (b.insert_component(made, value, b.add(i, write) if write else i),)
    if used:
        with loop(b, 0, N) as out:
            b.store(x, [out.i], b.extract(body.results[0], out.i))
    b.yield_()
    return f


def loop_of(f: Function) -> ops.For:
    return next(o for o in f.body.ops if isinstance(o, ops.For))


def is_decoupled(f: Function) -> bool:
    o = loop_of(f)
    return not any(isinstance(x, ops.Extract) and x.x in o.body.params for x in o.body.walk())


def counts_up(f: Function) -> bool:
    return ops.is_scalar_constant(loop_of(f).step, 1)


CASES: dict[str, tuple[Function, bool, bool]] = {
    "all": (updates((0, N, 1)), True, True),
    "all, down": (updates((N - 1, -1, -1)), True, True),
    "a part of one number": (updates((N - 2, 1, -1), fill=True), True, True),
    "a part of several numbers": (updates((N - 2, 1, -1)), False, False),
    "a part that is not used": (updates((N - 2, 1, -1), used=False, to="each"), True, True),
    "the element before": (updates((1, N, 1), read=-1), False, True),
    "the element behind": (updates((0, N - 1, 1), write=1, read=1), False, True),
    "out of range": (updates((0, "n", 1), fill=True), False, True),
    "updates of each element": (updates((N - 1, -1, -1), to="each"), True, True),
    "updates of one element": (updates((N - 1, -1, -1), to="one"), True, False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_depends(name: str) -> None:
    before, decoupled, up = CASES[name]
    after = decouple_iterations(clone_function(before))
    for n in (0, 5, N + 3):
        assert_same(before, after, [np.linspace(0.5, 2.0, N), np.zeros(N), n], (1,))
    assert is_decoupled(after) == decoupled
    assert counts_up(after) == up
