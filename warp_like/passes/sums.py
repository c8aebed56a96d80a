"""Which atomic updates need not be atomic where no other launch touches the arrays meanwhile.

Two kinds of array parameters that a kernel adds to:

* *Summed*: the kernel only adds to them, and uses no old element. Additions may then happen anywhere, at any time, so
  each OS thread may add into a copy of its own. The elements have at least 32 bits: shorter ones would round
  differently in another order.
* *Thread-private*: no two threads share an element, as of ``y[i]`` at the thread's own index ``i``, and of ``y[i, k]``
  (``analysis/private.py``).

Of a summed array to which every thread adds at constant offsets from its own index, only threads that are close to each
other share elements: ``spans`` says how close. Where only the first indices are such, as of ``y[i, k]`` in the thread
``i, j``, those in one row of the grid share elements, or in rows that are close to each other.

*Reduced* arrays are those to which every thread applies a minimum, a maximum or an operation on bits at an index that
is the same for all; on CUDA, where sums have no order anyway, additions, too. What a chunk or a block
contributes may be combined in registers, and meet the element once.

Example::

    kernel k(%x: array1d[float32], %total: array1d[float32], %count: array1d[float32], %top: array1d[float32]) {
      # %total: summed
      # %count: thread-private
      # %top: reduced
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = cast %1 : int32
      %3 = atomic_add %total[%2], %1 : float32
      %4 = atomic_add %count[%0], %1 : float32
      %5 = constant 0 : int32
      %6 = atomic_max %top[%5], %1 : float32
      yield
    }
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from warp_like.analysis.memory import (
    Access,
    Memory,
    Root,
    adds,
    is_thread_private,
    is_update,
    leading_offsets,
    offsets,
)
from warp_like.analysis.private import private_roots
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import has_op
from warp_like.ir.types import Array, Scalar, element_count, scalar_of
from warp_like.passes.effects import names_its_memory

ANY_SPAN = -1
"""Ends the spans of the first axes of a grid: threads that share an element may be anywhere along the others."""


def plain_additions(memory: Memory) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions of the summed and of the thread-private arrays that a function adds to atomically."""
    if not _names_each_array(memory):
        return (), ()
    summed, private = [], []
    owned = _private_parameters(memory)
    for i, p in enumerate(memory.function.params):
        found = memory.of_parameter(i)
        if not any(map(adds, found)):
            continue
        if p in owned:
            private.append(i)
        elif _is_wide(p) and all(adds(a) and not a.used for a in found):
            summed.append(i)
    return tuple(summed), tuple(private)


def _private_parameters(memory: Memory) -> set[Value]:
    """The arrays of which no two threads share an element; of those alone that some access updates."""
    updated = {root for root in memory.all_roots if root.kind == "parameter" and any(map(is_update, memory.of(root)))}
    plain = {root for root in updated if all(map(is_thread_private, memory.of(root)))}
    others = updated - plain
    return {root.array for root in (plain | (private_roots(memory) & others if others else set()))}


def _names_each_array(memory: Memory) -> bool:
    """Whether it is known of each access which one array it reaches."""
    return names_its_memory(memory) and all(len(a.roots) == 1 for a in memory.accesses)


