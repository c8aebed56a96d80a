"""What is the same for the threads of a block or warp, and where they stay together."""

from __future__ import annotations

from tests.ir_builder import branch, loop, start, tid, while_
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.types import Array, bool_, float32, int32, uint64
from warp_like.passes.uniform import BLOCK, THREAD, WARP, Uniformity

X, N = Array(float32, 1), Array(int32, 1)


def _start() -> tuple[Function, Emitter]:
    return start(x=X, y=X, k=N, n=int32)


def test_arithmetic_has_the_level_of_its_operands() -> None:
    f, b = _start()
    n, i = f.params[3], tid(b)
    warp = b.div(b.block_thread(), b.warp_size())
    same, mine, of_warp = b.mul(n, 2), b.add(i, n), b.add(warp, n)
    other = b.div(b.block_thread(), n)  # a division, but not by the size of a warp
    b.yield_()
    levels = Uniformity(f).levels
    assert [levels[v] for v in (same, mine, of_warp, other)] == [BLOCK, THREAD, WARP, THREAD]


def test_elements_are_the_same_where_nothing_writes_their_array() -> None:
    f, b = _start()
    x, y, _, n = f.params
    i = tid(b)
    shared = b.insert(ops.LocalArray((4,), shared=True), X).result
    loads = [b.load(array, [n]) for array in (x, y, shared)]
    mine = b.load(x, [i])
    b.store(y, [i], mine)
    b.yield_()
    levels = Uniformity(f).levels
    assert [levels[v] for v in (*loads, mine)] == [BLOCK, THREAD, THREAD, THREAD]


def test_memory_by_an_address_makes_every_element_unknown() -> None:
    for at_address in (False, True):
        f, b = start(x=X, n=int32, address=uint64)
        x, n, address = f.params
        v = b.load(x, [n])
        if at_address:
            b.store(b.insert(ops.AtAddress(address, (n,)), X).result, [n], v)
        b.yield_()
        assert Uniformity(f).levels[v] == (THREAD if at_address else BLOCK)


def test_results_of_atomics_differ_and_sums_of_a_block_agree() -> None:
    f, b = _start()
    k, n = f.params[2:]
    old = b.atomic("add", k, [n], n)
    total = b.block_sum(old)
    of_warp = b.warp_sum(old)
    b.yield_()
    levels = Uniformity(f).levels
    assert [levels[v] for v in (old, total, of_warp)] == [THREAD, BLOCK, WARP]


def test_branches_give_the_level_of_condition_and_sides() -> None:
    f, b = _start()
    n, i = f.params[3], tid(b)
    (by_thread,) = branch(b, b.lt(i, n), lambda: (n,), lambda: (b.mul(n, 2),))
    (by_block,) = branch(b, b.lt(n, 3), lambda: (n,), lambda: (b.mul(n, 2),))
    (mixed,) = branch(b, b.lt(n, 3), lambda: (n,), lambda: (i,))
    b.yield_()
    known = Uniformity(f)
    assert [known.levels[v] for v in (by_thread, by_block, mixed)] == [THREAD, BLOCK, THREAD]
    first, second, _ = [o for o in f.body.ops if isinstance(o, ops.If)]
    assert known.within[first] == (BLOCK, None)
    assert known.within[first.orelse.ops[0]] == (THREAD, first)
    assert known.within[second.orelse.ops[0]] == (BLOCK, None)


def test_a_carried_value_may_differ_from_the_second_round_on() -> None:
    f, b = _start()
    n, i = f.params[3], tid(b)
    with loop(b, 0, n, init=[n, n, n]) as body:
        first, second, third = body.carried
        body.next = (second, b.add(first, i), b.add(third, body.i))
    b.yield_()
    levels = Uniformity(f).levels
    assert [levels[v] for v in body.results] == [THREAD, THREAD, BLOCK]
    assert levels[body.i] == BLOCK


def test_a_loop_that_threads_leave_at_different_times_parts_them() -> None:
    f, b = _start()
    n, i = f.params[3], tid(b)

    def below(limit: Value) -> tuple[Value, ...]:
        return while_(b, [b.index(0)], lambda k: b.lt(k, limit), lambda k: (b.add(k, 1),))

    (together,), (apart,) = below(n), below(i)
    b.yield_()
    known = Uniformity(f)
    first, second = [o for o in f.body.ops if isinstance(o, ops.While)]
    assert [known.levels[v] for v in (together, apart)] == [BLOCK, THREAD]
    assert known.within[first.body.ops[0]] == (BLOCK, None)
    assert known.within[second.body.ops[0]] == (THREAD, second)


def test_places_inside_of_both_have_the_worse_level() -> None:
    f, b = _start()
    n, i = f.params[3], tid(b)
    inner: list[Op] = []

    def nested() -> tuple[Value, ...]:
        branch(b, b.lt(n, 3), lambda: (inner.append(b.neg(n).op), ())[1])
        return ()

    branch(b, b.constant(True, bool_), lambda: branch(b, b.lt(i, n), nested))
    b.yield_()
    assert Uniformity(f).within[inner[0]][0] == THREAD
