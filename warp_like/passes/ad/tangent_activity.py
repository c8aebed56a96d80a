"""Which values have a tangent: the activity analysis of forward mode.

Unlike ``activity``, it follows values that are saved on the stack, so that it serves adjoints too, and treats
arrays like any other value.

Example::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      # %x: varied
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32                # varied
      push 0 %1
      %2 = load %y[%0] : float32
      %3 = pop 0 : float32                      # varied
      %4 = mul %3, %2 : float32                 # varied
      store %x[%0], %4
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import is_differentiable
from warp_like.passes.ad.activity import gradient_is_zero


class TangentActivity:
    """The values that may have a tangent other than zero, and the stack slots that hold some."""

    def __init__(self, varied: Iterable[Value]) -> None:
        self.varied: set[Value] = set(varied)
        self.slots: set[int] = set()

    def block(self, b: Block) -> None:
        """Propagate through ``b`` and below until nothing changes."""
        before = -1
        while before != (before := len(self.varied) + len(self.slots)):
            for o in b.walk():
                self.op(o)

    def op(self, o: Op) -> None:
        """Mark what a change of the operands of ``o`` changes."""
        match o:
            case ops.If():
                self.flow([o.results], *(r.yielded for r in o.regions()))
            case ops.For():
                self.flow([o.body.params[1:], o.results], o.init, o.body.yielded)
            case ops.While():
                self.flow([o.cond.params, o.body.params, o.results], o.init, o.body.yielded)
            case ops.Push():
                if o.value in self.varied:
                    self.slots.add(o.slot)
            case ops.Pop():
                if o.slot in self.slots:
                    self.mark(o.results)
            case ops.LocalArray():
                self.mark(o.results)
            case ops.Apply():
                if any(a in self.varied for a in o.args) and not gradient_is_zero(o):
                    self.mark(o.results)
            case _:
                if any(v in self.varied for v in o.operands()):
                    self.mark(o.results)

    def flow(self, targets: list[Sequence[Value]], *sources: Sequence[Value]) -> None:
        """Mark each of ``targets`` where one of ``sources`` flowing into it varies."""
        for target in targets:
            for source in sources:
                self.mark(t for t, s in zip(target, source, strict=True) if s in self.varied)

    def mark(self, values: Iterable[Value]) -> None:
        """Add those of ``values`` that are made of floats."""
        self.varied.update(v for v in values if is_differentiable(v.type))
