"""Negative indices of arrays count from the end: where an index may be negative, the extent is added to it.

This is so for an index that depends on what a thread reads from memory, unless it is certain not to be negative. An
index that is made of the thread's own index, counters of loops and arguments alone (``x[i - 1]``, ``x[2 * i + n]``)
stays as it is and must be in range, so that neighbouring threads reach neighbouring elements.

Runs before ``lower_slices``, since an index into a slice counts from the end of the slice.

Before::

    kernel k(%x: array1d[int32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : int32
      %2 = load %x[%1] : int32
      store %x[%0], %2
      yield
    }

After::

    kernel k(%x: array1d[int32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : int32
      %2 = dim %x, 0 : int32
      %3 = add %1, %2 : int32
      %4 = constant 0 : int32
      %5 = lt %1, %4 : bool
      %6 = where %5, %3, %1 : int32
      %7 = load %x[%6] : int32
      store %x[%0], %7
      yield
    }
"""

from __future__ import annotations

from warp_like.analysis.ranges import Ranges, find_ranges
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Scalar, int32
from warp_like.passes.rewriter import Rewriter, rewrite

_READS = (ops.Load, ops.Atomic, ops.AtomicCas, ops.Native, ops.Call)
_INDEXED = (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas, ops.NestedArray, ops.View, ops.Slice)


def count_from_end(f: Function) -> Function:
    """Add the extent to indices of arrays that may be negative, in place."""
    if not _may_change(f):
        return f
    return rewrite(f, _Counter(values_read(f, set()), find_ranges(f), {}))


def _may_change(f: Function) -> bool:
    """Whether an index may depend on memory: most follow from the thread's index and the counters of loops alone."""
    waiting: list[Value] = []
    counters: set[Value] = set(f.params)
    for o in f.body.walk():
        if type(o) is ops.Apply or type(o) is ops.Constant:  # most are
            continue
        if isinstance(o, ops.Call):
            return True
        if isinstance(o, _INDEXED):
            waiting += o.start if isinstance(o, ops.Slice) else o.indices
        elif isinstance(o, ops.For):
            counters.add(o.body.params[0])
    seen = set(waiting)
    for v in waiting:  # which grows meanwhile
        if v.op is None and v not in counters:
            return True  # a loop carries it
        if v.op is not None:
            if v.op._REGIONS or isinstance(v.op, _READS):
                return True
            more = [x for x in v.op.operands() if x not in seen]
            seen.update(more)
            waiting += more
    return False


def values_read(f: Function, known: set[Value]) -> set[Value]:
    """Return the values that depend on memory or on those that are ``known``; a loop's counter is none of them."""
    found = set(known)
    before = -1
    while len(found) != before:  # once more where a loop carries such a value
        before = len(found)
        _follow(f.body, found)
    return found


def _follow(b: Block, found: set[Value]) -> None:
    for o in b.ops:
        for region in o.regions():
            _follow(region, found)
        match o:
            case ops.If():
                pairs = [*zip(o.results, o.then.yielded, strict=True), *zip(o.results, o.orelse.yielded, strict=True)]
            case ops.For():
                carried = o.body.params[1:]
                pairs = [*zip(carried, o.init, strict=True), *zip(carried, o.body.yielded, strict=True)]
                pairs += zip(o.results, carried, strict=True)
            case ops.While():
                carried = o.cond.params
                pairs = [*zip(carried, o.init, strict=True), *zip(carried, o.body.yielded, strict=True)]
                pairs += [*zip(o.body.params, carried, strict=True), *zip(o.results, carried, strict=True)]
            case _:
                depends = isinstance(o, _READS) or not found.isdisjoint(o.operands())
                pairs = [(r, r) for r in o.results if depends]
                found.update(r for r, _ in pairs)
        found.update(target for target, source in pairs if source in found)


class _Counter(Rewriter):
    def __init__(self, read: set[Value], ranges: Ranges, callees: dict[Function, Function]) -> None:
        super().__init__()
        self.read = read
        self.ranges = ranges
        self.callees = callees

    def visit(self, o: Op) -> None:
        match o:
            case ops.Load() | ops.Store() | ops.Atomic() | ops.AtomicCas() | ops.NestedArray() | ops.View():
                with at(o.loc):
                    o.indices = tuple(self.counted(o.array, axis, i) for axis, i in enumerate(o.indices))
            case ops.Slice():
                with at(o.loc):
                    o.start = tuple(
                        i if axis in o.kept else self.counted(o.array, axis, i) for axis, i in enumerate(o.start)
                    )
            case ops.Call():
                o.callee = self.callee(o.callee)
        super().visit(o)

    def callee(self, f: Function) -> Function:
        """A function with a gradient or a replay of its own, which is inlined later; its arguments may be read."""
        if f not in self.callees:
            self.callees[f] = new = self.inside(f)
            new.gradient = f.gradient and self.inside(f.gradient)
            new.replay = f.replay and self.inside(f.replay)
        return self.callees[f]

    def inside(self, f: Function) -> Function:
        new = clone_function(f)
        read = values_read(new, {p for p in new.params if isinstance(p.type, Scalar)})
        return rewrite(new, _Counter(read, find_ranges(new), self.callees))

    def counted(self, array: Value, axis: int, index: Value) -> Value:
        """``index`` counted from the start."""
        if not self.may_count_from_end(index):
            return index
        while isinstance(array.op, ops.View) and array.op.field is not None:
            array = array.op.array  # the arrays of all fields have the extents of their structs' array
        t = index.type
        assert isinstance(t, Scalar)
        if t.bits < 32:
            index = self.b.cast(index, int32)
            t = int32
        from_end = self.b.add(index, self.b.dim(array, axis, t))
        return self.b.select(self.b.lt(index, 0), from_end, index)

    def may_count_from_end(self, index: Value) -> bool:
        t = index.type
        if not isinstance(t, Scalar) or not t.is_signed:
            return False
        return index in self.read and self.ranges.of(index)[0] < 0
