"""Gradients as functions: the bodies of what ``wp.grad(f)`` is in a kernel.

The frontend leaves a function without a body, whose ``primal`` is ``f``. Its results are the adjoints of those
arguments of ``f`` that are no arrays, where the adjoint of every component that ``f`` returns is one: for a function
that returns one number, its gradient. What has no gradient, such as an integer, gets zero.

The bodies are ordinary code, so that a kernel which uses them can itself be differentiated.

Runs on the frontend's IR, before ``prepare``. Below, the caller, and the body that its callee gets.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = call grad_square(%1) : float32
      store %x[%0], %2
      yield
    }

After::

    func grad_square(%v: float32) -> (float32) {
      %0 = add %v, %v : float32
      yield %0
    }
"""

from __future__ import annotations

from warp_like.analysis.memory import roots_written
from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, Type, element_count, is_differentiable, scalar_of
from warp_like.passes import pipeline
from warp_like.passes.ad.adjoint import needs_expansion
from warp_like.passes.ad.checkpoint import split_loops
from warp_like.passes.ad.emission import emit
from warp_like.passes.ad.functions import lower_replayed
from warp_like.passes.ad.markers import require_recomputable
from warp_like.passes.ad.plan import Plan
from warp_like.passes.ad.primal import Primal
from warp_like.passes.ad.reverse import reverse
from warp_like.passes.ad.sweep import Sweep
from warp_like.passes.expand import expand
from warp_like.passes.runner import Runner


def lower_gradients(f: Function, options: pipeline.Options) -> Function:
    """Give every gradient that ``f`` reaches its body, in place; returns ``f``.

    Raises:
        WarpCodegenError: A function can't be differentiated.
    """
    _Lowerer(options).function(f)
    return f


class _Lowerer:
    def __init__(self, options: pipeline.Options) -> None:
        self.options = options
        self.seen: set[Function] = set()
        self.slots = 0

    def function(self, f: Function) -> None:
        if f in self.seen:
            return
        self.seen.add(f)
        if f.primal is not None:
            primal, f.primal = f.primal, None
            self.function(primal)
            f.body = self.gradient(primal).body
        for callee in [o.callee for o in f.body.walk() if isinstance(o, ops.Call)]:
            for g in (callee, callee.gradient, callee.replay):
                if g is not None:
                    self.function(g)

    def gradient(self, primal: Function) -> Function:
        """Return the gradient of ``primal``."""
        f = pipeline.prepare(_calling(primal), self.options, keep_customs=True, owned=True)
        for o in f.body.walk():
            for root in roots_written(o):
                name = root.array.hint
                raise WarpCodegenError(
                    f"wp.grad() takes a function that writes no memory, and `{primal.name}` writes to `{name}`",
                    o.loc,
                    help="return what it computes instead",
                )
        run = Runner("gradients", f, self.options)
        run("lower_replayed", lower_replayed)
        run("expand_for_adjoint", lambda g: expand(g, needs_expansion))
        if self.options.checkpoint_loops:
            run("split_loops", split_loops)
        run("differentiate", _gradient)
        g = pipeline.optimise(run.end(), self.options, owned=True)
        require_recomputable(g)
        self.number_slots(g)
        return g

    def number_slots(self, g: Function) -> None:
        """Give the stack slots of ``g`` numbers that no other gradient of the kernel has."""
        used = 0
        for o in g.body.walk():
            if isinstance(o, (ops.Push, ops.Pop)):
                used = max(used, o.slot + 1)
                o.slot += self.slots
        self.slots += used


def _calling(primal: Function) -> Function:
    """Return a function that does nothing but call ``primal``, so that a gradient of its own is used."""
    f = Function(primal.name, [Value(p.type, p.hint) for p in primal.params], primal.results, "func", primal.loc)
    b = Emitter(f.body)
    with at(None):  # no call that the user wrote
        b.yield_(*b.insert(ops.Call(primal, tuple(f.params)), *primal.results).results)
    return f


def _gradient(f: Function) -> Function:
    """Return the function that gives the adjoints of those parameters of ``f`` that are no arrays."""
    values = [p for p in f.params if not isinstance(p.type, Array)]
    sweep = Sweep(Primal(f, [p for p in values if is_differentiable(p.type)]), {})
    with at(f.loc):
        for y in f.body.yielded:
            if y in sweep.primal.varied:
                sweep.adjoints.add(y, _ones(sweep.b, y.type))
        reverse(sweep, f.body.ops[:-1])
        sweep.b.yield_(*(sweep.or_zero(sweep.adjoints.take(p), p) for p in values))
        plan = Plan(sweep)
        plan.require_possible()
        params = [Value(p.type, p.hint) for p in f.params]
        return emit(plan, Function(f.name, params, tuple(p.type for p in values), "func", f.loc))


def _ones(b: Emitter, t: Type) -> Value:
    scalar, n = scalar_of(t), element_count(t)
    assert scalar is not None
    return b.constant(1.0 if t == scalar else (1.0,) * n, t)


__all__ = ["lower_gradients"]
