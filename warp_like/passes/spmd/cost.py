"""About what a thread costs, one at a time and in lanes, in cycles of a present-day processor.

Only the comparison of the two matters. What decides it is memory: arithmetic is divided by the lanes, but a gather
takes its time for each lane, more than a scalar load does. So a loop that mostly gathers (a sparse product) is not
widened, while one that computes on what it gathers is.

A thread runs the sides of branches that it takes, lanes those that any of them takes (``likelihood.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from warp_like.builtins.spec import Symbol, lane_search, may_call_library, resolve
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Lanes, Scalar, Type, element_count, is_scattered, lane_type, scalar_of
from warp_like.passes.spmd.likelihood import Likelihood, branching, goes_together, most_trips
from warp_like.passes.spmd.speculation import speculated_side
from warp_like.passes.unroll import trip_count

TRIPS = 16.0
"""Iterations of a loop whose number is unknown."""

_DIVISION, _INTEGER_DIVISION, _CALL, _ISSUE = 3.0, 6.0, 16.0, 0.35
_CHAIN = 3.0  # until a loop-carried addition of floats is done
_ATOMIC = 6.0
_SEARCH = 800.0  # of a tree, by a function; a thread alone then waits for the memory of what was found
_LANE_SEARCH = 600.0  # of each of the lanes, which wait for that memory together
_SIDE_BY_SIDE = 500.0  # the same where they search together
_OUTLINED = 4.0  # the call of a builtin that stays one, beside what it does
_GATHER = 1.6  # for each lane and component
_SCATTERED = 0.3  # for each lane and axis of an array of the lane's own: a product in 64 bits
_WHOLE_PART, _MASKED_PART = 2.0, 5.0  # a component of elements side by side, for all lanes of a register and for some
_CONSECUTIVE = 0.5  # the same for elements that follow on each other, and are transposed
_LANE_DIVISION, _LANE_CALL = 10.0, 24.0  # for a register full of 512 bits, where most else takes 1
_SIDE = 0.6  # of a branch that a thread takes about as often as not
_RAREST = 1e-9  # the smallest share of threads that is told from none
_GROUPS = 4  # as many lanes go different ways independently of each other
_ANY, _REDUCTION = 2.0, 6.0  # whether a mask has a lane; a sum over the lanes, or another one
_DIVERGENCE = 1.3  # how much longer the last lane takes in a loop than the average one


def thread_cost(f: Function, vector: int = 1, private: Sequence[int] = ()) -> float:
    """Return the cycles of a thread of ``f``, which is not in lanes; LLVM makes vectors of ``vector`` elements.

    Additions to the arrays at the positions ``private`` are no atomics: each thread has elements of its own there.
    """
    return _Thread(f, vector, private).block(f.body)


def lane_cost(f: Function, registers: int, private: Sequence[int] = ()) -> float:
    """Return the cycles of a thread of ``f`` in lanes, where a value of them takes ``registers`` registers."""
    return _Lanes(f, registers, private).block(f.body) / f.schedule.lanes


class _Thread:
    """The cycles of code of one thread."""

    def __init__(self, f: Function, vector: int, private: Sequence[int]) -> None:
        self.vector = vector
        self.likelihood = Likelihood(f)
        self.private = {f.params[i] for i in private}
        self.applied: dict[Hashable, float] = {}

    def block(self, b: Block) -> float:
        return sum(self.region(o) if o._REGIONS else self.plain(o) for o in b.ops)

    def region(self, o: Op) -> float:
        """The cycles of an op with blocks."""
        match o:
            case ops.If():
                first = self.likelihood.of(o.cond)
                return 1.0 + _taken(first) * self.block(o.then) + _taken(1.0 - first) * self.block(o.orelse)
            case ops.For() if self.vector > 1 and (o.simd or _makes_vectors(o, self.vector)):
                return _trips(o) * (self.block(o.body) + _ISSUE) / self.vector
            case ops.For():
                body = self.block(o.body) + _ISSUE
                chain = any(_is_float(v) for v in o.results) and len(o.body.ops) < 12
                return _trips(o) * max(body, _CHAIN if chain else 0.0)
            case ops.While():
                return _while_trips(o) * (sum(map(self.block, o.regions())) + 1.0)
        return 0.0

    def plain(self, o: Op) -> float:
        """The cycles of an op without blocks."""
        if isinstance(o, ops.Constant):
            return 0.0
        if isinstance(o, ops.Apply):
            return _known_cost(self.applied, o, self.apply)
        match o:
            case ops.Atomic(array=a) if a in self.private:
                return 3.0 * _ISSUE * _elements(o)
            case ops.Atomic() | ops.AtomicCas():
                return _ATOMIC * _elements(o)
            case ops.Native():
                return _CALL
            case ops.Search():
                return _SEARCH
            case ops.Outlined():
                return _OUTLINED + thread_cost(o.callee)
            case ops.Load() | ops.Store() | ops.Cast():
                return _ISSUE * _elements(o)
            case ops.NestedArray():
                return _ISSUE * _numbers(o)
        return 0.0

    def apply(self, o: ops.Apply) -> float:
        """The cycles of the call of a builtin."""
        if not o.args:
            return _elements(o) * _ISSUE
        division = _INTEGER_DIVISION if _is_integer(o.args[0]) else _DIVISION
        return _elements(o) * _apply(o, division, _CALL, _ISSUE)


def _known_cost(known: dict[Hashable, float], o: ops.Apply, cost: Callable[[ops.Apply], float]) -> float:
    """Return ``cost(o)``, which follows from the builtin and the types; calls of most kinds come often."""
    key = (o.fn, len(o.args), *[v.type for v in o.args], *[v.type for v in o.results])
    found = known.get(key)
    if found is None:
        found = known[key] = cost(o)
    return found


def _numbers(o: ops.NestedArray) -> int:
    """How many numbers of an array are read: its address, and a stride or an extent along each axis."""
    t = lane_type(o.result.type)
    assert isinstance(t, Array)
    return 1 + t.ndim


def _address(o: ops.Load | ops.Store | ops.Atomic | ops.NestedArray) -> float:
    """The cycles for the address of a lane's element in an array of its own."""
    return _SCATTERED * len(o.indices) if is_scattered(o.array.type) else 0.0


