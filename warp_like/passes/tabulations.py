"""Loops that make a value element by element, each from nothing that another iteration made: maps, loads, broadcasts.

Any element of such a value can also be computed where it is read. ``fuse`` does that; ``Tabulation.element_at`` makes
the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from warp_like.base.frozen import Frozen
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import extents
from warp_like.ir import ops
from warp_like.ir.core import Op, Value
from warp_like.ir.rewrite import Cloner, free_values, has_effects
from warp_like.ir.types import is_large

Resolve = Callable[[Value], Value]
"""What stands for a value that a pass has replaced."""


def no_change(v: Value) -> Value:
    """Return ``v``: nothing is replaced."""
    return v


class Tabulation(Frozen):
    """Nested loops each of whose iterations makes one element of ``value``.

    Attributes:
        value: The value.
        loops: The loops, the outermost first; each counts one index of the element.
        body: The ops that make an element, in order.
        element: The element.
        is_whole: Whether the loops make all elements. Else their bounds are known at run time alone, and the elements
            that they do not make are all the same.
    """

    value: Value
    loops: tuple[ops.For, ...]
    body: tuple[Op, ...]
    element: Value
    is_whole: bool

    @property
    def loop(self) -> ops.For:
        """The outermost loop."""
        return self.loops[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the value."""
        return extents(self.value.type)

    def walk(self) -> Iterator[Op]:
        """Iterate over the ops that make an element, those inside of others too."""
        for o in self.body:
            yield from _with_inner(o)

    @property
    def loads(self) -> bool:
        """Whether an element comes from memory."""
        return any(isinstance(o, ops.Load) for o in self.walk())

    @property
    def varies(self) -> bool:
        """Whether its elements may differ."""
        counters = {loop.body.params[0] for loop in self.loops}
        return self.element in counters or any(not counters.isdisjoint(o.operands()) for o in self.walk())

    def element_at(self, b: Emitter, indices: tuple[Value, ...]) -> Value:
        """Emit what makes the element at ``indices``, which one of the loops' iterations makes."""
        counters = [loop.body.params[0] for loop in self.loops]
        cloner = Cloner({c: b.cast(i, c.type) for c, i in zip(counters, indices, strict=True)})
        b.block.ops += [cloner.op(o) for o in self.body]
        return cloner.value(self.element)


def tabulation(o: ops.For, k: int, resolve: Resolve = no_change) -> Tabulation | None:
    """Return how loop ``o`` makes its result ``k`` element by element; None if it does it in any other way."""
    loops, place = [o], k
    while True:
        inner = loops[-1].body
        carried, made = inner.params[1 + place], resolve(inner.yielded[place])
        if not (isinstance(made.op, ops.For) and made.op in inner.ops):
            break
        place = made.op.results.index(made)
        if resolve(made.op.init[place]) is not carried:
            return None
        loops.append(made.op)
    put = made.op
    if not (isinstance(put, ops.Insert) and put in inner.ops and resolve(put.x) is carried):
        return None
    if tuple(map(resolve, put.indices)) != tuple(loop.body.params[0] for loop in loops):
        return None
    shape, element = extents(o.results[k].type), resolve(put.value)
    is_whole = len(loops) == len(shape) and all(map(_goes_over, loops, shape))
    body = _body(loops, element, resolve)
    if body is None or not (is_whole or _has_outside(loops, resolve(o.init[k]), shape)):
        return None
    return Tabulation(o.results[k], tuple(loops), body, element, is_whole)


def _goes_over(loop: ops.For, n: int) -> bool:
    """Whether ``loop`` counts from 0 to ``n``."""
    return all(ops.is_scalar_constant(v, number) for v, number in ((loop.lo, 0), (loop.hi, n), (loop.step, 1)))


def _has_outside(loops: list[ops.For], init: Value, shape: tuple[int, ...]) -> bool:
    """Whether what the loops do not make has one value, and their bounds are known in front of them."""
    inside = {v for loop in loops for v in (*loop.body.params, *(r for x in loop.body.ops for r in x.results))}
    bounds = {v for loop in loops[1:] for v in (loop.lo, loop.hi) if ops.constant_value(v) is None}
    by_one = all(ops.is_scalar_constant(loop.step, 1) for loop in loops)
    return isinstance(init.op, ops.Fill) and len(loops) == len(shape) and by_one and inside.isdisjoint(bounds)


def _body(loops: list[ops.For], element: Value, resolve: Resolve) -> tuple[Op, ...] | None:
    """The ops of the loops that ``element`` needs; None where one depends on other iterations or does more."""
    inside = {x for loop in loops for x in loop.body.ops}
    counters = {loop.body.params[0] for loop in loops}
    carried = {p for loop in loops for p in loop.body.params} - counters
    needed: set[Op] = set()
    work = [element]
    while work:
        v = work.pop()
        if v in carried:
            return None
        o = v.op
        if o is None or o not in inside or o in needed:
            continue
        if has_effects(o):
            return None
        needed.add(o)
        for x in _with_inner(o):
            if isinstance(x, ops.LocalArray) or any(is_large(r.type) for r in x.results):
                return None
            x.map_operands(resolve)
        work += [*o.operands(), *(v for r in o.regions() for v in free_values(r))]
    return tuple(x for loop in loops for x in loop.body.ops if x in needed)


def _with_inner(o: Op) -> Iterator[Op]:
    yield o
    for r in o.regions():
        yield from r.walk()


__all__ = ["Resolve", "Tabulation", "no_change", "tabulation"]
