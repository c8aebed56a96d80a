"""Counted loops: ``For`` ops as basic blocks, counted in 64 bits where a counter of their type might overflow."""

from __future__ import annotations

from types import TracebackType

from warp_like.backend.llvm.writer import Writer
from warp_like.ir.types import Scalar


class CountedLoop:
    """A loop from ``lo`` to ``hi`` by ``step`` (i64 registers or constants), for use in a ``with``.

    Inside, first add phis, then call ``enter``, then write the body. ``index`` is the counter, ``before`` the
    block that the loop is entered from. Phis of the loop's head hold the final values afterwards. A ``narrow`` loop,
    of an int32, has i32 registers and counts in them. Where the index alone does not tell when the loop ends, ``trips``
    is how often it runs (``builtins.trips``).
    """

    def __init__(
        self, w: Writer, t: Scalar, lo: str, hi: str, step: str, trips: str = "", *, narrow: bool = False
    ) -> None:
        self._w = w
        self._type = "i32" if narrow else "i64"
        self._signed = t.is_signed or t.bits < 64
        self._lo = lo
        self._hi = hi
        self._step = step
        self._trips = trips
        self._flag = "" if trips else "nsw " if self._signed else "nuw "
        self.index = ""
        self.before = ""

    @staticmethod
    def counts_by_index(t: Scalar, step: str, *, narrow: bool) -> bool:
        """Return whether the loop can end when its index reaches ``hi``.

        A counter as wide as its type may with another step than 1 or -1 pass the type's end on the last step.
        """
        known = int(step) if step.lstrip("-").isdigit() else 0
        return abs(known) == 1 or (known != 0 and t.bits < 64 and not narrow)

    def __enter__(self) -> CountedLoop:
        w = self._w
        self.before = w.block
        self._head, self._body, self._end = w.label("for"), w.label("body"), w.label("endfor")
        w.jump(self._head)
        w.start(self._head)
        self._phis = w.phis([self._type] * (2 if self._trips else 1))
        self.index = self._phis.registers[0]
        self._phis.add([self._lo, "0"] if self._trips else [self._lo], self.before)
        return self

    def enter(self) -> None:
        """End the loop's head and begin its body."""
        w = self._w
        if self._trips:
            go = w.op(f"icmp ult {self._type} {self._phis.registers[1]}, {self._trips}")
        else:
            test = ("s" if self._signed else "u") + ("gt" if self._step.startswith("-") else "lt")
            go = w.op(f"icmp {test} {self._type} {self.index}, {self._hi}")
        w.branch(go, self._body, self._end)
        w.start(self._body)

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        w = self._w
        following = [w.op(f"add {self._flag}{self._type} {self.index}, {self._step}")]
        if self._trips:
            following.append(w.op(f"add nuw {self._type} {self._phis.registers[1]}, 1"))
        self._phis.add(following, w.block)
        self._phis.finish()
        w.jump(self._head)
        w.start(self._end)
