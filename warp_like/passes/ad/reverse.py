"""The reverse sweep: the ops of a kernel walked backwards, each sending adjoints from its results to its operands.

* The adjoints of what a block uses from outside leave it as results, so that the adjoint is SSA like any other code.
* Reading an element adds to the adjoint array atomically. Writing one takes the adjoint of the element and leaves 0,
  since what stood there before had no influence on what follows. Where threads may write to one element (``private``
  says where not), that is one atomic operation: as one store wins, one thread gets the adjoint.

The sweep names values of the primal; ``plan`` says how it gets them, and ``emission`` puts them in.

The structure follows Griewank and Walther, "Evaluating Derivatives" (2nd edition, 2008), chapters 3, 4 and 12.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import Array, is_large
from warp_like.passes.ad.adjoints import sum_of, wide_type
from warp_like.passes.ad.loops import carried_values
from warp_like.passes.ad.rules import RULES
from warp_like.passes.ad.sweep import Sweep


def reverse_kernel(s: Sweep) -> None:
    """Write the reverse sweep of a kernel, which adds to arrays of adjoints."""
    reverse(s, s.primal.f.body.ops[:-1])
    for p, target in list(s.adjoint_arrays.items()):
        g = s.adjoints.take(p) if p in s.primal.wrt and not isinstance(p.type, Array) else None
        if g is not None:
            s.b.atomic("add", target, [s.b.index(0)], g)
    s.b.yield_()


def reverse(s: Sweep, block_ops: Sequence[Op]) -> None:
    """Walk the ops of a block backwards."""
    for o in block_ops:
        if isinstance(o, ops.LocalArray) and o.result in s.primal.local:
            made = s.b.insert(ops.LocalArray(o.shape), o.result.type, hint=f"adj_{o.result.hint}")
            s.adjoint_arrays[o.result] = made.result
    for o in reversed(block_ops):
        with at(o.loc):
            match o:
                case ops.If():
                    if s.primal.touches_gradient(o):
                        _reverse_if(s, o)
                case ops.For() | ops.While():
                    if s.primal.touches_gradient(o):
                        _reverse_loop(s, o)
                case ops.Store() | ops.Atomic() | ops.AtomicCas():
                    RULES[type(o)](s, o)
                case _:
                    g = s.adjoints.take_all(o.results)
                    if any(x is not None for x in g) or s.primal.writes_adjoint_of(o):
                        RULES[type(o)](s, o, *g)


def _reverse_if(s: Sweep, o: ops.If) -> None:
    g = s.adjoints.take_all(o.results)
    if all(x is None for x in g) and not s.primal.writes_adjoints(o):
        return
    begun = _begun_sums(s, o)
    blocks, contributions = [], []
    for branch in (o.then, o.orelse):
        with s.scope() as (block, local):
            for v, whole in begun.items():
                local.start(v, whole)
            for y, x in zip(branch.yielded, g, strict=True):
                s.send(y, x)
            reverse(s, branch.ops[:-1])
            sums = {v: _cast(s, local.take_sum(v), whole) for v, whole in begun.items()}
            outer = [v for v in s.primal.free_values(branch) if v in local.sums]
            contributions.append({**sums, **{v: local.take(v) for v in outer}})
        blocks.append(block)
    outer = list(dict.fromkeys([*contributions[0], *contributions[1]]))
    for block, given in zip(blocks, contributions, strict=True):
        with s.b.into(block):
            s.b.yield_(*(s.or_zero(given.get(v), v) for v in outer))
    results = s.b.if_(o.cond, *blocks)
    s.sources[s.b.block.ops[-1]] = o
    for v, x in zip(outer, results, strict=True):
        s.adjoints.add(v, x)


def _begun_sums(s: Sweep, o: ops.If) -> dict[Value, Value]:
    """Take the sums of large values that a branch uses, to which its sides add in place."""
    used = (v for r in o.regions() for v in s.primal.free_values(r) if is_large(v.type))
    found = {v: s.adjoints.take_sum(v) for v in dict.fromkeys(used)}
    return {v: whole for v, whole in found.items() if whole is not None}


def _cast(s: Sweep, g: Value | None, like: Value) -> Value | None:
    return None if g is None else s.b.cast(g, like.type)


def _reverse_loop(s: Sweep, loop: ops.For | ops.While) -> None:
    """Write the loop that runs the iterations backwards; its range is found when it is emitted."""
    final = s.adjoints.take_all(loop.results)
    if all(g is None for g in final) and not s.primal.writes_adjoints(loop):
        return
    carried = carried_values(loop)
    active = [k for k, c in enumerate(carried) if c in s.primal.varied]
    outer = [v for v in s.primal.free_values(loop.body) if v in s.primal.varied and not isinstance(v.type, Array)]
    with s.b.into(Block()) as setup:
        init = [s.or_zero(final[k], carried[k]) for k in active]
        init += [_first_sum(s, v) for v in outer]
    params = [Value(v.type, f"adj_{v.hint}" if v.hint else "") for v in init]
    lo, hi, step = s.range_of(loop)
    with s.scope([Value(lo.type), *params]) as (body, local):
        for v, acc in zip(outer, params[len(active) :], strict=True):
            if is_large(v.type):
                local.start(v, acc)
        for k, g in zip(active, params, strict=False):
            s.send(loop.body.yielded[k], g)
        reverse(s, loop.body.ops[:-1])
        values = [s.or_zero(local.take(carried[k]), carried[k]) for k in active]
        for v, acc in zip(outer, params[len(active) :], strict=True):
            if is_large(v.type):
                values.append(s.b.cast(local.take_sum(v) or acc, acc.type))
                continue
            more = local.take(v)
            values.append(acc if more is None else sum_of(s.b, acc, more))
        s.b.yield_(*values)
    results = s.b.for_(lo, hi, step, init, body)
    s.sources[s.b.block.ops[-1]] = loop
    s.setup[s.b.block.ops[-1]] = setup
    for k, g in zip(active, results, strict=False):
        s.send(loop.init[k], g)
    for v, g in zip(outer, results[len(active) :], strict=True):
        s.send(v, g if is_large(v.type) else s.b.cast(g, v.type))


def _first_sum(s: Sweep, v: Value) -> Value:
    """What the adjoint of ``v``, made outside of a loop, begins with: of a large one with what is known before."""
    wide = wide_type(v.type)
    known = s.adjoints.take_sum(v) if is_large(v.type) else None
    return s.b.zero(wide) if known is None else s.b.cast(known, wide)