def _taken(share: float) -> float:
    """How often a side is counted that ``share`` of the threads take."""
    return min(_SIDE, 2.0 * _SIDE * share)


def _while_trips(o: ops.While) -> float:
    most = most_trips(o)
    return TRIPS if most is None else min(TRIPS, most)


def _makes_vectors(o: ops.For, vector: int) -> bool:
    """Whether LLVM makes vectors in an inner loop: of its iterations, or of the many values that they carry."""
    if any(r.regions() for r in o.body.ops) or (not o.results and _trips(o) < vector):
        return False
    return not o.results or len(o.results) >= vector


def _apply(o: ops.Apply, division: float, call: float, other: float) -> float:
    if may_call_library(o.fn):
        lower = resolve(o.fn, [lane_type(v.type) for v in o.args]).overload.lower
        if isinstance(lower, Symbol) and not lower.llvm:
            return call
    return division if o.fn in ("div", "mod", "sqrt") else other


def _trips(o: ops.For) -> float:
    known, step = trip_count(o), ops.constant_value(o.step)
    together = step if isinstance(step, int) and step > 1 else 1
    if known is None and step == together and (most := cut_to(o.hi)) is not None:
        known = (most - (cut_to(o.lo) or 0)) // together  # a tile at the edge of its array is the exception
    return TRIPS / together if known is None else float(min(known, 1000 // together))  # more are the same


def cut_to(v: Value) -> int | None:
    """Return the constant that ``v`` is cut to where it is more; None where it is none."""
    match v.op:
        case ops.Cast(x=x):
            return cut_to(x)
        case ops.Apply(fn="bit_and", args=(x, mask)) if (most := cut_to(x)) is not None:
            known = ops.constant_value(mask)  # of whole groups of iterations
            return most & known if isinstance(known, int) else None
        case ops.Apply(fn="where", args=(Value(op=ops.Apply(fn="lt", args=(a, b))), c, d)) if (a, b) == (c, d):
            known = ops.constant_value(c)
            return known if isinstance(known, int) else None
    return None


def _bits(t: Type) -> int:
    scalar = scalar_of(t)
    return 32 if scalar is None else scalar.bits


def _is_float(v: Value) -> bool:
    scalar = scalar_of(lane_type(v.type))
    return scalar is not None and scalar.is_float


def _is_integer(v: Value) -> bool:
    t = lane_type(v.type)
    return isinstance(t, Scalar) and t.is_int


def _elements(o: Op) -> int:
    """How many scalars ``o`` gives or takes."""
    v = o.results[0] if o.results else o.operands()[-1 - len(getattr(o, "mask", ()))]
    t = lane_type(v.type)
    return 1 if isinstance(t, Array) else element_count(t)


class _Lanes:
    """The cycles of a vector of lanes: its scalar code included, which it runs once."""

    def __init__(self, f: Function, registers: int, private: Sequence[int]) -> None:
        self.registers = registers
        self.thread = _Thread(f, 1, private)
        self.likelihood, self.private = self.thread.likelihood, self.thread.private
        self.share = 1.0  # of the threads that come here, apart from branches that lanes take together
        self.is_divergent = False  # within a loop that lanes leave one by one
        self.applied: dict[Hashable, float] = {}

    def loop(self, o: ops.For | ops.While, divergent: bool) -> float:
        """The cycles of an iteration of a loop."""
        outer, self.is_divergent = self.is_divergent, self.is_divergent or divergent
        cycles = sum(map(self.block, o.regions())) + (_ISSUE if isinstance(o, ops.For) else 1.0)
        self.is_divergent = outer
        return cycles

    def block(self, b: Block) -> float:
        return sum(map(self.op, b.ops))

    def op(self, o: Op) -> float:
        if not o._REGIONS:
            return self.plain(o)
        match o:
            case ops.If() if (side := speculated_side(o)) is not None:
                return 2.0 + self.block(side)
            case ops.If() if (cond := branching(o)) is not None:
                return 1.0 + self.side(o.then, cond) + self.block(o.orelse)
            case ops.If():
                return 1.0 + self.sides(o, self.likelihood.of(o.cond))
            case ops.For():
                divergent = _counts_lanes(o)
                body = self.loop(o, divergent)
                chain = any(_is_float(v) for v in o.results) and len(o.body.ops) < 12
                return _trips(o) * max(body, _CHAIN if chain else 0.0) * (_DIVERGENCE if divergent else 1.0)
            case ops.While():
                return _while_trips(o) * _DIVERGENCE * self.loop(o, divergent=True)
        return 0.0

    def sides(self, o: ops.If, first: float) -> float:
        """The cycles of a branch that all lanes take together."""
        then, orelse = map(self.block, o.regions())
        return _taken(first) * then + _taken(1.0 - first) * orelse

    def side(self, b: Block, cond: Value) -> float:
        """The cycles of a block that runs where ``cond`` holds for a lane."""
        share = self.likelihood.of(cond)
        if goes_together(cond):
            return _taken(share) * self.block(b)
        outer, self.share = self.share, max(self.share * share, _RAREST)
        cycles = self.block(b) * _any_lane(self.share) / _any_lane(outer)
        self.share = outer
        return cycles

    def plain(self, o: Op) -> float:
        """The cycles of an op without blocks."""
        if isinstance(o, (ops.Constant, ops.Broadcast)):
            return 0.0
        if isinstance(o, ops.Apply):
            return _known_cost(self.applied, o, self.apply)
        if not any(type(v.type) is Lanes for v in (*o.operands(), *o.results)):
            return self.thread.plain(o)
        match o:
            case ops.Load() | ops.Store():
                if _is_dense(o):
                    part = _MASKED_PART if self.is_divergent else _WHOLE_PART
                    return self.registers * _elements(o) * (part if _elements(o) > 1 else 1.0)
                return (_GATHER * _elements(o) + _address(o)) * self.width(o)
            case ops.NestedArray():
                return (_GATHER * _numbers(o) + _address(o)) * self.width(o)
            case ops.LoadConsecutive():
                return _CONSECUTIVE * len(o.results) * self.width(o)
            case ops.StoreConsecutive():
                return _CONSECUTIVE * len(o.values) * self.width(o)
            case ops.Atomic() if not KINDS[o.kind].takes and _is_dense(
                o
            ):  # each thread's own element, which takes no atomics
                return 3.0 * self.registers * _elements(o)
            case ops.Atomic(array=a) if not any(
                isinstance(v.type, Lanes) for v in (a, *o.indices)
            ):  # combined in registers
                return 3.0 * self.registers * _elements(o)
            case ops.Atomic(array=a) if a in self.private:  # a gather and a scatter
                return 2.0 * _GATHER * _elements(o) * self.width(o)
            case ops.Atomic():
                return ((_ATOMIC + 2.0) * _elements(o) + _address(o)) * self.width(o)
            case ops.Outlined() if o.callee.schedule.lanes > 1:
                return _OUTLINED + _Lanes(o.callee, self.registers, ()).block(o.callee.body)
            case ops.Search() if _is_lane_search(o):
                return _SIDE_BY_SIDE * self.width(o)
            case ops.Search() if o.fn != "_bvh_next_in_box":  # a step of a walk, which lanes don't speed up
                return _LANE_SEARCH * self.width(o)
            case ops.AtomicCas() | ops.Native() | ops.Search() | ops.Outlined():
                return (self.thread.plain(o) + 2.0 * len(o.operands())) * self.width(o)
            case ops.Check():
                return 2.0
            case ops.LaneReduce(kind=kind):
                return (_ANY if kind == "any" else _REDUCTION) * self.registers
            case ops.Cast():
                return float(self.registers * _elements(o))
        return 0.0

    def apply(self, o: ops.Apply) -> float:
        """The cycles of the call of a builtin."""
        if not any(type(v.type) is Lanes for v in (*o.args, *o.results)):
            return self.thread.plain(o)
        if not o.args:
            return 0.0
        first = o.args[0]
        if o.fn in ("div", "mod") and _is_integer(first):
            return _DIVISION * self.width(o)  # as that of float64, or one by one
        part = self.width(o) * _bits(lane_type(first.type)) / 512.0 / self.registers
        division, other = max(_DIVISION, _LANE_DIVISION * part), max(_ISSUE, part)
        return self.registers * _elements(o) * _apply(o, division, _LANE_CALL, other)

    def width(self, o: Op) -> int:
        return next(v.type.width for v in (*o.operands(), *o.results) if isinstance(v.type, Lanes))


def _any_lane(share: float) -> float:
    """How often a vector has a lane of those that are ``share`` of all threads; 1 for one half and more."""
    none, half = (1.0 - share) ** _GROUPS, 0.5**_GROUPS
    return min(1.0, (1.0 - none) / (1.0 - half))


def _counts_lanes(loop: ops.For) -> bool:
    """Whether ``loop`` runs as often as its slowest lane."""
    return isinstance(loop.hi.op, ops.LaneReduce)


def _is_dense(o: ops.Load | ops.Store | ops.Atomic) -> bool:
    """Whether the lanes' elements follow on each other, in an array that is contiguous."""
    if is_scattered(o.array.type):
        return False
    if isinstance(o.array.type, Lanes):  # their own arrays lie so that the same indices are side by side
        return not any(isinstance(i.type, Lanes) for i in o.indices)
    *outer, last = o.indices
    stride = last.op.stride if isinstance(last.op, ops.Iota) else None
    return stride == 1 and not any(isinstance(i.type, Lanes) for i in outer)


def _is_lane_search(o: ops.Search) -> bool:
    return bool(lane_search(o.fn, [v.type for v in o.args]))


def has_lane_search(f: Function) -> bool:
    """Return whether the lanes of ``f`` search an object together."""
    return any(isinstance(o, ops.Search) and _is_lane_search(o) for o in f.body.walk())


def gathers_in_loops(f: Function) -> bool:
    """Return whether a loop of ``f`` touches elements of one array that lie apart, one for each lane.

    Elements that it loads again in each iteration stay where they are in the cache.
    """
    loops = [o for o in f.body.walk() if isinstance(o, (ops.For, ops.While))]
    found = [o for loop in loops for r in loop.regions() for o in r.walk()]
    changing = _changing(f, loops)
    return any(isinstance(o, ops.Store) or not changing.isdisjoint(o.operands()) for o in _apart(found))


def gathers_vectors(f: Function) -> bool:
    """Return whether lanes of ``f`` touch elements of several numbers that lie apart."""
    return any(_elements(o) > 1 for o in _apart(list(f.body.walk())))


def _apart(found: Sequence[Op]) -> Iterator[ops.Load | ops.Store]:
    """Those of ``found`` that touch elements which lie apart, beside those that are speculated not to run."""
    speculated = (g for g in found if isinstance(g, ops.If) and speculated_side(g) is not None)
    unlikely = {o for g in speculated for r in g.regions() if r is not speculated_side(g) for o in r.ops}
    for o in found:
        if isinstance(o, (ops.Load, ops.Store)) and o.mask and not _is_dense(o) and o not in unlikely:
            yield o


_LASTING = (
    *(ops.ActiveMask, ops.Apply, ops.Broadcast, ops.Cast, ops.Constant, ops.Dim, ops.Extract, ops.Iota, ops.Make),
    ops.Tid,
)
"""Ops whose results are the same as long as their operands are."""


def _changing(f: Function, loops: Sequence[ops.For | ops.While]) -> set[Value]:
    """The values that may be others in the next iteration of a loop around them: what memory holds is among them."""
    found = {p for loop in loops for r in loop.regions() for p in r.params}
    for o in f.body.walk():
        if not isinstance(o, _LASTING) or not found.isdisjoint(o.operands()):
            found.update(o.results)
    return found
