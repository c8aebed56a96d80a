"""Calls of functions that have a gradient or a replay function of their own.

``prepare`` leaves such calls in place. The forward sweep runs the replay function, or the body without its effects.
The reverse sweep runs the gradient function. A function that has a replay alone is differentiated as any other, except
that the results of the replay stand for its own wherever their values are needed again.

Gradient and replay functions read arrays as they are after the launch. For a gradient function this is refused where
other code of the kernel writes the array: only what the function itself writes is its author's to know.

``lower_replayed``, below, runs before the transform; the rest of the module is called by it.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = call square(%1) : float32
      store %x[%0], %2
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      %3 = call square_again(%1) : float32
      %4 = replayed %2, %3 : float32
      store %x[%0], %4
      yield
    }
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from warp_like.analysis.memory import Root, root_of, roots_written
from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import Loc, at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, clone_function, has_effects
from warp_like.ir.types import Array, is_differentiable
from warp_like.passes.ad.markers import NotRecomputable, Replayed
from warp_like.passes.ad.sweep import Sweep
from warp_like.passes.inline import inline, is_custom
from warp_like.passes.rewriter import Rewriter, rewrite


def lower_replayed(f: Function) -> Function:
    """Inline, in place, the calls of functions that have a replay and no gradient, with ``Replayed`` results."""
    return rewrite(f, _Lowerer())


class _Lowerer(Rewriter):
    def visit(self, o: Op) -> None:
        if not isinstance(o, ops.Call) or o.callee.gradient is not None or o.callee.replay is None:
            super().visit(o)
            return
        body, results = inlined(o.callee, o.args, o.loc, keep_customs=True)
        self.splice(body)
        with at(o.loc):
            again = self.b.insert(ops.Call(o.callee.replay, o.args), *o.callee.results).results
            pairs = zip(results, again, strict=True)
            self.replace(o, [self.b.insert(Replayed(self.value(v), r), v.type, hint=v.hint).result for v, r in pairs])


def inlined(
    callee: Function, args: Sequence[Value], loc: Loc | None, *, keep_customs: bool = False
) -> tuple[list[Op], tuple[Value, ...]]:
    """Return the ops of a call, not yet inserted anywhere, and its results."""
    f = inline(clone_function(callee), is_custom if keep_customs else None)
    cloner = Cloner(dict(zip(f.params, args, strict=True)))
    body = Block()
    body.ops = [cloner.op(o) for o in f.body.ops[:-1]]
    for o in body.walk():
        o.loc = loc if o.loc is None else o.loc.called_from(loc)
    return body.ops, tuple(cloner.value(v) for v in f.body.yielded)


# --- the forward sweep ---


class Again(NamedTuple):
    """How the results of a call are had again: by ``body``, which gives ``results``.

    The body of a ``replay`` stands as it is; that of the function itself is run without its effects.
    """

    body: list[Op]
    results: tuple[Value, ...]
    is_replay: bool


def again(s: Sweep, o: ops.Call) -> Again:
    """Return how the results of the call ``o`` are had again, without its effects."""
    replay = o.callee if o.callee.gradient is None else o.callee.replay
    if replay is None:
        return Again(*inlined(o.callee, o.args, o.loc), False)
    with s.b.into(Block()) as views:
        args = [_launched(s, a) for a in o.args]
    body, results = inlined(replay, args, o.loc)
    for inner in body:
        if has_effects(inner) and not (isinstance(inner, ops.Native) and not inner.code.written):
            raise WarpCodegenError(
                f"the replay function `{replay.name}` changes memory; it runs in the reverse sweep and may only read",
                inner.loc,
            )
    return Again([*views.ops, *body], results, True)


def _launched(s: Sweep, v: Value) -> Value:
    """What argument ``v`` of a call is in the adjoint: for an array, that of the launch, never its copy."""
    if not isinstance(v.type, Array):
        return v
    if isinstance(v.op, ops.VIEWS):
        return s.b.view_like(v.op, _launched(s, v.op.array), lambda index: index)
    if v not in s.primal.f.params:
        raise WarpCodegenError(
            "a function with a gradient or replay function of its own is given an array that the kernel makes",
            help="pass an array that is an argument of the kernel",
        )
    return s.after_launch(v)


# --- the reverse sweep ---


def reverse_call(r: Sweep, o: ops.Call, *g: Value | None) -> None:
    """Run the gradient function of a call."""
    gradient = o.callee.gradient
    if gradient is None:  # a replay, whose results get no adjoints
        return
    n = len(o.args)
    launched = [_launched(r, a) for a in o.args]
    args = [*launched, *(r.or_zero(x, res) for x, res in zip(g, o.results, strict=True))]
    values: list[tuple[Value, Value]] = []  # the arguments that are no arrays, with the zeros that they start from
    bound = inline(clone_function(gradient))
    missing: set[Root] = set()
    adjoints: set[Root] = set()
    for a, primal in zip(o.args, launched, strict=True):
        if not is_differentiable(a.type):
            continue
        param = bound.params[len(args)]
        if isinstance(a.type, Array):
            target = r.adjoint_array(a)
            (adjoints if target is not None else missing).add(root_of(param))
            args.append(target if target is not None else primal)
        else:
            values.append((a, r.b.zero(a.type)))
            args.append(values[-1][1])
    taken = {root_of(bound.params[i]) for i in range(n) if _written_elsewhere(r.primal.f, o.args[i], o.callee)}
    rewrite(bound, Binder(o.callee.name, missing, adjoints, taken))
    body, results = inlined(bound, args, o.loc)
    r.b.block.ops += body
    for (a, zero), result in zip(values, results, strict=True):
        if result is not zero:
            r.send(a, result)


def _written_elsewhere(f: Function, v: Value, callee: Function) -> bool:
    """Return whether anything but calls of ``callee`` writes the array ``v``."""
    if not isinstance(v.type, Array):
        return False
    root = root_of(v)
    own = (o for o in f.body.walk() if not (isinstance(o, ops.Call) and o.callee is callee))
    return any(root in roots_written(o) for o in own)


class Binder(Rewriter):
    """Fits a gradient function to one call.

    Arrays of adjoints that are ``missing`` read as zero and are not written. What is ``taken`` can't be read.
    """

    def __init__(self, name: str, missing: set[Root], adjoints: set[Root], taken: set[Root]) -> None:
        super().__init__()
        self.name = name
        self.missing = missing
        self.adjoints = adjoints
        self.taken = taken

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.Native):
            self.native(o)
            return
        if not isinstance(o, (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas)):
            super().visit(o)
            return
        root, name = root_of(o.array), root_of(o.array).array.hint
        with at(o.loc):
            if root in self.missing:
                self.replace(o, [self.b.zero(v.type) for v in o.results])
            elif not isinstance(o, ops.Load) and root not in self.adjoints:
                raise WarpCodegenError(
                    f"the gradient function of `{self.name}` writes to `{name}`; it may write to adjoints only",
                    help=f"wp.adjoint[{name}][...] += ...",
                )
            elif isinstance(o, ops.Load) and root in self.taken:
                reason = (
                    f"the gradient function of `{self.name}` reads this element of `{name}`, which the same "
                    "kernel overwrites"
                )
                new = self.b.insert(
                    NotRecomputable(reason, "write to another array"), o.result.type, hint=o.result.hint
                )
                self.replace(o, [new.result])
            else:
                self.keep(o)

    def native(self, o: ops.Native) -> None:
        """Give native code nothing in place of the adjoints that are missing."""
        for (name, _), a in zip(o.code.params, o.args, strict=True):
            if root_of(a) in self.taken and re.search(rf"\b{re.escape(name)}\b", o.code.text):
                raise WarpCodegenError(
                    f"the adj_snippet of `{self.name}` mentions `{name}`, which it sees as it is after the launch, and "
                    "the same kernel overwrites it",
                    o.loc,
                    help="write to another array",
                )
        nothing = {a: self.b.insert(ops.Make(()), a.type).result for a in o.args if root_of(a) in self.missing}
        o.map_operands(lambda a: nothing.get(a, a))
        self.keep(o)
