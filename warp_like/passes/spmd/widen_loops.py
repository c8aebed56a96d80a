"""Loops of one thread whose iterations run in lanes: those over the columns of a product, and those of math functions.

The rows of builtins mark loops over columns (``For.simd``). LLVM makes no vectors of a loop over columns in which sums
run over the inner dimension: it looks at the inner loop, whose order counts. Here the body of the marked loop goes
through ``widen`` as if it were the code of a thread, and its counter the thread's index. There is one copy of the body
whatever the extent: where vectors do not come out even, the last one begins earlier, and computes some columns again.
Loops that make elements by functions of the math library take the same way, as lanes have better versions of these; so
do quotients by one number for all, with vectors of 512 bits. Such a loop may store to an array, and its bounds need not
be known: with fewer iterations than a vector has lanes, it runs as it was.

Relies on ``lower_large_values``, after which all that iterations share is memory, and proves of each loop that they do
not touch each other's elements (``team/sharing.py``); what is not proven stays as it is. Runs where a function is for
one thread at a time, after that has been chosen.

Before::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = local (6,) not zeroed : array1d[float32]
      %1 = constant 0 : int32
      %2 = constant 6 : int32
      %3 = constant 1 : int32
      for simd %4 in %1, %2, %3 {
        %5 = load %x[%4] : float32
        %6 = constant 1 : int32
        %7 = constant 3 : int32
        %8 = constant 1 : int32
        %9 = for %11 in %6, %7, %8 (%10 = %5) : float32 {
          %12 = constant 6 : int32
          %13 = mul %11, %12 : int32
          %14 = add %13, %4 : int32
          %15 = load %x[%14] : float32
          %16 = add %10, %15 : float32
          yield %16
        }
        store %0[%4], %9
        yield
      }
      %17 = tid 0 of 1 : int32
      %18 = load %0[%17] : float32
      store %y[%17], %18
      yield
    }

After::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = local (6,) not zeroed : array1d[float32]
      %1 = constant 0 : int32
      %2 = constant 6 : int32
      %3 = constant 1 : int32
      %4 = constant 0 : int32
      %5 = constant 4 : int32
      %6 = constant 8 : int32
      for %7 in %4, %6, %5 {
        %8 = constant 2 : int32
        %9 = lt %7, %8 : bool
        %10 = where %9, %7, %8 : int32
        %11 = active_mask : bool x 4
        %12 = iota 1 %10 : int32 x 4
        %13 = load %x[%12] if %11 : float32 x 4
        %14 = constant 1 : int32
        %15 = constant 3 : int32
        %16 = constant 1 : int32
        %17 = for %19 in %14, %15, %16 (%18 = %13) : float32 x 4 {
          %20 = constant 6 : int32
          %21 = mul %19, %20 : int32
          %22 = add %21, %10 : int32
          %23 = iota 1 %22 : int32 x 4
          %24 = load %x[%23] if %11 : float32 x 4
          %25 = add %18, %24 : float32 x 4
          yield %25
        }
        %26 = iota 1 %10 : int32 x 4
        store %0[%26], %17 if %11
        yield
      }
      %27 = tid 0 of 1 : int32
      %28 = load %0[%27] : float32
      store %y[%27], %28
      yield
    }
"""

from __future__ import annotations

from warp_like.analysis.ranges import find_ranges
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, blocks, free_values
from warp_like.ir.types import element_count, float32, int64, scalar_of
from warp_like.passes.rewriter import Rewriter, rewrite
from warp_like.passes.spmd.cost import cut_to
from warp_like.passes.spmd.values import NotWidenable
from warp_like.passes.spmd.widen import calls_library, widen
from warp_like.passes.team.accesses import READ, Accesses, is_own
from warp_like.passes.team.sharing import Sharing
from warp_like.passes.unroll import trip_count

MOST_REGISTERS = 4
"""The most registers that a value of an iteration may take. So many hide the latency of sums and of exponentials:
softmax takes a tenth less time than with one."""

MOST_ITERATIONS = 1 << 24
"""The most iterations of a loop whose bounds are not known; so many can be counted."""

MOST_COPIED = 64
"""The most elements of a row that is copied in vectors."""

_WIDENED = (ops.For, ops.If, ops.Load, ops.Store, ops.Yield)
"""The ops that may stand in such a loop beside those of values."""


def has_simd_loops(f: Function, vector_bits: int = 0) -> bool:
    """Return whether a loop of ``f`` should run in lanes, as far as its kind says."""
    return any(isinstance(o, ops.For) and _goes_in_lanes(o, vector_bits) for o in f.body.walk())


