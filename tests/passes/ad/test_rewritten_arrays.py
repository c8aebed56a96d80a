"""Which arrays an adjoint needs copies of: told from the kernel's memory model alone."""

from __future__ import annotations

import pytest

from tests.ir_builder import start, tid
from warp_like.analysis.memory import analyse
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, float32
from warp_like.passes.ad.order import in_order, roots_in_order
from warp_like.passes.ad.primal import rewritten_arrays


@pytest.mark.parametrize("kind", ["add", "max", "exch"])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("read", [True, False])
def test_which_arrays_are_rewritten_is_known_before_atomics_are_lowered(kind: str, own: bool, read: bool) -> None:
    f, b = start(x=Array(float32, 1), y=Array(float32, 1))
    x, y = f.params
    i = tid(b)
    b.atomic(kind, x, [i if own else b.index(0)], b.load(y, [i]))
    b.store(y, [i], b.load(x, [i]) if read else b.constant(1.0, float32))
    b.yield_()
    memory = analyse(f)
    known = rewritten_arrays(memory, roots_in_order(memory))
    assert known == rewritten_arrays(analyse(in_order(clone_function(f))))
    assert known == ([0, 1] if own and (read or kind == "exch") else [1])
