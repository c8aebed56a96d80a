"""Which loops a team of threads shares out: those whose iterations may run in any order, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.ir_builder import loop, start, tid
from warp_like.analysis.ranges import find_ranges
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import Array, float32
from warp_like.passes.team.accesses import Accesses
from warp_like.passes.team.bodies import size_of_block
from warp_like.passes.team.sharing import Nest, Sharing

X, X2 = Array(float32, 1), Array(float32, 2)

LOOPS: dict[str, tuple[Callable[[Any, Any, Any, Any], None], bool]] = {
    "each its own": (lambda b, x, a, i: b.store(a, [i], b.load(x, [i])), True),
    "in place": (lambda b, x, a, i: b.store(a, [i], b.add(b.load(a, [i]), 1.0)), True),
    "reversed": (lambda b, x, a, i: b.store(a, [b.sub(63, i)], b.load(x, [i])), True),
    "pairs": (
        lambda b, x, a, i: [b.store(a, [b.add(b.mul(i, 2), k)], b.load(a, [b.mul(i, 2)])) for k in range(2)],
        True,
    ),
    "neighbours overlap": (lambda b, x, a, i: [b.store(a, [b.add(i, k)], b.load(x, [i])) for k in range(2)], False),
    "from the one before": (lambda b, x, a, i: b.store(a, [b.add(i, 1)], b.load(a, [i])), False),
    "far apart": (lambda b, x, a, i: b.store(a, [b.add(i, 64)], b.load(a, [i])), True),
    "not far enough": (lambda b, x, a, i: b.store(a, [b.add(i, 63)], b.load(a, [i])), False),
    "two to one": (lambda b, x, a, i: b.store(a, [b.div(i, 2)], b.load(x, [i])), False),
    "one place": (lambda b, x, a, i: b.store(a, [b.index(3)], b.load(x, [i])), False),
    "through an index": (lambda b, x, a, i: b.store(a, [b.cast(b.load(x, [i]), i.type)], b.load(x, [i])), False),
    "sums in one place": (lambda b, x, a, i: b.atomic("add", x, [b.index(0)], b.load(a, [i])), True),
    "an old value": (lambda b, x, a, i: b.store(a, [i], b.atomic("add", x, [b.index(0)], b.load(a, [i]))), False),
    "a barrier": (lambda b, x, a, i: [b.insert(ops.Barrier()), b.store(a, [i], b.load(x, [i]))], False),
}


def nest_of(f: Function, *, apart: bool = True, contiguous: bool = True) -> Nest | None:
    first = next(o for o in f.body.ops if isinstance(o, ops.For))
    return Sharing(Accesses(f, apart, contiguous), find_ranges(f)).nest(first)


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    build, is_shared = LOOPS[name]
    f, b = start(x=X)
    a = b.insert(ops.LocalArray((256,), zeroed=False), X).result
    with loop(b, 0, 64) as body:
        build(b, f.params[0], a, body.i)
    b.yield_()
    assert (nest_of(f) is not None) == is_shared


def test_loops_in_each_other_are_one() -> None:
    for stride, size in ((8, 512), (4, 64)):  # rows of 8 elements, which do or do not overlap
        f, b = start(x=X)
        a = b.insert(ops.LocalArray((1024,), zeroed=False), X).result
        with loop(b, 0, 64) as rows, loop(b, 0, 8) as columns:
            b.store(a, [b.add(b.mul(rows.i, stride), columns.i)], b.load(f.params[0], [columns.i]))
        b.yield_()
        nest = nest_of(f)
        assert (nest.size if nest is not None else 64) == size


def test_memory_of_arguments() -> None:
    """Arguments that may overlap, or whose elements may share memory, are not written in another order."""
    for apart, contiguous, is_shared in ((True, True, True), (False, True, False), (True, False, False)):
        f, b = start(x=X2, y=X2)
        i = tid(b)
        with loop(b, 0, 64) as body:
            b.store(f.params[1], [i, body.i], b.load(f.params[0], [i, body.i]))
        b.yield_()
        assert (nest_of(f, apart=apart, contiguous=contiguous) is not None) == is_shared


def test_threads_share_no_memory_of_passes() -> None:
    """What threads do needs no proof, unless it is memory that was made for one of them after the other."""
    for zeroed in (True, False):
        f, b = start(x=X)
        a = b.insert(ops.LocalArray((4,), zeroed=zeroed), X).result
        with loop(b, 0, 64) as body:
            b.store(a, [b.index(1)], b.load(f.params[0], [body.i]))
        b.yield_()
        made = next(o for o in f.body.ops if isinstance(o, ops.For))
        made.threads = True
        assert (nest_of(f) is not None) == zeroed


def test_sums_are_shared_where_their_order_does_not_matter() -> None:
    for sums in (True, False):
        f, b = start(x=X)
        with loop(b, 0, 64, init=[b.constant(0.0, float32)]) as body:
            body.next = (b.add(body.carried[0], b.load(f.params[0], [body.i])),)
        b.yield_()
        made = next(o for o in f.body.ops if isinstance(o, ops.For))
        made.sums = sums
        assert (nest_of(f) is not None) == sums


def test_what_is_carried_otherwise_is_not() -> None:
    f, b = start(x=X)
    with loop(b, 0, 64, init=[b.constant(0.0, float32)]) as body:
        body.next = (b.add(b.mul(body.carried[0], 0.5), b.load(f.params[0], [body.i])),)
    b.yield_()
    made = next(o for o in f.body.ops if isinstance(o, ops.For))
    made.sums = True
    assert nest_of(f) is None


def test_products_give_all_threads_work() -> None:
    assert size_of_block(64, 64, 64) == (8, 8)
    assert size_of_block(64, 64, 256) == (4, 4)
    assert size_of_block(30, 7, 64) == (1, 1)
    for rows, columns, team in ((64, 64, 128), (16, 16, 32), (3, 5, 64), (128, 8, 96)):
        r, c = size_of_block(rows, columns, team)
        assert rows % r == columns % c == 0
        assert rows * columns // (r * c) >= min(team, rows * columns)
