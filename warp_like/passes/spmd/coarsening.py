"""Thread coarsening: code for the threads of several rows, neighbours along the last but one dimension.

A loop in which all rows load the same elements, as in a matrix product, waits for these loads. So there is also code
for ``ROWS`` rows at once: a value that is the same in all rows is computed once, and any other once for each row.
Contributions of several rows to one element are added up first. A loop or branch that all rows take alike holds all
rows; any other is repeated for each row.

As with lanes, threads have no order, so all rows may read an element that they share at one time.

Relies on a finished function for which ``can_coarsen`` holds; below, for two rows.

Before::

    kernel k(%x: array1d[float32], %out: array2d[float32]) {
      %0 = tid 1 of 2 : int32
      %1 = tid 0 of 2 : int32
      %2 = load %x[%0] : float32
      store %out[%1, %0], %2
      yield
    }

After::

    kernel k(%x: array1d[float32], %out: array2d[float32]) {
      %0 = tid 1 of 2 : int32
      %1 = tid 0 of 2 : int32
      %2 = constant 1 : int32
      %3 = add %1, %2 : int32
      %4 = load %x[%0] : float32
      store %out[%1, %0], %4
      store %out[%3, %0], %4
      yield
    }
"""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, grid_ndim, without_body
from warp_like.ir.types import scalar_of
from warp_like.passes.spmd.strides import Stride, find_strides

if TYPE_CHECKING:
    from typing import TypeGuard

ROWS = 4
LARGEST = 100
"""The most ops of a function that is coarsened."""

_ALLOWED = (ops.Yield, ops.If, ops.For, ops.While, ops.Load, ops.Store, ops.Atomic, ops.LocalArray, ops.Outlined)
"""Ops with effects that may be coarsened; others need their thread's number or stack."""


def can_coarsen(f: Function) -> bool:
    """Return whether there can be code for several rows of ``f`` at once."""
    ndim, found = grid_ndim(f), list(f.body.walk())
    if ndim < 2 or not all(o.PURE or isinstance(o, _ALLOWED) for o in found):
        return False
    return all(o.ndim == ndim and o in f.body.ops for o in found if isinstance(o, ops.Tid))


def share_vectors(f: Function) -> bool:
    """Return whether ``f`` can be coarsened, and its rows load the same vectors in a loop, or add to the same ones."""
    found = list(f.body.walk())
    if len(found) > LARGEST or any(isinstance(o, ops.LocalArray) for o in found) or not can_coarsen(f):
        return False
    along_rows, along_lanes = find_strides(f, axis=-2), find_strides(f)
    used = {v for o in found for v in o.operands()}

    def shared(b: Block, in_loop: bool) -> bool:
        for o in b.ops:
            if isinstance(o, ops.Load) and in_loop and along_rows[o.result] == 0 and along_lanes[o.result] is None:
                return True
            if _adds_alike(o, along_rows, used) and any(along_lanes[i] != 0 for i in o.indices):
                return True
            ways = _ways(o)
            if ways and all(along_rows[v] == 0 == along_lanes[v] for v in ways):
                inside = in_loop or not isinstance(o, ops.If)
                if any(shared(r, inside) for r in o.regions()):
                    return True
        return False

    return shared(f.body, False)


def _ways(o: Op) -> Sequence[Value]:
    """The values that decide what of the blocks of ``o`` runs, and how often."""
    match o:
        case ops.If():
            return (o.cond,)
        case ops.For():
            return o.lo, o.hi, o.step
        case ops.While():
            return o.cond.yielded
    return ()


def _adds_alike(o: Op, strides: dict[Value, Stride], used: Container[Value]) -> TypeGuard[ops.Atomic]:
    """Whether ``o`` adds to an element that is the same in all rows, in numbers whose sum may be formed before."""
    if not isinstance(o, ops.Atomic) or not KINDS[o.kind].sign or o.result in used:
        return False
    scalar = scalar_of(o.value.type)
    return scalar is not None and scalar.bits >= 32 and all(strides[v] == 0 for v in (o.array, *o.indices))


def coarsen(f: Function, rows: int) -> Function:
    """Return ``f`` for the threads of ``rows`` rows with the same last index; its thread is that of the first row."""
    return _Coarsener(f, rows).function()


