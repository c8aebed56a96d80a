"""Builtins of the threads of a block together, on CUDA: sums and votes, exchanges within a warp, who is who.

On the CPU a warp is one lane and a block one thread, unless ``wp.config.enable_cpu_blocks`` is set. Each row says by
``alone`` what is left of it there: programs that ask how many there are give the same results on both. Threads that the
grid does not have take no part.
"""
# mypy: disable-error-code="valid-type, empty-body"

from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like.builtins.emit import Emitter
from warp_like.builtins.patterns import TF, M, Pattern, Q, S, V, X
from warp_like.builtins.spec import Cooperative, NoGradient, Special, builtin, declare_row
from warp_like.ir import ops
from warp_like.ir.core import Block, Value
from warp_like.ir.types import bool_, int32, uint32

GROUP = "Blocks and Warps"
INTEGER = NoGradient("an integer carries no gradient")


def _number(n: int) -> Cooperative:
    return Cooperative(lambda b: b.constant(n, int32))


# --- who is who -----------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=_number(1).replace(agrees="block"), ref=lambda: 1, adjoint=INTEGER)
def block_dim() -> int32:
    """Return the number of threads in a block, as the launch has it.

    It is 1 on the CPU, where a thread is a block, unless ``wp.config.enable_cpu_blocks`` is set.
    """


@builtin(group=GROUP, lower=_number(1).replace(agrees="block"), ref=lambda: 1, adjoint=INTEGER)
def block_size() -> int32:
    """Return how many threads of the grid this block has: ``block_dim()``, but fewer in the last block.

    On the CPU, blocks lie in the rows of the grid, and the last one of each row may have fewer.
    """


@builtin(group=GROUP, lower=_number(0), ref=lambda: 0, adjoint=INTEGER)
def block_thread() -> int32:
    """Return the number of the thread in its block, from 0 to before ``block_size()``; 0 in a block of one thread."""


@builtin(group=GROUP, lower=_number(1).replace(agrees="block"), ref=lambda: 1, adjoint=INTEGER)
def warp_size() -> int32:
    """Return the number of lanes of a warp: 32 on CUDA, 1 on the CPU."""


@builtin(group=GROUP, lower=_number(0), ref=lambda: 0, adjoint=INTEGER)
def warp_lane() -> int32:
    """Return the number of the thread in its warp, from 0 to before ``warp_size()``: 0 on the CPU."""


declare_row(
    "_warp_count",
    _number(1).replace(agrees="warp"),
    {},
    int32,
    group=GROUP,
    doc="Return how many threads of the grid this warp has.",
    ref=lambda: 1,
    adjoint=INTEGER,
)


# --- memory ---------------------------------------------------------------------------------------------------

_THROUGH_MEMORY = NoGradient("reverse mode does not go through memory that threads share", zero=False)


@builtin(
    group=GROUP,
    lower=Special(),
    adjoint=_THROUGH_MEMORY,
    example="s = wp.shared_array(shape=(256,), dtype=float)\ns[wp.block_thread()] = a[0]",
)
def shared_array(shape: Any, dtype: Any = float) -> Any:
    """Return an array of zeros that the threads of a block have together, at most 48 KiB of them in a kernel.

    ``shape`` is a constant, or a tuple of them. What one thread writes, others may read after ``wp.block_sync()``. In
    blocks of one thread, as on the CPU, it is an array of the thread, as ``wp.zeros`` makes it.
    """


@builtin(group=GROUP, lower=Special(), adjoint=_THROUGH_MEMORY, ref=lambda: None, example="wp.block_sync()")
def block_sync() -> None:
    """Wait for all threads of the block: what they wrote before, each of them sees afterwards."""


# --- sums and extremes ----------------------------------------------------------------------------------------


def _declare_sum(scope: str, pattern: Pattern) -> None:
    def add(b: Emitter, g: Value) -> Value:
        total: Value = b.apply(f"{scope}_sum", g)
        return total

    declare_row(
        f"{scope}_sum",
        Cooperative(lambda b, value: value, scope, scope, tangent=lambda b, t, out, value: add(b, t)),
        {"value": pattern},
        pattern,
        group=GROUP,
        doc=f"Return the sum of ``value`` over the threads of the {scope}, to each of them.\n\n"
        "The order of additions is always the same, so the result has the same bits each time.",
        ref=lambda value: value,
        adjoint=lambda b, g, out, value: add(b, g),
    )


