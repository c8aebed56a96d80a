"""How likely branches are taken, and how often loops run, as far as the code tells without a profile.

Numbers are seldom equal, and seldom negative: the heuristics on comparisons of Wu and Larus (Static branch frequency
and program profile analysis, 1994). Where one number is compared with several constants, as kinds of shapes are, each
of these alternatives gets a share. A condition that compares the thread's index with what lanes share is the same for
all lanes of nearly every vector.

What is found is an estimate that only costs are made of.
"""

from __future__ import annotations

from collections import defaultdict

from warp_like.ir import ops
from warp_like.ir.core import Function, Value

EQUAL = 0.16
"""How often two numbers are equal, or a number is negative."""

_ORDERS = ("lt", "le", "gt", "ge")


class Likelihood:
    """How likely the conditions of a function are, which may be in lanes."""

    def __init__(self, f: Function) -> None:
        self._compared: dict[Value, set[object]] = defaultdict(set)  # the constants with which a value is compared
        for o in f.body.walk():
            if isinstance(o, ops.Apply) and o.fn == "eq" and (pair := _with_constant(o)) is not None:
                self._compared[pair[0]].add(pair[1])
        self._found: dict[Value, float] = {}

    def of(self, cond: Value) -> float:
        """Return the share of threads for which ``cond`` holds."""
        cond = shared(cond)
        if cond not in self._found:
            self._found[cond] = self._share(cond)
        return self._found[cond]

    def _share(self, cond: Value) -> float:
        match cond.op:
            case ops.Constant(value=value):
                return 1.0 if value else 0.0
            case ops.Apply(fn="unot", args=(x,)):
                return 1.0 - self.of(x)
            case ops.Apply(fn="bit_and", args=(x, y)):
                return self.of(x) * self.of(y)
            case ops.Apply(fn="bit_or", args=(x, y)):
                return 1.0 - (1.0 - self.of(x)) * (1.0 - self.of(y))
            case ops.Apply(fn="where", args=(c, x, y)):
                return self._one_of(c, x, y)
            case ops.Apply(fn="eq") as o:
                return self._equal(o)
            case ops.Apply(fn="ne") as o:
                return 1.0 - self._equal(o)
            case ops.Apply(fn=("lt" | "ge") as fn, args=(x, y)) if _is_zero_integer(y):
                return EQUAL if fn == "lt" else 1.0 - EQUAL
            case ops.If(cond=c) as o:
                n = o.results.index(cond)
                return self._one_of(c, o.then.yielded[n], o.orelse.yielded[n])
        return 0.5

    def _one_of(self, cond: Value, x: Value, y: Value) -> float:
        first = self.of(cond)
        return first * self.of(x) + (1.0 - first) * self.of(y)

    def _equal(self, o: ops.Apply) -> float:
        pair = _with_constant(o)
        alternatives = 1 if pair is None else len(self._compared[pair[0]])
        return EQUAL if alternatives < 2 else 1.0 / (alternatives + 1)


def shared(v: Value) -> Value:
    """Return the scalar that all lanes of ``v`` have; ``v`` where it is none."""
    return v.op.x if isinstance(v.op, ops.Broadcast) else v


def goes_together(cond: Value) -> bool:
    """Return whether ``cond``, in lanes, has one value for all lanes of nearly every vector."""
    match cond.op:
        case ops.Broadcast():
            return True
        case ops.Apply(fn="unot", args=(x,)):
            return goes_together(x)
        case ops.Apply(fn="bit_and" | "bit_or", args=(x, y)):
            return goes_together(x) and goes_together(y)
        case ops.Apply(fn=fn, args=(x, y)) if fn in _ORDERS:
            return all(isinstance(v.op, (ops.Broadcast, ops.Iota)) for v in (x, y))
    return False


def branching(o: ops.If) -> Value | None:
    """Return the condition in lanes whose lanes take ``o``; None where it is a branch of one thread, or of all."""
    if not isinstance(o.cond.op, ops.LaneReduce):
        return None
    match o.cond.op.x.op:
        case ops.Apply(fn="bit_and", args=(_, cond)):
            return cond
    return o.cond.op.x


def most_trips(loop: ops.While) -> int | None:
    """Return the most iterations of a loop that counts from a constant up to another one; None where none is known."""
    found = [t for c in _conjuncts(_stays(loop)) if (t := _counted(loop, c)) is not None]
    return min(found, default=None)


def _stays(loop: ops.While) -> Value:
    """What says whether a thread, or a lane, goes on."""
    go = loop.cond.yielded[0]
    if isinstance(go.op, ops.LaneReduce) and go.op.x in loop.cond.params:
        return loop.body.yielded[loop.cond.params.index(go.op.x)]
    return go


def _conjuncts(v: Value) -> list[Value]:
    match v.op:
        case ops.Broadcast(x=x):
            return _conjuncts(x)
        case ops.Apply(fn="bit_and", args=(x, y)):
            return _conjuncts(x) + _conjuncts(y)
    return [v]


def _counted(loop: ops.While, test: Value) -> int | None:
    match test.op:
        case ops.Apply(fn="lt", args=(counter, end)):
            places = [*loop.cond.params, *loop.body.yielded]
            if counter not in places:
                return None
            n = places.index(counter) % len(loop.cond.params)
        case _:
            return None
    match loop.body.yielded[n].op:
        case ops.Apply(fn="add", args=(x, step)) if x is loop.body.params[n]:
            begin, last, by = (ops.constant_value(shared(v)) for v in (loop.init[n], end, step))
            if isinstance(begin, int) and isinstance(last, int) and isinstance(by, int) and by > 0:
                return max(0, -((begin - last) // by))
    return None


def _with_constant(o: ops.Apply) -> tuple[Value, object] | None:
    """The value and the constant that ``o`` compares; None where it compares two values."""
    x, y = map(shared, o.args)
    for v, other in ((x, y), (y, x)):
        constant = ops.constant_value(other)
        if constant is not None:
            return v, constant
    return None


def _is_zero_integer(v: Value) -> bool:
    constant = ops.constant_value(shared(v))
    return isinstance(constant, int) and constant == 0


__all__ = ["EQUAL", "Likelihood", "branching", "goes_together", "most_trips", "shared"]
