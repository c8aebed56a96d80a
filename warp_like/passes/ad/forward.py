"""The forward-mode transform: a kernel that computes tangents beside its values.

The result runs the primal completely, effects included, and in the same sweep what a small change of the
differentiated parameters changes: the *tangents*. A value without a tangent in the map has the tangent zero
and costs nothing. Tangents have the types of their primals, and the tangents of an array live in an array of
the same type.

All derivatives come from the adjoint rules of the builtins' rows, so both modes make the same choice at
edges. The rule of a scalar function of a scalar is multiplication by the derivative, which serves both modes
as it is; for aggregates a row of the Jacobian comes from the rule at a unit vector, unless the row has a body
without loops to differentiate.

Atomic minima and maxima need to know who wins before any tangent is added: a kernel that contains them is launched when
the array holds its final values already, which its minimum does not change. Each thread whose value is the final one
adds its tangent, as reverse mode gives the gradient to each of them.

An adjoint is a function like any other here: its tangent is forward over reverse, which gives the product of
the Hessian and a vector. What is saved on the stack has its tangent saved in a slot of its own.

The structure follows Griewank and Walther, "Evaluating Derivatives" (2nd edition, 2008), chapters 2, 3 and 5.

Relies on a prepared function or on an adjoint. Leaves products that ``cse`` and ``dce`` clean up.

Before::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      store %y[%0], %2
      yield
    }

After::

    tangent k(%x: array1d[float32], %y: array1d[float32], %tan_x: array1d[float32], %tan_y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = load %tan_x[%0] : float32
      %3 = mul %1, %1 : float32
      %4 = mul %2, %1 : float32
      %5 = mul %2, %1 : float32
      %6 = mul %2, %1 : float32
      %7 = mul %2, %1 : float32
      %8 = add %4, %7 : float32
      store %y[%0], %3
      store %tan_y[%0], %8
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner
from warp_like.ir.types import Array, is_differentiable
from warp_like.passes import pipeline
from warp_like.passes.ad.forward_rules import RULES
from warp_like.passes.ad.markers import NotRecomputable, require_recomputable
from warp_like.passes.ad.tangent_activity import TangentActivity
from warp_like.passes.inline import inline
from warp_like.passes.runner import Runner


def forward_mode(f: Function, wrt: Sequence[int], options: pipeline.Options) -> Function:
    """Return ``tangent(f, wrt)`` cleaned up.

    Calls in ``f`` are those of functions with a gradient or a replay of the user's own; the tangent calls nothing.

    Raises:
        WarpCodegenError: ``f`` has no tangent.
    """
    run = Runner("tangent", f, options)
    run("inline", lambda g: inline(g, lambda callee: callee.gradient is not None))
    run("tangent", lambda g: tangent(g, wrt))
    run("inline", inline)
    g = pipeline.optimise(run.end(), options, owned=True)
    require_recomputable(g)
    return g


def tangent(f: Function, wrt: Sequence[int]) -> Function:
    """Return ``f`` with tangents with respect to its parameters ``wrt``, arrays or values made of floats.

    ``f`` is a kernel or an adjoint, whose calls are of functions with a gradient of their own. The result's
    parameters are those of ``f`` and then, in the order of ``wrt``, the tangent of each. Arrays that are not in
    ``wrt`` are constants: what is stored to them loses its tangent. Clean the result up and then call
    ``require_recomputable``. What it does to arrays with atomic minima or maxima is meant for arrays that hold the
    final values.

    Raises:
        WarpCodegenError: An op changes memory in a way that has no tangent.
    """
    params = [Value(p.type, p.hint) for p in f.params]
    tangents = {f.params[i]: Value(f.params[i].type, f"tan_{f.params[i].hint}") for i in wrt}
    assert all(is_differentiable(p.type) for p in tangents), "a tangent of something that is not made of floats"
    g = Function(f.name, [*params, *tangents.values()], (), "tangent", f.loc)
    g.prelaunch_copies, g.tid_ndim = f.prelaunch_copies, f.tid_ndim
    g.had_tiles, g.is_joined = f.had_tiles, f.is_joined
    forward = Forward(f, g, dict(zip(f.params, params, strict=True)), tangents)
    forward.first_slot = 1 + max((o.slot for o in f.body.walk() if isinstance(o, ops.Push)), default=-1)
    forward.activity.block(f.body)
    forward.run(f.body.ops[:-1])
    forward.b.yield_()
    return g


class Forward:
    """The state of one transform: where code goes, and what primal values and their tangents are there."""

    def __init__(
        self, source: Function, g: Function, primals: dict[Value, Value], tangents: dict[Value, Value]
    ) -> None:
        self.source = source
        self.b = Emitter(g.body)
        self.cloner = Cloner(primals)
        self.tangents = tangents
        self.activity = TangentActivity(tangents)
        self.first_slot = 0  # of those that hold tangents

    # --- what rules use -------------------------------------------------------------------------------------

    def value(self, v: Value) -> Value:
        """What ``v`` is in the new function."""
        return self.cloner.value(v)

    def tangent(self, v: Value) -> Value | None:
        """The tangent of ``v``; None when it is zero."""
        return self.tangents.get(v)

    def or_zero(self, v: Value) -> Value:
        """The tangent of ``v``, as a value also where it is zero."""
        found = self.tangents.get(v)
        assert found is not None or not isinstance(v.type, Array), "control flow that chooses between arrays"
        return found if found is not None else self.b.zero(v.type)

    def set(self, v: Value, tangent: Value | None) -> None:
        """Say what the tangent of ``v`` is."""
        if tangent is not None:
            self.tangents[v] = tangent

    def keep(self, o: Op) -> None:
        """Emit the primal op."""
        self.b.block.ops.append(self.cloner.op(o))

    def mark_without_derivative(self, o: Op, reason: str, help: str) -> None:
        """Let the tangents of the results of ``o`` be a refusal, should anything need them."""
        for r in o.results:
            if is_differentiable(r.type):
                self.set(r, self.b.insert(NotRecomputable(reason, help), r.type, hint=r.hint).result)

    def run_new(self, block: Block, primals: Iterable[Value]) -> None:
        """Emit a block that did not belong to the function, made from its values ``primals``."""
        self.activity.varied.update(v for v in primals if v in self.tangents)
        self.activity.block(block)
        self.run(block.ops)

    # --- the sweep ------------------------------------------------------------------------------------------

    def run(self, sequence: Sequence[Op]) -> None:
        """Emit ops with their tangents."""
        for o in sequence:
            with at(o.loc):
                match o:
                    case ops.If():
                        self.if_(o)
                    case ops.For():
                        self.for_(o)
                    case ops.While():
                        self.while_(o)
                    case ops.Push():
                        self.push(o)
                    case ops.Pop():
                        self.pop(o)
                    case ops.LocalArray():
                        self.local_array(o)
                    case _ if any(v in self.tangents for v in o.operands()):
                        RULES[type(o)](self, o)
                    case _:
                        self.keep(o)

    def if_(self, o: ops.If) -> None:
        """Emit a branch that yields tangents too."""
        varied = self.varied(o.results)
        blocks = []
        for branch in o.regions():
            with self.b.into(Block()) as block:
                self.run(branch.ops[:-1])
                self.yield_(branch.yielded, varied)
            blocks.append(block)
        self.bind(o.results, varied, self.b.if_(self.value(o.cond), *blocks))

    def for_(self, o: ops.For) -> None:
        """Emit a loop that carries tangents too."""
        varied = self.varied(o.results)
        i, *carried = o.body.params
        index = Value(i.type, i.hint)
        self.cloner.mapping[i] = index
        body = self.loop_body(o.body, carried, varied, [index])
        lo, hi, step = (self.value(v) for v in (o.lo, o.hi, o.step))
        self.bind(o.results, varied, self.b.for_(lo, hi, step, self.doubled(o.init, varied), body))

    def while_(self, o: ops.While) -> None:
        """Emit a loop that carries tangents too; its condition sees them."""
        varied = self.varied(o.results)
        init = self.doubled(o.init, varied)
        cond = self.loop_body(o.cond, o.cond.params, varied, is_condition=True)
        body = self.loop_body(o.body, o.body.params, varied)
        self.bind(o.results, varied, self.b.while_(init, cond, body))

    def push(self, o: ops.Push) -> None:
        """Save a value, and its tangent on top of it."""
        self.keep(o)
        if o.slot in self.activity.slots:
            self.b.insert(ops.Push(self.first_slot + o.slot, self.or_zero(o.value)))

    def local_array(self, o: ops.LocalArray) -> None:
        """Make the array, and one for the tangents of its elements."""
        self.keep(o)
        if is_differentiable(o.result.type):
            self.set(o.result, self.b.insert(ops.LocalArray(o.shape, o.shared), o.result.type).result)

    def pop(self, o: ops.Pop) -> None:
        """Take back a value, and before it its tangent."""
        if o.slot in self.activity.slots:  # pushed after the primal, so taken back before it
            self.set(o.result, self.b.insert(ops.Pop(self.first_slot + o.slot), o.result.type).result)
        self.keep(o)

    # --- carried values: first all primals, then the tangents of those that vary ----------------------------

    def varied(self, values: Sequence[Value]) -> list[int]:
        """Return the positions of the values that have a tangent."""
        return [k for k, v in enumerate(values) if v in self.activity.varied]

    def doubled(self, values: Sequence[Value], varied: list[int]) -> list[Value]:
        """The values here, and then the tangents of those at the positions ``varied``."""
        return [*(self.value(v) for v in values), *(self.or_zero(values[k]) for k in varied)]

    def bind(self, old: Sequence[Value], varied: list[int], new: Sequence[Value]) -> None:
        """Let ``new`` be the values ``old`` and then the tangents of those at the positions ``varied``."""
        self.cloner.mapping.update(zip(old, new, strict=False))
        for k, t in zip(varied, new[len(old) :], strict=True):
            self.tangents[old[k]] = t

    def yield_(self, values: Sequence[Value], varied: list[int]) -> None:
        """End a block with values and their tangents."""
        self.b.yield_(*self.doubled(values, varied))

    def loop_body(
        self,
        source: Block,
        carried: list[Value],
        varied: list[int],
        first: Sequence[Value] = (),
        is_condition: bool = False,
    ) -> Block:
        """Return the body of a loop, with the parameters ``first`` and what it carries, or its condition."""
        params = [Value(p.type, p.hint) for p in [*carried, *(carried[k] for k in varied)]]
        self.bind(carried, varied, params)
        with self.b.into(Block([*first, *params])) as block:
            self.run(source.ops[:-1])
            self.yield_(source.yielded, [] if is_condition else varied)
        return block


__all__ = ["Forward", "forward_mode", "tangent"]
