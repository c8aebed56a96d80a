"""The memory model: roots, kinds, certainty and index classes of the accesses of small functions."""

from __future__ import annotations

from tests.ir_builder import branch, loop, start, tid, while_
from warp_like.analysis.indices import UNKNOWN, Affine, ThreadIndex, Uniform
from warp_like.analysis.memory import Access, Memory, Root, analyse, is_thread_private, offsets
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.native import NativeCode
from warp_like.ir.types import Array, Struct, bool_, float32, int16, int32, int64, uint32

X, XX, INTS = Array(float32, 1), Array(float32, 2), Array(int32, 1)
HOLDER = Struct("Holder", (("weight", float32), ("data", X)))
NESTED = Struct("Nested", (("part", HOLDER), ("more", Array(HOLDER, 1))))


def accesses(f: Function) -> list[Access]:
    """The accesses of ``f``, whose body is ended here."""
    Emitter(f.body).yield_()
    return list(analyse(f).accesses)


def parameter(f: Function, name: str) -> Root:
    return Root("parameter", next(p for p in f.params if p.hint == name))


# --- indices ---


def classes(make: object, **params: object) -> object:
    """The class of the index that ``make(b, i, *params)`` gives."""
    f, b = start(a=X, **params)  # type: ignore[arg-type]
    b.load(f.params[0], [make(b, tid(b), *f.params[1:])])  # type: ignore[operator]
    *_, got = accesses(f)
    assert got.indices is not None
    return got.indices[0]


def test_constants_beside_the_thread_index_are_offsets() -> None:
    assert classes(lambda b, i: i) == ThreadIndex(0, 1)
    assert classes(lambda b, i: b.add(b.sub(i, 3), 1)) == ThreadIndex(0, 1, -2)
    assert classes(lambda b, i: b.add(2, i)) == ThreadIndex(0, 1, 2)
    assert classes(lambda b, i: b.neg(b.sub(1, i))) == ThreadIndex(0, 1, -1)


def test_multiples_and_uniform_parts() -> None:
    assert classes(lambda b, i: b.add(b.mul(2, i), 1)) == Affine(((0, 1, 2),), 1)
    assert classes(lambda b, i, n: b.add(i, n), n=int32) == Affine(((0, 1, 1),))
    assert classes(lambda b, i, n: b.sub(n, i), n=int32) == Affine(((0, 1, -1),))
    assert classes(lambda b, i: b.sub(i, i)) == Uniform(0)
    assert classes(lambda b, i, n: b.mul(n, n), n=int32) == Uniform()
    assert classes(lambda b, i: b.constant(7, int32)) == Uniform(7)
    assert classes(lambda b, i, n: b.mul(i, n), n=int32) == UNKNOWN
    assert classes(lambda b, i, n: b.cast(n, int32), n=float32) == Uniform()


def test_an_index_of_two_dimensions_of_the_grid() -> None:
    f, b = start(a=X, n=int32)
    b.load(f.params[0], [b.add(b.mul(tid(b, 0, 2), 4), tid(b, 1, 2))])
    b.load(f.params[0], [b.add(b.mul(tid(b, 0, 2), f.params[1]), tid(b, 1, 2))])
    known, unknown = accesses(f)
    assert known.indices == (Affine(((0, 2, 4), (1, 2, 1)), 0),)
    assert unknown.indices == (UNKNOWN,)


def test_conversions_keep_what_they_cannot_change() -> None:
    assert classes(lambda b, i: b.cast(i, int64)) == ThreadIndex(0, 1)
    assert classes(lambda b, i: b.add(b.cast(i, int64), b.constant(3, int64))) == ThreadIndex(0, 1, 3)
    assert classes(lambda b, i: b.add(b.cast(i, uint32), b.constant(4294967295, uint32))) == ThreadIndex(0, 1, -1)
    assert classes(lambda b, i: b.cast(b.add(i, 1), int64)) == UNKNOWN  # it may have wrapped
    assert classes(lambda b, i: b.cast(i, int16)) == UNKNOWN
    assert classes(lambda b, i, n: b.cast(n, int16), n=int32) == Uniform()
    assert classes(lambda b, i: b.cast(b.constant(4294967295, uint32), int64)) == Uniform(4294967295)
    below_zero = classes(lambda b, i: b.cast(b.sub(b.constant(0, uint32), b.constant(1, uint32)), int64))
    assert below_zero == Uniform()  # and not -1


