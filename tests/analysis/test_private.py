"""Arrays of which no two threads touch one element: which are found, and that it is true where indices may wrap."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.ir_builder import branch, loop, start, tid
from warp_like.analysis.memory import analyse
from warp_like.analysis.private import private_roots
from warp_like.base.contract import MAX_NARROW
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Array, Type, bool_, float32, int32, int64, uint32

X, XX = Array(float32, 1), Array(float32, 2)


def is_private(touch: Callable[..., None], array: Type = X, **params: Type) -> bool:
    """Whether the array to which ``touch(b, array, *params)`` stores is private."""
    f, b = start(a=array, **params)
    touch(b, *f.params)
    b.yield_()
    return bool(private_roots(analyse(f)))


def put(b: Emitter, array: Value, *indices: Value) -> None:
    b.store(array, indices, b.constant(1, float32))


def element(make: Callable[..., Value], **params: Type) -> bool:
    """Whether an array is private that is stored to at ``make(b, i, *params)`` alone."""
    return is_private(lambda b, a, *given: put(b, a, make(b, tid(b), *given)), **params)


def elements(*makes: Callable[..., Value], **params: Type) -> bool:
    """Whether an array is private that is stored to at each of ``makes``."""

    def touch(b: Emitter, a: Value, *given: Value) -> None:
        i = tid(b)
        for make in makes:
            put(b, a, make(b, i, *given))

    return is_private(touch, **params)


@pytest.mark.parametrize(
    ("indices", "private"),
    [
        (lambda b, n: [tid(b, 0, 2), tid(b, 1, 2)], True),
        (lambda b, n: [tid(b, 1, 2), tid(b, 0, 2)], True),
        (lambda b, n: [b.sub(n, tid(b, 0, 2)), b.add(tid(b, 1, 2), 5)], True),
        (lambda b, n: [tid(b, 0, 1), n], True),
        (lambda b, n: [tid(b, 0, 2), b.mul(tid(b, 1, 2), 4)], True),
        (lambda b, n: [tid(b, 0, 2), b.add(b.mul(tid(b, 0, 2), 4), tid(b, 1, 2))], False),
        (lambda b, n: [tid(b, 0, 2), n], False),
        (lambda b, n: [tid(b, 0, 2), tid(b, 0, 2)], False),
        (lambda b, n: [tid(b, 0, 2), tid(b, 1, 3)], False),
        (lambda b, n: [n, n], False),
    ],
)
def test_dimensions(indices: Callable[..., list[Value]], private: bool) -> None:
    assert is_private(lambda b, m, n: put(b, m, *indices(b, n)), XX, n=int32) == private


def test_the_same_index_in_all_accesses() -> None:
    assert elements(lambda b, i: i, lambda b, i: i)
    assert not elements(lambda b, i: i, lambda b, i: b.add(i, 1))
    assert not elements(lambda b, i: i, lambda b, i: b.neg(i))
    assert elements(lambda b, i, n, m: b.add(i, n), lambda b, i, n, m: b.add(n, i), n=int32, m=int32)
    assert not elements(lambda b, i, n, m: b.add(i, n), lambda b, i, n, m: b.add(i, m), n=int32, m=int32)
    assert not elements(lambda b, i, n, m: b.add(i, n), lambda b, i, n, m: i, n=int32, m=int32)
    assert elements(lambda b, i, n: b.sub(b.sub(n, 1), i), n=int32)


def test_counters_make_threads_meet_unless_threads_lie_apart() -> None:
    def touch(b: Emitter, a: Value, factor: int, count: Value | int) -> None:
        with loop(b, 0, count) as k:
            put(b, a, b.add(b.mul(tid(b), factor), k.i))

    assert not is_private(lambda b, a, n: touch(b, a, 1, n), n=int32)
    assert not is_private(lambda b, a, n: touch(b, a, 8, n), n=int32)
    assert is_private(lambda b, a: touch(b, a, 8, 8))
    assert is_private(lambda b, a: touch(b, a, -8, 8))
    assert not is_private(lambda b, a: touch(b, a, 8, 9))
    assert not is_private(lambda b, a: touch(b, a, 1, 2))


def test_rests_closer_together_than_threads() -> None:
    assert elements(*(lambda b, i, k=k: b.add(b.mul(i, 3), k) for k in range(3)))
    assert elements(*(lambda b, i, k=k: b.add(b.mul(i, 3), k) for k in (-1, 0, 1)))
    assert not elements(*(lambda b, i, k=k: b.add(b.mul(i, 3), k) for k in (0, 3)))
    assert not elements(lambda b, i: b.mul(i, 4), lambda b, i: b.mul(i, 2))
    assert elements(lambda b, i, n: b.add(b.mul(i, 4), n), lambda b, i, n: b.add(b.add(b.mul(i, 4), 3), n), n=int32)
    assert not elements(lambda b, i, n: b.add(b.mul(i, 4), n), lambda b, i, n: b.mul(i, 4), n=int32)
    assert elements(lambda b, i, n: b.add(b.mul(i, 4), b.apply("bit_and", n, b.constant(3, int32))), n=int32)


def test_what_may_wrap_needs_an_access_of_every_thread() -> None:
    def touch(b: Emitter, a: Value, cond: Value, always_executed: bool, t: Type = int32, last: int = 3) -> None:
        start_of = b.mul(b.cast(tid(b), t), b.constant(4, t))
        if always_executed:
            put(b, a, start_of)
        branch(b, cond, lambda: put(b, a, b.add(start_of, b.constant(last, t))) or ())

    assert not is_private(lambda b, a, c: touch(b, a, c, False), cond=bool_)
    assert is_private(lambda b, a, c: touch(b, a, c, True), cond=bool_)
    assert is_private(lambda b, a, c: touch(b, a, c, False, int64), cond=bool_)
    assert not is_private(lambda b, a, c: touch(b, a, c, True, last=4), cond=bool_)
    # unsigned indices that wrap do not become negative
    assert not is_private(lambda b, a, c: touch(b, a, c, True, uint32), cond=bool_)
    assert not element(lambda b, i: b.mul(i, 1 << 29))  # leaves the range by too much


def test_arrays_of_the_block_and_at_an_address_are_shared() -> None:
    def touch(b: Emitter, a: Value, address: Value) -> None:
        for array in (
            b.insert(ops.LocalArray((4,), shared=True), X).result,
            b.insert(ops.AtAddress(address, (b.constant(9, int64),)), X).result,
        ):
            put(b, array, tid(b))

    assert not is_private(touch, p=int64)


# --- against the arithmetic of int32 -----------------------------------------------------------------------------


def indices_of(factor: int, rest: int, threads: np.ndarray) -> np.ndarray:
    return (factor * threads + rest).astype(np.uint64).astype(np.uint32).astype(np.int32).astype(np.int64)


def suspicious_threads(factor: int) -> np.ndarray:
    """Threads whose indices lie near to where they wrap, and those at the same distance after it."""
    size = abs(factor)
    halves = {*range(9), *range(0, 2 * size, max(size // 32, 1))}
    ends = [k * 2**31 // size for k in halves]
    near = {e + d for e in ends for d in range(-4, 5)}
    return np.array(sorted(i for i in near if 0 <= i < MAX_NARROW), np.int64)


@pytest.mark.parametrize("seed", range(60))
def test_private_is_true_of_all_launches_that_stay_in_range(seed: int) -> None:
    pick = random.Random(seed)
    factor = pick.choice((1, -1, 2, 3, 4, -4, 5, 6, 12, -16, 2**20, 2**27))
    rests = [pick.choice((0, 1, 2, 3, -1, 7, 2**31 - 1, 2**31 - 5, -(2**31))) for _ in range(pick.randrange(1, 4))]
    always_executed = [pick.random() < 0.6 for _ in rests]

    def touch(b: Emitter, a: Value, cond: Value) -> None:
        for rest, always in zip(rests, always_executed, strict=True):
            at = b.add(b.mul(tid(b), factor), b.constant(rest, int32))
            put(b, a, at) if always else branch(b, cond, lambda at=at: put(b, a, at) or ())

    if not is_private(touch, cond=bool_):
        return
    threads = suspicious_threads(factor)
    found = [indices_of(factor, rest, threads) for rest in rests]
    # The first thread whose unconditional access is out of range: there are no more threads than that.
    out = [(x < 0).nonzero()[0] for x, always in zip(found, always_executed, strict=True) if always]
    most = min((int(o[0]) for o in out if len(o)), default=len(threads))
    owner: dict[int, int] = {}
    for x in found:
        for i, at in zip(range(most), x.tolist(), strict=False):
            assert at < 0 or owner.setdefault(at, i) == i, (factor, rests, always_executed, threads[[owner[at], i]])
