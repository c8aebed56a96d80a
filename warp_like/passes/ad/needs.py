"""Which values of the primal a reverse sweep needs: liveness from its effects back through the primal.

It goes as ``dce`` does, over two functions at once. The operands of what the sweep does are values of the sweep or of
the primal; those of a primal value count as far as it is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.rewrite import has_effects
from warp_like.passes.ad.functions import Again
from warp_like.passes.ad.markers import NotRecomputable, Replayed


class Needs:
    """The values and ops that are needed.

    Args:
        primal: The body of the function that is differentiated.
        sweep: The reverse sweep.
        calls: How the results of calls are had again.
        trips: The loop of which a value stands for the number of iterations.
        lost: Whether the result of an op can't be computed again.

    Attributes:
        values: The values that are needed.
        ops: The ops whose results or effects are needed.
        lost: Those of them whose results can't be computed again.
    """

    def __init__(
        self,
        primal: Block,
        sweep: Block,
        calls: Mapping[ops.Call, Again],
        trips: Mapping[Value, ops.While],
        lost: Callable[[Op], bool],
    ) -> None:
        self.values: set[Value] = set()
        self.ops: set[Op] = set()
        self.lost: set[Op] = set()
        self._sweep = sweep
        self._calls = calls
        self._trips = trips
        self._is_lost = lost
        self._owner: dict[Op, Op | None] = {}  # the control-flow op around an op
        self._carried: dict[Value, tuple[Op, int]] = {}  # a block parameter: its loop, and which carried value
        self._counters: dict[Value, Op] = {}
        self._pushes: dict[int, list[ops.Push]] = {}
        self._work: list[Value] = []
        self._index(primal.ops, None)
        self._primal = set(self._owner)
        self._index(sweep.ops, None)

    def run(self, repeated: Iterable[Op] = ()) -> Needs:
        """Find what is needed by the effects of the sweep, and by the ops of the primal that are ``repeated``."""
        for o in self._sweep.walk():
            if not o.regions() and not isinstance(o, (ops.Push, ops.Yield)) and has_effects(o):
                self._effect(o)
        self._work.extend(self._sweep.yielded)
        for o in repeated:
            self._effect(o)
        while self._work:
            self._value(self._work.pop())
        return self

    def _effect(self, o: Op) -> None:
        self.ops.add(o)
        self._work.extend(o.operands())
        self._control(self._owner[o])

    def _index(self, block_ops: Sequence[Op], owner: Op | None) -> None:
        for o in block_ops:
            self._owner[o] = owner
            match o:
                case ops.For():
                    self._counters[o.body.params[0]] = o
                    self._carried.update((p, (o, k)) for k, p in enumerate(o.body.params[1:]))
                case ops.While():
                    for r in o.regions():
                        self._carried.update((p, (o, k)) for k, p in enumerate(r.params))
                case ops.Push():
                    self._pushes.setdefault(o.slot, []).append(o)
                case ops.Call() if o in self._calls:
                    self._index(self._calls[o].body, owner)
            for r in o.regions():
                self._index(r.ops, o)

    def _value(self, v: Value) -> None:
        if v in self.values:
            return
        self.values.add(v)
        if v in self._carried:
            loop, k = self._carried[v]
            self._control(loop)
            self._carry(loop, k)
        elif v in self._counters:
            self._control(self._counters[v])
        elif v in self._trips:
            self._control(self._trips[v])
        elif v.op is not None and v.op in self._owner:
            self._result(v.op, v)

    def _result(self, o: Op, v: Value) -> None:
        k = o.results.index(v)
        if o.regions():
            self._control(o)
        else:
            self.ops.add(o)
            self._control(self._owner[o])
        match o:
            case ops.If():
                self._work.extend(r.yielded[k] for r in o.regions())
            case ops.For() | ops.While():
                self._carry(o, k)
            case ops.Call() if o in self._calls:
                self._work.append(self._calls[o].results[k])
            case Replayed():
                self._work.append(o.replay)
            case ops.Pop():
                for push in self._pushes.get(o.slot, ()):
                    self._effect(push)
            case _ if (o in self._primal or isinstance(o, NotRecomputable)) and self._is_lost(o):
                self.lost.add(o)
            case _:
                self._work.extend(o.operands())

    def _carry(self, loop: Op, k: int) -> None:
        """What the carried value ``k`` of a loop is made of."""
        assert isinstance(loop, (ops.For, ops.While))
        self._work += [loop.init[k], loop.body.yielded[k]]

    def _control(self, o: Op | None) -> None:
        """Mark what tells how the control flow around something goes."""
        while o is not None and o not in self.ops:
            self.ops.add(o)
            match o:
                case ops.If():
                    self._work.append(o.cond)
                case ops.For():
                    self._work += [o.lo, o.hi, o.step]
                case ops.While():
                    self._work.append(o.cond.yielded[0])
            o = self._owner[o]
