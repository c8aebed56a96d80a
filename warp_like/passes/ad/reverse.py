"""The reverse-mode transform.

The adjoint of a kernel is one kernel: at each nesting level a forward sweep that computes the primal values again and
writes nothing, then a reverse sweep that walks the ops backwards and sends adjoints from results to operands.

* A branch recomputes its inside in the reverse sweep.
* A loop's forward sweep pushes the carried values at the start of each iteration; the reverse sweep pops them,
  recomputes the iteration and reverses it. Pops that nobody needs are removed afterwards together with their pushes,
  so a plain sum saves nothing.
* The adjoints of what a block uses from outside leave it as results, so that the adjoint is SSA like any other code.
* Reading an element adds to the adjoint array atomically. Writing one takes the adjoint of the element and leaves 0,
  since what stood there before had no influence on what follows. Where threads may write to one element (``private``
  says where not), that is one atomic operation: as one store wins, one thread gets the adjoint.

A primal value that can't be computed again (an element that the same kernel overwrites, the old value of an atomic)
becomes an ``Unavailable`` op. If one is left once dead code is gone, the reverse sweep really needs it, and the kernel
is refused with the place in the user's source.

The structure follows Griewank and Walther, "Evaluating Derivatives" (2nd edition, 2008), chapters 3, 4 and 12.

Relies on a function without plain calls, structs and builtins that have neither rule nor backend. Leaves recomputed
values that nobody needs to ``dce``, such as the product below.

Before::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      store %y[%0], %2
      yield
    }

After::

    adjoint k(%x: array1d[float32], %y: array1d[float32], %adj_x: array1d[float32], %adj_y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      %3 = constant 0.0 : float32
      %4 = load %adj_y[%0] : float32
      store %adj_y[%0], %3
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

from warp_like.analysis.memory import analyse, root_of, roots_written
from warp_like.analysis.private import private_roots
from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.builtins.spec import Overload
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, free_values
from warp_like.ir.types import Array, Scalar, adjoint_type, is_differentiable
from warp_like.passes.ad.activity import inner_arrays, varied_values, written_arrays
from warp_like.passes.ad.adjoints import Adjoints
from warp_like.passes.ad.functions import recompute_call
from warp_like.passes.ad.loops import LoopReversal
from warp_like.passes.ad.markers import Replayed, Unavailable
from warp_like.passes.ad.order import ONE_THREAD, read_of_updated
from warp_like.passes.ad.rules import RULES
from warp_like.passes.bodies import body_of
from warp_like.passes.local_arrays import local_arrays


def differentiate(f: Function, wrt: Sequence[int]) -> Function:
    """Return the adjoint of kernel ``f`` with respect to its parameters ``wrt``.

    ``f`` holds no calls and no builtins without an adjoint rule of their own. The adjoint's parameters are those of
    ``f`` and then, in the order of ``wrt``, one array of adjoints for each: of one element for a parameter that is no
    array, to which every thread adds. Clean it up (``fold``, ``cse``, ``dce``)
    and then call ``require_available``.
    """
    g, adjoints = adjoint_header(f, wrt)
    return Reversal(f, g, adjoints).run()


def adjoint_header(f: Function, wrt: Sequence[int]) -> tuple[Function, dict[Value, Value]]:
    """Return the adjoint of ``f`` without its body, and the array of adjoints of each differentiated parameter."""
    params = [Value(p.type, p.hint) for p in f.params]
    adjoints = {f.params[i]: Value(adjoint_type(f.params[i].type), f"adj_{f.params[i].hint}") for i in wrt}
    return Function(f.name, [*params, *adjoints.values()], (), "adjoint", f.loc), adjoints


def needs_expansion(row: Overload) -> bool:
    """Return whether a builtin must be replaced by its body before it can be differentiated."""
    return body_of(row.lower) is not None and row.adjoint is None


def require_available(g: Function) -> None:
    """Refuse the adjoint ``g`` if its reverse sweep needs a value that can't be computed again.

    Raises:
        WarpCodegenError: With the reason and the place in the primal kernel.
    """
    missing = first_unavailable(g)
    if missing is not None:
        raise WarpCodegenError(missing.reason, missing.loc, missing.help)


def first_unavailable(g: Function) -> Unavailable | None:
    """Return an op of ``g`` that stands for a value which can't be computed, if there is one."""
    return next((o for o in g.body.walk() if isinstance(o, Unavailable)), None)


