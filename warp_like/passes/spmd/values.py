"""The form of each value in lanes, and the mask of the active lanes.

Of uniform values and values with a known stride the function in lanes has a scalar, the first lane's; of others a value
of type ``Lanes``. A builder of such functions (``accesses``, ``widen``) asks here for the form that it needs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from warp_like.analysis.ranges import Ranges
from warp_like.builtins.emit import Emitter, scalar_type
from warp_like.builtins.spec import resolve
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import find_ops
from warp_like.ir.types import Array, Lanes, Type, bool_, lane_type
from warp_like.passes.spmd.stacks import find_stacks
from warp_like.passes.spmd.strides import Stride, find_strides, stride_is_exact

Element = tuple[Value, tuple[Value, ...]]
"""An array of the new function, and indices of the old one."""


class NotWidenable(Exception):
    """The function has something that lanes can't run; the message says what."""


class LaneBuilder:
    """Builds a function of ``width`` lanes from one of a single thread."""

    def __init__(
        self,
        f: Function,
        width: int,
        reduced: Sequence[int] = (),
        varying: Sequence[Value] = (),
        *,
        scattered: bool = False,
    ) -> None:
        self.f = f
        self.scattered = scattered
        self.varying = varying
        self.reduced = {f.params[i] for i in reduced}
        self.width = width
        self.types: dict[Type, Lanes] = {}
        self.stacks = find_stacks(f)
        self.strides = find_strides(f, self.stacks.reverse_aligned, varying=varying)
        self.ranges = Ranges()
        self.map: dict[Value, Value] = {}  # what stands for a value: its first lane where its stride is known
        self.views: dict[Value, Element] = {}  # views that differ from lane to lane
        self.first: dict[Value, Value] = {}  # what the first lane is if lanes are consecutive, as is speculated
        self.elsewhere: dict[Value, Value] = {}  # of some of these, in which lanes they are not
        self.used = {v for o in f.body.walk() for v in o.operands()}
        self.slots = {o.slot: self.strides[o.result] for o in find_ops(f.body, ops.Pop)}
        self.b = Emitter(Block())
        self.diverged = 0
        self.leaving = 0  # loops around that lanes leave when a condition says so
        self.mask: Value

    def wide(self, t: Type) -> Lanes:
        found = self.types.get(t)
        if found is None:
            if isinstance(t, Array):
                raise NotWidenable("threads choose between arrays")
            found = self.types[t] = Lanes(t, self.width)  # one object for all values, which is hashed once
        return found

    def like_array(self, array: Value, t: Array) -> Type:
        """The type of a part of ``array``, an array of the new function, that is a ``t`` in one lane."""
        return array.type.replace(of=t) if isinstance(array.type, Lanes) else t

    def scalar(self, v: Value) -> Value:
        """``v``, which is uniform, or its first lane."""
        return self.map[v]

    def has_exact_stride(self, v: Value) -> bool:
        """Whether integer ``v``, which has a stride, is known not to wrap between lanes that have a thread."""
        stride = self.strides[v]
        assert stride is not None
        return stride_is_exact(self.ranges.of(v), stride, scalar_type(v))

    def lanes(self, v: Value) -> Value:
        """``v`` in all lanes."""
        stride = self.strides[v]
        if stride is None:
            if isinstance(v.type, Array):
                own = isinstance(ops.base_array(v).op, ops.NestedArray)
                held = "functions take arrays of a thread's own, which elements of an array hold"
                raise NotWidenable(held if own else "threads choose between arrays")
            return self.map[v]
        if stride == 0:
            return self.broadcast(self.map[v])
        return self.b.insert(ops.Iota(self.map[v], stride), self.wide(v.type), hint=v.hint).result

    def broadcast(self, x: Value) -> Value:
        return self.b.insert(ops.Broadcast(x), self.wide(x.type)).result

    def like(self, v: Value, stride: Stride) -> Value:
        """``v`` as a value with ``stride``: in lanes for None."""
        return self.lanes(v) if stride is None else self.scalar(v)

    def index(self, v: Value) -> Value:
        """``v`` as an index: a scalar where it is uniform."""
        return self.scalar(v) if self.strides[v] == 0 else self.lanes(v)

    def apply(self, fn: str, *args: Value) -> Value:
        """Call a builtin on lanes."""
        (t,) = resolve(fn, [lane_type(a.type) for a in args]).results
        return self.b.insert(ops.Apply(fn, args), self.wide(t)).result

    def select(self, mask: Value, new: Value, old: Value) -> Value:
        return new if new is old else self.apply("where", mask, new, old)

    def any(self, mask: Value) -> Value:
        return self.b.insert(ops.LaneReduce("any", mask), bool_).result

    def bind_all(self, results: Sequence[Value], made: Sequence[Value]) -> None:
        """Let ``made`` stand for ``results``."""
        for r, v in zip(results, made, strict=True):
            v.hint = r.hint
            self.map[r] = v

    @contextlib.contextmanager
    def under(self, mask: Value) -> Iterator[None]:
        """Work for the lanes of ``mask``, which not all lanes that came here need be in."""
        outer, self.mask = self.mask, mask
        self.diverged += 1
        yield
        self.diverged -= 1
        self.mask = outer

    def copy(self, o: Op, operand: object, types: Sequence[Type]) -> None:
        new = object.__new__(type(o))
        new.__dict__.update(o.__dict__)
        new.map_operands(operand)  # type: ignore[arg-type]
        self.insert(new, o.results, types)

    def insert(self, new: Op, results: Sequence[Value], types: Sequence[Type]) -> None:
        self.b.insert(new, *types)
        if len(results) == 1 == len(types):
            (old,), (made,) = results, new.results
            made.hint = old.hint
            self.map[old] = made
            return
        for old, made in zip(results, new.results, strict=True):
            made.hint = old.hint
            self.map[old] = made
