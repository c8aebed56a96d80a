"""Ops with effects, on memory and others: in lanes they happen for the lanes of a mask.

An element that all lanes refer to is loaded once, and written by the last lane alone. Views at indices that differ
between lanes are no arrays there; their indices go in front of those of each access. Arrays that elements hold may be
others in each lane, with extents of their own (``Lanes.scattered``). Nobody knows which of them are one, or overlap.
"""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Op, Value
from warp_like.ir.types import Array, Lanes, is_private, is_scattered, lane_type, scalar_of
from warp_like.passes.spmd.speculation import SpeculatedIndices
from warp_like.passes.spmd.values import Element, NotWidenable


class Accesses(SpeculatedIndices):
    """Widens ops that reach memory."""

    # --- arrays ---

    def view(self, o: ops.View) -> None:
        if self.strides[o.result] == 0:
            self.copy(o, self.scalar, [o.result.type])
            return
        array, leading = self.array(o.array)
        if o.field is not None:  # the fields of all elements, of which the indices choose one
            whole, part = lane_type(array.type), o.result.type
            assert isinstance(whole, Array)
            assert isinstance(part, Array)
            t = self.like_array(array, Array(part.dtype, whole.ndim))
            array = self.b.insert(ops.View(array, (), o.field), t).result
        self.views[o.result] = array, leading + o.indices

    def slice(self, o: ops.Slice) -> None:
        if self.strides[o.result] == 0:
            self.copy(o, self.scalar, [o.result.type])
            return
        array, leading = self.array(o.array)
        places = (*o.start, *o.count, *o.step)
        if leading or not is_private(array.type) or any(self.strides[v] != 0 for v in places):
            raise NotWidenable("threads slice arrays at places of their own")
        self.copy(o, self.scalar, [Lanes(o.result.type, self.width)])

    def components(self, o: ops.Components) -> None:
        array, leading = self.array(o.array)
        t = lane_type(array.type)
        ndim = t.ndim if isinstance(t, Array) else 0
        assert isinstance(o.result.type, Array)
        part = self.b.insert(ops.Components(array), self.like_array(array, Array(o.result.type.dtype, ndim + 1))).result
        if leading:
            self.views[o.result] = part, leading
        else:
            self.map[o.result] = part

    def nested_array(self, o: ops.NestedArray) -> None:
        array, leading = self.array(o.array)
        indices = leading + o.indices
        if not isinstance(array.type, Lanes) and all(self.strides[i] == 0 for i in indices):
            self.insert(ops.NestedArray(array, tuple(map(self.scalar, indices))), o.results, [o.result.type])
            return
        if not self.scattered or is_private(array.type):
            raise NotWidenable("each thread works on arrays of its own, which elements of an array hold")
        made = ops.NestedArray(array, tuple(map(self.index, indices)), (self.mask,))
        self.insert(made, o.results, [Lanes(o.result.type, self.width, True)])

    def dim(self, o: ops.Dim) -> None:
        array, leading = self.array(o.array)
        if is_private(array.type):
            raise NotWidenable("threads choose between arrays")  # else its extents are constants
        t = self.wide(o.result.type) if is_scattered(array.type) else o.result.type
        self.insert(ops.Dim(array, o.axis + len(leading)), o.results, [t])

    def array(self, v: Value) -> Element:
        """The array that ``v`` is a part of, and the indices in front."""
        if v in self.views:
            return self.views[v]
        if v not in self.map:
            raise NotWidenable("threads choose between arrays")
        return self.map[v], ()

    def element(self, o: ops.Load | ops.Store | ops.Atomic | ops.AtomicCas) -> tuple[Value, tuple[Value, ...], bool]:
        """The array, the indices as they were, and whether all lanes mean one element."""
        array, leading = self.array(o.array)
        indices = leading + o.indices
        one = not isinstance(array.type, Lanes) and all(self.strides[i] == 0 for i in indices)
        return array, indices, one

    def load(self, o: ops.Load) -> None:
        array, indices, one = self.element(o)
        if one:
            self.insert(ops.Load(array, tuple(map(self.scalar, indices))), o.results, [o.result.type])
            if self.strides[o.result] is None:  # uniform, though found through a view that looked otherwise
                self.map[o.result] = self.broadcast(self.map[o.result])
            return

        def access(at: tuple[Value, ...]) -> tuple[Value, ...]:
            return self.b.insert(ops.Load(array, at, (self.mask,)), self.wide(o.result.type)).results

        if isinstance(array.type, Lanes):
            made = access(tuple(map(self.index, indices)))
        else:
            made = self.speculated_access(indices, access)
        self.bind_all(o.results, made)

    def store(self, o: ops.Store) -> None:
        array, indices, one = self.element(o)
        if one:
            value = self.scalar(o.value) if self.strides[o.value] == 0 else self.lane_reduce("last", o.value)
            self.b.insert(ops.Store(array, tuple(map(self.scalar, indices)), value))
            return
        value = self.lanes(o.value)

        def access(at: tuple[Value, ...]) -> tuple[Value, ...]:
            return self.b.insert(ops.Store(array, at, value, (self.mask,))).results

        if isinstance(array.type, Lanes):
            access(tuple(map(self.index, indices)))
        else:
            self.speculated_access(indices, access)

    def lane_reduce(self, kind: str, v: Value) -> Value:
        """``v`` reduced over the lanes of the mask."""
        return self.b.insert(ops.LaneReduce(kind, self.lanes(v), (self.mask,)), v.type).result

    def atomic(self, o: ops.Atomic) -> None:
        array, old, one = self.element(o)
        indices = tuple(map(self.index, old))
        kind, scalar = KINDS[o.kind], scalar_of(o.value.type)
        if not kind.takes:
            self.require_no_waiting(o)
        reducible = kind.reduction and scalar is not None and scalar.bits >= 32 and o.result not in self.used
        if one and reducible and o.array not in self.reduced:
            self.b.atomic(o.kind, array, indices, self.lane_reduce(kind.reduction, o.value))
            return
        new = ops.Atomic(o.kind, array, indices, self.lanes(o.value), (self.mask,))
        self.insert(new, o.results, [self.wide(o.result.type)])

    def compare_and_swap(self, o: ops.AtomicCas) -> None:
        self.require_no_waiting(o)
        array, indices, _ = self.element(o)
        if is_scattered(array.type):
            raise NotWidenable("threads compare and swap in arrays of their own, which elements of an array hold")
        compare, value = self.index(o.compare), self.index(o.value)
        new = ops.AtomicCas(array, tuple(map(self.index, indices)), compare, value, (self.mask,))
        self.insert(new, o.results, [self.wide(o.result.type)])

    def stack(self, o: ops.Push | ops.Pop) -> None:
        if self.diverged and not self.stacks.mirrored:
            raise NotWidenable("it takes back what it has saved in an order of its own")
        if isinstance(o, ops.Push):
            self.b.insert(ops.Push(o.slot, self.like(o.value, self.slots[o.slot])))
            return
        stride = self.strides[o.result]
        self.insert(ops.Pop(o.slot), o.results, [o.result.type if stride is not None else self.wide(o.result.type)])

    # --- lane by lane ---

    def lane_by_lane(self, o: ops.Search | ops.Outlined | ops.Native | ops.Print | ops.Check | ops.Breakpoint) -> None:
        """An op that runs once for each lane; what is uniform it takes as it is."""
        self.require_no_waiting(o)
        self.copy(o, self.index, [self.wide(r.type) for r in o.results])
        self.b.block.ops[-1].mask = (self.mask,)  # type: ignore[attr-defined]

    def require_no_waiting(self, o: Op) -> None:
        """Threads that leave a loop by what others wrote may wait for these; in lanes they would do so for ever."""
        if self.leaving and any(r in self.used for r in o.results):
            raise NotWidenable("threads may wait for each other in a loop around an atomic")
