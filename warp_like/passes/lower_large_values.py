"""Large values (``ir.types.is_large``) into memory of the thread's own, whole operations into loops.

Values never change, memory does. So each value gets a buffer, and shares it where that can't be seen: an ``insert``
into a value that is dead afterwards happens in place, a loop's carried value stays in one buffer, a loop that works
element by element overwrites a dead operand (``pointwise``), and buffers whose value is dead are used again. An element
that is loaded stays where it is as long as nothing writes to memory and few of its components are read. A value whose
components are all the same needs no memory.

Relies on a function whose builtins have bodies no more (``expand``), which has written operations on components as
loops. Leaves no large value, but in native code, prints and the like, which get the components one by one.

Before::

    kernel k(%x: array1d[vec100[float32]], %y: array1d[vec100[float32]]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : vec100[float32]
      %2 = constant 0 : int32
      %3 = extract %1[%2] : float32
      %4 = constant 1 : int32
      %5 = constant 100 : int32
      %6 = constant 1 : int32
      %7 = for %9 in %4, %5, %6 (%8 = %3) : float32 {
        %10 = extract %1[%9] : float32
        %11 = add %8, %10 : float32
        yield %11
      }
      %12 = constant 0 : int32
      %13 = insert %1[%12], %7 : vec100[float32]
      store %y[%0], %13
      yield
    }

After::

    kernel k(%x: array1d[vec100[float32]], %y: array1d[vec100[float32]]) {
      %0 = local (101,) not zeroed : array1d[float32]
      %1 = tid 0 of 1 : int32
      %2 = components %x : array2d[float32]
      %3 = constant 0 : int32
      %4 = load %2[%1, %3] : float32
      %5 = constant 1 : int32
      %6 = constant 100 : int32
      %7 = constant 1 : int32
      %8 = for %10 in %5, %6, %7 (%9 = %4) : float32 {
        %11 = load %2[%1, %10] : float32
        %12 = add %9, %11 : float32
        yield %12
      }
      %13 = constant 0 : int32
      %14 = constant 0 : int32
      %15 = constant 100 : int32
      %16 = constant 1 : int32
      for %17 in %14, %15, %16 {
        %18 = load %2[%1, %17] : float32
        store %0[%17], %18
        yield
      }
      %19 = constant 0 : int32
      %20 = add %13, %19 : int32
      store %0[%20], %8
      %21 = components %y : array2d[float32]
      %22 = constant 0 : int32
      %23 = constant 100 : int32
      %24 = constant 1 : int32
      for %25 in %22, %23, %24 {
        %26 = load %0[%25] : float32
        store %21[%1, %25], %26
        yield
      }
      yield
    }
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from warp_like.analysis.ranges import find_ranges
from warp_like.base.loc import at
from warp_like.builtins.loops import extents
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Scalar, Type, element_count, is_large, scalar_of
from warp_like.passes.components import (
    Buffers,
    InMemory,
    Place,
    Same,
    Unset,
    copy,
    copy_at_once,
    each,
    load,
    position,
    store,
)
from warp_like.passes.lifetimes import Lifetimes, reads
from warp_like.passes.pointwise import overwritable
from warp_like.passes.rewriter import Rewriter, prune_results

MOST_SELECTED = 16
"""The most components of a small vector or matrix that is read at a dynamic index where it is, in a function that has
large ones; others are in memory, too."""

MOST_STORED = 16
"""The most components of a constant that are stored one by one, beside those that are all the same. Others are data."""


def lower_large_values(f: Function, *, tight: bool = False) -> Function:
    """Put the large values of ``f`` into memory, in place; if ``tight``, into as little as possible."""
    return _Lowerer(f, tight).function()


def _types_in_memory(f: Function) -> Callable[[Type], bool]:
    """Which types' values are put into memory: large ones, and those that loops over large ones index."""
    indexed = {
        o.x.type
        for o in f.body.walk()
        if isinstance(o, (ops.Extract, ops.Insert))
        and element_count(o.x.type) > MOST_SELECTED
        and any(ops.constant_value(i) is None for i in o.indices)
    }
    return lambda t: t in indexed or is_large(t)


