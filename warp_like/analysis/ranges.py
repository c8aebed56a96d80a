"""Integer ranges: for each integer value an interval that it lies in, and which ops can't wrap around.

Integers wrap (``docs/guide/types.md``), so an op may be evaluated in more bits than its type has, or carry LLVM's
``nsw``, only where its exact result fits its type. ``Ranges.cannot_wrap`` says so::

    %i = tid 0 of 1 : int32           0 .. MAX_NARROW - 1
    %j = add %i, 1                    1 .. MAX_NARROW         can't wrap
    %k = mul %i, %n                   any int32               may wrap: %n is a parameter

``Ranges`` alone looks at expressions: what it says of a value follows from the ops that the value is made by, the
thread's index and constants, and from nothing that control flow does. So it also holds for lanes that are not at work.

``find_ranges`` looks at control flow as well: in a branch on ``i < n`` it knows that ``i`` is at most ``n - 1``, and a
loop's index lies between the loop's bounds. It may be asked about a function in lanes, too: the interval of a value in
lanes holds each lane, also lanes that are not at work. There a scalar can stand for the first lane, which need not be
at work either. That does no harm, since every fact is one about the registers of the function at hand: a condition
that is a scalar is tested on these very registers, and where a condition in lanes chooses between values, each lane
tests its own. The one fact from outside is the thread's index, and the first lane always has a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from warp_like.analysis.intervals import Interval, exact_result, hull, type_range, within
from warp_like.base.contract import MAX_NARROW
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Lanes, Scalar, int32, lane_type

_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
_EXCHANGED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq"}

_LARGEST_GRID = (1 << 63) - 1


class Ranges:
    """The ranges of values, computed when they are asked for.

    Args:
        narrow: The arrays that have at most ``contract.MAX_NARROW`` elements.
    """

    def __init__(self, narrow: Iterable[Value] = ()) -> None:
        self._known: dict[Value, Interval] = {}
        self._exact: set[Op] = set()
        self._narrow = frozenset(narrow)

    def of(self, v: Value) -> Interval:
        """Return the interval of an integer, or of each lane's: the least and the greatest value that it may have."""
        found = self._known.get(v)
        if found is None:
            t = _int_type(v)
            assert t is not None, v
            found = type_range(t) if v.op is None else self._result(v.op, v, t)
            self._known[v] = found
        return found

    def cannot_wrap(self, o: Op) -> bool:
        """Return whether the exact result of an op on integers fits its type; of a cast, whether it keeps the value."""
        if o.results[0] not in self._known:
            self.of(o.results[0])
        return o in self._exact

    def _result(self, o: Op, v: Value, t: Scalar) -> Interval:
        """The interval of the result ``v`` of type ``t``; notes whether ``o`` can wrap."""
        whole, exact = type_range(t), self._exact_result(o, v, t)
        if exact is not None and within(exact, whole):
            self._exact.add(o)
            return exact
        self._exact.discard(o)
        return self._congruent(o, t) or whole

    def _congruent(self, o: Op, t: Scalar) -> Interval | None:
        """The interval of a result that wraps as often as its operands did: ``uint32(i) - uint32(-1)`` is ``i + 1``."""
        if not isinstance(o, ops.Apply) or o.fn not in ("add", "sub", "mul", "neg"):
            return None
        given = [a.op.x if isinstance(a.op, ops.Cast) else a for a in o.args]
        if any(_int_type(v) is None for v in given):
            return None
        found = exact_result(o.fn, [self.of(v) for v in given], t)
        return found if found is not None and within(found, type_range(t)) else None

    def _exact_result(self, o: Op, v: Value, t: Scalar) -> Interval | None:
        match o:
            case ops.Constant(value=x):
                return int(x), int(x)
            case ops.Tid():
                return 0, (MAX_NARROW if t == int32 else _LARGEST_GRID) - 1
            case ops.Dim():
                return self._extent(o, t)
            case ops.Cast(x=x) if isinstance(given := lane_type(x.type), Scalar) and not given.is_float:
                return (0, 1) if given.is_bool else self.of(x)
            case ops.Apply(fn="where", args=(cond, a, b)):
                return self._choice(cond, a, b)
            case ops.Broadcast(x=x) | ops.LaneReduce(kind="min" | "max" | "last", x=x):
                return self.of(x)
            case ops.Iota(base=base, stride=stride):
                assert isinstance(v.type, Lanes)
                (low, high), reach = self.of(base), stride * (v.type.width - 1)
                return low + min(reach, 0), high + max(reach, 0)
            case ops.Apply(args=args) if all(_int_type(a) is not None for a in args):
                return exact_result(o.fn, [self.of(a) for a in args], t)
        return None

    def _choice(self, cond: Value, a: Value, b: Value) -> Interval:
        """``a`` where ``cond`` holds, else ``b``: as ``min(x, n)`` is ``where(x < n, x, n)``."""
        sides = []
        for v, truth in ((a, True), (b, False)):
            found = self.of(v)
            for known, interval in self.facts(cond, truth):
                found = _meet(found, interval) if known is v else found
            sides.append(found)
        return hull(*sides)

    def _extent(self, o: ops.Dim, t: Scalar) -> Interval | None:
        array, axis = o.array, o.axis
        while isinstance(array.op, ops.View):
            axis += len(array.op.indices)
            array = array.op.array
        if isinstance(array.op, ops.LocalArray) and isinstance(array.type, Array):
            return (array.op.shape[axis],) * 2
        if array in self._narrow:
            return 0, MAX_NARROW
        return (0, type_range(t)[1]) if t.bits == 64 else None

    def facts(self, cond: Value, truth: bool) -> list[tuple[Value, Interval]]:
        """Return intervals that values lie in where ``cond`` is ``truth``."""
        o = cond.op
        if not isinstance(o, ops.Apply):
            return []
        if o.fn == "unot":
            return self.facts(o.args[0], not truth)
        if o.fn == ("bit_and" if truth else "bit_or"):
            return [fact for x in o.args for fact in self.facts(x, truth)]
        if o.fn not in _OPPOSITE or any(_int_type(a) is None for a in o.args):
            return []
        fn = o.fn if truth else _OPPOSITE[o.fn]
        if fn == "ne":
            return []
        (x, y), (a, b) = o.args, (self.of(v) for v in o.args)
        return [(x, _compared(fn, b)), (y, _compared(_EXCHANGED[fn], a))]