def test_elements_and_what_threads_ask_of_their_block_are_unknown() -> None:
    assert classes(lambda b, i, c: b.load(c, [b.constant(0, int32)]), c=INTS) == UNKNOWN
    assert classes(lambda b, i: b.apply("block_thread")) == UNKNOWN
    assert classes(lambda b, i, c: b.dim(c, 0), c=INTS) == Uniform()


def test_counters_are_the_same_in_the_same_iteration() -> None:
    f, b = start(a=X, n=int32)
    a, n = f.params
    with loop(b, 0, n) as outer:
        b.load(a, [outer.i])
        b.load(a, [b.add(tid(b), outer.i)])
    with loop(b, 0, tid(b)) as own:
        b.load(a, [own.i])
    found = [x.indices for x in accesses(f)]
    assert found == [(Uniform(None, True),), (Affine(((0, 1, 1),), None, True),), (UNKNOWN,)]


def test_branches_that_all_threads_take_alike() -> None:
    f, b = start(a=X, cond=bool_, n=int32)
    a, cond, n = f.params
    i = tid(b)
    for c, left in ((cond, n), (cond, i), (b.lt(i, n), n)):
        (chosen,) = branch(b, c, lambda v=left: (v,), lambda: (b.constant(1, int32),))
        b.load(a, [chosen])
    assert [x.indices for x in accesses(f)] == [(Uniform(),), (UNKNOWN,), (UNKNOWN,)]


# --- roots ---


def test_views_and_slices_are_seen_through() -> None:
    f, b = start(m=XX, n=int32)
    m, n = f.params
    i, j = tid(b, 0, 2), tid(b, 1, 2)
    b.load(b.view(m, [i]), [j])
    one, three, zero = b.constant(1, int64), b.constant(3, int64), b.constant(0, int64)
    b.load(b.slice(m, [one, zero], [three, three], [one, one], (0, 1)), [i, j])
    b.load(b.slice(m, [zero, three], [three], [b.constant(2, int64)], (0,)), [i])
    b.load(b.slice(m, [zero, zero], [three], [b.cast(n, int64)], (1,)), [j])
    through_view, through_slice, column, strided = accesses(f)
    for x in (through_view, through_slice, column, strided):
        assert x.roots == {parameter(f, "m")}
    assert through_view.indices == (ThreadIndex(0, 2), ThreadIndex(1, 2))
    assert through_slice.indices == (ThreadIndex(0, 2, 1), ThreadIndex(1, 2))
    assert column.indices == (Affine(((0, 2, 2),), 0), Uniform(3))
    assert strided.indices == (Uniform(0), UNKNOWN)


def test_arrays_chosen_by_control_flow_may_be_any_of_them() -> None:
    f, b = start(a=X, c=X, d=X, cond=bool_, n=int32)
    a, c, d, cond, n = f.params
    (either,) = branch(b, cond, lambda: (a,), lambda: (c,))
    b.load(either, [tid(b)])

    def swap(v: Value, w: Value) -> tuple[Value, ...]:
        b.store(w, [n], b.constant(1, float32))
        return w, v

    while_(b, [either, d], lambda v, w: b.lt(b.load(v, [n]), 1.0), swap)
    chosen, seen, stored = accesses(f)
    assert chosen.roots == {parameter(f, "a"), parameter(f, "c")}
    assert chosen.indices is None
    assert seen.roots == stored.roots == {parameter(f, name) for name in "acd"}


def test_local_arrays_and_arrays_at_an_address() -> None:
    f, b = start(address=int64)
    own = b.insert(ops.LocalArray((4,)), X).result
    block = b.insert(ops.LocalArray((4,), shared=True), X).result
    far = b.insert(ops.AtAddress(f.params[0], (b.constant(9, int64),)), X).result
    for array in (own, block, far):
        b.load(array, [b.constant(0, int32)])
    found = accesses(f)
    assert [x.roots for x in found] == [{Root("local", own)}, {Root("shared", block)}, {Root("address", far)}]
    assert analyse(f).anywhere


