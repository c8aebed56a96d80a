"""The adjoint itself, as the plan says: a forward sweep, then the reverse sweep with the values that it names.

At each nesting level a forward sweep computes the primal values again, then the reverse sweep follows.

* **Recomputing** writes nothing. A branch computes its inside again where its reverse begins. A loop's forward sweep
  pushes the carried values at the start of each iteration; its reverse pops them and computes the iteration again.
* **Saving** serves kernels that read arrays which they also overwrite. Its forward sweep works on *pre-launch copies*
  of these arrays, as they were before the launch, to which it repeats the kernel's own stores. It runs once, over all
  nesting levels, and each block that runs more or less than once (a branch, an iteration) ends by pushing what its
  reverse needs: what it carried in, what it loaded from these copies, and the results of the control flow inside it.
  The reverse of the block pops these first and computes the rest again.

Pops that nobody needs are removed afterwards together with their pushes, so a plain sum saves nothing. A value that is
lost and not needed becomes a ``NotRecomputable`` op, which goes with the dead code.

Below, ``old_x`` is a pre-launch copy.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      store %x[%0], %2
      yield
    }

After::

    adjoint k(%x: array1d[float32], %adj_x: array1d[float32], %old_x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %old_x[%0] : float32
      %2 = mul %1, %1 : float32
      store %old_x[%0], %2
      %3 = constant 0.0 : float32
      %4 = load %adj_x[%0] : float32
      store %adj_x[%0], %3
      %5 = mul %4, %1 : float32
      %6 = mul %4, %1 : float32
      %7 = add %5, %6 : float32
      %8 = atomic_add %adj_x[%0], %7 : float32
      yield
    }
"""

from __future__ import annotations

import contextlib
import copy
from collections import ChainMap
from collections.abc import Iterator, Sequence

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner
from warp_like.ir.types import Array, int64
from warp_like.passes.ad.loops import Loop, ReversedLoop, Steps, carried_values
from warp_like.passes.ad.markers import NotRecomputable, Replayed
from warp_like.passes.ad.plan import Plan

Slots = list[tuple[int, Value]]
"""Slots of the stack, and the values that are saved in them."""


def emit(plan: Plan, g: Function) -> Function:
    """Fill ``g`` with the adjoint that ``plan`` describes; it gets the pre-launch copies as its last parameters.

    Its ``prelaunch_copies`` then has the positions of the arrays that they are copies of.
    """
    params = plan.primal.f.params
    launched = dict(zip(params, g.params, strict=False))
    prelaunch_copies = {params[i]: Value(params[i].type, f"old_{params[i].hint}") for i in plan.prelaunch_copies}
    g.params.extend(prelaunch_copies.values())
    g.prelaunch_copies, g.tid_ndim = plan.prelaunch_copies, plan.primal.f.tid_ndim
    g.had_tiles, g.is_joined = plan.primal.f.had_tiles, plan.primal.f.is_joined
    copies = {v: launched[p] for p, v in plan.sweep.launched.items()}
    emission = _Emission(plan, g, {**launched, **prelaunch_copies, **copies})
    emission.forward(plan.primal.f.body.ops[:-1])
    emission.reverse(plan.sweep.body.ops)
    return g


