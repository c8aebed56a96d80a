"""Fold what is known while compiling: constants, identities, branches not taken, unchanging carried values.

Values stay the same to the last bit. So ``x + 0.0`` stays for floats that may be -0.0, which it makes 0.0, and
``x * 0`` folds for integers alone, since a float could be infinite or NaN. Folding twice changes nothing.

Relies on nothing. Leaves ops that nobody uses.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 1.0 : float32
      %2 = constant 1.0 : float32
      %3 = add %1, %2 : float32
      %4 = load %x[%0] : float32
      %5 = constant 1.0 : float32
      %6 = mul %4, %5 : float32
      %7 = mul %6, %3 : float32
      store %x[%0], %7
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 1.0 : float32
      %2 = constant 1.0 : float32
      %3 = constant 2.0 : float32
      %4 = load %x[%0] : float32
      %5 = constant 1.0 : float32
      %6 = mul %4, %3 : float32
      store %x[%0], %6
      yield
    }
"""

from __future__ import annotations

from collections.abc import Callable

from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import substitute
from warp_like.ir.types import bool_
from warp_like.passes.fold_rules import RULES, same_constant
from warp_like.passes.rewriter import Rewriter, prune_results, rewrite
from warp_like.passes.unroll import trip_count


def fold(f: Function) -> Function:
    """Fold ``f`` in place. What becomes unused is left for ``dce``."""
    while True:
        folder = _Folder()
        rewrite(f, folder)
        if not folder.again:
            return f


class _Folder(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.known: dict[Value, ops.Constant] = {}  # conditions, inside the branch that they chose
        self.used: set[Op] = set()  # those constants that the branch needs
        self.again = False  # a loop was simplified after its body was visited

    @property
    def maps_alone(self) -> bool:
        return not self.known

    def value(self, v: Value) -> Value:
        v = self.mapping.get(v, v)
        known = self.known.get(v)
        if known is None:
            return v
        self.used.add(known)
        return known.result

    def visit(self, o: Op) -> None:
        if not o._REGIONS:
            rule: Callable[..., Value | None] | None = RULES.get(type(o))
            got = rule(self.b, o) if rule else None
            if got is None:
                self.keep(o)
            else:
                self.replace(o, (got,))
            return
        match o:
            case ops.If():
                self.if_(o)
            case ops.For():
                self.for_(o)
            case ops.While():
                self.while_(o)

    def if_(self, o: ops.If) -> None:
        cond = ops.constant_value(o.cond)
        if cond is not None:
            chosen = o.then if cond else o.orelse
            self.splice(chosen.ops[:-1])
            self.replace(o, [self.value(v) for v in chosen.yielded])
            return
        self.branch(o.then, o.cond, True)
        self.branch(o.orelse, o.cond, False)
        found = [self.joined(o.cond, a, b) for a, b in zip(o.then.yielded, o.orelse.yielded, strict=True)]
        for r, v in zip(o.results, found, strict=True):
            if v is not None:
                self.mapping[r] = v
        prune_results(o, [v is None for v in found])
        self.keep(o)

    def branch(self, b: Block, cond: Value, truth: bool) -> None:
        """Rebuild a branch of an ``If``, in which ``cond`` has a known value."""
        facts = {cond: _bool(truth, cond)}
        if isinstance(cond.op, ops.Apply) and cond.op.fn == "unot":
            facts[cond.op.args[0]] = _bool(not truth, cond)
        outside, self.known = self.known, {**self.known, **facts}
        self.block(b)
        self.known = outside
        b.ops[:0] = [c for c in facts.values() if c in self.used]

    def joined(self, cond: Value, a: Value, b: Value) -> Value | None:
        """What an ``If`` that yields ``a`` or ``b`` comes to, where no branch is needed for that."""
        if a is b:
            return a
        if same_constant(a, b):
            assert isinstance(a.op, ops.Constant)
            with at(a.op.loc):
                return self.b.constant(a.op.value, a.type)
        if a.type == bool_ and ops.constant_value(a) is True and ops.constant_value(b) is False:
            return cond
        return None

    def for_(self, o: ops.For) -> None:
        if trip_count(o) == 0:
            self.replace(o, o.init)
            return
        self.drop_invariant(o, o.body.params[1:])
        self.block(o.body)
        self.again |= any(self.invariant(o, o.body.params[1:]))
        self.keep(o)

    def while_(self, o: ops.While) -> None:
        self.drop_invariant(o, o.body.params, o.cond.params)
        self.block(o.cond)
        if ops.constant_value(o.cond.yielded[0]) is False:
            substitute(o.cond, dict(zip(o.cond.params, o.init, strict=True)))
            self.b.block.ops.extend(o.cond.ops[:-1])
            self.replace(o, o.init)
            self.again = True
            return
        self.block(o.body)
        self.again |= any(self.invariant(o, o.body.params))
        self.keep(o)

    def invariant(self, o: ops.For | ops.While, params: list[Value]) -> list[bool]:
        """Which carried values of a loop keep their initial value."""
        body = o.body
        found = []
        for p, first, last in zip(params, o.init, body.yielded, strict=True):
            v = self.value(last)
            found.append(v is p or v is first or same_constant(first, v))
        return found

    def drop_invariant(self, o: ops.For | ops.While, *params: list[Value]) -> None:
        found = self.invariant(o, params[0])
        for k, known in enumerate(found):
            if known:
                self.mapping.update((p[k], o.init[k]) for p in params)
                self.mapping[o.results[k]] = o.init[k]
        prune_results(o, [not known for known in found])


def _bool(truth: bool, like: Value) -> ops.Constant:
    """A constant that is not in a block yet, with the location of ``like``."""
    constant = ops.Constant(truth)
    constant.results = (Value(bool_, "", constant),)
    constant.loc = like.op.loc if like.op is not None else None
    return constant
