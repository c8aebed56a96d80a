"""From the code of one thread to lanes: the function for ``width`` neighbouring threads at once.

Uniform values stay scalars, and so do the first lanes of values with a known stride; the rest become ``Lanes``. Where
lanes go different ways, both ways are taken under masks:

* A branch runs when a lane takes it. One that costs little and touches no memory runs always; ``where`` picks. One on
  the thread's index has a version for uniform conditions (``uniform_branches``).
* A loop runs until no lane is left in it; a lane that has left keeps its values. Counted loops count in a scalar.

What must always hold: code that is reached has a lane in its mask, so that what is uniform in it (an index, say) is
what a thread of the program computes.

Relies on a finished function. Leaves ops on ``Lanes``, and equal ``iota`` ops for ``cse`` to merge; below, for four
lanes.

Before::

    kernel k(%x: array1d[float32], %s: float32) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %s : float32
      store %x[%0], %2
      yield
    }

After::

    kernel k(%x: array1d[float32], %s: float32) {
      %0 = active_mask : bool x 4
      %1 = tid 0 of 1 : int32
      %2 = iota 1 %1 : int32 x 4
      %3 = load %x[%2] if %0 : float32 x 4
      %4 = broadcast %s : float32 x 4
      %5 = mul %3, %4 : float32 x 4
      %6 = iota 1 %1 : int32 x 4
      store %x[%6], %5 if %0
      yield
    }
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from warp_like.base.loc import at
from warp_like.builtins.spec import Symbol, may_call_library, resolve
from warp_like.builtins.trips import counter_type, emit_trips
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import without_body
from warp_like.ir.types import Lanes, Scalar, bool_, lane_type
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.spmd.accesses import Accesses
from warp_like.passes.spmd.consecutive import load_consecutively
from warp_like.passes.spmd.strides import Stride
from warp_like.passes.spmd.uniform_branches import UniformBranches, is_worth_versioning
from warp_like.passes.spmd.values import NotWidenable

CHEAP_OPS = 12
"""A branch of at most so many ops without memory accesses is run always rather than skipped when no lane takes it."""


def widen(
    f: Function, width: int, reduced: Sequence[int] = (), varying: Sequence[Value] = (), *, scattered: bool = False
) -> Function:
    """Return ``f``, whose builtins are expanded, for ``width`` threads at once; each has its own of ``varying``.

    Updates of elements that all lanes mean are combined over the lanes first, but for those of the arrays at the
    positions ``reduced``, which the backend combines over many vectors. With ``scattered``, lanes may work on arrays
    that elements hold, each on another one.

    Raises:
        NotWidenable: It has something that lanes can't run.
    """
    return _Widener(f, width, reduced, varying, scattered=scattered).function()


@functools.lru_cache(maxsize=1024)
def widen_callee(f: Function, width: int, varying: tuple[bool, ...]) -> Function:
    """Return ``f``, an outlined builtin, for ``width`` lanes; of its parameters, those that are ``varying`` are lanes.

    Raises:
        NotWidenable: It has something that lanes can't run.
    """
    made = _Widener(f, width, varying=[p for p, v in zip(f.params, varying, strict=True) if v]).function()
    load_consecutively(made)
    cse(made)
    dce(made)
    return made


class _Widener(Accesses, UniformBranches):
    def function(self) -> Function:
        f = self.f
        new = without_body(f)
        new.schedule = f.schedule.replace(lanes=self.width)
        for p, made in zip(f.params, new.params, strict=True):
            if p in self.varying:
                made.type = self.wide(p.type)
            self.map[p] = made
        with self.b.into(new.body):
            self.mask = self.b.insert(ops.ActiveMask(), self.wide(bool_)).result
            self.run(f.body)
            self.b.yield_(*map(self.lanes, f.body.yielded))
        return new

    # --- ops ---

    def run(self, b: Block) -> None:
        for o in b.ops[:-1]:
            with at(o.loc):
                self.visit(o)

    def visit(self, o: Op) -> None:
        if type(o) is ops.Constant or (type(o) is ops.Apply and o.fn != "mod"):  # most are
            self.plain(o)
            return
        match o:
            case ops.If():
                self.branch(o)
            case ops.For():
                self.counted_loop(o)
            case ops.While():
                self.conditional_loop(o)
            case ops.View():
                self.view(o)
            case ops.Dim():
                self.dim(o)
            case ops.Load():
                self.load(o)
            case ops.Store():
                self.store(o)
            case ops.Atomic():
                self.atomic(o)
            case ops.Push() | ops.Pop():
                self.stack(o)
            case ops.LocalArray():
                self.insert(ops.LocalArray(o.shape, zeroed=o.zeroed), o.results, [Lanes(o.result.type, self.width)])
            case ops.Slice():
                self.slice(o)
            case ops.Components():
                self.components(o)
            case ops.AtAddress() if self.strides[o.result] == 0:
                self.copy(o, self.scalar, [o.result.type])
            case ops.AtAddress():
                raise NotWidenable("threads make arrays of addresses of their own")
            case ops.NestedArray():
                self.nested_array(o)
            case ops.AtomicCas():
                self.compare_and_swap(o)
            case ops.Search() if self.strides[o.result] == 0:
                self.copy(o, self.scalar, [o.result.type])
            case ops.Outlined():
                self.outlined(o)
            case ops.Search() | ops.Native() | ops.Print() | ops.Check() | ops.Breakpoint():
                self.lane_by_lane(o)
            case ops.Extract():
                self.component(o)
            case ops.Insert():
                self.component(o)
            case ops.Apply(fn="mod") if self.remainder(o):
                pass
            case _ if o.PURE:
                self.plain(o)
            case _:
                raise NotWidenable(f"lanes have no `{o.NAME}`")

    def plain(self, o: Op) -> None:
        """An op of values: scalar where its result has a stride, else in lanes."""
        if type(o) is ops.Apply and len(o.results) == 1 and self.strides[o.results[0]] is None:  # most are
            args = tuple([self.lanes(v) for v in o.args])
            self.insert(ops.Apply(o.fn, args), o.results, (self.wide(o.results[0].type),))
            self.speculate(o)
        elif all(self.strides[r] is not None for r in o.results):
            self.copy(o, self.scalar, [r.type for r in o.results])
        else:
            self.copy(o, self.lanes, [self.wide(r.type) for r in o.results])
            self.speculate(o)

    def component(self, o: ops.Extract | ops.Insert) -> None:
        if self.strides[o.result] == 0:
            self.copy(o, self.scalar, [o.result.type])
            return
        indices = tuple(self.index(i) for i in o.indices)
        x = self.lanes(o.x)
        new: Op = ops.Insert(x, self.lanes(o.value), indices) if isinstance(o, ops.Insert) else ops.Extract(x, indices)
        self.insert(new, o.results, [self.wide(o.result.type)])

    def outlined(self, o: ops.Outlined) -> None:
        """A call of a function: one for all lanes where nothing differs, and else of its version for lanes."""
        if all(self.strides[r] == 0 for r in o.results):
            self.copy(o, self.scalar, [r.type for r in o.results])
            return
        varying = tuple(self.strides[a] != 0 for a in o.args)
        try:
            callee = widen_callee(o.callee, self.width, varying)
        except NotWidenable:
            self.lane_by_lane(o)
            return
        args = tuple(self.lanes(a) if v else self.scalar(a) for a, v in zip(o.args, varying, strict=True))
        new = ops.Outlined(callee, args, (self.mask,))
        self.insert(new, o.results, [self.wide(r.type) for r in o.results])

    # --- branches ---

    def branch(self, o: ops.If) -> None:
        if self.strides[o.cond] == 0:
            strides = [self.strides[r] for r in o.results]
            blocks = [self.region(b, strides) for b in (o.then, o.orelse)]
            self.bind_all(o.results, self.b.if_(self.scalar(o.cond), *blocks))
            return
        if is_worth_versioning(o):
            self.bind_all(o.results, self.versioned(o, True, False))
            return
        self.bind_all(o.results, self.masked(o))
        sides = [b for b in (o.then, o.orelse) if _is_cheap(b)]  # in others its values are not seen from here
        for k, r in enumerate(o.results):
            if self.strides[r] is None:
                self.speculate_one_of(r, *(b.yielded[k] for b in sides))

    def versioned(self, o: ops.If, *sides: bool) -> list[Value]:
        """Run one of ``sides`` of a branch where a test shows that all lanes take it, else both under masks."""
        for n, first in enumerate(sides):
            whole = self.uniform_test(o.cond, first)
            if whole is None:
                continue
            run = self.region(o.then if first else o.orelse, [self.strides[r] for r in o.results])
            with self.b.into(Block()) as otherwise:
                self.b.yield_(*self.versioned(o, *sides[n + 1 :]))
            return list(self.b.if_(whole, run, otherwise))
        return self.masked(o)

    def masked(self, o: ops.If) -> list[Value]:
        """Run both sides of a branch, each for the lanes that take it; return what stands for its results."""
        cond = self.lanes(o.cond)
        others = self.apply("bit_and", self.mask, self.apply("unot", cond))
        first = self.side(o.orelse, o.results, others) if o in self.stacks.reverse_aligned else None
        then = self.side(o.then, o.results, self.apply("bit_and", self.mask, cond))
        orelse = self.side(o.orelse, o.results, others) if first is None else first
        triples = zip(o.results, then, orelse, strict=True)
        return [a if self.strides[r] is not None else self.select(cond, a, b) for r, a, b in triples]

    def region(self, b: Block, strides: Sequence[Stride]) -> Block:
        """``b`` for lanes, yielding values with ``strides``."""
        with self.b.into(Block()) as new:
            self.run(b)
            self.b.yield_(*(self.like(v, s) for v, s in zip(b.yielded, strides, strict=True)))
        return new

    def side(self, b: Block, results: Sequence[Value], mask: Value) -> list[Value]:
        """Run a branch for the lanes of ``mask``; return what it yields, one value for each of ``results``."""
        strides = [self.strides[r] for r in results]
        if _is_cheap(b):
            with self.under(mask):
                self.run(b)
            return [self.like(v, s) for v, s in zip(b.yielded, strides, strict=True)]
        wanted = [v for v, s in zip(b.yielded, strides, strict=True) if s is None]
        with self.b.into(Block()) as run, self.under(mask):
            self.run(b)
            self.b.yield_(*map(self.lanes, wanted))
        with self.b.into(Block()) as skip:
            self.b.yield_(*(self.broadcast(self.b.zero(v.type)) for v in wanted))
        made = iter(self.b.if_(self.any(mask), run, skip))
        return [next(made) if s is None else self.scalar(v) for v, s in zip(b.yielded, strides, strict=True)]

    # --- loops ---

    def counted_loop(self, o: ops.For) -> None:
        if all(self.strides[v] == 0 for v in (o.lo, o.hi, o.step)):
            self.uniform_for(o)
        else:
            self.divergent_for(o)

    def uniform_for(self, o: ops.For) -> None:
        strides = [self.strides[r] for r in o.results]
        init = [self.like(v, s) for v, s in zip(o.init, strides, strict=True)]
        body = self.loop_block(o.body.params, [self.scalar(o.lo), *init])
        self.fill(body, o.body, strides)
        lo, hi, step = self.scalar(o.lo), self.scalar(o.hi), self.scalar(o.step)
        self.bind_all(o.results, self.b.for_(lo, hi, step, init, body))

    def loop_block(self, params: Sequence[Value], like: Sequence[Value]) -> Block:
        """A block whose parameters stand for ``params``, with the types of ``like``."""
        new = [Value(v.type, p.hint) for p, v in zip(params, like, strict=True)]
        self.map.update(zip(params, new, strict=True))
        return Block(new)

    def fill(self, new: Block, b: Block, strides: Sequence[Stride]) -> None:
        with self.b.into(new):
            self.run(b)
            self.b.yield_(*(self.like(v, s) for v, s in zip(b.yielded, strides, strict=True)))

    def divergent_for(self, o: ops.For) -> None:
        """Count the iterations in a scalar, up to the most that a lane makes.

        All lanes begin at one time, or end at one time where the loop takes back what another one saved.
        """
        t = o.lo.type
        assert isinstance(t, Scalar)
        counter = counter_type(t)
        trips = self.select(self.mask, self.trip_count(o, t), self.broadcast(self.b.constant(0, counter)))
        most = self.b.insert(ops.LaneReduce("max", trips, (self.mask,)), counter).result
        i, *params = o.body.params
        init = [self.like(v, self.strides[p]) for v, p in zip(o.init, params, strict=True)]
        exits = self.exits(params, o.results)
        k = Value(counter)
        body = self.loop_block(params, init)
        caught = [Value(self.wide(params[n].type)) for n in exits]
        body.params = [k, *body.params, *caught]
        with self.b.into(body):
            number = self.broadcast(k)
            if o in self.stacks.reverse_aligned:
                waits = self.apply("sub", self.broadcast(most), trips)
                inside = self.apply("ge", number, waits)
                number = self.apply("sub", number, waits)
            else:
                inside = self.apply("lt", number, trips)
            mask = self.apply("bit_and", self.mask, inside)
            with self.under(mask):
                self.map[i] = self.loop_index(o, number, k, most)
                self.run(o.body)
                following = self.carried_on(mask, params, o.body.yielded, o.results, o in self.stacks.reverse_aligned)
                self.b.yield_(*following, *self.catch(mask, o.body.yielded, exits, caught))
        zero, one = self.b.constant(0, counter), self.b.constant(1, counter)
        init += [self.lanes(o.init[n]) for n in exits]
        self.bind_exits(o.results, self.b.for_(zero, most, one, init, body), exits)

    def exits(self, params: Sequence[Value], results: Sequence[Value]) -> list[int]:
        """Which carried values of a divergent loop are scalars inside, and needed as each lane leaves with them."""
        pairs = enumerate(zip(params, results, strict=True))
        return [n for n, (p, r) in pairs if self.strides[p] is not None and self.strides[r] is None and r in self.used]

    def catch(
        self, mask: Value, yielded: Sequence[Value], exits: Sequence[int], caught: Sequence[Value]
    ) -> list[Value]:
        """What the lanes of ``mask`` would leave with after this iteration; others leave with what they had."""
        return [self.select(mask, self.lanes(yielded[n]), old) for n, old in zip(exits, caught, strict=True)]

    def bind_exits(self, results: Sequence[Value], made: Sequence[Value], exits: Sequence[int]) -> None:
        """Let what a divergent loop made stand for its results: for ``exits`` what follows the carried values."""
        values = list(made[: len(results)])
        for n, v in zip(exits, made[len(results) :], strict=False):
            values[n] = v
        self.bind_all(results, values)

    def carried_on(
        self,
        mask: Value,
        params: Sequence[Value],
        yielded: Sequence[Value],
        results: Sequence[Value],
        joins: bool = False,
    ) -> list[Value]:
        """What a divergent loop carries on: ``yielded`` for the lanes of ``mask``, for others what they had.

        Where nobody looks at the loop's result, the values of lanes that have left it do not matter; those of lanes
        that join later (``joins``) do.
        """
        carried = []
        for p, y, r in zip(params, yielded, results, strict=True):
            if p is y:
                carried.append(self.map[p])
            elif self.strides[p] is not None:
                carried.append(self.scalar(y))
            elif joins or r in self.used:
                carried.append(self.select(mask, self.lanes(y), self.map[p]))
            else:
                carried.append(self.lanes(y))
        return carried

    def loop_index(self, o: ops.For, number: Value, k: Value, most: Value) -> Value:
        """The loop's variable where each lane is in its iteration ``number``, in iteration ``k`` of ``most``."""
        t = o.lo.type
        if self.strides[o.body.params[0]] is None:
            reverse_aligned = o in self.stacks.reverse_aligned
            count = self.b.cast(number, self.wide(t)) if reverse_aligned else self.broadcast(self.b.cast(k, t))
            return self.apply("add", self.lanes(o.lo), self.apply("mul", count, self.lanes(o.step)))
        if o in self.stacks.reverse_aligned:
            left = self.b.cast(self.b.sub(most, k), t)
            return self.b.sub(self.scalar(o.hi), self.b.mul(left, self.scalar(o.step)))
        return self.b.add(self.scalar(o.lo), self.b.mul(self.b.cast(k, t), self.scalar(o.step)))

    def trip_count(self, o: ops.For, t: Scalar) -> Value:
        """How often each lane runs a loop that counts in ``t``."""
        known = ops.constant_value(o.step)
        step = self.scalar(o.step) if known is not None else self.lanes(o.step)
        return emit_trips(_InLanes(self), t, self.lanes(o.lo), self.lanes(o.hi), step, known)

    def conditional_loop(self, o: ops.While) -> None:
        go = o.cond.yielded[0]
        if self.strides[go] == 0:
            self.uniform_while(o)
        else:
            self.divergent_while(o)

    def uniform_while(self, o: ops.While) -> None:
        strides = [self.strides[r] for r in o.results]
        init = [self.like(v, s) for v, s in zip(o.init, strides, strict=True)]
        cond = self.loop_block(o.cond.params, init)
        self.fill(cond, o.cond, [0])
        body = self.loop_block(o.body.params, init)
        self.fill(body, o.body, strides)
        self.bind_all(o.results, self.b.while_(init, cond, body))

    def divergent_while(self, o: ops.While) -> None:
        """Carry the mask of the lanes that are still in the loop."""
        self.leaving += 1
        init = [self.like(v, self.strides[p]) for v, p in zip(o.init, o.body.params, strict=True)]
        exits = self.exits(o.body.params, o.results)
        first = self.still_in(o, init, self.mask)
        starts = [self.lanes(o.init[n]) for n in exits]
        cond = Block([Value(v.type) for v in (*init, *starts, first)])
        with self.b.into(cond):
            self.b.yield_(self.any(cond.params[-1]))
        body = self.loop_block(o.body.params, init)
        caught, mask = [Value(v.type) for v in starts], Value(first.type)
        body.params += [*caught, mask]
        with self.b.into(body):
            with self.under(mask):
                self.run(o.body)
                following = self.carried_on(mask, o.body.params, o.body.yielded, o.results)
                kept = self.catch(mask, o.body.yielded, exits, caught)
                stay = self.still_in(o, following, mask)
            self.b.yield_(*following, *kept, stay)
        self.leaving -= 1
        self.bind_exits(o.results, self.b.while_([*init, *starts, first], cond, body), exits)

    def still_in(self, o: ops.While, values: Sequence[Value], mask: Value) -> Value:
        """The lanes of ``mask`` for which the loop's condition holds of ``values``."""
        self.map.update(zip(o.cond.params, values, strict=True))
        with self.under(mask):
            self.run(o.cond)
        return self.apply("bit_and", mask, self.lanes(o.cond.yielded[0]))