def find_ranges(f: Function, narrow: bool = False) -> Ranges:
    """Return the ranges of the values of ``f``, as its control flow narrows them.

    Args:
        f: A function of one thread or in lanes.
        narrow: No array parameter has more than ``contract.MAX_NARROW`` elements.
    """
    ranges = _FlowRanges(f.params if narrow else ())
    ranges.block(f.body)
    return ranges


class _FlowRanges(Ranges):
    """Visits a function once; the body of a loop up to three times, until what it carries stays in its intervals."""

    def __init__(self, narrow: Iterable[Value]) -> None:
        super().__init__(narrow)
        self._carried: dict[Op, list[Interval]] = {}  # where the last visit of a loop ended

    def block(self, b: Block) -> None:
        for o in b.ops:
            match o:
                case ops.If():
                    self.if_(o)
                case ops.For():
                    self.for_(o)
                case ops.While():
                    self.while_(o)
                case _:
                    for r in o.results:
                        if (t := _int_type(r)) is not None:
                            self._known[r] = self._result(o, r, t)

    def under(self, facts: Iterable[tuple[Value, Interval]], b: Block, yielded: Sequence[Value]) -> list[Interval]:
        """Visit ``b``, in which ``facts`` hold; return the intervals that the integers of ``yielded`` have there."""
        before: dict[Value, Interval] = {}
        for v, interval in facts:
            before.setdefault(v, self.of(v))
            self._known[v] = _meet(self.of(v), interval)
        self.block(b)
        found = [self.of(v) for v in yielded]
        self._known.update(before)
        return found

    def if_(self, o: ops.If) -> None:
        places = [k for k, r in enumerate(o.results) if _int_type(r) is not None]
        sides = []
        for b, truth in ((o.then, True), (o.orelse, False)):
            sides.append(self.under(self.facts(o.cond, truth), b, [b.yielded[k] for k in places]))
        for k, one, other in zip(places, *sides, strict=True):
            self._known[o.results[k]] = hull(one, other)

    def for_(self, o: ops.For) -> None:
        i, *params = o.body.params
        self._known[i] = self._index(o)
        self.loop(o, params, lambda wanted: self.under((), o.body, wanted))

    def _index(self, o: ops.For) -> Interval:
        lo, hi, step = self.of(o.lo), self.of(o.hi), self.of(o.step)
        up, down = (lo[0], hi[1] - 1), (hi[0] + 1, lo[1])
        found = up if step[0] > 0 else down if step[1] < 0 else hull(up, down)
        if found[0] > found[1]:
            return lo  # its body never runs
        if lo[0] == lo[1] and step[0] == step[1] and step[0]:  # the index is a whole number of steps from `lo`
            low, high = (lo[0] + (end - lo[0]) // step[0] * step[0] for end in found)
            return low, high
        return found

    def while_(self, o: ops.While) -> None:
        def visit(wanted: Sequence[Value]) -> list[Interval]:
            for p, q in zip(o.cond.params, o.body.params, strict=True):
                if p in self._known:
                    self._known[p] = self._known[q]
            self.block(o.cond)
            facts = self.facts(o.cond.yielded[0], True)
            names = dict(zip(o.cond.params, o.body.params, strict=True))
            return self.under([*facts, *((names[v], x) for v, x in facts if v in names)], o.body, wanted)

        for p in o.cond.params:
            if (t := _int_type(p)) is not None:
                self._known[p] = type_range(t)
        self.loop(o, o.body.params, visit)

    def loop(
        self, o: ops.For | ops.While, params: Sequence[Value], visit: Callable[[Sequence[Value]], list[Interval]]
    ) -> None:
        """Find what the integers among the carried ``params`` may be; ``visit`` goes through the loop once."""
        whole = {k: type_range(t) for k, p in enumerate(params) if (t := _int_type(p)) is not None}
        places = list(whole)
        wanted = [o.body.yielded[k] for k in places]
        carried = [self.of(o.init[k]) for k in places]
        if o in self._carried:  # it lies in a loop that is visited again: begin where the last visit ended
            carried = [hull(a, b) for a, b in zip(carried, self._carried[o], strict=True)]
        for widen in (_to_ends, _to_all, None):
            for k, interval in zip(places, carried, strict=True):
                self._known[params[k]] = interval
            following = visit(wanted)
            if all(within(new, old) for new, old in zip(following, carried, strict=True)):
                break
            assert widen is not None, "an interval of all values has grown"
            for n, k in enumerate(places):
                if wanted[n] is not params[k]:
                    carried[n] = widen(carried[n], following[n], whole[k])
        self._carried[o] = carried
        for k, interval in zip(places, carried, strict=True):
            self._known[o.results[k]] = interval


def _to_ends(old: Interval, new: Interval, whole: Interval) -> Interval:
    """Let each end that has moved go as far as the type does."""
    return whole[0] if new[0] < old[0] else old[0], whole[1] if new[1] > old[1] else old[1]


def _to_all(old: Interval, new: Interval, whole: Interval) -> Interval:
    """Anything, since what was stable before depends on what was not."""
    return whole


def _meet(a: Interval, b: Interval) -> Interval:
    """The part of ``a`` in ``b``; ``a`` where there is none, as in code that never runs."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


def _compared(fn: str, y: Interval) -> Interval:
    """The interval of ``x`` if ``x`` compares so with a number in ``y``."""
    beyond = 1 << 64
    match fn:
        case "lt":
            return -beyond, y[1] - 1
        case "le":
            return -beyond, y[1]
        case "gt":
            return y[0] + 1, beyond
        case "ge":
            return y[0], beyond
    return y


def _int_type(v: Value) -> Scalar | None:
    """The type of an integer, or of each lane's; None for everything else."""
    t = v.type
    if type(t) is Lanes:
        t = t.of
    return t if isinstance(t, Scalar) and t.kind in ("int", "uint") else None