class _Lowerer(Rewriter):
    def __init__(self, f: Function, tight: bool) -> None:
        super().__init__()
        self.f = f
        self.in_memory = _types_in_memory(f)
        self.lifetimes = Lifetimes(f, self.in_memory)
        self.ranges = find_ranges(f)
        self.buffers = Buffers(tight)
        self.places: dict[Value, Place] = {}
        self.reads = reads(f.body)
        self.used = {v for o in f.body.walk() for v in o.operands()}
        self.replaced = {
            o: inserts
            for o in f.body.walk()
            if isinstance(o, (ops.Store, ops.Atomic)) and self.in_memory(o.value.type)
            if (inserts := self.lifetimes.replaced_components(o))
        }
        self.left_out = {o for inserts in self.replaced.values() for o in inserts}

    def function(self) -> Function:
        start = Block()
        with self.b.into(start):
            for p in self.f.params:
                if self.in_memory(p.type):
                    self.places[p] = self.parameter(p)
        self.block(self.f.body)
        self.f.body.ops = [*self.buffers.made, *start.ops, *self.f.body.ops]
        return self.f

    def parameter(self, p: Value) -> InMemory:
        scalar = scalar_of(p.type)
        assert scalar is not None
        if is_large(p.type):
            return InMemory(self.b.insert(ops.Components(p), Array(scalar, 1)).result)
        target = self.buffers.take(p.type, p)
        self.buffers.hand_over(target, Value(p.type))  # for the whole function
        for k, x in enumerate(self.b.components(p)):
            store(self.b, target, self.b.index(k), x)
        return target

    # --- blocks ---

    def splice(self, sequence: Sequence[Op]) -> None:
        for o in sequence:
            with at(o.loc):
                o.map_operands(self.value)
                self.visit(o)
            if not isinstance(o, ops.Yield):  # what is yielded, the op around it takes over
                for v in self.lifetimes.dead_after(o):
                    self.buffers.release(v, self.places.get(v))

    def visit(self, o: Op) -> None:
        match o:
            case ops.If():
                self.branch(o)
            case ops.For():
                self.loop(o, [o.body])
            case ops.While():
                self.loop(o, [o.cond, o.body])
            case ops.Yield():
                self.keep(o)
            case _ if not any(self.in_memory(v.type) for v in (*o.operands(), *o.results)):
                self.keep(o)
            case _:
                self.lower(o)

    def lower(self, o: Op) -> None:
        match o:
            case ops.Constant():
                self.constant(o)
            case ops.Empty():
                self.places[o.result] = Unset()
            case ops.Make():
                self.make(o)
            case ops.Fill():
                self.fill_with(o)
            case ops.Cast():
                self.cast(o)
            case ops.Extract():
                self.extract(o)
            case ops.Insert() if o in self.left_out:
                pass
            case ops.Insert():
                self.insert(o)
            case ops.Load():
                self.load(o)
            case ops.Store() | ops.Atomic() if o in self.replaced:
                for inserted in self.replaced[o]:
                    self.write_component(o, inserted)
            case ops.Store():
                self.store(o)
            case ops.Atomic() | ops.AtomicCas():
                self.atomic(o)
            case ops.Push():
                self.push(o)
            case ops.Pop():
                self.pop(o)
            case ops.Contract():
                self.contract(o)
            case _:
                self.by_components(o)

    # --- places ---

    def new(self, v: Value) -> InMemory:
        """Return memory of its own for ``v``."""
        place = self.places[v] = self.buffers.take(v.type, v)
        return place

    def component(self, v: Value, number: Value) -> Value:
        """The component of ``v`` at a flat position."""
        return load(self.b, self.places[v], number)

    def fill(self, v: Value, component: Callable[[Value], Value]) -> None:
        """Give ``v`` these components, each at its flat position."""
        place = self.new(v)
        each(self.b, element_count(v.type), lambda i: store(self.b, place, i, component(i)))

    def spread(self, v: Value, scalars: Sequence[Value]) -> None:
        """Give ``v`` these components."""
        place = self.new(v)
        for k, x in enumerate(scalars):
            store(self.b, place, self.b.index(k), x)

    def elements(self, array: Value) -> Value:
        """The components of the elements of ``array``."""
        assert isinstance(array.type, Array)
        scalar = scalar_of(array.type.dtype)
        assert scalar is not None
        return self.b.insert(ops.Components(array), Array(scalar, array.type.ndim + 1)).result

    # --- values ---

    def constant(self, o: ops.Constant) -> None:
        t = scalar_of(o.result.type)
        assert t is not None
        keys = [repr(x) for x in o.value]  # of which -0.0 is another than 0.0
        common = Counter(keys).most_common(1)[0][0]
        most = self.b.constant(o.value[keys.index(common)], t)
        if keys.count(common) == len(keys):
            self.places[o.result] = Same(most)
            return
        if len(keys) - keys.count(common) > MOST_STORED and not t.is_bool:
            table = ops.Table(tuple(o.value))
            self.places[o.result] = InMemory(self.b.insert(table, Array(t, 1)).result)
            return
        self.fill(o.result, lambda i: most)
        place = self.places[o.result]
        assert isinstance(place, InMemory)
        for k, x in enumerate(o.value):
            if keys[k] != common:
                store(self.b, place, self.b.index(k), self.b.constant(x, t))

    def make(self, o: ops.Make) -> None:
        if len(set(o.elements)) == 1:
            self.places[o.result] = Same(o.elements[0])
        else:
            self.spread(o.result, o.elements)

    def fill_with(self, o: ops.Fill) -> None:
        if isinstance(o.x.type, Scalar):
            self.places[o.result] = Same(o.x)
            return
        size = element_count(o.x.type)
        in_memory = self.in_memory(o.x.type)
        if in_memory and not isinstance(self.places[o.x], InMemory):
            self.places[o.result] = self.places[o.x]
            return
        place, parts = self.new(o.result), () if in_memory else self.b.components(o.x)

        def put(i: Value) -> None:
            first = self.b.mul(i, size)
            if in_memory:
                each(self.b, size, lambda k: store(self.b, place, self.b.add(first, k), self.component(o.x, k)))
            for k, x in enumerate(parts):
                store(self.b, place, self.b.add(first, k), x)

        each(self.b, element_count(o.result.type) // size, put)

    def cast(self, o: ops.Cast) -> None:
        to = scalar_of(o.result.type)
        assert to is not None
        source = self.places[o.x]
        if isinstance(source, Same):
            self.places[o.result] = Same(self.b.cast(source.component, to))
        else:
            self.fill(o.result, lambda i: self.b.cast(load(self.b, source, i), to))

    def extract(self, o: ops.Extract) -> None:
        if not self.in_memory(o.x.type):  # a row of a matrix in registers
            self.by_components(o)
            return
        where = position(self.b, self.ranges, o.x.type, o.indices, reads=True)

        def component(k: Value) -> Value:
            return self.component(o.x, self.b.add(where.number, self.b.cast(k, where.number.type)))

        if self.in_memory(o.result.type):
            self.fill(o.result, component)
        elif where.width == 1 and o.result.type == scalar_of(o.x.type):
            self.replace(o, [self.component(o.x, where.number)])
        else:
            made = [component(self.b.index(k)) for k in range(where.width)]
            self.replace(o, [self.b.make(o.result.type, made)])

    def insert(self, o: ops.Insert) -> None:
        if not self.in_memory(o.x.type):
            self.by_components(o)
            return
        where = position(self.b, self.ranges, o.x.type, o.indices, reads=False)
        source, count = self.places[o.x], element_count(o.x.type)
        if self.buffers.owns(o.x, source) and self.lifetimes.dies_at(o.x, o):
            assert isinstance(source, InMemory)
            self.places[o.result] = target = source
            self.buffers.hand_over(target, o.result)
        else:
            target = self.new(o.result)
            copy(self.b, count, source, target)

        if where.ok is not None:
            self.buffers.extend(target)

        def put(k: Value, x: Value) -> None:
            number = self.b.add(where.number, self.b.cast(k, where.number.type))
            if where.ok is not None:  # behind the others
                number = self.b.select(where.ok, number, self.b.constant(count, number.type))
            store(self.b, target, number, x)

        if self.in_memory(o.value.type):
            each(self.b, where.width, lambda k: put(k, self.component(o.value, k)))
        else:
            for k, x in enumerate(self.b.components(o.value)):
                put(self.b.index(k), x)

    def write_component(self, o: ops.Store | ops.Atomic, inserted: ops.Insert) -> None:
        """Store, or update by, nothing but the number or the row that was inserted."""
        array = self.elements(o.array)
        indices = [self.value(i) for i in inserted.indices]
        where = position(self.b, self.ranges, inserted.x.type, indices, reads=False)
        value = self.value(inserted.value)

        with self.b.into(Block()) as inside:
            for k, x in enumerate(self.b.components(value)):
                number = self.b.add(where.number, self.b.constant(k, where.number.type)) if k else where.number
                if isinstance(o, ops.Store):
                    self.b.store(array, (*o.indices, number), x)
                else:
                    self.b.atomic(o.kind, array, (*o.indices, number), x)
        if where.ok is None:
            self.b.block.ops += inside.ops
            return
        sides = [inside, Block()]
        for block in sides:
            with self.b.into(block):
                self.b.yield_()
        self.b.if_(where.ok, *sides)

    # --- memory ---

    def load(self, o: ops.Load) -> None:
        place = InMemory(self.elements(o.array), o.indices)
        count = element_count(o.result.type)
        if self.lifetimes.is_unwritten(o) and self.reads[o.result] <= 2 * count:
            self.places[o.result] = place
        else:
            copy(self.b, count, place, self.new(o.result))

    def store(self, o: ops.Store) -> None:
        copy(self.b, element_count(o.value.type), self.places[o.value], InMemory(self.elements(o.array), o.indices))

    def atomic(self, o: ops.Atomic | ops.AtomicCas) -> None:
        array = self.elements(o.array)
        old = self.new(o.result) if o.result in self.used else None

        def update(i: Value) -> None:
            indices, value = (*o.indices, i), self.component(o.value, i)
            if isinstance(o, ops.Atomic):
                was = self.b.atomic(o.kind, array, indices, value)
            else:
                swap = ops.AtomicCas(array, indices, self.component(o.compare, i), value)
                was = self.b.insert(swap, value.type).result
            if old is not None:
                store(self.b, old, i, was)

        each(self.b, element_count(o.value.type), update)

    def contract(self, o: ops.Contract) -> None:
        """Add the product to the tile that it is added to where that lies, if nobody needs it any more."""
        copies: list[tuple[Value, InMemory]] = []
        x, y = (self.factor(v, copies) for v in (o.x, o.y))
        plus = o.plus[0] if o.plus else None
        place = self.places[plus] if plus is not None else Unset()
        if (
            plus is not None
            and plus not in (o.x, o.y)
            and self.buffers.owns(plus, place)
            and self.lifetimes.dies_at(plus, o)
        ):
            assert isinstance(place, InMemory)
            target = self.places[o.result] = place
            self.buffers.hand_over(target, o.result)
        else:
            target = self.new(o.result)
            copy(self.b, element_count(o.result.type), place, target)
        (m, n), depth = extents(o.result.type), extents(o.x.type)[0 if o.turned_x else 1]
        turned = o.turned_x, o.turned_y
        arrays = target.array, x.array, y.array
        self.b.insert(ops.ContractInMemory(*arrays, (m, depth, n), plus is not None, o.unit, *turned))
        for v, place in copies:
            self.buffers.release(v, place)

    def factor(self, v: Value, copies: list[tuple[Value, InMemory]]) -> InMemory:
        """Memory of the thread's own that holds ``v``: one of ``copies``, where it lies elsewhere."""
        place = self.places[v]
        if isinstance(place, InMemory) and self.buffers.are_memory_of(place):
            return place
        owner = Value(v.type)
        made = self.buffers.take(v.type, owner)
        copies.append((owner, made))
        copy(self.b, element_count(v.type), place, made)
        return made

    def push(self, o: ops.Push) -> None:
        each(self.b, element_count(o.value.type), lambda i: self.push_one(o.slot, self.component(o.value, i)))

    def push_one(self, slot: int, x: Value) -> None:
        self.b.insert(ops.Push(slot, x))

    def pop(self, o: ops.Pop) -> None:
        place, scalar = self.new(o.result), scalar_of(o.result.type)
        assert scalar is not None
        last = element_count(o.result.type) - 1

        def take(i: Value) -> None:
            x = self.b.insert(ops.Pop(o.slot), scalar).result
            store(self.b, place, self.b.sub(last, i), x)

        each(self.b, last + 1, take)

    def by_components(self, o: Op) -> None:
        """Give ``o`` the components of its operands one by one, and take those of its results."""
        o.map_operands(self.whole)
        self.keep(o)
        for r in o.results:
            if self.in_memory(r.type):
                self.spread(r, self.b.components(r))

    def whole(self, v: Value) -> Value:
        """``v`` made of its components."""
        if not self.in_memory(v.type):
            return v
        parts = [self.component(v, self.b.index(k)) for k in range(element_count(v.type))]
        return self.b.make(v.type, parts)

    # --- control flow ---

    def at_end(self, block: Block, moves: Sequence[tuple[Value, InMemory]]) -> None:
        """Copy values to where the op around ``block`` wants them, at its end."""
        end = block.ops.pop()
        for v, target in moves:  # so that none of them is spare
            self.buffers.hand_over(target, Value(v.type))
        spares: list[tuple[Value, InMemory]] = []

        def spare(k: int) -> InMemory:
            v = Value(moves[k][0].type)
            spares.append((v, self.buffers.take(v.type, v)))
            return spares[-1][1]

        with at(end.loc), self.b.into(block):
            copy_at_once(self.b, [(element_count(v.type), self.places[v], target) for v, target in moves], spare)
        block.ops.append(end)
        for v, place in spares:
            self.buffers.release(v, place)

    def branch(self, o: ops.If) -> None:
        wide = [k for k, r in enumerate(o.results) if self.in_memory(r.type)]
        before = self.buffers.owners()
        after: list[dict[Value, Value]] = []
        candidates: dict[int, list[InMemory]] = {k: [] for k in wide}
        for r in o.regions():
            self.buffers.restore(before)
            self.block(r)
            after.append(self.buffers.owners())
            for k in wide:
                v, place = r.yielded[k], self.places[r.yielded[k]]
                if isinstance(place, InMemory) and self.buffers.owns(v, place) and self.lifetimes.is_made_in(v, r):
                    candidates[k].append(place)
        targets: dict[int, InMemory] = {}
        for k in wide:
            own = [place for place in candidates[k] if place not in targets.values()]
            targets[k] = own[0] if own else self.buffers.take(o.results[k].type, o.results[k])
            self.buffers.hand_over(targets[k], o.results[k])  # it may be free after the last region
        for r, owners in zip(o.regions(), after, strict=True):
            self.buffers.restore(owners)
            self.at_end(r, [(r.yielded[k], targets[k]) for k in wide])
        self.finish(o, targets, o.regions())

    def finish(self, o: Op, targets: dict[int, InMemory], regions: Sequence[Block]) -> None:
        """Let the results of ``o`` have their buffers; those of values that were copied there are free."""
        for k, place in targets.items():
            self.buffers.hand_over(place, o.results[k])
            self.places[o.results[k]] = place
        for r in regions:
            for v in r.yielded:
                if v in self.places and self.lifetimes.is_made_in(v, r):
                    self.buffers.release(v, self.places[v])
        prune_results(o, [k not in targets for k in range(len(o.results))])
        self.keep(o)

    def overwritten(self, o: ops.For, k: int) -> InMemory | None:
        """The buffer of a value of which ``o`` makes its result element by element, and that nobody needs later."""
        if not isinstance(self.places[o.init[k]], Unset):
            return None
        for v in overwritable(o, k):
            place, is_alike = self.places.get(v), scalar_of(v.type) == scalar_of(o.results[k].type)
            if (
                isinstance(place, InMemory)
                and self.buffers.owns(v, place)
                and is_alike
                and self.lifetimes.dies_at(v, o)
            ):
                return place
        return None

    def loop(self, o: ops.For | ops.While, regions: Sequence[Block]) -> None:
        first = 1 if isinstance(o, ops.For) else 0
        wide = [k for k, r in enumerate(o.results) if self.in_memory(r.type)]
        targets: dict[int, InMemory] = {}
        moves: list[tuple[int, Place, InMemory]] = []
        for k in wide:
            init, carried = o.init[k], o.body.params[first + k]
            place = self.places[init]
            dies = self.lifetimes.dies_at(init, o) and not self.lifetimes.uses(o, init)
            if dies and self.buffers.owns(init, place):
                assert isinstance(place, InMemory)
                targets[k] = place
                self.buffers.hand_over(place, carried)
            elif isinstance(o, ops.For) and (old := self.overwritten(o, k)) is not None:
                targets[k] = old
                self.buffers.hand_over(old, carried)
            else:
                targets[k] = self.buffers.take(init.type, carried)
                moves.append((element_count(init.type), place, targets[k]))
            for r in regions:
                self.places[r.params[first + k]] = targets[k]
        for move in moves:
            copy(self.b, *move)
        for r in regions:
            self.block(r)
        yielded = o.body.yielded
        self.at_end(o.body, [(yielded[k], targets[k]) for k in wide])
        self.finish(o, targets, [o.body])


__all__ = ["lower_large_values"]