def _declare_extreme(scope: str, kind: str) -> None:
    def winner(b: Emitter, out: Value, value: Value) -> Value:
        """Whether this is the first thread that has the extreme."""
        me = b.apply("block_thread" if scope == "block" else "warp_lane")
        found: Value = b.eq(me, b.apply(f"{scope}_min", b.select(b.eq(value, out), me, b.constant(1 << 30, int32))))
        return found

    def tangent(b: Emitter, t: Value, out: Value, value: Value) -> Value:
        total: Value = b.apply(f"{scope}_sum", b.select(winner(b, out, value), t, b.zero(t.type)))
        return total

    def adjoint(b: Emitter, g: Value, out: Value, value: Value) -> Value:
        return b.select(winner(b, out, value), b.apply(f"{scope}_sum", g), b.zero(g.type))

    declare_row(
        f"{scope}_{kind}",
        Cooperative(lambda b, value: value, scope, scope, tangent=tangent),
        {"value": S},
        S,
        group=GROUP,
        doc=f"Return the {'least' if kind == 'min' else 'greatest'} ``value`` of the threads of the {scope}, to each "
        "of them.\n\nNaN counts only where all are. The gradient goes to the first thread that has it.",
        ref=lambda value: value,
        adjoint=adjoint,
    )


for _scope in ("block", "warp"):
    for _pattern in (S, V, M, Q):
        _declare_sum(_scope, _pattern)
    for _kind in ("min", "max"):
        _declare_extreme(_scope, _kind)


# --- votes ----------------------------------------------------------------------------------------------------


def _declare_vote(scope: str, kind: str) -> None:
    declare_row(
        f"{scope}_{kind}",
        Cooperative(lambda b, cond: cond, scope, scope),
        {"cond": bool_},
        bool_,
        group=GROUP,
        doc=f"Return whether ``cond`` holds in {'some thread' if kind == 'any' else 'all threads'} of the {scope}.",
        ref=lambda cond: cond,
        adjoint=NoGradient("a condition carries no gradient"),
    )


for _scope in ("block", "warp"):
    for _kind in ("any", "all"):
        _declare_vote(_scope, _kind)


@builtin(
    group=GROUP,
    lower=Cooperative(lambda b, cond: b.select(cond, b.constant(1, uint32), b.constant(0, uint32)), "warp", "warp"),
    ref=lambda cond: np.uint32(cond),
    adjoint=INTEGER,
)
def warp_ballot(cond: bool_) -> uint32:
    """Return the lanes of the warp in which ``cond`` holds, the bit ``1 << lane`` for each."""


# --- exchanges ------------------------------------------------------------------------------------------------


def _sum_of_readers(name: str, b: Emitter, g: Value, by: Value) -> Value:
    """The sum of the adjoints in those lanes that have read this one."""
    me = b.warp_lane()
    source = b.apply(name, me, by)
    k, total = Value(int32), Value(g.type)
    with b.into(Block([k, total])) as body:
        mine = b.eq(b.warp_shuffle(source, k), me)
        b.yield_(b.add(total, b.select(mine, b.warp_shuffle(g, k), b.zero(g.type))))
    (got,) = b.for_(b.constant(0, int32), b.apply("_warp_count"), b.constant(1, int32), [b.zero(g.type)], body)
    return got


def _shifted_back(name: str, b: Emitter, g: Value, distance: Value) -> Value:
    """The adjoint of a shift that is the same in all lanes: the lanes at the end that have read themselves keep it."""
    lane, count = b.warp_lane(), b.apply("_warp_count")
    up = name == "warp_shuffle_up"
    reader = b.add(lane, distance) if up else b.sub(lane, distance)
    is_read = b.lt(reader, count) if up else b.ge(reader, 0)
    keeps = b.lt(lane, distance) if up else b.ge(b.add(lane, distance), count)
    moved = b.warp_shuffle_down(g, distance) if up else b.warp_shuffle_up(g, distance)
    zero = b.zero(g.type)
    return b.add(b.select(is_read, moved, zero), b.select(keeps, g, zero))


def _exchange_adjoint(name: str) -> Callable[..., tuple[Value, None]]:
    def adjoint(b: Emitter, g: Value, out: Value, value: Value, by: Value) -> tuple[Value, None]:
        if name == "warp_shuffle" or ops.constant_value(by) is None:
            return _sum_of_readers(name, b, g, by), None
        if name == "warp_shuffle_xor":
            return b.warp_shuffle_xor(g, by), None
        return _shifted_back(name, b, g, by), None

    return adjoint


def _declare_shuffle(name: str, param: str, what: str, pattern: Pattern) -> None:
    declare_row(
        name,
        Cooperative(lambda b, value, by: value, "warp", tangent=lambda b, t, out, value, by: b.apply(name, t, by)),
        {"value": pattern, param: int32},
        pattern,
        group=GROUP,
        doc=f"Return ``value`` of {what}. Where there is no such lane, it is the thread's own.",
        ref=lambda value, by: value,
        adjoint=_exchange_adjoint(name),
    )


for _value in (X, V, M, Q, TF):
    _declare_shuffle("warp_shuffle", "lane", "lane ``lane`` of the warp", _value)
    _declare_shuffle("warp_shuffle_up", "distance", "the lane ``distance`` below this one, at least 0", _value)
    _declare_shuffle("warp_shuffle_down", "distance", "the lane ``distance`` above this one, at least 0", _value)
    _declare_shuffle("warp_shuffle_xor", "mask", "the lane whose number is this one's xor ``mask``", _value)
