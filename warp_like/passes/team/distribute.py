"""Lets the threads of a CUDA block run one thread of the grid together: a team.

Runs on a finished function (``lower_large_values`` has put tiles into arrays of the thread's own). These arrays are
shared by the team from here on. Loops whose iterations may run in any order are shared out; the rest all threads do
alike, or one thread does it (``plan.py``). Between two ops of which one touches what the other changes, on behalf of
another thread, the threads meet at a barrier.

This is an example for teams of 32 threads.

Before::

    kernel k(%x: array2d[float32], %y: array2d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = local (64,) not zeroed : array1d[float32]
      %2 = constant 0 : int32
      %3 = constant 64 : int32
      %4 = constant 1 : int32
      for %i in %2, %3, %4 {
        %5 = load %x[%0, %i] : float32
        store %1[%i], %5
        yield
      }
      %6 = constant 0 : int32
      %7 = constant 64 : int32
      %8 = constant 1 : int32
      for %i.1 in %6, %7, %8 {
        %9 = constant 63 : int32
        %10 = sub %9, %i.1 : int32
        %11 = load %1[%10] : float32
        store %y[%0, %i.1], %11
        yield
      }
      yield
    }

After::

    kernel k(%x: array2d[float32], %y: array2d[float32]) {
      %0 = block_thread  : int32
      %1 = constant 0 : int32
      %2 = eq %0, %1 : bool
      %3 = tid 0 of 1 : int32
      %4 = shared (64,) not zeroed : array1d[float32]
      %5 = constant 0 : int32
      %6 = constant 64 : int32
      %7 = constant 1 : int32
      %8 = constant 0 : int32
      %9 = constant 2 : int32
      %10 = constant 1 : int32
      for %11 in %8, %9, %10 {
        %12 = constant 32 : int32
        %13 = mul %11, %12 : int32
        %14 = add %13, %0 : int32
        %15 = load %x[%3, %14] : float32
        store %4[%14], %15
        yield
      }
      %16 = constant 0 : int32
      %17 = constant 64 : int32
      %18 = constant 1 : int32
      barrier
      %19 = constant 0 : int32
      %20 = constant 2 : int32
      %21 = constant 1 : int32
      for %22 in %19, %20, %21 {
        %23 = constant 32 : int32
        %24 = mul %22, %23 : int32
        %25 = add %24, %0 : int32
        %26 = constant 63 : int32
        %27 = sub %26, %25 : int32
        %28 = load %4[%27] : float32
        store %y[%3, %25], %28
        yield
      }
      yield
    }
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from warp_like.analysis.ranges import find_ranges
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.layout import size_of
from warp_like.ir.rewrite import Cloner
from warp_like.ir.types import Array, Type, int32
from warp_like.passes.blocks import MAX_SHARED_BYTES, slot_bytes
from warp_like.passes.rewriter import Rewriter
from warp_like.passes.team.accesses import READ, WRITE, Accesses, Root
from warp_like.passes.team.copies import Copies, Copy
from warp_like.passes.team.fragments import Product, columns_of, zeros_of
from warp_like.passes.team.plan import How, Plan, Touch
from warp_like.passes.team.sharing import Level, Nest, Sharing
from warp_like.passes.team.swizzle import Swizzle, find_swizzles, move_elements
from warp_like.passes.team.units import MOST_WORDS, words_of
from warp_like.passes.uniform import cooperative

Values = Sequence[Value]


def distribute(f: Function, team: int, apart: bool, contiguous: bool, *, async_copies: bool = False) -> Function:
    """Let ``team`` threads run ``f`` together, in place; nothing is done where they would be in each other's way.

    ``apart`` says that no argument overlaps another, ``contiguous`` that all of them are contiguous. With
    ``async_copies``, tiles are loaded by such where that can be.
    """
    accesses, ranges = Accesses(f, apart, contiguous), find_ranges(f)
    sharing = Sharing(accesses, ranges)
    plan = Plan(f, accesses, sharing, team)
    if plan.is_sound:
        distributor = _Distributor(plan, Copies(accesses, sharing, ranges) if async_copies else None)
        distributor.function(f)
        move_elements(f, distributor.swizzles, distributor.placed)
        f.team = team
    return f


def shared_bytes(f: Function) -> int:
    """Return how many bytes a block of ``f`` shares."""
    total = most = 0
    for o in f.body.walk():
        lower = cooperative(o)
        if isinstance(o, ops.LocalArray) and o.shared:
            assert isinstance(o.result.type, Array)
            total += -(-size_of(o.result.type.dtype) * math.prod(o.shape) // 16) * 16
        elif lower is not None and lower.meets == "block":
            most = max(most, slot_bytes(o.operands()[0]))
    return total + most


def fits(f: Function) -> bool:
    """Return whether a team runs ``f``, shares no more than every device has, and needs no address of it."""
    if f.team == 1:
        return False
    taken = (v for o in f.body.walk() if isinstance(o, (ops.Address, ops.Native)) for v in o.operands())
    return shared_bytes(f) <= MAX_SHARED_BYTES and not any(
        isinstance(ops.base_array(v).op, ops.LocalArray) for v in taken
    )


class _Distributor(Rewriter):
    """Writes the code of a team.

    Attributes:
        pending: What threads have done to memory since they last met.
        copies: Finds loads of tiles that are asynchronous; None if the target has no such copies.
        flying: The arrays that copies write to for which the thread has not waited yet.
        cleared: The copies that also write the zeros of their tile.
        loops: How many loops there are around this place that all threads go into.
        slots: The shared arrays through which one thread tells the others its results.
        held: The sums of products that a loop keeps in registers, as they are at this place.
        swizzles: How the arrays are kept that matrix units read, those of the new code.
        placed: The loads of matrix units, whose indices take that into account.
        from_zero: The products whose sums begin with zeros, which are not written to memory before.
    """

    def __init__(self, plan: Plan, copies: Copies | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.copies = copies
        self.pending: set[Touch] = set()
        self.flying: set[Root] = set()
        self.cleared: set[Op] = set()
        self.loops = 0
        self.slots: dict[tuple[Type, int], Op] = {}
        self.held: dict[ops.ContractInMemory, list[Value]] = {}
        self.swizzles: dict[Value, Swizzle] = {}
        self.placed: set[Op] = set()
        self.from_zero: set[ops.ContractInMemory] = set()

    def function(self, f: Function) -> None:
        start = Block()
        with self.b.into(start):
            self.thread = self.b.block_thread()
            self.is_first = self.b.eq(self.thread, 0)
        columns = dict[Value, int]()
        for o in f.body.walk():
            if isinstance(o, ops.ContractInMemory):
                for array, count in zip((o.x, o.y), columns_of(o), strict=True):
                    columns.setdefault(array, count)
        self.found = find_swizzles(f.body, columns)
        self.block(f.body)
        f.body.ops = [*start.ops, *self.slots.values(), *f.body.ops]

    def splice(self, sequence: Sequence[Op]) -> None:
        for k, o in enumerate(sequence):
            with at(o.loc):
                how = self.plan.how[o]
                if isinstance(o, ops.Yield):
                    self.land()
                if how is How.SHARED and (product := self.begun_by(o, sequence[k + 1 :])) is not None:
                    self.from_zero.add(product)
                elif how is How.SHARED and self.is_cleared_by_copy(o, sequence[k + 1 :]):
                    continue
                elif how is How.SHARED and (copy := self.copy_of(o, sequence[k + 1 :])) is not None:
                    self.begin_copy(copy)
                elif how is How.INSIDE:
                    o.map_operands(self.value)
                    self.inside(o)
                elif isinstance(o, ops.ContractInMemory):
                    self.product(o)
                else:
                    self.meet_before(self.plan.touches[o])
                    self.write(o, how)

    def write(self, o: Op, how: How) -> None:
        match how:
            case How.SHARED:
                self.share(self.plan.nests[o])
            case How.ONE:
                self.alone(o)
            case How.MEETING:
                self.all(o)
                self.met()
            case _:
                self.all(o)

    def all(self, o: Op) -> None:
        """Let all threads run ``o`` as it is; arrays of the thread's own become the team's."""
        copy = Cloner(self.mapping).op(o)
        if isinstance(copy, ops.LocalArray):
            copy.shared = True
            if copy.zeroed:
                self.met()  # there are barriers around the zeros
        self.keep(copy)

    # --- where threads meet ---

    def meet_before(self, touches: Sequence[Touch]) -> None:
        """Let the threads meet if one of them touches what another one has changed, or changes what one has read."""
        if any(t.root in self.flying for t in touches):
            self.land()
        if any(before.conflicts(now) for before in self.pending for now in touches):
            self.b.insert(ops.Barrier())
            self.met()
        self.pending.update(touches)

    def met(self) -> None:
        """Note that the threads have met: they see what was done before, but not what copies have yet to write."""
        self.pending = {t for t in self.pending if t.root in self.flying}

    def inside(self, o: Op) -> None:
        self.land()
        held = self.holdable(o) if isinstance(o, ops.For) else []
        if held:
            assert isinstance(o, ops.For)
            self.begin_holding(o, held)
        before = set(self.pending)
        if isinstance(o, (ops.For, ops.While)):
            self.pending |= set(self.plan.touches[o])  # of the iteration before
            self.loops += 1
            for r in o.regions():
                self.block(r)
            self.loops -= 1
            self.pending |= before  # where it has no iteration
            if isinstance(o, ops.While):
                self.pending |= set(self.plan.touches[o])  # of its condition, which comes last
        else:
            after: set[Touch] = set()
            for r in o.regions():
                self.pending = set(before)
                self.block(r)
                after |= self.pending
            self.pending = after
        self.keep(o)
        if held:
            assert isinstance(o, ops.For)
            self.end_holding(o, held)

    # --- products by matrix units ---

    def code_of(self, o: ops.ContractInMemory) -> Product:
        here = Cloner(dict(self.mapping)).op(o)
        assert isinstance(here, ops.ContractInMemory)
        for before, now in ((o.x, here.x), (o.y, here.y)):
            if before in self.found:
                self.swizzles[now] = self.found[before]
        code = Product(self.b, self.thread, here, self.plan.team, self.swizzles)
        code.placed = self.placed
        return code

    def product(self, o: ops.ContractInMemory) -> None:
        """Let the warps compute a product: from and to memory, or in registers that are held."""
        of_sums = self.plan.of_sums(o)
        self.meet_before([t for t in self.plan.touches[o] if t != of_sums or o not in self.held])
        code = self.code_of(o)
        if o in self.held:
            self.held[o] = code.add(self.held[o])
        else:
            code.store(code.add(code.load() if o.adds and o not in self.from_zero else code.zeros()))

    def begun_by(self, loop: Op, following: Sequence[Op]) -> ops.ContractInMemory | None:
        """Return the product that adds to zeros which ``loop`` writes, and all of which only it reads."""
        array, count = zeros_of(loop)
        if array is None:
            return None
        root = self.plan.accesses.root(array)
        user = self.first_user(root, following)
        found = self.holdable(user) if isinstance(user, ops.For) else [user]
        for o in found:
            if isinstance(o, ops.ContractInMemory) and o.adds and self.plan.accesses.root(o.out) is root:
                return o if count >= o.extents[0] * o.extents[2] else None
        return None

    def holdable(self, loop: ops.For) -> list[ops.ContractInMemory]:
        """Return the products in ``loop`` whose tile nothing else in there touches, as many as registers hold."""
        found, left = [], MOST_WORDS
        for o in loop.body.ops:
            if not isinstance(o, ops.ContractInMemory) or not o.adds:
                continue
            root, words = self.plan.accesses.root(o.out), words_of(o.unit, o.extents, self.plan.team)
            if words <= left and [a.root for a in self.plan.accesses.of(loop)].count(root) == 1:
                found.append(o)
                left -= words
        return found

    def begin_holding(self, loop: ops.For, products: Sequence[ops.ContractInMemory]) -> None:
        """Let threads load their sums of ``products``, which ``loop`` carries from here on."""
        for o in products:
            self.meet_before([self.plan.of_sums(o)])
            code = self.code_of(o)
            loaded = code.zeros() if o in self.from_zero else code.load()
            self.held[o] = [Value(v.type) for v in loaded]
            loop.init = (*loop.init, *loaded)
            loop.body.params += self.held[o]

    def end_holding(self, loop: ops.For, products: Sequence[ops.ContractInMemory]) -> None:
        """Let ``loop`` give the sums that it has carried, and threads store them."""
        last = loop.body.ops[-1]
        assert isinstance(last, ops.Yield)
        for o in products:
            sums = self.held.pop(o)
            made = [Value(v.type, op=loop) for v in sums]
            last.values = (*last.values, *sums)
            loop.results = (*loop.results, *made)
            self.code_of(o).store(made)
            self.pending.add(self.plan.of_sums(o))

    # --- one thread alone ---

    def alone(self, o: Op) -> None:
        """Let the first thread run ``o``, and tell the others what it gives, where anybody uses that."""
        used = [r for r in o.results if self.plan.is_used(r)]
        slots = [self.slot(r.type, k) for k, r in enumerate(used)]
        told = [Touch(slot, WRITE, "one") for slot in slots]
        self.meet_before(told)
        with self.b.into(Block()) as first:
            cloner = Cloner(self.mapping)
            self.keep(cloner.op(o))
            for slot, r in zip(slots, used, strict=True):
                self.b.store(slot, [self.b.index(0)], cloner.value(r))
            self.b.yield_()
        with self.b.into(Block()) as others:
            self.b.yield_()
        self.b.if_(self.is_first, first, others)
        self.meet_before([Touch(slot, READ, "all") for slot in slots])
        for slot, r in zip(slots, used, strict=True):
            self.mapping[r] = self.b.load(slot, [self.b.index(0)])

    def slot(self, t: Type, number: int) -> Value:
        """Return the shared array for result ``number`` of an op, of type ``t``."""
        made = self.slots.get((t, number))
        if made is None:
            with self.b.into(Block()):
                made = self.b.insert(ops.LocalArray((1,), shared=True, zeroed=False), Array(t, 1))
            self.slots[t, number] = made
        return made.result

    # --- asynchronous copies ---

    def copy_of(self, loop: Op, following: Sequence[Op]) -> Copy | None:
        """Return what ``loop`` copies, if that is better asynchronous: all elements, or with the zeros of the others.

        It is not where threads go on with the elements that they would have loaded: then they need not meet. In loops,
        what comes next in the same block has to touch the tile: there the threads meet, so that no round has to know
        which thread has written an element in the round before.
        """
        copy = self.copies.of(self.plan.nests[loop]) if self.copies is not None and loop in self.plan.nests else None
        if copy is None:
            return None
        root = self.plan.accesses.root(copy.store.array)
        user = self.first_user(root, following)
        if user is None or (self.loops and self.plan.how[user] is How.INSIDE):
            return None
        if all(isinstance(t.who, int) for t in self.plan.touches[user] if t.root is root):
            return None
        ends = [(x.loop.lo, x.low) for x in copy.nest.levels] + [(x.loop.hi, x.low + x.trips) for x in copy.nest.levels]
        return copy if loop in self.cleared or all(_is_constant(v, n, 1) for v, n in ends) else None

    def is_cleared_by_copy(self, loop: Op, following: Sequence[Op]) -> bool:
        """Whether ``loop`` fills an array with zeros that a copy touches next, and all of it: it writes them, too."""
        array, count = zeros_of(loop)
        if array is None:
            return False
        user = self.first_user(self.plan.accesses.root(array), following)
        if user is None or not self.fills(user, array, count):
            return False
        self.cleared.add(user)
        if self.copy_of(user, following[following.index(user) + 1 :]) is None:
            self.cleared.remove(user)
        return user in self.cleared

    def fills(self, loop: Op, array: Value, count: int) -> bool:
        """Whether ``loop`` is a copy of ``count`` elements to ``array``."""
        copy = self.copies.of(self.plan.nests[loop]) if self.copies is not None and loop in self.plan.nests else None
        return copy is not None and copy.store.array is array and copy.nest.size == count

    def first_user(self, root: Root, following: Sequence[Op]) -> Op | None:
        """Return the first op that touches ``root``."""
        return next((o for o in following if any(t.root is root for t in self.plan.touches[o])), None)

    def begin_copy(self, copy: Copy) -> None:
        """Let each thread begin to copy its part, and go on."""
        root = self.plan.accesses.root(copy.store.array)
        self.meet_before([Touch(root, WRITE, "any")])  # also by the thread itself, as copies are not in its order
        count, team = copy.nest.size // copy.width, self.plan.team

        def part(e: Value, _: Values) -> Values:
            self.copy_part(copy, e)
            return ()

        rounds, rest = divmod(count, team)
        if rest:
            guarded = lambda e, _: self.where([self.b.lt(e, count)], (), lambda: part(e, ()))  # noqa: E731
            self.rounds(rounds + 1, (), guarded)
        else:
            self.rounds(rounds, (), part)
        self.flying.add(root)

    def copy_part(self, copy: Copy, e: Value) -> None:
        """Begin to copy the neighbours that have number ``e``."""
        b, cloner, levels = self.b, Cloner(dict(self.mapping)), copy.nest.levels
        trips = [level.trips for level in levels]
        trips[-1] //= copy.width
        tests = list[Value]()
        for k, level in enumerate(levels):
            stride = math.prod(trips[k + 1 :])
            number = b.div(e, stride) if stride > 1 else e
            number = b.mod(number, trips[k]) if k else number
            i = b.cast(b.mul(number, copy.width) if level is levels[-1] else number, level.loop.lo.type)
            i = b.add(i, level.low) if level.low else i
            cloner.mapping[level.loop.body.params[0]] = i
            if level is not levels[-1]:
                tests += self.tests(level, i, cloner)
            for o in level.loop.body.ops[:-1]:
                if o.PURE:
                    self.keep(cloner.op(o))
        inside = []
        for k in range(copy.width):
            own = self.tests(levels[-1], b.add(i, k) if k else i, cloner)
            inside.append(functools.reduce(b.bit_and, [*tests, *own]) if tests or own else b.true())
        indices = tuple(map(cloner.value, copy.load.indices))
        place = b.mul(e, copy.width) if copy.width > 1 else e
        array, out = cloner.value(copy.load.array), self.value(copy.store.array)
        b.insert(ops.AsyncCopy(out, place, array, indices, tuple(inside)))

    def land(self) -> None:
        """Let the thread wait for the copies that it has begun."""
        if self.flying:
            self.b.insert(ops.AwaitCopies())
            self.flying.clear()

    # --- loops that are shared out ---

    def share(self, nest: Nest) -> None:
        """Let thread ``t`` do elements ``t``, ``t + team`` and so on of ``nest``, then add up what it sums."""
        outer = nest.levels[0].loop
        begun = [self.b.zero(v.type) for v in outer.init]
        rounds, rest = divmod(nest.size, self.plan.team)
        if rounds and not rest:
            sums = self.rounds(rounds, begun, lambda e, s: self.level(nest, 0, e, s, Cloner(dict(self.mapping))))
        elif rounds:
            sums = self.rounds(rounds + 1, begun, lambda e, s: self.guarded(nest, e, s))
        else:
            sums = self.guarded(nest, self.thread, begun)
        for r, v, mine in zip(outer.results, outer.init, sums, strict=True):
            self.mapping[r] = self.b.add(self.value(v), self.b.block_sum(mine))
        if sums:
            self.met()

    def rounds(self, count: int, begun: Values, body: Callable[[Value, Values], Values]) -> Values:
        """Run ``body`` for elements ``t``, ``t + team`` and so on, ``count`` of them."""
        b = self.b
        if count == 1:
            return body(self.thread, begun)
        r, sums = Value(int32), [Value(v.type) for v in begun]
        with b.into(Block([r, *sums])) as block:
            b.yield_(*body(b.add(b.mul(r, self.plan.team), self.thread), sums))
        return b.for_(b.index(0), b.index(count), b.index(1), begun, block)

    def where(self, tests: Sequence[Value], sums: Values, body: Callable[[], Values]) -> Values:
        """Run ``body`` where the tests hold; elsewhere the sums stay what they are."""
        if not tests:
            return body()
        b = self.b
        with b.into(Block()) as then:
            b.yield_(*body())
        with b.into(Block()) as orelse:
            b.yield_(*sums)
        return b.if_(functools.reduce(b.bit_and, tests), then, orelse)

    def guarded(self, nest: Nest, e: Value, sums: Values) -> Values:
        """Write what is done for element ``e``, if there is one."""
        inside = self.b.lt(e, nest.size)
        return self.where([inside], sums, lambda: self.level(nest, 0, e, sums, Cloner(dict(self.mapping))))

    def level(self, nest: Nest, k: int, e: Value, sums: Values, cloner: Cloner) -> Values:
        """Write what the loops of ``nest`` from number ``k`` on do for element ``e``."""
        b, level = self.b, nest.levels[k]
        loop, stride = level.loop, nest.strides[k]
        number = b.div(e, stride) if stride > 1 else e
        if k:
            number = b.mod(number, level.trips) if level.trips > 1 else b.index(0)
        i = b.mul(number, level.step) if level.step > 1 else number
        i = b.cast(i, loop.lo.type)
        i = b.add(i, level.low) if level.low else i
        cloner.mapping[loop.body.params[0]] = i
        return self.where(self.tests(level, i, cloner), sums, lambda: self.body(nest, k, e, sums, cloner))

    def tests(self, level: Level, i: Value, cloner: Cloner) -> list[Value]:
        """Write whether ``i`` is a number of a loop, as far as that is not known."""
        loop = level.loop
        first, end = level.low, level.low + level.trips * level.step
        bounds = [(self.b.ge, loop.lo, first), (self.b.lt, loop.hi, end)]
        if level.down:
            bounds = [(self.b.gt, loop.hi, first - 1), (self.b.le, loop.lo, end - 1)]
        return [test(i, cloner.value(v)) for test, v, n in bounds if not _is_constant(v, n, level.step)]

    def body(self, nest: Nest, k: int, e: Value, sums: Values, cloner: Cloner) -> Values:
        """Write the body of loop ``k`` of ``nest``."""
        loop = nest.levels[k].loop
        cloner.mapping.update(zip(loop.body.params[1:], sums, strict=True))
        last = k + 1 == len(nest.levels)
        for o in loop.body.ops[:-1]:
            if not last and o is nest.levels[k + 1].loop:
                sums = self.level(nest, k + 1, e, sums, cloner)
            else:
                self.keep(cloner.op(o))
        return [cloner.value(v) for v in loop.body.yielded] if last else sums


def _is_constant(v: Value, n: int, step: int) -> bool:
    known = ops.constant_value(v)
    return isinstance(known, int) and n - step < known <= n


__all__ = ["distribute", "fits", "shared_bytes"]
