"""Threads in the order of an object's items, where each thread asks a hash grid or a tree about a place of its own.

Points lie in memory in any order, so that neighbouring threads ask about places far apart, and each fetches other
points. In the order of the grid's cells they look through the same ones, which are in the caches by then: a sum over 30
neighbours takes about half the time. The grid has this order, its list of points, and a bounding volume hierarchy has
one of its boxes. So thread ``t`` of the launch does the work of thread ``ids[t]``, where the object has as many items
as the launch has threads. Each thread is run once, and threads have no order.

Nobody sees the other order: a thread writes to its own elements alone, and shows nothing. It is done where a thread
reads a vector of three numbers at its own index, and does not ask for the order itself (``hash_grid_point_id``).

Relies on ``finish``, and that ``choice.py`` has chosen one thread at a time.

Before::

    kernel k(%grid: uint64, %x: array1d[vec3[float32]], %out: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 9 : int64
      %2 = at_address object 1 %grid, %1 : array1d[uint64]
      %3 = constant 7 : int32
      %4 = load %2[%3] : uint64
      %5 = load %x[%0] : vec3[float32]
      %6 = constant 0 : int32
      %7 = extract %5[%6] : float32
      %8 = cast %4 : float32
      %9 = mul %7, %8 : float32
      store %out[%0], %9
      yield
    }

After::

    kernel k(%grid: uint64, %x: array1d[vec3[float32]], %out: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = grid_dim 0 of 1 : int32
      %2 = constant 0 : uint64
      %3 = ne %grid, %2 : bool
      %4 = if %3 : int32 {
        %5 = constant 9 : int64
        %6 = at_address object 1 %grid, %5 : array1d[uint64]
        %7 = constant 7 : int32
        %8 = load %6[%7] : uint64
        %9 = cast %8 : int64
        %10 = cast %1 : int64
        %11 = eq %9, %10 : bool
        %12 = if %11 : int32 {
          %13 = constant 2 : int32
          %14 = load %6[%13] : uint64
          %15 = cast %1 : int64
          %16 = at_address constant %14, %15 : array1d[int32]
          %17 = load %16[%0] : int32
          yield %17
        } else {
          yield %0
        }
        yield %12
      } else {
        yield %0
      }
      %18 = tid 0 of 1 : int32
      %19 = constant 9 : int64
      %20 = at_address object 1 %grid, %19 : array1d[uint64]
      %21 = constant 7 : int32
      %22 = load %20[%21] : uint64
      %23 = load %x[%4] : vec3[float32]
      %24 = constant 0 : int32
      %25 = extract %23[%24] : float32
      %26 = cast %22 : float32
      %27 = mul %25, %26 : float32
      store %out[%4], %27
      yield
    }
"""

from __future__ import annotations

from warp_like.analysis.indices import ThreadIndex
from warp_like.analysis.memory import Access, Memory, analyse, writes
from warp_like.base.contract import ObjectKind
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Value
from warp_like.ir.objects import DESCRIPTORS
from warp_like.ir.rewrite import has_op, substitute
from warp_like.ir.types import Array, Vec, int32, int64, uint64
from warp_like.passes.effects import own_arrays, queried_objects
from warp_like.passes.sums import plain_additions

_OWN = ThreadIndex(0, 1)
_SHOWN = (ops.Print, ops.Breakpoint, ops.Check, ops.Native, ops.Call, ops.Barrier)
_ORDERS = {ObjectKind.HASH_GRID: "ids", ObjectKind.BVH: "order"}
"""The kinds of objects that have an order, and the word of their descriptor that says where it is."""


def ordering(f: Function) -> Value | None:
    """Return the id of the object in the order of whose items threads of ``f`` may run; None where that is no use.

    It is a parameter of ``f``, which has one thread at a time.
    """
    asked = queried_objects(f)
    places = [place for place, kind in asked if kind in _ORDERS]
    threads = [o for o in f.body.walk() if isinstance(o, ops.Tid)]
    if len(places) != 1 or places[0] < 0 or any(o.ndim != 1 or o.result.type != int32 for o in threads):
        return None
    if has_op(f, *_SHOWN):
        return None
    if sum(place == places[0] for place, _ in asked) > 1:
        return None  # launches take objects of either kind for this id, whose words say other things
    memory = analyse(f)
    return f.params[places[0]] if _asks_for_its_own(memory) and _is_unseen(memory) else None


def in_object_order(f: Function, id: Value) -> Function:
    """Let ``f`` run its threads in the order of the object ``id``, which ``ordering`` has found, in place."""
    kind = next(o.kind for o in f.body.walk() if isinstance(o, ops.AtAddress) and o.address is id and o.kind in _ORDERS)
    words = DESCRIPTORS[kind]
    b = Emitter(Block())
    thread, threads = b.insert(ops.Tid(0, 1), int32).result, b.insert(ops.GridDim(0, 1), int32).result

    def word(name: str) -> Value:
        return b.load(descriptor, [b.index(words.index(name))])

    with b.into(Block()) as there:
        made = ops.AtAddress(id, (b.constant(len(words), int64),), constant=True, kind=kind)
        descriptor = b.insert(made, Array(uint64, 1)).result
        fits = b.eq(b.cast(word("count"), int64), b.cast(threads, int64))
        with b.into(Block()) as order:
            at = ops.AtAddress(word(_ORDERS[kind]), (b.cast(threads, int64),), constant=True)
            b.yield_(b.load(b.insert(at, Array(int32, 1)).result, [thread]))
        b.yield_(b.if_(fits, order, _yielding(b, thread))[0])
    place = b.if_(b.ne(id, 0), there, _yielding(b, thread))[0]
    substitute(f.body, {o.result: place for o in f.body.walk() if isinstance(o, ops.Tid)})
    f.body.ops[:0] = b.block.ops
    return f


def _yielding(b: Emitter, v: Value) -> Block:
    with b.into(Block()) as block:
        b.yield_(v)
    return block


def _asks_for_its_own(memory: Memory) -> bool:
    """Whether threads read vectors at their own index, and not the order of the points."""
    loads = [a for a in memory.accesses if a.kind == "load" and a.indices]
    if any(_is_object(a) and a.indices == (_OWN,) for a in loads):
        return False
    return any(a.indices == (_OWN,) and isinstance(t := a.op.results[0].type, Vec) and t.length == 3 for a in loads)


def _is_unseen(memory: Memory) -> bool:
    """Whether a thread writes to its own elements alone."""
    own = {memory.function.params[i] for i in own_arrays(memory)}
    written = {r for a in memory.accesses if writes(a) for r in a.roots}
    alone = all(r.kind == "local" or (r.kind == "parameter" and r.array in own) for r in written)
    return alone and not memory.anywhere and not plain_additions(memory)[0]


def _is_object(a: Access) -> bool:
    return all(r.kind == "object" for r in a.roots)