class _Coarsener:
    def __init__(self, f: Function, rows: int) -> None:
        self.f = f
        self.rows = rows
        self.row_axis = grid_ndim(f) - 2
        self.strides = find_strides(f, axis=-2)
        self.of_row = [Cloner() for _ in range(rows)]  # what stands for a value in each row
        self.used = {v for o in f.body.walk() for v in o.operands()}
        self.b = Emitter(Block())

    def function(self) -> Function:
        f = self.f
        new = without_body(f)
        new.schedule = f.schedule.replace(rows=self.rows)
        for p, q in zip(f.params, new.params, strict=True):
            self.bind(p, [q])
        with self.b.into(new.body):
            self.run(f.body)
            self.b.yield_()
        return new

    def bind(self, v: Value, values: Sequence[Value]) -> None:
        """Let ``values`` stand for ``v``: one in all rows, or one for each."""
        for k, cloner in enumerate(self.of_row):
            cloner.mapping[v] = values[k % len(values)]

    def values(self, v: Value, like: Value) -> list[Value]:
        """What stands for ``v`` where ``like`` decides whether that is one value or one for each row."""
        return [c.value(v) for c in (self.of_row[:1] if self.strides[like] == 0 else self.of_row)]

    def bind_all(self, olds: Sequence[Value], news: Sequence[Value]) -> None:
        rest = iter(news)
        for v in olds:
            made = [next(rest) for _ in range(1 if self.strides[v] == 0 else self.rows)]
            for x in made:
                x.hint = v.hint
            self.bind(v, made)

    def run(self, b: Block) -> None:
        for o in b.ops[:-1]:
            with at(o.loc):
                self.visit(o)

    def visit(self, o: Op) -> None:
        ways = _ways(o)
        if isinstance(o, ops.Tid) and o.axis == self.row_axis:
            first = self.b.insert(ops.Tid(o.axis, o.ndim), o.result.type, hint=o.result.hint).result
            self.bind(o.result, [first, *(self.b.add(first, k) for k in range(1, self.rows))])
        elif ways and all(self.strides[v] == 0 for v in ways):
            self.together(o)
        elif _adds_alike(o, self.strides, self.used):
            total = functools.reduce(self.b.add, (c.value(o.value) for c in self.of_row))
            one = self.of_row[0].value
            self.b.atomic(o.kind, one(o.array), tuple(map(one, o.indices)), total)
        elif (
            not ways
            and (o.PURE or isinstance(o, ops.Load))
            and all(self.strides[v] == 0 for v in (*o.operands(), *o.results))
        ):
            self.keep(self.of_row[0].op(o))
            for r in o.results:
                self.bind(r, [self.of_row[0].value(r)])
        else:
            for cloner in self.of_row:
                self.keep(cloner.op(o))

    def keep(self, o: Op) -> None:
        self.b.block.ops.append(o)

    def together(self, o: Op) -> None:
        """A branch or a loop that goes the same way in all rows."""
        one = self.of_row[0].value
        match o:
            case ops.If():
                sides = [self.block(r, o.results) for r in o.regions()]
                made = self.b.if_(one(o.cond), *sides)
            case ops.For():
                i, *params = o.body.params
                body = self.block(o.body, o.results, [i, *params])
                made = self.b.for_(one(o.lo), one(o.hi), one(o.step), self.start(o.init, params), body)
            case ops.While():
                cond = self.block(o.cond, o.cond.yielded, o.cond.params)
                body = self.block(o.body, o.body.params, o.body.params)
                made = self.b.while_(self.start(o.init, o.body.params), cond, body)
            case _:
                raise TypeError(f"{o.NAME} has no way to go")
        self.bind_all(o.results, made)

    def start(self, init: Sequence[Value], params: Sequence[Value]) -> list[Value]:
        return [x for v, p in zip(init, params, strict=True) for x in self.values(v, p)]

    def block(self, b: Block, results: Sequence[Value], params: Sequence[Value] = ()) -> Block:
        """``b`` with all rows in it, yielding what stands for ``results`` outside."""
        new = Block([Value(p.type, p.hint) for p in params for _ in range(1 if self.strides[p] == 0 else self.rows)])
        self.bind_all(params, new.params)
        with self.b.into(new):
            self.run(b)
            self.b.yield_(*(x for v, r in zip(b.yielded, results, strict=True) for x in self.values(v, r)))
        return new
