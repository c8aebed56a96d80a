"""Elements of large values are computed where they are read, so that the values need no memory.

``tabulations`` finds the values that a loop makes element by element: maps, broadcasts, permuted tiles. If all that
follows reads single elements of such a value, each read can compute its element, and the loop is dead. So a chain of
operators is one loop, and a sum of products needs no tile of the products.

That is done where each element is read about once, or costs nothing, and where it can't be seen: elements are made of
values, which never change. Elements that come from memory are the business of ``read_in_place``.

Relies on ``expand``, which has written operations on elements as loops. Leaves loops that nobody needs.

Before::

    kernel k(%y: array1d[float32]) {
      %0 = empty : vec100[float32]
      %1 = constant 0 : int32
      %2 = constant 100 : int32
      %3 = constant 1 : int32
      %4 = for %6 in %1, %2, %3 (%5 = %0) : vec100[float32] {
        %7 = cast %6 : float32
        %8 = insert %5[%6], %7 : vec100[float32]
        yield %8
      }
      %9 = empty : vec100[float32]
      %10 = constant 0 : int32
      %11 = constant 100 : int32
      %12 = constant 1 : int32
      %13 = for %15 in %10, %11, %12 (%14 = %9) : vec100[float32] {
        %16 = extract %4[%15] : float32
        %17 = constant 2.0 : float32
        %18 = mul %16, %17 : float32
        %19 = insert %14[%15], %18 : vec100[float32]
        yield %19
      }
      %20 = tid 0 of 1 : int32
      %21 = constant 0 : int32
      %22 = extract %13[%21] : float32
      %23 = constant 1 : int32
      %24 = constant 100 : int32
      %25 = constant 1 : int32
      %26 = for %28 in %23, %24, %25 (%27 = %22) : float32 {
        %29 = extract %13[%28] : float32
        %30 = add %27, %29 : float32
        yield %30
      }
      store %y[%20], %26
      yield
    }

After::

    kernel k(%y: array1d[float32]) {
      %0 = empty : vec100[float32]
      %1 = constant 0 : int32
      %2 = constant 100 : int32
      %3 = constant 1 : int32
      %4 = for %6 in %1, %2, %3 (%5 = %0) : vec100[float32] {
        %7 = cast %6 : float32
        %8 = insert %5[%6], %7 : vec100[float32]
        yield %8
      }
      %9 = empty : vec100[float32]
      %10 = constant 0 : int32
      %11 = constant 100 : int32
      %12 = constant 1 : int32
      %13 = for %15 in %10, %11, %12 (%14 = %9) : vec100[float32] {
        %16 = cast %15 : float32
        %17 = constant 2.0 : float32
        %18 = mul %16, %17 : float32
        %19 = insert %14[%15], %18 : vec100[float32]
        yield %19
      }
      %20 = tid 0 of 1 : int32
      %21 = constant 0 : int32
      %22 = cast %21 : float32
      %23 = constant 2.0 : float32
      %24 = mul %22, %23 : float32
      %25 = constant 1 : int32
      %26 = constant 100 : int32
      %27 = constant 1 : int32
      %28 = for %30 in %25, %26, %27 (%29 = %24) : float32 {
        %31 = cast %30 : float32
        %32 = constant 2.0 : float32
        %33 = mul %31, %32 : float32
        %34 = add %29, %33 : float32
        yield %34
      }
      store %y[%20], %28
      yield
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.base.loc import at
from warp_like.builtins.loops import extents, tabulate
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import substitute
from warp_like.ir.types import component_type, element_count, is_large
from warp_like.passes.element_reads import Reads, is_cheap
from warp_like.passes.rewriter import Rewriter, rewrite
from warp_like.passes.tabulations import Tabulation, tabulation

MOST_OPS, MOST_COPIED = 64, 600
"""The most ops that make an element, and the most of them in all places where one is read."""


def fuse(f: Function) -> Function:
    """Compute the elements of the large values of ``f`` where they are read, in place."""
    rewrite(f, _Casts())
    fuser = _Fuser(f)
    for o in [o for o in f.body.walk() if isinstance(o, ops.For)]:  # in order: what a loop reads is in place by then
        fuser.loop(o)
    substitute(f.body, fuser.mapping)
    return f


class _Casts(Rewriter):
    """Conversions of large values as loops."""

    def visit(self, o: Op) -> None:
        if not (isinstance(o, ops.Cast) and is_large(o.result.type)):
            super().visit(o)
            return
        t, x = o.result.type, o.x
        to = component_type(t, len(extents(t)))
        with at(o.loc):
            self.replace(o, [tabulate(self.b, t, lambda i: self.b.cast(self.b.extract(x, *i), to))])


class _Fuser:
    def __init__(self, f: Function) -> None:
        self.reads = Reads(f)
        self.mapping: dict[Value, Value] = {}

    def value(self, v: Value) -> Value:
        """What stands for ``v``."""
        while v in self.mapping:
            v = self.mapping[v]
        return v

    def loop(self, o: ops.For) -> None:
        """Compute the elements of the results of ``o`` where they are read, if that pays."""
        for k, r in enumerate(o.results):
            found = self.reads.elements(r) if is_large(r.type) else None
            t = tabulation(o, k, self.value) if found else None
            if t is not None and found and self.pays(t, found):
                for e in found:
                    self.mapping[e.result] = self.reads.replace(e, t, self.value)

    def pays(self, t: Tabulation, found: Sequence[ops.Extract]) -> bool:
        """Whether to compute each element of ``t`` where ``found`` read it."""
        made = list(t.walk())
        if not t.is_whole or t.loads or len(made) > MOST_OPS or len(made) * len(found) > MOST_COPIED:
            return False
        if any(isinstance(o, (ops.For, ops.While)) for o in made) or not all(map(self.reads_for_good, made)):
            return False
        if not t.varies:
            return True
        reads = (*found, *(o for o in made if isinstance(o, ops.Extract) and is_large(o.x.type)))
        if not all(_is_plain(i) for o in reads for i in o.indices):
            return False
        once = self.reads.times(found, self.reads.block_of[t.loop]) <= element_count(t.value.type)
        is_table = len(reads) == len(found)  # of numbers that LLVM may know, or make once for all threads
        return once and (all(map(is_cheap, made)) or (not is_table and all(self.is_in_map(e, t) for e in found)))

    def reads_for_good(self, o: Op) -> bool:
        """Whether the value that ``o`` reads, if any, is never changed in place; a later read would need a copy."""
        if not isinstance(o, ops.Extract) or not is_large(o.x.type):
            return True
        return all(isinstance(u, ops.Extract) for u in self.reads.users.get(o.x, ()))

    def is_in_map(self, o: ops.Extract, t: Tabulation) -> bool:
        """Whether ``o`` is in a loop of which LLVM makes vectors whatever its iterations compute."""
        around = self.reads.loops(o, self.reads.block_of[t.loop])
        return bool(around) and all(is_large(r.type) for r in around[0].results)


def _is_plain(index: Value) -> bool:
    """Whether ``index`` is a sum; reads at others, as in a transform, may lie anywhere, and make no vectors."""
    match index.op:
        case None | ops.Constant():
            return True
        case ops.Cast(x=x):
            return _is_plain(x)
        case ops.Apply(fn="add" | "sub", args=args):
            return all(map(_is_plain, args))
    return False