def widen_loops(f: Function, vector_bits: int, registers: int) -> Function:
    """Let such loops of ``f`` run in lanes, in place, on a processor with so many registers of so many bits."""
    return rewrite(f, _LoopWidener(f, vector_bits, registers))


class _LoopWidener(Rewriter):
    def __init__(self, f: Function, vector_bits: int, registers: int) -> None:
        super().__init__()
        self.vector_bits, self.registers = vector_bits, registers
        self.accesses = Accesses(f, apart=False, contiguous=False)
        self.ranges = find_ranges(f)
        self.sharing = Sharing(self.accesses, self.ranges)

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.For) and _goes_in_lanes(o, self.vector_bits):
            try:
                if width := self.width(o):
                    self.widen(o, width)
                    return
                if width := self.width_of_stores(o):
                    self.widen_stores(o, width)
                    return
            except NotWidenable:
                pass  # the loop stays as it is
        super().visit(o)

    def width(self, o: ops.For) -> int:
        """In how many lanes ``o`` runs; 0 where it does not."""
        trips = trip_count(o)
        counts = ops.is_scalar_constant(o.lo, 0) and ops.is_scalar_constant(o.step, 1) and not o.init
        if trips is None or not counts or not all(x.PURE or isinstance(x, _WIDENED) for x in o.body.walk()):
            return 0
        if self.sharing.nest(o) is None:
            return 0
        widths = _widths(trips, self.vector_bits // _bits(o), _times(o, self.registers))
        return next((w for w in widths if trips % w == 0 or self.is_repeatable(o)), 0)

    def is_repeatable(self, o: ops.For) -> bool:
        """Whether an iteration that runs again does the same: it reads nothing that iterations write."""
        found = list(self.accesses.of(o))
        return not {a.root for a in found if a.kind == READ} & {a.root for a in found if a.kind != READ}

    def width_of_stores(self, o: ops.For) -> int:
        """In how many lanes ``o`` runs, which stores one element an iteration to an array that is not the thread's own.

        It reads nothing but memory of the thread's own, which it does not change. Where elements of an array are one
        element, stores have an order, which lanes keep.
        """
        plain = all(x.PURE or isinstance(x, (ops.Load, ops.Store, ops.Yield)) for x in o.body.ops)
        if o.init or not plain or not ops.is_scalar_constant(o.step, 1):
            return 0
        found = list(self.accesses.of(o))
        stores = [a for a in found if a.kind != READ]
        if len(stores) != 1 or is_own(stores[0].root) or not all(is_own(a.root) for a in found if a.kind == READ):
            return 0
        low, most = self.ranges.of(o.lo)[0], self.ranges.of(o.hi)[1]
        if low < 0 or most > MOST_ITERATIONS:
            return 0
        widths = _widths(most - low, self.vector_bits // _bits(o), MOST_REGISTERS)
        return next((w for w in widths if w * _bits(o) >= self.vector_bits), 0)

    def widen_stores(self, o: ops.For, width: int) -> None:
        """Put a loop over vectors in the place of ``o`` where these fill one; the last vector ends where ``o`` does."""
        self.hoist_threads(o)
        t, i = o.lo.type, o.body.params[0]
        free = free_values(o.body)
        body, first = _in_lanes(o, free, width)
        counter = Value(t, i.hint)
        with at(o.loc):
            count = self.b.sub(self.b.cast(o.hi, int64), self.b.cast(o.lo, int64))  # which could wrap in 32 bits
            is_enough = self.b.ge(count, width)
            with self.b.into(Block()) as vectors:
                zero, step, count = self.b.constant(0, t), self.b.constant(width, t), self.b.sub(o.hi, o.lo)
                last = self.b.sub(count, step)
                with self.b.into(Block([counter])) as block:
                    place = self.b.add(o.lo, self.b.select(self.b.lt(counter, last), counter, last))
                    cloner = Cloner({**dict(zip(body.params, free, strict=True)), first.result: place})
                    block.ops += [cloner.op(x) for x in body.ops if x is not first]
                self.b.for_(zero, count, step, (), block)
                self.b.yield_()
            with self.b.into(Block()) as alone:
                self.keep(o)
                self.b.yield_()
            self.b.if_(is_enough, vectors, alone)

    def widen(self, o: ops.For, width: int) -> None:
        """Put a loop over vectors of ``width`` iterations in the place of ``o``."""
        trips = trip_count(o)
        assert trips is not None
        self.hoist_threads(o)
        i, t = o.body.params[0], o.lo.type
        free = free_values(o.body)
        body, first = _in_lanes(o, free, width)
        counter = Value(t, i.hint)
        with at(o.loc), self.b.into(Block([counter])) as block:
            place = counter
            if trips % width:
                last = self.b.constant(trips - width, t)
                place = self.b.select(self.b.lt(counter, last), counter, last)
            cloner = Cloner({**dict(zip(body.params, free, strict=True)), first.result: place})
            block.ops += [cloner.op(x) for x in body.ops if x is not first]
        with at(o.loc):
            lo, step = self.b.constant(0, t), self.b.constant(width, t)
            self.b.for_(lo, self.b.constant(-(-trips // width) * width, t), step, (), block)

    def hoist_threads(self, o: ops.For) -> None:
        """Put indices of the thread, which are the same in all lanes, in front of ``o``: in lanes, ``Tid`` counts."""
        for b in blocks(o.body):
            found = [x for x in b.ops if isinstance(x, ops.Tid)]
            b.ops = [x for x in b.ops if x not in found]
            self.b.block.ops += found


def _goes_in_lanes(o: ops.For, vector_bits: int) -> bool:
    """Whether ``o`` is marked, or makes elements by functions of which lanes have better versions.

    These are those of the math library, and with vectors of 512 bits quotients by one number for all iterations. Copies
    of a few elements go in lanes as well: LLVM would call ``memcpy``.
    """
    if o.simd or o.init or any(r.regions() for r in o.body.ops):
        return o.simd
    if _copies_a_short_row(o) or (vector_bits >= 512 and any(_divides_by_one_number(o, x) for x in o.body.ops)):
        return True
    return any(map(calls_library, o.body.ops))


def _copies_a_short_row(o: ops.For) -> bool:
    """Whether ``o`` copies so many elements at most as fill a few vectors, but not a number that is known."""
    stores = [x for x in o.body.ops if isinstance(x, ops.Store)]
    most = cut_to(o.hi)
    return len(stores) == 1 and isinstance(stores[0].value.op, ops.Load) and most is not None and most <= MOST_COPIED


def _divides_by_one_number(loop: ops.For, o: Op) -> bool:
    inside = {loop.body.params[0], *(r for x in loop.body.ops for r in x.results)}
    match o:
        case ops.Apply(fn="div", args=(x, y)):
            return o.result.type == float32 and x in inside and y not in inside
    return False


def _in_lanes(o: ops.For, free: list[Value], width: int) -> tuple[Block, Op]:
    """Return the body of ``o`` for ``width`` iterations, its parameters those values, and the first one's counter."""
    params = [Value(v.type, v.hint) for v in free]
    f = Function("loop", params, loc=o.loc)
    first = ops.Tid(0, 1)
    with at(o.loc):
        counter = Emitter(f.body).insert(first, o.lo.type).result
    cloner = Cloner({**dict(zip(free, params, strict=True)), o.body.params[0]: counter})
    for v in free:
        if isinstance(v.op, ops.Constant):  # of which products have strides
            f.body.ops.append(cloner.op(v.op))
    f.body.ops += [cloner.op(x) for x in o.body.ops]
    made = widen(f, width)
    return made.body, next(x for x in made.body.ops if isinstance(x, ops.Tid))


def _bits(o: ops.For) -> int:
    """The bits of the widest numbers that ``o`` computes with."""
    found = (scalar_of(r.type) for x in o.body.walk() if isinstance(x, ops.Apply) for r in x.results)
    return max([32, *(s.bits for s in found if s is not None and s.is_float)])


def _times(o: ops.For, registers: int) -> int:
    """How many registers a value of an iteration may take.

    All sums of a loop in ``o`` should stay in registers, and as many numbers as an iteration stores.
    """
    sums = max((len(x.results) for x in o.body.walk() if isinstance(x, ops.For)), default=0)
    stored = sum(element_count(x.value.type) for x in o.body.ops if isinstance(x, ops.Store))
    times = MOST_REGISTERS
    while times > 1 and (max(sums, stored) + 1) * times + 1 > registers:
        times //= 2
    return times


def _widths(trips: int, native: int, times: int) -> list[int]:
    """The numbers of lanes in which ``trips`` iterations may run, best first: few vectors, then long ones."""
    found = [native * n for n in (1, 2, 4) if n <= times and native * n <= trips]
    if not found and trips >= 4:
        found = [1 << trips.bit_length() - 1]
    return sorted(found, key=lambda w: (-(-trips // w) * max(w // native, 1), -w))


__all__ = ["has_simd_loops", "widen_loops"]