def _require_no_exchange_through_memory(f: Function) -> None:
    """Refuse threads of a block that wait for what others write: the reverse sweep would have to wait the other way."""
    for o in f.body.walk():
        if isinstance(o, ops.Barrier) or (isinstance(o, ops.LocalArray) and o.shared):
            what = "block_sync()" if isinstance(o, ops.Barrier) else "shared_array()"
            raise WarpCodegenError(
                f"{what} has no gradient: reverse mode does not go through memory that threads share",
                o.loc,
                help="wp.block_sum, wp.warp_sum and wp.warp_shuffle have gradients; or give a function that does this "
                "a gradient of its own by @wp.func_grad",
            )


class Reversal:
    """The state of one transform: where code goes, which primal value is what here, and the adjoints so far."""

    def __init__(self, f: Function, g: Function, adjoint_arrays: dict[Value, Value]) -> None:
        _require_no_exchange_through_memory(f)
        self.f = f
        self.g = g
        self.b = Emitter(g.body)
        self.cloner = Cloner(ChainMap(dict(zip(f.params, g.params, strict=False))))  # type: ignore[arg-type]
        self.adjoints = Adjoints(self.b)
        self.adjoint_arrays = adjoint_arrays
        self.written = written_arrays(f)
        self.varied = varied_values(f, adjoint_arrays)
        self.local = {v for v in local_arrays(f) if is_differentiable(v.type)}
        self.carrying = {*map(root_of, (*adjoint_arrays, *self.local)), *inner_arrays(f, adjoint_arrays)}
        self.memory = analyse(f)
        self.private = private_roots(self.memory)
        self.loops: dict[Op, LoopReversal] = {}
        self.slots = 0
        self._writing: dict[Op, bool] = {}
        self._free: dict[Block, dict[Value, None]] = {}

    def run(self) -> Function:
        """Fill the adjoint and return it."""
        self.forward(self.f.body.ops[:-1])
        self.reverse(self.f.body.ops[:-1])
        for p, target in self.adjoint_arrays.items():
            g = None if isinstance(p.type, Array) else self.adjoints.take(p)
            if g is not None:
                self.b.atomic("add", target, [self.b.index(0)], g)
        self.b.yield_()
        return self.g

    # --- the forward sweep ----------------------------------------------------------------------------------

    def forward(self, block_ops: Sequence[Op]) -> None:
        """Emit the primal ops again, loops with the pushes that ``reverse`` of the same ops will pop."""
        for o in block_ops:
            if isinstance(o, (ops.For, ops.While)) and self.touches_gradient(o):
                self.loops[o] = LoopReversal(self, o)
                self.loops[o].forward()
            else:
                self.recompute(o)

    def enter(self, block: Block) -> None:
        """Make the values of ``block`` known in the reverse sweep, at the start of its reverse.

        A branch whose results do nothing but leave the block is left out: its reverse computes its inside itself.
        """
        used: set[Value] = set()
        for o in block.ops[:-1]:
            used.update(o.operands())
            for r in o.regions():
                used.update(self.free_values(r))
        self.forward([o for o in block.ops[:-1] if not isinstance(o, ops.If) or not used.isdisjoint(o.results)])

    def recompute(self, o: Op) -> None:
        """Emit ``o`` without effects and without saving anything."""
        match o:
            case ops.Store() | ops.Print() | ops.Check() | ops.Breakpoint():
                return
            case ops.Atomic() | ops.AtomicCas():
                self.unavailable_atomic(o)
            case ops.Native():
                self.recompute_native(o)
            case ops.Load() if root_of(o.array) in self.written:
                self.unavailable_load(o)
            case ops.If() | ops.For() | ops.While():
                self.append(self.copy_without_effects(o))
            case ops.Call():
                recompute_call(self, o)
            case Replayed():
                self.cloner.mapping[o.result] = self.value(o.replay)
            case _:
                self.append(self.cloner.op(o))

    def append(self, new: Op) -> None:
        self.b.block.ops.append(new)

    def unavailable(self, o: Op, reason: str, help: str) -> None:
        with at(o.loc):
            new = self.b.insert(Unavailable(reason, help), o.result.type, hint=o.result.hint)
        self.cloner.mapping[o.result] = new.result

    def unavailable_atomic(self, o: ops.Atomic | ops.AtomicCas) -> None:
        is_integer = isinstance(o.result.type, Scalar) and o.result.type.is_int
        record = "record the launch on a wp.Tape, which keeps integers that atomics outside of loops return; else "
        self.unavailable(
            o,
            "the result of an atomic can't be recomputed for the gradient",
            f"{record if is_integer else ''}store it to an array in a first kernel and read that array in a second "
            f"one{ONE_THREAD}",
        )

    def recompute_native(self, o: ops.Native) -> None:
        """Run native code again for its result, unless it might see or make changes of memory."""
        if not o.results:
            return
        if not o.code.written and not any(root_of(a) in self.written for a in o.args):
            self.append(self.cloner.op(o))
            return
        self.unavailable(
            o,
            f"the gradient needs the result of `{o.code.name}`, native code that can't run again, since it or the "
            "kernel changes an array that it is given",
            "give func_native a replay_snippet, or say writes=[...] if it writes fewer arrays than it is given",
        )

    def unavailable_load(self, o: ops.Load) -> None:
        """Stand for an element that changes; the reason is that of the arrays which ``saving`` can't serve either."""
        if root_of(o.array).kind == "element":
            self.unavailable_inner(o)
            return
        self.unavailable(o, *read_of_updated(root_of(o.array).array.hint or "an array"))

    def unavailable_inner(self, o: ops.Load) -> None:
        array = ops.base_array(o.array)
        self.unavailable(
            o,
            f"the gradient needs this element of `{array.hint}`, which the same kernel writes to, and of arrays that "
            "stand in elements of other arrays there are no copies",
            "write to another array, or give the kernel the array itself as an argument",
        )

    def copy_without_effects(self, o: Op) -> Op:
        """Return a copy of a control-flow op whose blocks hold recomputed ops."""
        new = copy.copy(o)
        new.map_operands(self.cloner.value)
        new.results = tuple(Value(r.type, r.hint, new) for r in o.results)
        for name in o._REGIONS:
            setattr(new, name, self.block_without_effects(getattr(o, name)))
        self.cloner.mapping.update(zip(o.results, new.results, strict=True))
        return new

    def condition(self, block: Block) -> Block:
        """Return the condition of a while loop for the forward sweep."""
        return self.block_without_effects(block)

    def block_without_effects(self, block: Block) -> Block:
        copied = Block([Value(p.type, p.hint) for p in block.params])
        self.cloner.mapping.update(zip(block.params, copied.params, strict=True))
        with self.b.into(copied):
            for inner in block.ops:
                self.recompute(inner)
        return copied

    # --- the reverse sweep ----------------------------------------------------------------------------------

    def reverse(self, block_ops: Sequence[Op]) -> None:
        """Walk the ops backwards; their values are known in this scope."""
        for o in block_ops:
            if isinstance(o, ops.LocalArray) and o.result in self.local:
                made = self.b.insert(ops.LocalArray(o.shape), o.result.type, hint=f"adj_{o.result.hint}")
                self.adjoint_arrays[o.result] = made.result
        for o in reversed(block_ops):
            with at(o.loc):
                match o:
                    case ops.If():
                        if self.touches_gradient(o):
                            self.reverse_if(o)
                    case ops.For() | ops.While():
                        if o in self.loops:
                            self.loops[o].reverse()
                    case ops.Store() | ops.Atomic() | ops.AtomicCas():
                        RULES[type(o)](self, o)
                    case _:
                        g = self.adjoints.take_all(o.results)
                        if any(x is not None for x in g) or self.writes_adjoint_of(o):
                            RULES[type(o)](self, o, *g)

    def touches_gradient(self, o: Op) -> bool:
        """Return whether the reverse sweep has anything to do for the control-flow op ``o``."""
        return any(r in self.varied for r in o.results) or self.writes_adjoints(o)

    def writes_adjoints(self, o: Op) -> bool:
        """Return whether something inside ``o`` writes an array that has adjoints."""
        found = self._writing.get(o)
        if found is None:
            inner = [x for r in o.regions() for x in r.ops]
            found = any(self.writes_adjoint_of(x) or (x._REGIONS and self.writes_adjoints(x)) for x in inner)
            self._writing[o] = found
        return found

    def writes_adjoint_of(self, o: Op) -> bool:
        """Return whether ``o`` itself, or a function that it calls, writes an array that has adjoints."""
        return any(root in self.carrying for root in roots_written(o))

    def reverse_if(self, o: ops.If) -> None:
        g = self.adjoints.take_all(o.results)
        if all(x is None for x in g) and not self.writes_adjoints(o):
            return
        blocks, contributions = [], []
        for branch in (o.then, o.orelse):
            with self.scope() as (block, local):
                self.enter(branch)
                for y, x in zip(branch.yielded, g, strict=True):
                    self.send(y, x)
                self.reverse(branch.ops[:-1])
                outer = [v for v in self.free_values(branch) if v in local.sums]
                contributions.append({v: local.take(v) for v in outer})
            blocks.append(block)
        outer = list(dict.fromkeys([*contributions[0], *contributions[1]]))
        for block, given in zip(blocks, contributions, strict=True):
            with self.b.into(block):
                self.b.yield_(*(self.or_zero(given.get(v), v) for v in outer))
        results = self.b.if_(self.value(o.cond), *blocks)
        for v, x in zip(outer, results, strict=True):
            self.adjoints.add(v, x)

    # --- helpers for the rules ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self, params: list[Value] | None = None) -> Iterator[tuple[Block, Adjoints]]:
        """Emit into a new block, with adjoints of its own and a map of primal values that ends with it."""
        block = Block(params)
        saved = self.cloner.mapping, self.adjoints, self.loops
        self.cloner.mapping = self.cloner.mapping.new_child()  # type: ignore[attr-defined]
        self.adjoints = Adjoints(self.b)
        self.loops = self.loops_inside()
        try:
            with self.b.into(block):
                yield block, self.adjoints
        finally:
            self.cloner.mapping, self.adjoints, self.loops = saved

    def loops_inside(self) -> dict[Op, LoopReversal]:
        """The reversals of loops that are known in a new scope."""
        return {}

    def value(self, primal: Value) -> Value:
        """What ``primal`` is in the adjoint function, here."""
        return self.cloner.value(primal)

    def send(self, primal: Value, g: Value | None) -> None:
        """Add ``g`` to the adjoint of ``primal`` if that carries one."""
        if g is not None and primal in self.varied:
            self.adjoints.add(primal, g)

    def or_zero(self, g: Value | None, like: Value) -> Value:
        return g if g is not None else self.b.zero(like.type)

    def adjoint_array(self, array: Value) -> Value | None:
        """The array of adjoints that belongs to ``array``, which may be a view; None if it has none."""
        if isinstance(array.op, ops.VIEWS):
            base = self.adjoint_array(array.op.array)
            if base is None or not is_differentiable(array.type):
                return None
            return self.b.view_like(array.op, base, self.value)
        if isinstance(array.op, ops.Inner):
            base = self.adjoint_array(array.op.array)
            if base is None or not is_differentiable(array.type):
                return None
            return self.b.inner(base, [self.value(i) for i in array.op.indices])
        found = self.adjoint_arrays.get(array)
        assert found is None or isinstance(found.type, Array)
        return found if found is not None and is_differentiable(array.type) else None

    def free_values(self, primal: Block) -> list[Value]:
        """The values that a block of the primal uses from outside."""
        return free_values(primal, self._free)

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots
