"""Which loops a team shares out: their iterations may run in any order, or at one time.

A loop is shared out where it carries nothing but sums, where its iterations touch no common element of which one is
written, and where no op in it has an order with others or is done by all threads together. Loops that stand in each
other with nothing but pure ops between them are one: a ``Nest``, whose elements are numbered.

That iterations touch different elements follows from one index: in all accesses of a root it is ``c * i + rest``, where
``i`` counts the iterations, and no two rests differ by what ``c * i`` may change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warp_like.analysis.intervals import Interval
from warp_like.analysis.ranges import Ranges
from warp_like.ir import ops
from warp_like.ir.core import Op, Value
from warp_like.ir.rewrite import blocks
from warp_like.ir.types import Scalar, Type, Vec, scalar_of
from warp_like.passes.team.accesses import WRITE, Access, Accesses, Linear, is_own, linear
from warp_like.passes.uniform import cooperative

MOST = 1 << 24
"""The most elements of a nest that is shared out."""

ORDERED = (
    *(ops.Push, ops.Pop, ops.Barrier, ops.Native, ops.Print, ops.AtomicCas, ops.Breakpoint, ops.Call),
    ops.ContractInMemory,
)
"""Ops that have an order with others of their kind, or that all threads come to."""


class Level(NamedTuple):
    """A loop of a nest: ``trips`` iterations at most, from ``low`` on by ``step``.

    One that counts ``down`` has these iterations, too, the last one first.
    """

    loop: ops.For
    low: int
    trips: int
    step: int
    down: bool = False


class Nest(NamedTuple):
    """Loops in each other, the outermost first; element ``e`` of ``size`` is their place, counted row by row."""

    levels: tuple[Level, ...]

    @property
    def size(self) -> int:
        return math.prod(level.trips for level in self.levels)

    @property
    def strides(self) -> list[int]:
        trips = [level.trips for level in self.levels]
        return [math.prod(trips[k + 1 :]) for k in range(len(trips))]


def everything(o: Op) -> Iterator[Op]:
    """Iterate over ``o`` and all ops in its blocks."""
    yield o
    for r in o.regions():
        yield from r.walk()


def defined_in(o: Op) -> set[Value]:
    """Return the values that the blocks of ``o`` make."""
    found: set[Value] = set()
    for r in o.regions():
        for b in blocks(r):
            found.update(b.params)
            found.update(v for x in b.ops for v in x.results)
    return found


class Sharing:
    """Finds what can be shared out in a function."""

    def __init__(self, accesses: Accesses, ranges: Ranges) -> None:
        self._accesses, self._ranges = accesses, ranges

    def nest(self, loop: ops.For) -> Nest | None:
        """Return the nest that begins with ``loop``, if that can be shared out."""
        levels: list[Level] = []
        o: ops.For | None = loop
        while o is not None and (level := self._level(o)) is not None and self._is_independent(o):
            levels.append(level)
            o = _only_loop_in(o)
            if o is not None and (o.init != tuple(level.loop.body.params[1:]) or o.results != level.loop.body.yielded):
                o = None  # it does not pass on what the loop around it carries
        while math.prod(level.trips for level in levels) > MOST:
            levels.pop()
        return Nest(tuple(levels)) if levels else None

    def _level(self, o: ops.For) -> Level | None:
        step, lo, hi = ops.constant_value(o.step), self._ranges.of(o.lo), self._ranges.of(o.hi)
        assert isinstance(o.lo.type, Scalar)
        if not isinstance(step, int) or o.lo.type.bits < 32 or not self._only_sums(o):
            return None
        if step == -1:
            found = Level(o, hi[0] + 1, lo[1] - hi[0], 1, down=True)
        elif step == 1 or (step > 1 and lo[0] == lo[1]):
            found = Level(o, lo[0], -(-(hi[1] - lo[0]) // step), step)
        else:
            return None
        return found if 0 < found.trips <= MOST else None

    def _only_sums(self, o: ops.For) -> bool:
        """Whether a loop adds to what it carries, in whichever order, and does nothing else with it."""
        pairs = zip(o.body.params[1:], o.body.yielded, strict=True)
        return not o.init or (o.sums and all(_has_sum(p.type) and self._is_sum(y, p) for p, y in pairs))

    def _is_sum(self, v: Value, start: Value) -> bool:
        """Whether ``v`` is ``start`` plus something, and nobody else uses ``start`` or what comes between."""
        if v is start:
            return self._accesses.uses(v) == 1
        if self._accesses.uses(v) != 1:
            return False
        match v.op:
            case ops.Apply(fn="add", args=(x, y)):
                return self._is_sum(x, start) or self._is_sum(y, start)
            case ops.For() as loop:
                k = loop.results.index(v)
                return self._is_sum(loop.init[k], start) and self._is_sum(loop.body.yielded[k], loop.body.params[1 + k])
        return False

    def _is_independent(self, loop: ops.For) -> bool:
        for o in everything(loop):
            lower = cooperative(o)
            if isinstance(o, ORDERED) or (lower is not None and lower.meets) or _is_shared(o):
                return False
        inside = defined_in(loop)
        by_root: dict[Value | None, list[Access]] = {}
        for a in self._accesses.of(loop):
            if a.root not in inside and not (loop.threads and not _is_buffer(a.root)):
                by_root.setdefault(a.root, []).append(a)
        return all(self._are_apart(loop, found, inside) for found in by_root.values())

    def _are_apart(self, loop: ops.For, found: Sequence[Access], inside: set[Value]) -> bool:
        """Whether two iterations never touch one element by ``found``, accesses of one root, and change it."""
        kinds = {a.kind for a in found}
        if len(kinds) == 1 and WRITE not in kinds:
            return True
        places = [a.indices for a in found]
        if any(p is None for p in places) or len({a.array for a in found}) > 1:
            return False
        if not (self._accesses.contiguous or loop.together or is_own(found[0].root)):
            return False  # elements may share memory, and the order of the loop decides which one stays
        columns = zip(*(p for p in places if p is not None), strict=False)
        return any(self._is_told_by([linear(i, self._ranges) for i in column], loop, inside) for column in columns)

    def _is_told_by(self, sums: Sequence[Linear], loop: ops.For, inside: set[Value]) -> bool:
        """Whether an index along one dimension, which is one of ``sums``, tells the iteration."""
        i, step = loop.body.params[0], abs(ops.constant_value(loop.step))
        factor, bits = sums[0].terms.get(i, 0), sums[0].bits
        if not factor or any((s.terms.get(i, 0), s.bits) != (factor, bits) for s in sums):
            return False
        same = set.intersection(*(set(s.terms.items()) for s in sums))
        fixed = {(v, n) for v, n in same if v is i or v not in inside}
        rests = {self._rest(s, dict(s.terms.items() - fixed)) for s in sums}
        spread = max(high for _, high in rests) - min(low for low, _ in rests)
        low, high = self._ranges.of(i)
        most = abs(factor) * (high - low)  # from the first iteration to the last
        if most + spread >= 1 << bits:
            return False
        return all(_are_apart(x, y, abs(factor) * step, most) for x in rests for y in rests)

    def _rest(self, x: Linear, terms: dict[Value, int]) -> Interval:
        low = high = x.constant
        for v, factor in terms.items():
            ends = [factor * end for end in self._ranges.of(v)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def width(self, nest: Nest, found: Sequence[Access]) -> int:
        """Return ``w`` if ``found``, the accesses of a root in ``nest``, have index ``w * e + k``, 0 if they have not.

        Here ``e`` is the number of the nest's element, and ``k`` is from 0 to before ``w``.
        """
        counters = [level.loop.body.params[0] for level in nest.levels]
        width = 0
        for a in found:
            if a.indices is None or len(a.indices) != 1 or any(level.step != 1 for level in nest.levels):
                return 0
            x = linear(a.indices[0], self._ranges)
            stride = nest.strides[-1]
            width = width or x.terms.get(counters[-1], 0)
            expected = {c: width * s for c, s in zip(counters, nest.strides, strict=True)}
            if width <= 0 or stride != 1 or any(x.terms.get(c, 0) != n for c, n in expected.items()):
                return 0
            if any(v not in defined_in(nest.levels[0].loop) for v in x.terms):
                return 0
            low, high = self._rest(x, {v: n for v, n in x.terms.items() if v not in expected})
            first = sum(level.low * width * s for level, s in zip(nest.levels, nest.strides, strict=True))
            if low + first < 0 or high + first >= width:
                return 0
        return width


def _are_apart(x: Interval, y: Interval, step: int, most: int) -> bool:
    """Whether no number of ``x`` and one of ``y`` differ by ``step``, or by a multiple of it up to ``most``."""
    low, high = max(x[0] - y[1], -most), min(x[1] - y[0], most)
    return high // step - (low - 1) // step - (low <= 0 <= high) <= 0


def _is_buffer(root: Value | None) -> bool:
    """Whether a root is memory of a pass's, which threads may have one after the other."""
    return root is not None and isinstance(root.op, ops.LocalArray) and not root.op.zeroed


def _has_sum(t: Type) -> bool:
    """Whether a block has a sum of values of type ``t`` that rounds no more often than theirs."""
    scalar = scalar_of(t)
    return isinstance(t, (Scalar, Vec)) and scalar is not None and scalar.bits >= 32


def _is_shared(o: Op) -> bool:
    return isinstance(o, ops.LocalArray) and o.shared


def _only_loop_in(loop: ops.For) -> ops.For | None:
    """The loop in ``loop`` beside which there are only pure ops."""
    *inner, _ = loop.body.ops
    loops = [o for o in inner if not o.PURE]
    return loops[0] if len(loops) == 1 and isinstance(loops[0], ops.For) else None


__all__ = ["ORDERED", "Level", "Nest", "Sharing", "defined_in", "everything"]
