"""About what a thread costs, one at a time and in lanes, in cycles of a present-day processor.

Only the comparison of the two matters. What decides it is memory: arithmetic is divided by the lanes, but a gather
takes its time for each lane, more than a scalar load does. So a loop that mostly gathers (a sparse product) is not
widened, while one that computes on what it gathers is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warp_like.builtins.spec import Symbol, lane_search, may_call_library, resolve
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Lanes, Scalar, Type, element_count, lane_type, scalar_of
from warp_like.passes.spmd.speculation import speculated_side
from warp_like.passes.unroll import trip_count

TRIPS = 16.0
"""Iterations of a loop whose number is unknown."""

_DIVISION, _CALL, _ISSUE = 3.0, 16.0, 0.35
_CHAIN = 3.0  # until a loop-carried addition of floats is done
_ATOMIC = 6.0
_SEARCH = 800.0  # of a tree, by a function; a thread alone then waits for the memory of what was found
_LANE_SEARCH = 600.0  # of each of the lanes, which wait for that memory together
_SIDE_BY_SIDE = 500.0  # the same where they search together
_OUTLINED = 4.0  # the call of a builtin that stays one, beside what it does
_GATHER = 1.6  # for each lane and component
_WHOLE_PART, _MASKED_PART = 2.0, 5.0  # a component of elements side by side, for all lanes of a register and for some
_CONSECUTIVE = 0.5  # the same for elements that follow on each other, and are transposed
_LANE_DIVISION, _LANE_CALL = 10.0, 24.0  # for a register full of 512 bits, where most else takes 1
_DIVERGENCE = 1.3  # how much longer the last lane takes in a loop than the average one


def thread_cost(f: Function, vector: int = 1) -> float:
    """Return the cycles of a thread of ``f``, which is not in lanes; LLVM makes vectors of ``vector`` elements."""
    return _scalar_block(f.body, vector)


def lane_cost(f: Function, registers: int) -> float:
    """Return the cycles of a thread of ``f`` in lanes, where a value of them takes ``registers`` registers."""
    return _Lanes(registers).block(f.body) / f.schedule.lanes


def _scalar_block(b: Block, vector: int = 1) -> float:
    return sum(_scalar_op(o, vector) for o in b.ops)


def _scalar_op(o: Op, vector: int = 1) -> float:
    if isinstance(o, ops.Constant):
        return 0.0
    match o:
        case ops.If():
            return 1.0 + 0.6 * sum(_scalar_block(r, vector) for r in o.regions())
        case ops.For() if vector > 1 and (o.simd or _makes_vectors(o, vector)):
            return _trips(o) * (_scalar_block(o.body) + _ISSUE) / vector
        case ops.For():
            body = _scalar_block(o.body, vector) + _ISSUE
            chain = any(_is_float(v) for v in o.results) and len(o.body.ops) < 12
            return _trips(o) * max(body, _CHAIN if chain else 0.0)
        case ops.While():
            return TRIPS * (sum(_scalar_block(r, vector) for r in o.regions()) + 1.0)
        case ops.Apply():
            return _elements(o) * _apply(o, _DIVISION, _CALL, _ISSUE)
        case ops.Atomic() | ops.AtomicCas():
            return _ATOMIC * _elements(o)
        case ops.Native():
            return _CALL
        case ops.Search():
            return _SEARCH
        case ops.Outlined():
            return _OUTLINED + _scalar_block(o.callee.body)
        case ops.Load() | ops.Store() | ops.Cast():
            return _ISSUE * _elements(o)
    return 0.0


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


def _elements(o: Op) -> int:
    """How many scalars ``o`` gives or takes."""
    v = o.results[0] if o.results else o.operands()[-1 - len(getattr(o, "mask", ()))]
    t = lane_type(v.type)
    return 1 if isinstance(t, Array) else element_count(t)


class _Lanes:
    """The cycles of a vector of lanes: its scalar code included, which it runs once."""

    def __init__(self, registers: int) -> None:
        self.registers = registers
        self.is_divergent = False  # within a loop that lanes leave one by one

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
            case ops.If() if isinstance(o.cond.op, ops.LaneReduce):  # whether a lane goes there: mostly one does
                return 1.0 + sum(map(self.block, o.regions()))
            case ops.If():
                return 1.0 + 0.6 * sum(map(self.block, o.regions()))
            case ops.For():
                divergent = _counts_lanes(o)
                body = self.loop(o, divergent)
                chain = any(_is_float(v) for v in o.results) and len(o.body.ops) < 12
                return _trips(o) * max(body, _CHAIN if chain else 0.0) * (_DIVERGENCE if divergent else 1.0)
            case ops.While():
                return TRIPS * _DIVERGENCE * self.loop(o, divergent=True)
        return 0.0

    def plain(self, o: Op) -> float:
        """The cycles of an op without blocks."""
        if isinstance(o, (ops.Constant, ops.Broadcast)):
            return 0.0
        if not any(type(v.type) is Lanes for v in (*o.operands(), *o.results)):
            return _scalar_op(o)
        match o:
            case ops.Apply(args=(first, *_)):
                t = lane_type(first.type)
                if o.fn in ("div", "mod") and isinstance(t, Scalar) and t.is_int:
                    return _DIVISION * self.width(o)  # there are no vector instructions for it
                part = self.width(o) * _bits(t) / 512.0 / self.registers
                division, other = max(_DIVISION, _LANE_DIVISION * part), max(_ISSUE, part)
                return self.registers * _elements(o) * _apply(o, division, _LANE_CALL, other)
            case ops.Load() | ops.Store():
                if _is_dense(o):
                    part = _MASKED_PART if self.is_divergent else _WHOLE_PART
                    return self.registers * _elements(o) * (part if _elements(o) > 1 else 1.0)
                return _GATHER * _elements(o) * self.width(o)
            case ops.LoadConsecutive():
                return _CONSECUTIVE * len(o.results) * self.width(o)
            case ops.StoreConsecutive():
                return _CONSECUTIVE * len(o.values) * self.width(o)
            case ops.Atomic() if not KINDS[o.kind].takes and _is_dense(
                o
            ):  # each thread's own element, which takes no atomics
                return 3.0 * self.registers * _elements(o)
            case ops.Atomic() if not any(isinstance(i.type, Lanes) for i in o.indices):  # combined in registers
                return 3.0 * self.registers * _elements(o)
            case ops.Atomic():
                return (_ATOMIC + 2.0) * _elements(o) * self.width(o)
            case ops.Outlined() if o.callee.schedule.lanes > 1:
                return _OUTLINED + self.block(o.callee.body)
            case ops.Search() if lane_search(o.fn, [v.type for v in o.args]):
                return _SIDE_BY_SIDE * self.width(o)
            case ops.Search() if o.fn != "_bvh_next_in_box":  # a step of a walk, which lanes don't speed up
                return _LANE_SEARCH * self.width(o)
            case ops.AtomicCas() | ops.Native() | ops.Search() | ops.Outlined():
                return (_scalar_op(o) + 2.0 * len(o.operands())) * self.width(o)
            case ops.Check():
                return 2.0
            case ops.LaneReduce():
                return 6.0 * self.registers
            case ops.Cast():
                return float(self.registers * _elements(o))
        return 0.0

    def width(self, o: Op) -> int:
        return next(v.type.width for v in (*o.operands(), *o.results) if isinstance(v.type, Lanes))


def _counts_lanes(loop: ops.For) -> bool:
    """Whether ``loop`` runs as often as its slowest lane."""
    return isinstance(loop.hi.op, ops.LaneReduce)


def _is_dense(o: ops.Load | ops.Store | ops.Atomic) -> bool:
    """Whether the lanes' elements follow on each other, in an array that is contiguous."""
    if isinstance(o.array.type, Lanes):  # their own arrays lie so that the same indices are side by side
        return not any(isinstance(i.type, Lanes) for i in o.indices)
    *outer, last = o.indices
    stride = last.op.stride if isinstance(last.op, ops.Iota) else None
    return stride == 1 and not any(isinstance(i.type, Lanes) for i in outer)


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
