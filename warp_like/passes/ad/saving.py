"""Reverse mode for kernels that read arrays which they also overwrite.

What such a kernel loads can't be loaded again later, so its values are saved when the forward sweep passes them. The
forward sweep works on *scratch* arrays: copies of the overwritten arrays as they were before the launch, to which it
repeats the kernel's own stores. It runs once, over all nesting levels, and each block that runs more or less than once
(a branch, an iteration) ends by pushing what its reverse needs: what it carried in, what it loaded from scratch, and
the results of the control flow inside it. The reverse of the block pops these first and recomputes the rest.

An element that another thread changes has no value that could be saved here: arrays that the kernel updates by
atomics stay refused.

It is tried when the plain transform has left an ``Unavailable``. Below, ``old_x`` is the scratch array;
``drop_unread_scratch`` removes those that nothing reads.

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

from collections.abc import Sequence, Set

from warp_like.analysis.memory import Access, Memory, Root, analyse, root_of
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import blocks, substitute
from warp_like.ir.types import Array
from warp_like.passes.ad.functions import inlined
from warp_like.passes.ad.loops import LoopReversal
from warp_like.passes.ad.reverse import Reversal, adjoint_header
from warp_like.passes.effects import array_uses
from warp_like.passes.local_arrays import local_arrays


def rewritten_arrays(memory: Memory, opened: Set[Root] = frozenset()) -> list[int]:
    """Return the positions of the arrays that a function loads from and stores to, and does not update by atomics.

    Its atomics on the memory ``opened`` count as a load and a store.
    """

    def kinds(a: Access) -> tuple[str, ...]:
        is_opened = isinstance(a.op, (ops.Atomic, ops.AtomicCas)) and a.roots <= opened
        return ("load", "store") if is_opened else (a.kind,)

    found = []
    for i in range(len(memory.function.params)):
        accesses = [a for a in memory.of_parameter(i) if not isinstance(a.op, ops.Inner)]  # which no kernel changes
        if {kind for a in accesses for kind in kinds(a)} == {"load", "store"}:
            found.append(i)
    return found


def differentiate_saving(f: Function, wrt: Sequence[int]) -> Function:
    """Return the adjoint of ``f`` as ``differentiate`` does, with scratch arrays as its last parameters.

    Its ``scratch`` has the positions of the arrays that they are copies of.
    """
    rewritten = rewritten_arrays(analyse(f))
    g, adjoints = adjoint_header(f, wrt)
    scratch = [Value(f.params[i].type, f"old_{f.params[i].hint}") for i in rewritten]
    g.params.extend(scratch)
    g.scratch = tuple(rewritten)
    reversal = SavingReversal(f, g, adjoints, dict(zip((f.params[i] for i in rewritten), scratch, strict=True)))
    return reversal.run()


class SavingReversal(Reversal):
    """A reversal whose forward sweep runs once and saves."""

    def __init__(self, f: Function, g: Function, adjoints: dict[Value, Value], scratch: dict[Value, Value]) -> None:
        super().__init__(f, g, adjoints)
        self.scratch = {
            *map(root_of, (*scratch, *local_arrays(f)))
        }  # what loads are saved of; local arrays are made anew
        self.cloner.mapping.update(scratch)  # loads, stores and views of the array go to its scratch
        self.saved: dict[Block, list[tuple[int, Value]]] = {}

    def loops_inside(self) -> dict[Op, LoopReversal]:
        return self.loops

    def forward(self, block_ops: Sequence[Op]) -> None:
        for o in block_ops:
            self.pass_by(o)

    def pass_by(self, o: Op) -> None:
        """Emit ``o`` in the forward sweep."""
        match o:
            case ops.If():
                self.pass_if(o)
            case ops.For() | ops.While():
                self.loops[o] = SavingLoop(self, o)
                self.loops[o].forward()
            case ops.Store() | ops.Load() if root_of(o.array) in self.scratch:
                self.append(self.cloner.op(o))
            case ops.Native() if self.sees_scratch(o):
                self.append(self.cloner.op(o))
            case ops.Call() if self.uses_scratch(o):
                body, results = inlined(o.callee, o.args, o.loc)
                self.forward(body)
                self.cloner.mapping.update(zip(o.results, map(self.value, results), strict=True))
            case _:
                self.recompute(o)

    def uses_scratch(self, o: ops.Call) -> bool:
        """Return whether a function with a gradient of its own works on an array that has scratch."""
        if o.callee.gradient is None:  # a replay, which reads the arrays of the launch
            return False
        used = (o.args[i] for i, a in array_uses(analyse(o.callee)).items() if a.read or a.written)
        return any(root_of(a) in self.scratch for a in used)

    def sees_scratch(self, o: ops.Native) -> bool:
        """Return whether native code is given an array that has scratch."""
        return any(root_of(a) in self.scratch for a in o.args)

    def pass_if(self, o: ops.If) -> None:
        blocks = []
        for branch in (o.then, o.orelse):
            block = Block()
            with self.b.into(block):
                self.forward(branch.ops[:-1])
                self.push(branch, [])
                self.b.yield_(*(self.value(y) for y in branch.yielded))
            blocks.append(block)
        results = self.b.if_(self.value(o.cond), *blocks)
        self.cloner.mapping.update(zip(o.results, results, strict=True))

    def push(self, block: Block, carried: list[Value]) -> None:
        """Save at the end of ``block`` what its reverse takes back."""
        values = list(carried)
        for o in block.ops[:-1]:
            match o:
                case ops.Load() if root_of(o.array) in self.scratch:
                    values.append(o.result)
                case ops.Call() if self.uses_scratch(o):
                    values.extend(o.results)
                case ops.Native() if self.sees_scratch(o):
                    values.extend(o.results)
                case ops.If() | ops.For() | ops.While():
                    values.extend(r for r in o.results if not isinstance(r.type, Array))
                    if isinstance(o, ops.While):
                        values.append(self.loops[o].trips)
        self.saved[block] = [(self.new_slot(), v) for v in values]
        for slot, v in self.saved[block]:
            self.b.insert(ops.Push(slot, self.value(v)))

    def enter(self, block: Block) -> None:
        for slot, v in reversed(self.saved[block]):
            self.cloner.mapping[v] = self.b.insert(ops.Pop(slot), v.type, hint=v.hint).result
        for o in block.ops[:-1]:
            match o:
                case ops.If() | ops.For() | ops.While():
                    continue
                case ops.Store() | ops.Load() if root_of(o.array) in self.scratch:
                    continue
                case ops.Call() if self.uses_scratch(o):
                    continue
                case ops.Native() if self.sees_scratch(o):
                    continue
            self.recompute(o)

    def condition(self, block: Block) -> Block:
        copied = Block([Value(p.type, p.hint) for p in block.params])
        self.cloner.mapping.update(zip(block.params, copied.params, strict=True))
        with self.b.into(copied):
            self.forward(block.ops[:-1])
            self.b.yield_(*(self.value(y) for y in block.yielded))
        return copied


class SavingLoop(LoopReversal):
    """A loop whose iterations push at their end, and are not run again."""

    r: SavingReversal

    def fill_iteration(self, body: Block) -> None:
        self.r.forward(body.ops[:-1])
        self.r.push(body, self.saved())

    def enter_iteration(self) -> None:
        self.r.enter(self.loop.body)


def drop_unread_scratch(g: Function) -> Function:
    """Remove from ``g``, in place, the scratch arrays whose elements nothing reads.

    Stores to them go, and views and extents are those of the array of the launch.
    """
    params = g.params[len(g.params) - len(g.scratch) :]
    readers = (o for o in g.body.walk() if not isinstance(o, (ops.Store, ops.Dim, *ops.VIEWS)))
    read = {root_of(v) for o in readers for v in o.operands()}
    unread = {p: g.params[i] for i, p in zip(g.scratch, params, strict=True) if root_of(p) not in read}
    gone = set(map(root_of, unread))
    for block in blocks(g.body):
        block.ops = [o for o in block.ops if not (isinstance(o, ops.Store) and root_of(o.array) in gone)]
    substitute(g.body, unread)
    g.body.params = [p for p in g.params if p not in unread]
    g.scratch = tuple(i for i, p in zip(g.scratch, params, strict=True) if p not in unread)
    return g
