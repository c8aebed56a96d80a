"""Integers that atomics return, saved by a recorded launch for its reverse sweep.

Compaction (``out[wp.atomic_add(n, 0, 1)] = x[i]``) needs in reverse the place that each thread got, which no second run
would give. The kernel gets a parameter more, ``saved``, an array of int64 with a row for each such atomic and a column
for each thread. The recorded launch runs a variant that stores the results there, and the adjoint loads them.

Rows are for atomics to which a thread comes at most once: in branches, and in no loop, since constant loops have been
unrolled before. A loop over the threads of a joined block is none to them: each of its threads has a column. Both
variants are made of the same prepared function, so that they number the rows alike.

Below is the adjoint's side, ``load_results``; its atomic has no effect on adjoints. ``save_results`` puts a ``store``
behind the atomic where this has a ``load``.

Before::

    kernel k(%n: array1d[int32], %x: array1d[float32], %out: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 0 : int32
      %2 = constant 1 : int32
      %3 = atomic_add %n[%1], %2 : int32
      %4 = load %x[%0] : float32
      store %out[%3], %4
      yield
    }

After::

    kernel k(%n: array1d[int32], %x: array1d[float32], %out: array1d[float32], %saved: array2d[int64]) {
      %0 = tid 0 of 1 : int64
      %1 = tid 0 of 1 : int32
      %2 = constant 0 : int32
      %3 = constant 1 : int32
      %4 = atomic_add %n[%2], %3 : int32
      %5 = constant 0 : int32
      %6 = load %saved[%5, %0] : int64
      %7 = cast %6 : int32
      %8 = load %x[%1] : float32
      store %out[%7], %8
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from warp_like.analysis.memory import Memory, analyse, root_of
from warp_like.analysis.private import private_roots
from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.layout import SAVED_RESULTS
from warp_like.ir.rewrite import substitute
from warp_like.ir.types import Scalar, int64


def savable_results(memory: Memory) -> list[ops.Atomic | ops.AtomicCas]:
    """Return the atomics of a function whose results a recorded launch can save, in order."""
    own = private_roots(memory)  # whose elements can be saved otherwise
    used = (o for o in _once(memory.function.body) if memory.is_used(o.result) and _is_integer(o.result))
    return [o for o in used if not memory.roots(o.array) <= own]


def _once(b: Block, inside: bool = False) -> Iterator[ops.Atomic | ops.AtomicCas]:
    for o in b.ops:
        if isinstance(o, (ops.Atomic, ops.AtomicCas)):
            yield o
        elif isinstance(o, ops.If):
            for r in o.regions():
                yield from _once(r, inside)
        elif _is_over_threads(o) and not inside:
            yield from _once(o.body, inside=True)


def _is_over_threads(o: Op) -> TypeGuard[ops.For]:
    """Whether ``o`` is a loop over the threads of a joined block."""
    return isinstance(o, ops.For) and o.threads


def _is_integer(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_int


def save_results(f: Function, block_dim: int = 1) -> Function:
    """Let ``f`` store what its atomics return, in place; if it is joined, its blocks have ``block_dim`` threads."""
    return _with_parameter(f, block_dim, load=False)


def load_results(f: Function, block_dim: int = 1) -> Function:
    """Let ``f`` use what an earlier launch has saved in place of what its atomics return, in place.

    If it is joined, its blocks have ``block_dim`` threads.
    """
    return _with_parameter(f, block_dim, load=True)


def _with_parameter(f: Function, block_dim: int, *, load: bool) -> Function:
    rows = {o: row for row, o in enumerate(savable_results(analyse(f)))}
    number = {b: o.body.params[0] for o in f.body.walk() if _is_over_threads(o) for b in _blocks(o.body)}
    param = Value(SAVED_RESULTS, "saved")
    f.body.params = [*f.params, param]
    b = Emitter(Block())
    thread = b.insert(ops.Tid(0, 1), int64).result  # its number in a grid of any dimensions
    if f.is_joined:
        thread = b.mul(thread, block_dim)  # that of the block's first thread
    first = b.block.ops
    mapping: dict[Value, Value] = {}
    for block in _blocks(f.body):
        new: list[Op] = []
        for o in block.ops:
            new.append(o)
            if o not in rows:
                continue
            with b.into(Block()) as added, at(o.loc):
                column = b.add(thread, b.cast(number[block], int64)) if block in number else thread
                where = [b.index(rows[o]), column]
                if load:
                    mapping[o.results[0]] = b.cast(b.load(param, where), o.results[0].type)
                else:
                    b.store(param, where, b.cast(o.results[0], int64))
            new.extend(added.ops)
        block.ops = new
    f.body.ops[:0] = first
    if load:
        substitute(f.body, mapping)
    return f


def _blocks(b: Block) -> list[Block]:
    return [b, *(r for o in b.walk() for r in o.regions())]


def count_rows(f: Function) -> int:
    """Return how many rows ``f``, which ``save_results`` has given its last parameter, stores to."""
    stores = (o for o in f.body.walk() if isinstance(o, ops.Store) and root_of(o.array).array is f.params[-1])
    return max((1 + int(ops.constant_value(o.indices[0])) for o in stores), default=0)
