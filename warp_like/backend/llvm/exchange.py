"""Values that go from lane to lane of a warp, in words of 32 bits, and reductions made of that."""

from __future__ import annotations

from warp_like.backend.llvm.combining import combined
from warp_like.backend.llvm.simt import simt_of
from warp_like.backend.llvm.values import register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.atomics import KINDS
from warp_like.ir.types import Scalar

ALL_LANES = "-1"
_SINCE_REDUX = 80


def exchange(
    w: Writer, how: str, t: Scalar, x: str, by: str, last: str = "", lanes: str = ALL_LANES, *, ask: bool = False
) -> tuple[str, str]:
    """Return the value of another lane, its own where there is none; and, if asked, the condition that there is one.

    Args:
        w: Where the text goes.
        how: ``idx``, ``up``, ``down`` or ``bfly``.
        t: The type of ``x``.
        x: The value.
        by: The i32 register of the lane, the distance or the mask, from 0 to the warp's last lane.
        last: The last lane that there is, the warp's when left out; the lowest one, 0, for ``up``.
        lanes: The lanes that come by, as a mask.
        ask: Whether to return the condition; else it is nothing.
    """
    simt, found, there = simt_of(w.target), [], ""
    for word in to_words(w, t, x):
        other, known = simt.exchange(w, how, word, by, last or str(simt.warp - 1), lanes, ask=ask)
        found.append(other)
        there = there or known
    return from_words(w, t, found), there


def combine_at_once(w: Writer, how: str, t: Scalar, x: str, lanes: str = ALL_LANES) -> str:
    """Return in all ``lanes`` what combining ``x`` over them gives, by one instruction, or nothing if there is none."""
    name = KINDS[how].redux.of(t)
    if not (name and t.is_int and t.bits == 32 and w.target.arch >= _SINCE_REDUX):
        return ""
    return w.intrinsic(f"llvm.nvvm.redux.sync.{name}", "i32", ["i32", "i32"], [x, lanes])


def combine_whole(w: Writer, how: str, t: Scalar, x: str) -> str:
    """Return in all lanes of a warp that is whole what combining ``x``, of 32 or 64 bits, over them gives."""
    at_once = combine_at_once(w, how, t, x)
    if at_once:
        return at_once
    for distance in _distances(w):
        x = combined(w, how, t, x, exchange(w, "bfly", t, x, str(distance))[0])
    return x


def combine_first(w: Writer, how: str, t: Scalar, x: str, last: str, lanes: str) -> str:
    """Return in all ``lanes``, those up to ``last``, what combining ``x``, of 32 or 64 bits, over them gives."""
    at_once = combine_at_once(w, how, t, x, lanes)
    if at_once:
        return at_once
    for distance in _distances(w):  # into lane 0, whatever is missing at the end
        other, there = exchange(w, "down", t, x, str(distance), last, lanes, ask=True)
        x = w.select(there, register_type(t), combined(w, how, t, x, other), x)
    return exchange(w, "idx", t, x, "0", last, lanes)[0]


def _distances(w: Writer) -> list[int]:
    """Half of a warp's lanes, half of these, and so on down to 1."""
    return [1 << k for k in reversed(range(simt_of(w.target).warp.bit_length() - 1))]


def to_words(w: Writer, t: Scalar, x: str) -> list[str]:
    """Return a scalar as integers of 32 bits, the low one first."""
    reg, bits = register_type(t), 1 if t.is_bool else t.bits
    if t.is_float and reg != f"i{bits}":
        x = w.op(f"bitcast {reg} {x} to i{bits}")
    if bits == 64:
        return [w.op(f"trunc i64 {part} to i32") for part in (x, w.op(f"lshr i64 {x}, 32"))]
    return [x if bits == 32 else w.op(f"zext i{bits} {x} to i32")]


def from_words(w: Writer, t: Scalar, words: list[str]) -> str:
    """Return the scalar that ``to_words`` took apart."""
    reg, bits, x = register_type(t), 1 if t.is_bool else t.bits, words[0]
    if bits == 64:
        low, high = (w.op(f"zext i32 {word} to i64") for word in words)
        x = w.op(f"or disjoint i64 {low}, {w.op(f'shl nuw i64 {high}, 32')}")
    elif bits < 32:
        x = w.op(f"trunc i32 {x} to i{bits}")
    return w.op(f"bitcast i{bits} {x} to {reg}") if t.is_float and reg != f"i{bits}" else x
