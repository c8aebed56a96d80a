"""Comparisons that ranges decide, and those that depend on the launch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir_builder import assert_same, loop, start
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, int32
from warp_like.passes.fold_comparisons import fold_comparisons

RELATIONS = ("lt", "le", "gt", "ge")


def compared(fn: str, low: int, high: int, limit: int | None) -> Function:
    """How ``fn`` holds for the numbers from ``low`` to before ``high``; an argument without a limit."""
    f, b = start(x=Array(int32, 1), n=int32)
    x, n = f.params
    with loop(b, low, high) as body:
        found = b.apply(fn, body.i, n if limit is None else b.index(limit))
        b.store(x, [b.sub(body.i, low)], b.cast(found, int32))
    b.yield_()
    return f


def decided(f: Function) -> bool:
    return not any(isinstance(o, ops.Apply) and o.fn in RELATIONS for o in f.body.walk())


@pytest.mark.parametrize("fn", RELATIONS)
def test_edges(fn: str) -> None:
    low, high = -3, 6
    for limit in (-5, -4, -3, -2, 4, 5, 6, 7, None):
        before = compared(fn, low, high, limit)
        after = fold_comparisons(clone_function(before))
        assert_same(before, after, [np.zeros(high - low, np.int32), 2], (1,))
        outcomes = (
            {
                getattr(np, {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}[fn])(i, limit)
                for i in range(low, high)
            }
            if limit is not None
            else {True, False}
        )
        assert decided(after) == (len(outcomes) == 1)