def test_arrays_in_elements_have_the_field_that_holds_them() -> None:
    f, b = start(s=Array(NESTED, 1), n=int32)
    s, n = f.params
    data = b.field_view(b.field_view(s, 0), 1)
    b.load(b.load(data, [n]), [tid(b)])
    more = b.field_view(s, 1)
    deeper = b.load(b.field_view(b.load(more, [n]), 1), [n])
    b.store(deeper, [n], b.constant(1, float32))
    b.load(b.load(data, [tid(b)]), [n])
    found = accesses(f)
    holder = parameter(f, "s")
    assert [x.kind for x in found] == ["load", "load", "load", "load", "store", "load", "load"]
    roots = [
        Root("element", s, path) if path else holder for path in ("", "part.data", "", "more", "more", "", "part.data")
    ]
    assert [x.roots for x in found] == [{r} for r in roots]
    assert found[1].indices == (ThreadIndex(0, 1),)  # of one array, whose place is the same in all threads
    assert found[-1].indices is None  # each thread means another array


def test_what_callees_and_native_code_do() -> None:
    callee, b = start("callee", "func", (X,), m=XX, i=int32)
    row = b.view(callee.params[0], [callee.params[1]])
    b.atomic("add", row, [callee.params[1]], b.constant(1, float32))
    b.yield_(row)
    code = NativeCode("mix", "", (("x", X), ("y", X)), None, written=("y",))
    f, b = start(a=XX, c=X, n=int32)
    a, c, n = f.params
    (row,) = b.insert(ops.Call(callee, (a, n)), X).results
    b.load(row, [n])
    b.insert(ops.Native(code, (row, c)))
    found = accesses(f)
    assert [(x.kind, x.roots) for x in found] == [
        ("add", {parameter(f, "a")}),
        ("load", {parameter(f, "a")}),
        ("load", {parameter(f, "a")}),
        ("load", {parameter(f, "c")}),
        ("store", {parameter(f, "c")}),
    ]
    assert [x.indices for x in found] == [None] * 5
    assert not analyse(f).anywhere


def test_native_code_with_an_address_may_reach_anything() -> None:
    f, b = start(a=X, p=int64)
    b.insert(ops.Native(NativeCode("poke", "", (("p", int64),), None), (f.params[1],)))
    b.yield_()
    memory = analyse(f)
    assert (memory.anywhere, memory.accesses) == (True, ())


# --- places ---


def test_always_executed_is_what_every_thread_reaches() -> None:
    f, b = start(a=X, c=X, d=X, n=int32)
    a, c, d, n = f.params
    b.load(a, [n])
    with loop(b, 0, n):
        b.load(c, [n])
    b.insert(ops.Check("assert", "no", b.lt(n, 3), ()))
    b.load(d, [n])
    assert [x.always_executed for x in accesses(f)] == [True, False, False]


def test_results_that_are_used() -> None:
    f, b = start(a=X, n=int32)
    a, n = f.params
    b.atomic("add", a, [n], b.load(a, [n]))
    b.store(a, [n], b.atomic("max", a, [n], b.constant(1, float32)))
    found = accesses(f)
    assert [(x.kind, x.used) for x in found] == [("load", True), ("add", False), ("max", True), ("store", False)]


# --- who meets whom ---


def test_own_elements() -> None:
    f, b = start(m=XX, a=X)
    m, a = f.params
    b.load(m, [tid(b, 0, 2), tid(b, 1, 2)])
    b.load(m, [tid(b, 0, 2), b.add(tid(b, 1, 2), 1)])
    b.load(a, [tid(b, 1, 2)])
    b.load(b.view(m, [tid(b, 0, 2)]), [tid(b, 1, 2)])
    found = accesses(f)
    assert [is_thread_private(x) for x in found] == [True, False, False, True]
    assert [offsets(x) for x in found] == [(0, 0), (0, 1), None, (0, 0)]


def test_accesses_by_root() -> None:
    f, b = start(a=X, c=X, n=int32)
    a, c, n = f.params
    b.store(c, [n], b.load(a, [n]))
    b.yield_()
    memory: Memory = analyse(f)
    assert [x.kind for x in memory.of_parameter(0)] == ["load"]
    assert [x.kind for x in memory.of(parameter(f, "c"))] == ["store"]
    assert memory.all_roots == (parameter(f, "a"), parameter(f, "c"))
