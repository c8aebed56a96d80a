"""How each value changes from one thread to its neighbour along the last dimension of the grid.

A value's *stride* is 0 where all lanes have the same one (it is uniform), ``k`` where an integer grows by ``k`` from
lane to lane, and None where nothing is known. Loads at uniform indices are uniform: threads have no order, so all lanes
may read at one time.

What lanes carry through a loop that they leave at different times keeps its stride inside, where the lanes at work have
all made the same number of iterations; it has none after the loop. A loop that ends for all lanes at one time (see
``stacks``) has no such values, since lanes join it at different times.

Integers wrap, so a stride is one modulo 2**bits: lane ``n`` has the first lane's value plus ``n`` times the stride.
That is so of sums, differences and multiples whatever the values are, and of casts to as many or fewer bits. A cast to
more bits keeps a stride only where the lanes' values provably don't wrap (``analysis.ranges``).

This is not what ``analysis/indices.py`` finds, which holds between any two threads of a grid and knows nothing of loads
and of values that loops carry: neighbours that run in step know more of each other, as long as they do.

Example::

    kernel k(%x: array1d[float32], %k: int32) {
      # %x: stride 0
      # %k: stride 0
      %0 = tid 0 of 1 : int32                   # stride 1
      %1 = constant 2 : int32                   # stride 0
      %2 = mul %0, %1 : int32                   # stride 2
      %3 = add %0, %k : int32                   # stride 1
      %4 = load %x[%3] : float32                # stride None
      %5 = mul %k, %k : int32                   # stride 0
      %6 = load %x[%5] : float32                # stride 0
      %7 = add %4, %6 : float32                 # stride None
      store %x[%2], %7
      yield
    }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warp_like.analysis.intervals import Interval
from warp_like.analysis.ranges import Ranges
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Scalar

Stride = int | None

MAX_LANES = 64


def find_strides(
    f: Function, reverse_aligned: Collection[Op] = (), axis: int = -1, varying: Collection[Value] = ()
) -> dict[Value, Stride]:
    """Return the stride of every value of ``f``; the loops ``reverse_aligned`` end for all lanes at one time.

    The parameters ``varying`` have none.

    With another ``axis`` than the grid's last one, neighbours along that one are meant.
    """
    finder = _Finder(f, reverse_aligned, axis)
    finder.strides.update(dict.fromkeys(varying))
    while True:
        finder.slots_changed = False
        finder.block(f.body)
        if not finder.slots_changed:
            return finder.strides


class _Finder:
    def __init__(self, f: Function, reverse_aligned: Collection[Op], axis: int) -> None:
        self.reverse_aligned = reverse_aligned
        self.axis = axis
        self.strides: dict[Value, Stride] = dict.fromkeys(f.params, 0)
        self.slots: dict[int, Stride] = {}
        self.slots_changed = False
        self.ranges = Ranges()

    def block(self, b: Block) -> list[Stride]:
        """Visit ``b``; return the strides of what it yields."""
        for o in b.ops[:-1]:
            self.visit(o)
        return [self.strides[v] for v in b.yielded]

    def set(self, values: Sequence[Value], strides: Sequence[Stride]) -> None:
        self.strides.update(zip(values, strides, strict=True))

    def visit(self, o: Op) -> None:
        if not o._REGIONS and type(o) is not ops.Push:
            stride = self.stride(o)
            for r in o.results:
                self.strides[r] = stride
            return
        match o:
            case ops.If():
                self.if_(o)
            case ops.For():
                self.for_(o)
            case ops.While():
                self.while_(o)
            case ops.Push():
                self.save(o.slot, self.strides[o.value])

    def stride(self, o: Op) -> Stride:
        """The stride of the results of an op without blocks."""
        given = [self.strides[v] for v in o.operands()]
        if isinstance(o, ops.Apply):  # most are
            t = int_type(o.results)
            if t is not None:
                return modulo(_arithmetic(o, given), t)
            return 0 if given.count(0) == len(given) else None
        match o:
            case ops.Tid():
                return 1 if o.axis - o.ndim == self.axis else 0
            case ops.Atomic() | ops.AtomicCas() | ops.Native():
                return None  # each lane sees another old value
            case ops.LocalArray():
                return None  # each lane has its own
            case ops.Dim(array=array):  # threads choose between arrays that elements hold alone
                base = ops.base_array(array)
                return self.strides[base] if isinstance(base.op, ops.NestedArray) else 0
            case ops.Pop():
                return self.slots.get(o.slot, 0)
            case ops.Cast(x=x) if (
                (t := int_type(o.results)) is not None and given[0] and self.keeps_stride(x, t, given[0])
            ):
                return modulo(given[0], t)
        return 0 if all(s == 0 for s in given) else None

    def keeps_stride(self, x: Value, to: Scalar, stride: int) -> bool:
        """Whether lanes of ``x``, an integer, differ by ``stride`` also once they are cast to type ``to``."""
        t = x.type
        assert isinstance(t, Scalar)
        if to.bits <= t.bits:
            return True
        return stride_is_exact(self.ranges.of(x), stride, t)

    def save(self, slot: int, stride: Stride) -> None:
        joined = join(self.slots.get(slot, stride), stride)
        if slot not in self.slots or self.slots[slot] != joined:
            self.slots[slot] = joined
            self.slots_changed = True

    def if_(self, o: ops.If) -> None:
        then, orelse = self.block(o.then), self.block(o.orelse)
        if self.strides[o.cond] == 0:
            self.set(o.results, [join(a, b) for a, b in zip(then, orelse, strict=True)])
            return
        same = [a is b for a, b in zip(o.then.yielded, o.orelse.yielded, strict=True)]
        self.set(o.results, [s if fixed else None for s, fixed in zip(then, same, strict=True)])

    def for_(self, o: ops.For) -> None:
        i, *params = o.body.params
        lo, hi, step = (self.strides[v] for v in (o.lo, o.hi, o.step))
        if o in self.reverse_aligned and not lo == hi == step == 0:
            self.strides[i] = hi if ops.constant_value(o.step) in (1, -1) else None  # all lanes count to their end
        else:
            self.strides[i] = lo if step == 0 else None
        carried: list[Stride] = [self.strides[v] for v in o.init]
        uniform = lo == hi == step == 0
        if o in self.reverse_aligned and not uniform:
            carried = _after_divergence(carried, params, o.body.yielded)
        while True:
            self.set(params, carried)
            joined = [join(a, b) for a, b in zip(carried, self.block(o.body), strict=True)]
            if joined == carried:
                break
            carried = joined
        self.set(o.results, carried if uniform else _after_divergence(carried, params, o.body.yielded))

    def while_(self, o: ops.While) -> None:
        carried: list[Stride] = [self.strides[v] for v in o.init]
        while True:
            self.set(o.cond.params, carried)
            self.set(o.body.params, carried)
            (go,) = self.block(o.cond)
            joined = [join(a, b) for a, b in zip(carried, self.block(o.body), strict=True)]
            if joined == carried:
                break
            carried = joined
        self.set(o.results, carried if go == 0 else _after_divergence(carried, o.body.params, o.body.yielded))


def _after_divergence(strides: Sequence[Stride], params: Sequence[Value], yielded: Sequence[Value]) -> list[Stride]:
    """The strides after a loop that lanes leave at different times: only what never changes keeps its own."""
    return [s if p is y else None for s, p, y in zip(strides, params, yielded, strict=True)]


def join(a: Stride, b: Stride) -> Stride:
    """Return the stride of a value that is one of two."""
    return a if a == b else None


def _arithmetic(o: ops.Apply, strides: list[Stride]) -> Stride:
    match o.fn, strides:
        case "add", [int(a), int(b)]:
            return a + b
        case "sub", [int(a), int(b)]:
            return a - b
        case "neg", [int(a)]:
            return -a
        case "mul", [int(a), int(b)]:
            x, y = (ops.constant_value(v) for v in o.args)
            if a == 0 == b:
                return 0
            return a * y if y is not None else b * x if x is not None else None
        case "where", [0, a, b]:
            return join(a, b)
    return 0 if all(s == 0 for s in strides) else None


def stride_is_exact(values: Interval, stride: int, t: Scalar) -> bool:
    """Return whether no lane's value has wrapped past another's, where all lanes have one of ``values`` of type ``t``.

    A lane's value differs by a multiple of 2**bits from what it is without wrapping, and all of these lie too close
    together for that.
    """
    low, high = values
    return high - low + abs(stride) * (MAX_LANES - 1) < 1 << t.bits


def modulo(stride: Stride, t: Scalar) -> Stride:
    """Return the stride of least size that is the same modulo 2**bits."""
    if stride is None:
        return None
    half = 1 << t.bits - 1
    return (stride + half) % (2 * half) - half


def int_type(results: Sequence[Value]) -> Scalar | None:
    """Return the type of the only result if that is an integer."""
    t = results[0].type if len(results) == 1 else None
    return t if isinstance(t, Scalar) and t.is_int else None