class _InLanes:
    """Emits the number of iterations of each lane."""

    def __init__(self, widener: _Widener) -> None:
        self._widener = widener
        self.apply = widener.apply

    def number(self, n: int, t: Scalar) -> Value:
        return self._widener.broadcast(self._widener.b.constant(n, t))

    def cast(self, v: Value, t: Scalar) -> Value:
        return self._widener.b.cast(v, self._widener.wide(t))


def _is_cheap(b: Block) -> bool:
    """Whether running ``b`` for nothing costs less than finding out, and can't be seen: it touches no memory."""
    return len(b.ops) <= CHEAP_OPS and all(_is_cheap_op(o) or isinstance(o, ops.Yield) for o in b.ops)


def _is_cheap_op(o: Op) -> bool:
    """Whether ``o`` computes in registers alone: nested arrays are pure, as nothing changes them, but lie in memory."""
    return o.PURE and not isinstance(o, (ops.NestedArray, ops.Search)) and not calls_library(o)


def calls_library(o: Op) -> bool:
    """Return whether ``o`` calls a function of the math library."""
    if not isinstance(o, ops.Apply) or not may_call_library(o.fn):
        return False
    lower = resolve(o.fn, tuple(lane_type(v.type) for v in o.args)).overload.lower
    return isinstance(lower, Symbol) and not lower.llvm
