"""Cooperative builtins on GPUs, by their names: what the threads of a block do together.

The threads that take part are those of the grid: all of a block, or its first ``size`` ones at the end of the grid.
The others have ended, and neither barriers nor exchanges wait for threads that have ended (PTX ISA, ``barrier`` and
``shfl.sync``, since sm_70); a thread that a fault has ended is waited for neither.

A sum over a block is one over each warp; the results meet in shared memory, where each thread adds them up in the
same order. Whatever uses shared memory begins with a barrier: others may still read what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warp_like.backend.llvm.casts import cast, extend_half, round_half
from warp_like.backend.llvm.combining import combined
from warp_like.backend.llvm.exchange import combine_first, exchange
from warp_like.backend.llvm.simt import simt_of
from warp_like.backend.llvm.values import is_half, leaves, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import Scalar, Type, float32, int32, uint32

SHARED = "ptr addrspace(3)"
"""The LLVM type of an address in shared memory."""

_CHUNK = 16
_WARPS = 32
"""The most warps of a block."""


class Team:
    """The thread's block and warp, for each part of the grid that the block works on.

    Args:
        thread: The i32 register of the thread's number in the block.
        dim: The i32 register of how many threads a block has.
    """

    def __init__(self, thread: str, dim: str) -> None:
        self.thread = thread
        self.dim = dim
        self.lane = self.size = self.last = self.lanes = ""  # of the block; the last lane of the warp, all as a mask

    def begin(self, w: Writer, left: str) -> None:
        """Begin a part of the grid; ``left`` is the i64 register of how many threads the grid has from there on."""
        warp = simt_of(w.target).warp
        self.lane = w.op(f"and i32 {self.thread}, {warp - 1}")
        whole = w.op(f"zext i32 {self.dim} to i64")
        size = w.intrinsic("llvm.smin.i64", "i64", ["i64", "i64"], [left, whole])
        self.size = w.op(f"trunc i64 {size} to i32")
        first = w.op(f"sub i32 {self.thread}, {self.lane}")
        rest = w.op(f"sub i32 {w.op(f'sub i32 {self.size}, {first}')}, 1")
        self.last = w.intrinsic("llvm.umin.i32", "i32", ["i32", "i32"], [rest, str(warp - 1)])
        missing = w.op(f"sub i32 {warp - 1}, {self.last}")
        self.lanes = w.op(f"lshr i32 -1, {missing}")


Types = Sequence[Type]
Args = Sequence[tuple[str, ...]]
Lower = Callable[[Writer, Team, Types, Args], tuple[str, ...]]


def barrier(w: Writer) -> None:
    """Wait for all threads of the block that are left."""
    simt_of(w.target).barrier(w)


def shared_memory(w: Writer, team: Team, size: int) -> str:
    """Return the address of ``size`` bytes of the block's own, filled with zeros here."""
    chunks = -(-size // _CHUNK)
    memory = w.shared(chunks * _CHUNK)
    barrier(w)
    before, head, clear, end = w.block, w.label("clear"), w.label("chunk"), w.label("cleared")
    w.jump(head)
    w.start(head)
    phis = w.phis(["i32"])
    (i,) = phis.registers
    phis.add([team.thread], before)
    w.branch(w.op(f"icmp ult i32 {i}, {chunks}"), clear, end)
    w.start(clear)
    at = w.op(f"getelementptr inbounds [{_CHUNK} x i8], {SHARED} {memory}, i64 {w.op(f'zext i32 {i} to i64')}")
    w.do(f"store <4 x i32> zeroinitializer, {SHARED} {at}, align {_CHUNK}")
    phis.add([w.op(f"add nuw i32 {i}, {team.size}")], w.block)
    phis.finish()
    w.jump(head)
    w.start(end)
    barrier(w)
    return memory


def lower(w: Writer, team: Team, name: str, types: Types, args: Args) -> tuple[str, ...]:
    """Append the call of a ``Cooperative`` builtin; return its result."""
    return _LOWER[name](w, team, types, args)


# --- sums and extremes ----------------------------------------------------------------------------------------


def _wide(w: Writer, t: Scalar, x: str) -> tuple[Scalar, str]:
    """A number as what it is combined in: of 32 bits at least."""
    if is_half(t):
        return float32, extend_half(w, x, t)
    wide = t if t.bits >= 32 else int32 if t.is_signed else uint32
    return wide, cast(w, x, t, wide)


def _narrow(w: Writer, t: Scalar, wide: Scalar, x: str) -> str:
    return round_half(w, x, t) if is_half(t) else cast(w, x, wide, t)


def _over_warp(how: str) -> Lower:
    def build(w: Writer, team: Team, types: Types, args: Args) -> tuple[str, ...]:
        out = []
        for (t, _), x in zip(leaves(types[0]), args[0], strict=True):
            wide, given = _wide(w, t, x)
            out.append(_narrow(w, t, wide, combine_first(w, how, wide, given, team.last, team.lanes)))
        return tuple(out)

    return build


def _over_block(how: str) -> Lower:
    def build(w: Writer, team: Team, types: Types, args: Args) -> tuple[str, ...]:
        given = [(t, *_wide(w, t, x)) for (t, _), x in zip(leaves(types[0]), args[0], strict=True)]
        totals = _combine_warps(w, team, how, [(wide, x) for _, wide, x in given])
        return tuple(_narrow(w, t, wide, x) for (t, wide, _), x in zip(given, totals, strict=True))

    return build


def _combine_warps(w: Writer, team: Team, how: str, given: Sequence[tuple[Scalar, str]]) -> list[str]:
    """Return in all threads of the block what combining numbers of 32 or 64 bits over them gives."""
    parts = [(t, combine_first(w, how, t, x, team.last, team.lanes)) for t, x in given]
    columns, size = [], 0
    for t, _ in parts:
        columns.append(size)
        size += _WARPS * t.bits // 8
    slots = w.slots(size)

    def place(column: int, t: Scalar, warp: str) -> str:
        base = w.op(f"getelementptr inbounds i8, {SHARED} {slots}, i64 {column}") if column else slots
        return w.op(f"getelementptr inbounds {register_type(t)}, {SHARED} {base}, i64 {warp}")

    barrier(w)
    put, ready = w.label("put"), w.label("ready")
    w.branch(w.op(f"icmp eq i32 {team.lane}, 0"), put, ready)
    w.start(put)
    lanes, log_warp = simt_of(w.target).warp, simt_of(w.target).warp.bit_length() - 1
    warp = w.op(f"zext i32 {w.op(f'lshr i32 {team.thread}, {log_warp}')} to i64")
    for (t, x), column in zip(parts, columns, strict=True):
        w.do(f"store {register_type(t)} {x}, {SHARED} {place(column, t, warp)}, align {t.bits // 8}")
    w.jump(ready)
    w.start(ready)
    barrier(w)

    def load(warp: str) -> list[str]:
        pairs = [(t, place(column, t, warp)) for (t, _), column in zip(parts, columns, strict=True)]
        return [w.op(f"load {register_type(t)}, {SHARED} {at}, align {t.bits // 8}") for t, at in pairs]

    warps = w.op(f"lshr i32 {w.op(f'add i32 {team.size}, {lanes - 1}')}, {log_warp}")
    first = load("0")
    before, head, add, end = w.block, w.label("warps"), w.label("warp"), w.label("combined")
    w.jump(head)
    w.start(head)
    phis = w.phis(["i32", *(register_type(t) for t, _ in parts)])
    k, *totals = phis.registers
    phis.add(["1", *first], before)
    w.branch(w.op(f"icmp ult i32 {k}, {warps}"), add, end)
    w.start(add)
    more = load(w.op(f"zext i32 {k} to i64"))
    sums = [combined(w, how, t, a, b) for (t, _), a, b in zip(parts, totals, more, strict=True)]
    phis.add([w.op(f"add nuw i32 {k}, 1"), *sums], w.block)
    phis.finish()
    w.jump(head)
    w.start(end)
    return totals


# --- votes and exchanges --------------------------------------------------------------------------------------


def _vote(kind: str) -> Lower:
    def build(w: Writer, team: Team, types: Types, args: Args) -> tuple[str, ...]:
        return (simt_of(w.target).vote(w, kind, team.lanes, args[0][0]),)

    return build


def _vote_of_block(how: str) -> Lower:
    def build(w: Writer, team: Team, types: Types, args: Args) -> tuple[str, ...]:
        (found,) = _combine_warps(w, team, how, [(uint32, w.op(f"zext i1 {args[0][0]} to i32"))])
        return (w.op(f"icmp ne i32 {found}, 0"),)

    return build


def _shuffle(how: str) -> Lower:
    def build(w: Writer, team: Team, types: Types, args: Args) -> tuple[str, ...]:
        value, (by,) = args
        warp = simt_of(w.target).warp
        known = w.op(f"icmp ult i32 {by}, {warp}")  # the instruction looks at a few bits alone
        short = w.op(f"and i32 {by}, {warp - 1}")
        last = "0" if how == "up" else team.last
        out = []
        for (t, _), x in zip(leaves(types[0]), value, strict=True):
            other, _ = exchange(w, how, t, x, short, last, team.lanes)
            out.append(w.select(known, register_type(t), other, x))
        return tuple(out)

    return build


def _register(name: str) -> Lower:
    return lambda w, team, types, args: (getattr(team, name),)


_LOWER: dict[str, Lower] = {
    "block_dim": _register("dim"),
    "block_size": _register("size"),
    "block_thread": _register("thread"),
    "warp_lane": _register("lane"),
    "warp_size": lambda w, team, types, args: (str(simt_of(w.target).warp),),
    "_warp_count": lambda w, team, types, args: (w.op(f"add i32 {team.last}, 1"),),
    "block_any": _vote_of_block("or"),
    "block_all": _vote_of_block("and"),
    "warp_any": _vote("any"),
    "warp_all": _vote("all"),
    "warp_ballot": _vote("ballot"),
    "warp_shuffle": _shuffle("idx"),
    "warp_shuffle_up": _shuffle("up"),
    "warp_shuffle_down": _shuffle("down"),
    "warp_shuffle_xor": _shuffle("bfly"),
}
for _name, _how in {"sum": "add", "min": "min", "max": "max"}.items():
    _LOWER[f"warp_{_name}"] = _over_warp(_how)
    _LOWER[f"block_{_name}"] = _over_block(_how)

NAMES = frozenset(_LOWER)
"""The builtins that ``lower`` takes."""


def works_in_blocks(f: Function) -> bool:
    """Return whether a thread of ``f`` has to know which others of its block are there."""
    return any(
        isinstance(o, ops.Barrier)
        or (isinstance(o, ops.LocalArray) and o.shared)
        or (isinstance(o, ops.Apply) and o.fn in NAMES and o.fn != "block_dim")
        for o in f.body.walk()
    )
