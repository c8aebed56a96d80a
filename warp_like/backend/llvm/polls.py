"""Polls: code for the CPU looks now and then at what goes on beside it, so that no launch is deaf for long.

The entry has a variable, the *fuel*: how much it may still do before it calls ``wl_poll``. That function lets go of the
GIL, runs signal handlers, and does not return where the launch is cancelled (Ctrl-C, a time limit, another thread's
error). Work is counted in units, about one instruction each, known when the kernel is compiled:

* A loop that never takes more than ``SHORT`` units has no poll, as far as its bounds are known
  (``analysis.ranges``). Its units are counted where it stands.
* Every other loop takes fuel in each iteration, one instruction fused with its branch.
* A loop that LLVM may vectorise runs in strips instead, and takes fuel after each. The loop of a strip is plain. How
  long strips are depends on nothing but the code: the bits that come out do not depend on the time.
* The loop over the kernel threads takes fuel where one of them has a loop that polls, or is long.
* A branch of at least ``BRANCH`` units takes its fuel itself: most threads may not go there. Shorter ones, and those in
  loops without polls, count as if all were taken.

LLVM may keep values in registers across ``wl_poll``, stores to arrays included: it accesses no memory of the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from warp_like.analysis.ranges import Ranges
from warp_like.backend.llvm.loops import CountedLoop
from warp_like.backend.llvm.values import LaneScalar, leaves
from warp_like.backend.llvm.writer import Writer
from warp_like.backend.target import Target
from warp_like.builtins.trips import constant_trips
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op
from warp_like.ir.types import Array, Lanes, Scalar, Type

FUEL = 1 << 18
"""The units between two calls of ``wl_poll``: mostly 50 to 500 microseconds."""

STRIP = 1 << 14
"""The units of a strip, at most."""

SHORT = 1 << 12
"""The most units of a loop without polls."""

LEAST_STRIP = 32
"""The fewest iterations of a strip: where that many are too much work, each iteration takes fuel."""

LONG_THREAD = 1 << 11
"""The units of a kernel thread beyond which the loop over them polls: LLVM does not vectorise that loop any more."""

BRANCH = 1 << 6
"""The fewest units of a branch that takes its fuel itself, by one instruction."""

_CALL = 16
"""The units of a function that is called or takes long: exp, pow, a division."""

_QUICK = frozenset(
    (
        *("add", "sub", "mul", "neg", "min", "max", "abs", "lt", "le", "gt", "ge", "eq", "ne", "where"),
        *("and", "or", "unot", "bit_and", "bit_or", "bit_xor", "invert", "lshift", "rshift"),
    )
)

_EFFECTS = "nounwind memory(inaccessiblemem: readwrite)"

_POLL = """define internal preserve_allcc void @wl_saved_poll(ptr %ctx) {} {{
  call void @wl_poll(ptr %ctx)
  ret void
}}"""
"""It leaves registers alone, vectors included (but AVX-512's, which the caller saves): around the call, loops keep
theirs as if it were not there."""

_UNKNOWN = 256
"""The units of a user's native code."""

_SELDOM = 16
"""A loop that ends early where it can, but may take all of its units, counts for one in so many."""


class Fuel:
    """The fuel of one entry."""

    def __init__(self, w: Writer) -> None:
        self._w = w
        self._variable = ""

    def take(self, units: str) -> None:
        """Append code that takes ``units``, a register or a number."""
        w = self._w
        if not self._variable:
            self._variable = w.alloca("i64", 8, str(FUEL))
        left = w.op(f"sub i64 {w.op(f'load i64, ptr {self._variable}, align 8')}, {units}")
        w.do(f"store i64 {left}, ptr {self._variable}, align 8")

    def check(self) -> None:
        """Append code that polls where there is none left."""
        w = self._w
        left = w.op(f"load i64, ptr {self._variable}, align 8")
        poll, ready = w.label("poll"), w.label("ready")
        w.branch(w.op(f"icmp sgt i64 {left}, 0"), ready, poll, likely=True)
        w.start(poll)
        w.declare("wl_poll", f"void @wl_poll(ptr) {w.attributes(_EFFECTS)}")
        w.helper("wl_saved_poll", _POLL.format(w.attributes(f"{_EFFECTS} noinline{_keeps_vectors(w.target)}")))
        w.do(f"call preserve_allcc void @wl_saved_poll(ptr %ctx) {w.attributes('nounwind cold')}")
        w.do(f"store i64 {FUEL}, ptr {self._variable}, align 8")
        w.jump(ready)
        w.start(ready)


class Polls:
    """The polls of a function in an entry for the CPU.

    Args:
        w: What it is written to.
        fuel: The entry's.
        f: The function.
        ranges: Returns the ranges of its integers.
    """

    def __init__(self, w: Writer, fuel: Fuel, f: Function, ranges: Callable[[], Ranges]) -> None:
        self.w = w
        self.fuel = fuel
        self._lanes = f.schedule.lanes
        self._ranges = ranges
        self._costs: dict[Block, int] = {}
        self._most: dict[Block, int] = {}
        self._polling: dict[Op, bool] = {}
        self._own: dict[Block, int] = {}
        self._branches: dict[Block, int] = {}
        if self.inside(f.body) or self.most(f.body) > LONG_THREAD:
            self._own[f.body] = self._own_units(f.body)

    # --- what code costs ---

    def cost(self, b: Block) -> int:
        """Return the units that ``b`` counts for, without those of loops that poll."""
        if b not in self._costs:
            self._costs[b] = sum(self._units(o) for o in b.ops)
        return self._costs[b]

    def _units(self, o: Op) -> int:
        match o:
            case ops.Constant() | ops.Make() | ops.Yield():
                return 0
            case ops.Extract() | ops.Insert() if all(ops.constant_value(i) is not None for i in o.indices):
                return 0
            case ops.If():
                return 1 + sum(self.cost(r) for r in o.regions())
            case ops.For() if not self.polls(o):
                known = _trips(o)
                return self._most_units(o) // _SELDOM + 1 if known is None else known * (1 + self.cost(o.body))
            case ops.For() | ops.While():
                return 1
            case ops.Native() | ops.Search():
                return _UNKNOWN
            case ops.Outlined():
                return self.cost(o.callee.body)
        registers = sum(self._registers(r.type) for r in o.results) or 1
        slow = isinstance(o, ops.Atomic) or (isinstance(o, ops.Apply) and o.fn not in _QUICK)
        return registers * (_CALL if slow else 1)

    def most(self, b: Block) -> int:
        """Return how many units ``b`` may take, without those of loops that poll."""
        if b not in self._most:
            self._most[b] = sum(self._most_units(o) for o in b.ops)
        return self._most[b]

    def _most_units(self, o: Op) -> int:
        match o:
            case ops.If():
                return 1 + sum(self.most(r) for r in o.regions())
            case ops.For() if not self.polls(o):
                return (self._most_trips(o) or 0) * (1 + self.most(o.body))
        return self._units(o)

    def _most_trips(self, o: ops.For) -> int | None:
        """Return how often ``o`` runs at most; None where its step is not known."""
        known, step = _trips(o), ops.constant_value(o.step)
        if known is not None or step is None:
            return known
        lo, hi = (self._ranges().of(v) for v in (o.lo, o.hi))
        return constant_trips(lo[0], hi[1], int(step)) if step > 0 else constant_trips(lo[1], hi[0], int(step))

    def _registers(self, t: Type) -> int:
        bits = self.w.target.vector_bits
        return sum(max(1, s.width * s.bits // bits) if isinstance(s, LaneScalar) else 1 for s, _ in _scalars(t))

    def polls(self, o: ops.For | ops.While) -> bool:
        """Return whether loop ``o`` polls."""
        if o not in self._polling:
            trips = self._most_trips(o) if isinstance(o, ops.For) else None
            body = o.regions()[-1]
            short = trips is not None and trips * (1 + self.most(body)) <= SHORT
            self._polling[o] = not short or self.inside(body)
        return self._polling[o]

    def inside(self, b: Block) -> bool:
        """Return whether a loop in ``b`` polls."""
        return any(self.polls(o) for o in b.walk() if isinstance(o, (ops.For, ops.While)))

    def _own_units(self, b: Block) -> int:
        """Return the units of ``b`` without those of branches that take their own, which this finds."""
        units = 0
        for o in b.ops:
            if not isinstance(o, ops.If):
                units += self._units(o)
                if isinstance(o, ops.While) or (
                    isinstance(o, ops.For) and self.polls(o) and not self._is_vectorised(o)
                ):
                    for r in o.regions():
                        self._own[r] = self._own_units(r)
                continue
            units += 1
            for r in o.regions():
                inside = self._own_units(r)
                if inside >= BRANCH:
                    self._branches[r] = inside
                else:
                    units += inside
        return units

    def strip(self, o: ops.For, step: str) -> int:
        """Return how many iterations of ``o`` make a strip; 0 where it takes fuel in each iteration, or never."""
        t = o.lo.type
        counted = isinstance(t, Scalar) and CountedLoop.counts_by_index(t, step, narrow=False)
        if not counted or not self.polls(o) or not self._is_vectorised(o):
            return 0
        most = STRIP // (1 + self.most(o.body))
        return 0 if most < LEAST_STRIP else 1 << (most.bit_length() - 1)

    def _is_vectorised(self, o: ops.For) -> bool:
        """Return whether LLVM may vectorise ``o``: a loop of one thread, without loops and sums of floats in order."""
        options = self.w.options
        if self._lanes > 1 or options.debug or any(b.regions() for b in o.body.walk() if not isinstance(b, ops.If)):
            return False
        return options.fast_math or not any(s.is_float for v in o.init for s, _ in _scalars(v.type))

    # --- code ---

    def branch(self, b: Block) -> None:
        """Append what branch ``b`` takes by itself."""
        if b in self._branches:
            self.fuel.take(str(self._branches[b]))

    def iteration(self, o: ops.For | ops.While) -> None:
        """Append the poll at the end of an iteration of ``o``, where each takes fuel."""
        if self.polls(o):
            self.fuel.take(str(1 + sum(self._own.get(r, self.cost(r)) for r in o.regions())))
            self.fuel.check()

    def thread(self, b: Block) -> None:
        """Append the poll at the end of a kernel thread, or as many as run at once, whose body is ``b``."""
        if b in self._own:
            self.fuel.take(str(self._own[b]))
            self.fuel.check()


def _keeps_vectors(target: Target) -> str:
    """The attribute by which LLVM does not clear the upper halves of the registers that a function has restored."""
    if not target.triple.startswith("x86_64"):
        return ""
    features = f"{target.features},-vzeroupper".lstrip(",")
    return f' "target-features"="{features}"'


def _scalars(t: Type) -> tuple[tuple[Scalar, int], ...]:
    one = t.of if isinstance(t, Lanes) else t
    return () if isinstance(one, Array) else leaves(t)


def _trips(o: ops.For) -> int | None:
    """Return how often ``o`` runs where that is known."""
    lo, hi, step = (ops.constant_value(v) for v in (o.lo, o.hi, o.step))
    if lo is None or hi is None or step is None:
        return None
    return constant_trips(int(lo), int(hi), int(step))


class Strips:
    """The loop over the strips of loop ``o``, whose bounds and step are given in i64, for use in a ``with``.

    Inside, first add phis to those of ``before``, then call ``enter``, write the loop from ``lo`` to ``hi``, and call
    ``leave`` with the register of its counter, which is where the next strip begins.
    """

    def __init__(self, polls: Polls, o: ops.For, lo: str, hi: str, step: str) -> None:
        t = o.lo.type
        assert isinstance(t, Scalar)
        self._w, self._fuel = polls.w, polls.fuel
        self._wraps = t.bits == 64
        self._kind = "s" if t.is_signed or t.bits < 64 else "u"
        self._first, self._end, self._step = lo, hi, int(step)
        self._length = polls.strip(o, step) * int(step)
        self._units = 1 + polls.cost(o.body)
        self.lo = self.hi = self.before = ""

    def __enter__(self) -> Strips:
        w = self._w
        self.before = w.block
        self._head, self._done = w.label("strip"), w.label("endstrips")
        w.jump(self._head)
        w.start(self._head)
        self._phi = w.phis(["i64"])
        self._phi.add([self._first], self.before)
        (self.lo,) = self._phi.registers
        return self

    def enter(self) -> None:
        """Find the strip's end; all phis are there."""
        w, length, kind = self._w, self._length, self._kind
        two = ["i64", "i64"]
        if self._wraps:
            name = f"llvm.{kind}{'add' if length > 0 else 'sub'}.sat.i64"
            whole = w.intrinsic(name, "i64", two, [self.lo, str(abs(length))])
        else:
            whole = w.op(f"add nsw i64 {self.lo}, {length}")
        self.hi = w.intrinsic(f"llvm.{kind}{'min' if length > 0 else 'max'}.i64", "i64", two, [self._end, whole])

    def leave(self, index: str) -> None:
        """Take the fuel of the strip that has ended at ``index``; what follows comes before another strip."""
        w = self._w
        each = -(-self._units // abs(self._step)) * (1 if self._step > 0 else -1)
        self._fuel.take(w.op(f"mul i64 {w.op(f'sub i64 {index}, {self.lo}')}, {each}"))
        over = w.op(f"icmp {self._kind}{'ge' if self._step > 0 else 'le'} i64 {index}, {self._end}")
        again = w.label("again")
        w.branch(over, self._done, again, likely=True)
        w.start(again)
        self._fuel.check()
        self._phi.add([index], w.block)
        self._phi.finish()

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._w.jump(self._head)
        self._w.start(self._done)
