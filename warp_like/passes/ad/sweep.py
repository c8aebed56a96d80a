"""The reverse sweep while it is written: ops that name the values of the primal function.

The rules of the ops write it without asking where a primal value comes from. The plan decides that afterwards, and
``emission`` puts the values in their places.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.types import Array, adjoint_type, int64, is_differentiable
from warp_like.passes.ad.adjoints import Adjoints
from warp_like.passes.ad.primal import Primal


class Sweep:
    """A reverse sweep, and the adjoints known at the place where it is written.

    Attributes:
        primal: The function that it reverses.
        b: Writes at the current place.
        adjoints: Those known here.
        adjoint_arrays: The array of adjoints of each array, and of each differentiated parameter.
        sources: For each ``If`` and ``For`` of the sweep, the control flow of the primal that it reverses.
        setup: For each ``For`` of the sweep, the constants that it starts from.
        trips: The number of iterations of each ``while`` loop.
        launched: What stands for a parameter that is an array, as it is after the launch.
    """

    def __init__(self, primal: Primal, adjoint_arrays: Mapping[Value, Value]) -> None:
        self.primal = primal
        self.body = Block()
        self.b = Emitter(self.body)
        self.adjoints = Adjoints(self.b)
        self.adjoint_arrays = dict(adjoint_arrays)
        self.sources: dict[Op, Op] = {}
        self.setup: dict[Op, Block] = {}
        self.trips: dict[ops.While, Value] = {}
        self.launched: dict[Value, Value] = {}

    @contextlib.contextmanager
    def scope(self, params: list[Value] | None = None) -> Iterator[tuple[Block, Adjoints]]:
        """Write into a new block, with adjoints of its own."""
        block, outer = Block(params), self.adjoints
        self.adjoints = Adjoints(self.b)
        try:
            with self.b.into(block):
                yield block, self.adjoints
        finally:
            self.adjoints = outer

    def send(self, primal: Value, g: Value | None) -> None:
        """Add ``g`` to the adjoint of ``primal`` if that carries one."""
        if g is not None and primal in self.primal.varied:
            self.adjoints.add(primal, g)

    def or_zero(self, g: Value | None, like: Value) -> Value:
        """``g``, or zero of the type of ``like``."""
        return g if g is not None else self.b.zero(like.type)

    def adjoint_array(self, array: Value) -> Value | None:
        """The array of adjoints that belongs to ``array``, which may be a view; None if it has none.

        That of an object's memory may be at address 0: see ``gradient_address``.
        """
        if isinstance(array.op, (*ops.VIEWS, ops.NestedArray)):
            base = self.adjoint_array(array.op.array)
            if base is None or not is_differentiable(array.type):
                return None
            if isinstance(array.op, ops.NestedArray):
                return self.b.nested(base, array.op.indices)
            return self.b.view_like(array.op, base, lambda v: v)
        if self.primal.objects and isinstance(array.op, ops.AtAddress) and array.op.gradient:
            return self.b.insert(ops.AtAddress(array.op.gradient[0], array.op.shape), adjoint_type(array.type)).result
        found = self.adjoint_arrays.get(array)
        assert found is None or isinstance(found.type, Array)
        return found if found is not None and is_differentiable(array.type) else None

    def after_launch(self, param: Value) -> Value:
        """What stands for the array ``param`` as it is after the launch, whatever copies of it there are."""
        return self.launched.setdefault(param, Value(param.type, param.hint))

    def range_of(self, loop: ops.For | ops.While) -> tuple[Value, Value, Value]:
        """What the range of the reversed ``loop`` is made of; nobody reads it as a range."""
        if isinstance(loop, ops.For):
            return loop.lo, loop.hi, loop.step
        trips = self.trips.setdefault(loop, Value(int64, "trips"))
        return trips, trips, trips