class _Emission:
    """Where code goes, and what each value of the primal and of the sweep is there."""

    def __init__(self, plan: Plan, g: Function, mapping: dict[Value, Value]) -> None:
        self.plan = plan
        self.b = Emitter(g.body)
        self.cloner = Cloner(ChainMap(mapping))  # type: ignore[arg-type]
        self.slots = 0
        self.saved: dict[Block, Slots] = {}  # of a block whose forward sweep has run
        self.steps: dict[Op, Steps] = {}

    def value(self, v: Value) -> Value:
        """What ``v`` of the primal or of the sweep is in the adjoint, here."""
        return self.cloner.value(v)

    def append(self, o: Op) -> None:
        """Emit a copy of ``o``."""
        self.b.block.ops.append(self.cloner.op(o))

    @contextlib.contextmanager
    def scope(self, params: list[Value] | None = None) -> Iterator[Block]:
        """Emit into a new block, with a map of values that ends with it."""
        block, mapping = Block(params), self.cloner.mapping
        self.cloner.mapping = mapping.new_child()  # type: ignore[attr-defined]
        try:
            with self.b.into(block):
                yield block
        finally:
            self.cloner.mapping = mapping

    def slots_for(self, values: Sequence[Value]) -> Slots:
        """Slots of the stack for ``values``."""
        first = self.slots + 1
        self.slots += len(values)
        return list(enumerate(values, first))

    def push(self, slots: Slots) -> None:
        """Save what the values of ``slots`` are here."""
        for slot, v in slots:
            self.b.insert(ops.Push(slot, self.value(v)))

    def pop(self, slots: Slots) -> None:
        """Take back what was saved in ``slots``."""
        for slot, v in reversed(slots):
            self.cloner.mapping[v] = self.b.insert(ops.Pop(slot), v.type, hint=v.hint).result

    # --- the forward sweep ----------------------------------------------------------------------------------

    def forward(self, block_ops: Sequence[Op]) -> None:
        """Emit the primal ops again, with the pushes that the reverse of the same ops will pop."""
        for o in block_ops:
            if self.plan.saves:
                self.pass_by(o)
            elif isinstance(o, (ops.For, ops.While)) and self.plan.primal.touches_gradient(o):
                self.loop(o)
            else:
                self.recompute(o)

    def pass_by(self, o: Op) -> None:
        """Emit ``o`` in a forward sweep that runs once and saves."""
        match o:
            case ops.If():
                self.pass_if(o)
            case ops.For() | ops.While():
                self.loop(o)
            case ops.Call() if self.plan.is_saved(o):
                body, results, _ = self.plan.inlined[o]
                self.forward(body)
                self.cloner.mapping.update(zip(o.results, map(self.value, results), strict=True))
            case _ if self.plan.is_saved(o) or self.plan.is_repeated(o):
                self.append(o)
            case _:
                self.recompute(o)

    def pass_if(self, o: ops.If) -> None:
        """Emit a branch whose blocks save at their end."""
        blocks = []
        for branch in (o.then, o.orelse):
            block = Block()
            with self.b.into(block):
                self.forward(branch.ops[:-1])
                self.save(branch, [])
                self.b.yield_(*(self.value(y) for y in branch.yielded))
            blocks.append(block)
        results = self.b.if_(self.value(o.cond), *blocks)
        self.cloner.mapping.update(zip(o.results, results, strict=True))

    def save(self, block: Block, carried: list[Value]) -> None:
        """Save at the end of ``block`` what its reverse takes back."""
        values = list(carried)
        for o in block.ops[:-1]:
            if self.plan.is_saved(o):
                values.extend(o.results)
            elif o.regions():
                values.extend(r for r in o.results if not isinstance(r.type, Array))
            if isinstance(o, ops.While):
                values.append(self.trips(o))
        self.saved[block] = self.slots_for(values)
        self.push(self.saved[block])

    def loop(self, loop: Loop) -> None:
        """Emit a loop whose iterations save what they need in reverse."""
        self.steps[loop] = self.plan.steps(loop)
        kept = [c for k, c in enumerate(carried_values(loop)) if k not in self.steps[loop]]
        self.saved[loop.body] = [] if self.plan.saves else self.slots_for(kept)
        if isinstance(loop, ops.For):
            body = self.iteration(loop.body, kept, None)
            init = [self.value(v) for v in loop.init]
            results = self.b.for_(self.value(loop.lo), self.value(loop.hi), self.value(loop.step), init, body)
            self.cloner.mapping.update(zip(loop.results, results, strict=True))
            return
        cond = self.condition(loop.cond)
        cond.params.append(Value(int64, "trips"))
        body = self.iteration(loop.body, kept, Value(int64, "trips"))
        init = [*(self.value(v) for v in loop.init), self.b.zero(int64)]
        results = self.b.while_(init, cond, body)
        self.cloner.mapping.update(zip([*loop.results, self.trips(loop)], results, strict=True))

    def trips(self, loop: ops.While) -> Value:
        """What stands for the number of iterations of ``loop``."""
        return self.plan.sweep.range_of(loop)[0]

    def iteration(self, body: Block, kept: list[Value], trips: Value | None) -> Block:
        """One iteration of the forward sweep, which counts where it gets ``trips``."""
        block = Block([Value(p.type, p.hint) for p in body.params])
        self.cloner.mapping.update(zip(body.params, block.params, strict=True))
        with self.b.into(block):
            if self.plan.saves:
                self.forward(body.ops[:-1])
                self.save(body, kept)
            else:
                self.push(self.saved[body])
                for o in body.ops[:-1]:
                    self.recompute(o)
            values = [self.value(v) for v in body.yielded]
            if trips is not None:
                block.params.append(trips)
                values.append(self.b.add(trips, 1))
            self.b.yield_(*values)
        return block

    def condition(self, block: Block) -> Block:
        """Return the condition of a while loop for the forward sweep."""
        if not self.plan.saves:
            return self.without_effects(block)
        copied = Block([Value(p.type, p.hint) for p in block.params])
        self.cloner.mapping.update(zip(block.params, copied.params, strict=True))
        with self.b.into(copied):
            self.forward(block.ops[:-1])
            self.b.yield_(*(self.value(y) for y in block.yielded))
        return copied

    # --- recomputing ----------------------------------------------------------------------------------------

    def recompute(self, o: Op) -> None:
        """Emit ``o`` without effects and without saving anything."""
        match o:
            case ops.Store() | ops.Print() | ops.Check() | ops.Breakpoint():
                return
            case ops.Native() if not o.results:
                return
            case ops.If() | ops.For() | ops.While():
                self.b.block.ops.append(self.copy_without_effects(o))
            case ops.Call():
                self.recompute_call(o)
            case Replayed():
                self.cloner.mapping[o.result] = self.value(o.replay)
            case _:
                lost = self.plan.lost(o)
                if lost is None:
                    self.append(o)
                    return
                with at(o.loc):
                    new = self.b.insert(NotRecomputable(*lost), o.result.type, hint=o.result.hint)
                self.cloner.mapping[o.result] = new.result

    def recompute_call(self, o: ops.Call) -> None:
        """Make the results of a call known without its effects."""
        body, results, is_replay = self.plan.again[o]
        for inner in body:
            (self.append if is_replay else self.recompute)(inner)
        self.cloner.mapping.update(zip(o.results, map(self.value, results), strict=True))

    def copy_without_effects(self, o: Op) -> Op:
        """Return a copy of a control-flow op whose blocks hold recomputed ops."""
        new = copy.copy(o)
        new.map_operands(self.cloner.value)
        new.results = tuple(Value(r.type, r.hint, new) for r in o.results)
        for name in o._REGIONS:
            setattr(new, name, self.without_effects(getattr(o, name)))
        self.cloner.mapping.update(zip(o.results, new.results, strict=True))
        return new

    def without_effects(self, block: Block) -> Block:
        """Return a copy of ``block`` that holds recomputed ops."""
        copied = Block([Value(p.type, p.hint) for p in block.params])
        self.cloner.mapping.update(zip(block.params, copied.params, strict=True))
        with self.b.into(copied):
            for inner in block.ops:
                self.recompute(inner)
        return copied

    # --- the reverse sweep ----------------------------------------------------------------------------------

    def reverse(self, sweep_ops: Sequence[Op]) -> None:
        """Emit ops of the sweep; the values that they name are known in this scope."""
        for o in sweep_ops:
            source = self.plan.sweep.sources.get(o)
            if source is None:
                self.append(o)
                continue
            with at(o.loc):
                if isinstance(o, ops.If) and isinstance(source, ops.If):
                    self.reverse_if(o, source)
                elif isinstance(o, ops.For) and isinstance(source, (ops.For, ops.While)):
                    self.reverse_loop(o, source)

    def reverse_if(self, o: ops.If, source: ops.If) -> None:
        """Emit the reverse of a branch."""
        blocks = []
        for branch, primal in ((o.then, source.then), (o.orelse, source.orelse)):
            with self.scope() as block:
                self.enter(primal)
                self.reverse(branch.ops)
            blocks.append(block)
        results = self.b.if_(self.value(source.cond), *blocks)
        self.name_results(o, results)

    def reverse_loop(self, o: ops.For, source: Loop) -> None:
        """Emit the loop that runs the iterations backwards."""
        trips = self.value(self.trips(source)) if isinstance(source, ops.While) else None
        reversed_loop = ReversedLoop(source, self.steps[source], trips, self.value)
        lo, hi, step = reversed_loop.range(self.b)
        for constant in self.plan.sweep.setup[o].ops:
            self.append(constant)
        init = [self.value(v) for v in o.init]
        i = Value(lo.type, source.body.params[0].hint if isinstance(source, ops.For) else "")
        params = [i, *(Value(p.type, p.hint) for p in o.body.params[1:])]
        with self.scope(params) as body:
            self.cloner.mapping.update(zip(o.body.params[1:], params[1:], strict=True))
            if isinstance(source, ops.For):
                self.cloner.mapping[source.body.params[0]] = reversed_loop.index(self.b, i)
            self.cloner.mapping.update(reversed_loop.computed(self.b, i))
            if not self.plan.saves:
                self.pop(self.saved[source.body])
            self.enter(source.body)
            self.reverse(o.body.ops)
        made = self.b.insert(ops.For(lo, hi, step, tuple(init), body, sums=True), *(v.type for v in init))
        self.name_results(o, made.results)

    def name_results(self, o: Op, results: Sequence[Value]) -> None:
        """Note what the results of an op of the sweep are."""
        for r, new in zip(o.results, results, strict=True):
            self.cloner.mapping[r] = new

    def enter(self, block: Block) -> None:
        """Make the values of ``block`` known in the reverse sweep, at the start of its reverse.

        A branch whose results do nothing but leave the block is left out: its reverse computes its inside itself.
        """
        if self.plan.saves:
            self.pop(self.saved[block])
            for o in block.ops[:-1]:
                if not (o.regions() or self.plan.is_saved(o)):
                    self.recompute(o)
            return
        used: set[Value] = set()
        for o in block.ops[:-1]:
            used.update(o.operands())
            for r in o.regions():
                used.update(self.plan.primal.free_values(r))
        self.forward([o for o in block.ops[:-1] if not isinstance(o, ops.If) or not used.isdisjoint(o.results)])
