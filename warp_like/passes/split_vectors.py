"""Let branches and loops carry the components of short integer vectors one by one.

Such vectors are places: of their components, some are the same for all lanes, and another one counts along the lanes.
Carried as a whole, a vector differs from lane to lane in all components, and each access at the place gathers. What
uses the vector as a whole makes it of its components, which ``fold`` looks through.

Runs in ``finish``, behind differentiation and before lanes. Relies on nothing. Leaves a ``make`` for each vector, and
calls for another ``fold``.

Before::

    kernel k(%x: array2d[float32], %out: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 1 : int32
      %2 = sub %0, %1 : int32
      %3 = constant 0 : int32
      %4 = make %2, %3 : vec2[int32]
      %5 = dim %x, 0 : int32
      %6 = constant 1 : int32
      %7 = sub %5, %6 : int32
      %8 = constant 0 : int32
      %9 = extract %4[%8] : int32
      %10 = constant 0 : int32
      %11 = lt %9, %10 : bool
      %12 = if %11 : vec2[int32] {
        %13 = constant 0 : int32
        %14 = insert %4[%13], %7 : vec2[int32]
        yield %14
      } else {
        yield %4
      }
      %15 = constant 0 : int32
      %16 = extract %12[%15] : int32
      %17 = constant 1 : int32
      %18 = extract %12[%17] : int32
      %19 = load %x[%16, %18] : float32
      store %out[%0], %19
      yield
    }

After::

    kernel k(%x: array2d[float32], %out: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 1 : int32
      %2 = sub %0, %1 : int32
      %3 = constant 0 : int32
      %4 = make %2, %3 : vec2[int32]
      %5 = dim %x, 0 : int32
      %6 = constant 1 : int32
      %7 = sub %5, %6 : int32
      %8 = constant 0 : int32
      %9 = extract %4[%8] : int32
      %10 = constant 0 : int32
      %11 = lt %9, %10 : bool
      %12, %13 = if %11 : int32, int32 {
        %14 = constant 0 : int32
        %15 = insert %4[%14], %7 : vec2[int32]
        %16 = constant 0 : int32
        %17 = extract %15[%16] : int32
        %18 = constant 1 : int32
        %19 = extract %15[%18] : int32
        yield %17, %19
      } else {
        %20 = constant 0 : int32
        %21 = extract %4[%20] : int32
        %22 = constant 1 : int32
        %23 = extract %4[%22] : int32
        yield %21, %23
      }
      %24 = make %12, %13 : vec2[int32]
      %25 = constant 0 : int32
      %26 = extract %24[%25] : int32
      %27 = constant 1 : int32
      %28 = extract %24[%27] : int32
      %29 = load %x[%26, %28] : float32
      store %out[%0], %29
      yield
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import has_regions
from warp_like.ir.types import Type, Vec
from warp_like.passes.rewriter import Rewriter, rewrite

LONGEST = 4
"""The most components of a vector that is a place: the most dimensions that arrays usually have."""


def split_vectors(f: Function) -> bool:
    """Split what branches and loops of ``f`` carry, in place; returns whether anything changed."""
    changed = carries_places(f)
    if changed:
        rewrite(f, _Splitter())
    return changed


def carries_places(f: Function) -> bool:
    """Return whether a branch or a loop of ``f`` gives a vector that is a place."""
    return has_regions(f.body) and any(is_place(r.type) for o in f.body.walk() if o._REGIONS for r in o.results)


def is_place(t: Type) -> TypeGuard[Vec]:
    """Return whether ``t`` is a short vector of integers."""
    return isinstance(t, Vec) and t.dtype.is_int and t.length <= LONGEST


class _Splitter(Rewriter):
    def visit(self, o: Op) -> None:
        match o:
            case ops.If():
                with at(o.loc):
                    for r in o.regions():
                        self.block(r)
                        self.end(r)
                    self.carry(o)
            case ops.For() | ops.While():
                with at(o.loc):
                    o.init = self.parts(o.init)
                    for r in o.regions():
                        self.enter(r)
                    self.end(o.body)
                    self.carry(o)
            case _:
                super().visit(o)

    def parts(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Return ``values``, the components in place of each vector."""
        found: list[Value] = []
        for v in values:
            found += [self.b.extract(v, k) for k in range(v.type.length)] if is_place(v.type) else [v]
        return tuple(found)

    def fresh(self, values: Sequence[Value]) -> list[tuple[Value, list[Value]]]:
        """Return each of ``values`` with new values for its components; with itself where it has none."""
        return [
            (v, [Value(v.type.dtype, f"{v.hint}.{k}" if v.hint else "") for k in range(v.type.length)])
            if is_place(v.type)
            else (v, [v])
            for v in values
        ]

    def make(self, pairs: Sequence[tuple[Value, list[Value]]]) -> None:
        """Emit the vectors that stand for those in ``pairs``."""
        for v, components in pairs:
            if components != [v]:
                self.mapping[v] = self.b.make(v.type, components)

    def enter(self, block: Block) -> None:
        """Rebuild the block of a loop, whose parameters are components."""
        pairs = self.fresh(block.params)
        block.params = [p for _, components in pairs for p in components]
        with self.b.into(Block()) as out:
            self.make(pairs)
            self.splice(block.ops)
        block.ops = out.ops

    def end(self, block: Block) -> None:
        """Let ``block`` yield components."""
        last = block.ops.pop()
        assert isinstance(last, ops.Yield)
        with self.b.into(block):
            last.values = self.parts(last.values)
            self.keep(last)

    def carry(self, o: Op) -> None:
        """Put ``o`` at the current place, with components as results."""
        pairs = self.fresh(o.results)
        o.results = tuple(r for _, components in pairs for r in components)
        for r in o.results:
            r.op = o
        self.keep(o)
        self.make(pairs)
