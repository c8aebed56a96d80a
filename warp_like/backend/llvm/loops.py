"""Counted loops: ``For`` ops as basic blocks, counted in 64 bits where a counter of their type might overflow."""

from __future__ import annotations

from types import TracebackType

from warp_like.backend.llvm.writer import Writer
from warp_like.ir.types import Scalar


class CountedLoop:
    """A loop from ``lo`` to ``hi`` by ``step`` (i64 registers or constants), for use in a ``with``.

    Inside, first add phis, then call ``enter``, then write the body. ``index`` is the counter, ``before`` the
    block that the loop is entered from. Phis of the loop's head hold the final values afterwards. A ``narrow`` loop,
    of an int32, has i32 registers and counts in them.
    """

    def __init__(self, w: Writer, t: Scalar, lo: str, hi: str, step: str, *, narrow: bool = False) -> None:
        self._w = w
        self._type = "i32" if narrow else "i64"
        self._signed = t.is_signed or t.bits < 64
        self._lo = lo
        self._hi = hi
        self._step = step
        known = int(step) if step.lstrip("-").isdigit() else 0
        # A counter as wide as its type may with another step pass the type's end on the last step: its trips are
        # counted.
        self._known = known if abs(known) == 1 or (t.bits < 64 and not narrow) else 0
        self._flag = ("nsw " if self._signed else "nuw ") if self._known or narrow else ""
        self.index = ""
        self.before = ""

    def __enter__(self) -> CountedLoop:
        w = self._w
        if not self._known:
            self._trips = self._trip_count()
        self.before = w.block
        self._head, self._body, self._end = w.label("for"), w.label("body"), w.label("endfor")
        w.jump(self._head)
        w.start(self._head)
        self._phis = w.phis([self._type] if self._known else [self._type] * 2)
        self.index = self._phis.registers[0]
        self._phis.add([self._lo] if self._known else [self._lo, "0"], self.before)
        return self

    def enter(self) -> None:
        """End the loop's head and begin its body."""
        w = self._w
        if self._known:
            test = ("s" if self._signed else "u") + ("lt" if self._known > 0 else "gt")
            go = w.op(f"icmp {test} {self._type} {self.index}, {self._hi}")
        else:
            go = w.op(f"icmp ult {self._type} {self._phis.registers[1]}, {self._trips}")
        w.branch(go, self._body, self._end)
        w.start(self._body)

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        w = self._w
        following = [w.op(f"add {self._flag}{self._type} {self.index}, {self._step}")]
        if not self._known:
            following.append(w.op(f"add nuw {self._type} {self._phis.registers[1]}, 1"))
        self._phis.add(following, w.block)
        self._phis.finish()
        w.jump(self._head)
        w.start(self._end)

    def _trip_count(self) -> str:
        """Return how often a loop with a step known only at run time runs; a step of 0 runs it never."""
        w = self._w
        up = w.op(f"sub {self._type} {self._hi}, {self._lo}")
        if not self._signed:
            some = w.op(f"icmp ult {self._type} {self._lo}, {self._hi}")
            return self._divide(some, up, self._step)
        down = w.op(f"sub {self._type} {self._lo}, {self._hi}")
        rising = w.op(f"icmp sgt {self._type} {self._step}, 0")
        distance = w.select(rising, self._type, up, down)
        size = w.select(rising, self._type, self._step, w.op(f"sub {self._type} 0, {self._step}"))
        order = (
            w.op(f"icmp slt {self._type} {self._lo}, {self._hi}"),
            w.op(f"icmp sgt {self._type} {self._lo}, {self._hi}"),
        )
        return self._divide(w.select(rising, "i1", *order), distance, size)

    def _divide(self, some: str, distance: str, size: str) -> str:
        w = self._w
        moves = w.op(f"and i1 {some}, {w.op(f'icmp ne {self._type} {size}, 0')}")
        divisor = w.select(moves, self._type, size, "1")
        steps = w.op(f"udiv {self._type} {w.op(f'sub {self._type} {distance}, 1')}, {divisor}")
        return w.select(moves, self._type, w.op(f"add {self._type} {steps}, 1"), "0")
