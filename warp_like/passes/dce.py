"""Remove what nothing needs.

Liveness starts from effects (stores, atomics, prints) and from what the function returns, and spreads to
operands, so carried values that only feed themselves fall away. Three things are finer than "the op is used":

* The results of ``If`` and the carried values of loops live one by one.
* A ``Push`` is needed only by a ``Pop`` of its slot: when no pop of a slot is used, the slot's pushes go as
  well.
* A counted loop without effects whose results nobody uses goes: it ends. A ``while`` loop stays, for it may not end,
  and then what follows is not reached. In an adjoint it goes: the primal has run the same loop to its end.

Relies on nothing. It is the last pass of each stage, since others leave ops that nobody uses.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      %3 = neg %1 : float32
      store %x[%0], %3
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = neg %1 : float32
      store %x[%0], %2
      yield
    }
"""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import has_effects
from warp_like.passes.rewriter import prune_results


def dce(f: Function) -> Function:
    """Remove dead ops from ``f`` in place."""
    marker = _Marker(f)
    marker.run()
    _sweep(f.body, marker)
    return f


class _Marker:
    def __init__(self, f: Function) -> None:
        self.live_ops: set[Op] = set()
        self.live_values: set[Value] = set()
        self.work: list[Value] = []
        self.owner: dict[Op, Op | None] = {}  # the control-flow op around an op
        self.carried: dict[Value, tuple[Op, int]] = {}  # a block parameter: its loop, and which carried value
        self.stack: dict[int, list[Op]] = {}  # pushes and pops by slot
        self.roots: list[Op] = []
        self.may_hang = f.role != "adjoint"
        self.index(f.body, None)
        self.work.extend(f.body.yielded)

    def index(self, b: Block, owner: Op | None) -> None:
        for o in b.ops:
            self.owner[o] = owner
            if o.PURE:
                continue
            match o:
                case ops.For():
                    self.carried.update((p, (o, k)) for k, p in enumerate(o.body.params[1:]))
                case ops.While():
                    for r in o.regions():
                        self.carried.update((p, (o, k)) for k, p in enumerate(r.params))
                    if self.may_hang:
                        self.roots.append(o)
                case ops.Push() | ops.Pop():
                    self.stack.setdefault(o.slot, []).append(o)
                case ops.If() | ops.Yield():
                    pass
                case _ if has_effects(o):
                    self.roots.append(o)
            for r in o.regions():
                self.index(r, o)

    def run(self) -> None:
        for o in self.roots:
            self.op(o)
        while self.work:
            self.value(self.work.pop())

    def value(self, v: Value) -> None:
        if v in self.live_values:
            return
        self.live_values.add(v)
        if v in self.carried:
            loop, k = self.carried[v]
            self.work.append(loop.results[k])
        if v.op is None:
            return
        self.op(v.op)
        if not v.op._REGIONS:
            return
        k = v.op.results.index(v)
        match v.op:
            case ops.If():
                self.work.extend(r.yielded[k] for r in v.op.regions())
            case ops.For():
                self.work += [v.op.init[k], v.op.body.yielded[k]]
            case ops.While():
                self.work += [v.op.init[k], v.op.body.yielded[k]]

    def op(self, o: Op | None) -> None:
        """Mark ``o`` and the control flow around it."""
        while o is not None and o not in self.live_ops:
            self.live_ops.add(o)
            if not o._REGIONS and o.PURE:  # most are
                self.work += o.operands()
                o = self.owner[o]
                continue
            match o:
                case ops.If():
                    self.work.append(o.cond)
                case ops.For():
                    self.work += [o.lo, o.hi, o.step]
                case ops.While():
                    self.work.append(o.cond.yielded[0])
                case _:
                    self.work.extend(o.operands())
            if isinstance(o, (ops.Push, ops.Pop)):
                for other in self.stack.pop(o.slot, []):
                    self.op(other)
            o = self.owner[o]


def _sweep(b: Block, marker: _Marker) -> None:
    kept: list[Op] = []
    for o in b.ops:
        if isinstance(o, ops.Yield):
            kept.append(o)
        elif o in marker.live_ops:
            kept.append(o)
            if o._REGIONS:
                prune_results(o, [r in marker.live_values for r in o.results])
                for r in o.regions():
                    _sweep(r, marker)
    b.ops = kept
