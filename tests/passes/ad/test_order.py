"""Which atomics become loads and stores because their order is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.ir_builder import assert_same, count, start, tid
from warp_like.analysis.memory import analyse
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, float32, int32
from warp_like.passes.ad.order import in_order, ordered_roots, serial_arrays

X = Array(float32, 1)
Build = Callable[[Emitter, Function, Value], None]


def _kernel(build: Build) -> Function:
    f, b = start(x=X, y=X, n=int32)
    build(b, f, tid(b))
    b.yield_()
    return f


def _one(b: Emitter) -> Value:
    return b.constant(1.0, float32)


def _uses_old(b: Emitter, f: Function, i: Value) -> None:
    b.store(f.params[1], [i], b.atomic("add", f.params[0], [i], _one(b)))


def _reads(b: Emitter, f: Function, i: Value) -> None:
    b.atomic("add", f.params[0], [i], _one(b))
    b.store(f.params[1], [i], b.load(f.params[0], [i]))


def _exchanges(b: Emitter, f: Function, i: Value) -> None:
    b.atomic("exch", f.params[0], [i], _one(b))


def _two_kinds(b: Emitter, f: Function, i: Value) -> None:
    b.atomic("max", f.params[0], [i], _one(b))
    b.atomic("add", f.params[0], [i], _one(b))


def _old_of_shared(b: Emitter, f: Function, i: Value) -> None:
    b.store(f.params[1], [i], b.atomic("add", f.params[0], [b.index(0)], _one(b)))


def _sum(b: Emitter, f: Function, i: Value) -> None:
    b.atomic("add", f.params[0], [i], _one(b))


def _maximum(b: Emitter, f: Function, i: Value) -> None:
    b.atomic("max", f.params[0], [b.index(0)], b.load(f.params[1], [i]))


SHOWING: dict[str, Build] = {"old": _uses_old, "read": _reads, "exchange": _exchanges, "two kinds": _two_kinds}
COMMUTING: dict[str, Build] = {"sum": _sum, "maximum": _maximum}


@pytest.mark.parametrize("build", SHOWING.values(), ids=SHOWING)
def test_atomics_on_the_threads_own_elements_are_lowered(build: Build) -> None:
    f = _kernel(build)
    before = clone_function(f)
    in_order(f)
    assert count(f, ops.Atomic) == 0
    assert_same(before, f, [np.arange(3, dtype=np.float32), np.zeros(3, np.float32), 0], (3,))


@pytest.mark.parametrize("build", COMMUTING.values(), ids=COMMUTING)
@pytest.mark.parametrize("alone", [False, True])
def test_atomics_whose_order_does_not_show_stay(build: Build, alone: bool) -> None:
    f = _kernel(build)
    text = print_function(f)
    assert ordered_roots(analyse(f)) == set()
    assert print_function(in_order(f, alone)) == text


def test_elements_of_all_threads_are_opened_for_one_thread_alone() -> None:
    f = _kernel(_old_of_shared)
    text = print_function(f)
    assert serial_arrays(analyse(f)) == (0,)
    assert print_function(in_order(f)) == text
    assert count(in_order(f, alone=True), ops.Atomic) == 0