def spans(memory: Memory, summed: Sequence[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return, for those of the ``summed`` arrays of which threads share elements with neighbours alone, how far off.

    With the array's position comes, for each dimension, the distance between the least and the greatest offset from the
    thread's index at which a thread adds. Where that is known of the first axes of the grid alone, ``ANY_SPAN`` follows
    theirs.
    """
    found = []
    for i in summed:
        accesses = memory.of_parameter(i)
        exact = [place for place in map(offsets, accesses) if place is not None]
        if len(exact) == len(accesses):
            found.append((i, _distances(exact)))
        elif distances := _distances([leading_offsets(a) for a in accesses]):
            found.append((i, (*distances, ANY_SPAN)))
    return tuple(found)


def greatest_offsets(memory: Memory, summed: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return, for those of ``spans`` that have one dimension, the greatest offset from the thread's index."""
    found = []
    for i in summed:
        places = [offsets(a) for a in memory.of_parameter(i)]
        exact = [place[0] for place in places if place is not None and len(place) == 1]
        if len(exact) == len(places):
            found.append((i, max(exact)))
    return tuple(found)


def _distances(places: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """How far ``places`` are apart along each of the axes that all of them have."""
    return tuple(max(column) - min(column) for column in zip(*places, strict=False))


def reduced_arrays(memory: Memory, *, sums: bool = False, most: int = 0) -> tuple[int, ...]:
    """Return the positions of the arrays of a function of which all threads only reduce into the same few elements.

    Args:
        memory: The function's accesses.
        sums: Floats may be added in any order and number, too.
        most: Only so many scalars, of the first arrays whose scalars they are; 0 for any number.
    """
    if not _names_each_array(memory):
        return ()
    params = memory.function.params
    scalars = {p for p in params if isinstance(p.type, Scalar)}

    def reduces(a: Access, array: Value) -> bool:
        return (
            isinstance(a.op, ops.Atomic)
            and (KINDS[a.kind].is_exact or (sums and bool(KINDS[a.kind].reduction)))
            and a.array is array
            and not a.used
            and all(i in scalars or ops.constant_value(i) is not None for i in a.op.indices)
        )

    found = []
    for k, p in enumerate(params):
        accesses = memory.of_parameter(k)
        if accesses and _is_wide(p) and all(reduces(a, p) for a in accesses) and _one_kind_each(accesses):
            found.append(k)
    if not most:
        return tuple(found)
    counts = itertools.accumulate(_scalars_reduced(memory, k) for k in found)
    return tuple(k for k, count in zip(found, counts, strict=True) if count <= most)


def _scalars_reduced(memory: Memory, position: int) -> int:
    """How many scalars of the array there threads reduce into at most."""
    places = {(a.kind, tuple(a.op.indices)) for a in memory.of_parameter(position) if isinstance(a.op, ops.Atomic)}
    t = memory.function.params[position].type
    assert isinstance(t, Array)
    return len(places) * element_count(t.dtype)


def _one_kind_each(found: Sequence[Access]) -> bool:
    """Whether no element is updated by operations of two kinds."""
    kinds = [a.kind for a in found]
    if len(set(kinds)) <= 1:
        return True
    places = [tuple(ops.constant_value(i) for i in a.op.indices) for a in found if isinstance(a.op, ops.Atomic)]
    known = all(None not in place for place in places)
    return known and len(set(zip(places, kinds, strict=True))) == len(set(places))


def depends_on_order(memory: Memory, summed: Sequence[int] = ()) -> bool:
    """Return whether what a function computes may depend on the order in which its threads run.

    So it is where threads update an element of one another such that order shows: by adding floats, which rounds, by
    exchanging, by updates of several kinds (a minimum and a maximum), or by looking at what was there before; and where
    they print. The arrays at the positions ``summed`` are not looked at.
    """
    f = memory.function
    apart = {Root("parameter", f.params[i]) for i in summed}
    owned = _private_parameters(memory)
    for root in memory.all_roots:
        found = memory.of(root)
        if root in apart or root.kind == "local" or (root.kind == "parameter" and root.array in owned):
            continue
        updates = [a for a in found if is_update(a)]
        if any(a.used or not _commutes(a.op) for a in updates):
            return True
        if len({_kind(a.op) for a in updates}) > 1:
            return True
    return has_op(f, ops.Print, ops.Native)


def sums_are_non_associative(f: Function, summed: Sequence[int]) -> bool:
    """Return whether an array at the positions ``summed``, to which ``f`` only adds, is of floats."""
    scalars = [scalar_of(t.dtype) for t in (f.params[i].type for i in summed) if isinstance(t, Array)]
    return any(s is not None and s.is_float for s in scalars)


def _commutes(o: Op) -> bool:
    """Whether updates like ``o`` give the same bits in any order."""
    return isinstance(o, ops.Atomic) and not KINDS[o.kind].has_order(o.value.type)


def _kind(o: Op) -> str:
    """Return the same for updates that give the same bits in any order among each other, if each kind does."""
    assert isinstance(o, ops.Atomic)
    return "" if KINDS[o.kind].sign else o.kind  # additions and subtractions


def _is_wide(p: Value) -> bool:
    scalar = scalar_of(p.type.dtype) if isinstance(p.type, Array) else None
    return scalar is not None and scalar.bits >= 32
