"""Which arrays a function touches, and how; the runtime checks arguments and orders launches by it.

Example::

    kernel k(%x: array1d[float32], %total: array1d[float32], %count: array1d[float32], %top: array1d[float32]) {
      # %x: read, loaded
      # %total: read, written, atomic
      # %count: read, written, atomic
      # %top: read, written, atomic, extreme
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

from collections.abc import Iterable, Iterator

from warp_like.analysis.indices import ThreadIndex
from warp_like.analysis.memory import Access, Memory, Root, adds, is_update, kind_of
from warp_like.base.frozen import Frozen
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import find_ops, has_op
from warp_like.ir.types import Array, Scalar


class Use(Frozen):
    """What a function does to an array parameter.

    An atomic update reads and writes, an ``extreme`` one such that its derivative looks for the winner (as a minimum);
    ``loaded`` means read otherwise, ``stored`` overwritten.
    """

    read: bool = False
    written: bool = False
    atomic: bool = False
    stored: bool = False
    loaded: bool = False
    extreme: bool = False


def array_uses(memory: Memory) -> dict[int, Use]:
    """Return how a function uses each array parameter, by position; through views, branches and calls as well."""
    params = enumerate(memory.function.params)
    return {i: _use(memory.of_parameter(i)) for i, p in params if isinstance(p.type, Array)}


def nested_uses(memory: Memory) -> dict[tuple[int, str], Use]:
    """Return how a function uses the arrays that the elements of its array parameters hold: by position and field.

    Of arrays in the elements of such an array the field that it stands in counts.
    """
    positions = {p: i for i, p in enumerate(memory.function.params)}
    held = (root for root in memory.all_roots if root.kind == "element" and root.array in positions)
    return {(positions[root.array], root.path): _use(memory.of(root)) for root in held}


def use_of(memory: Memory, root: Root) -> Use:
    """Return how a function uses one array."""
    return _use(memory.of(root))


def always_accessed(memory: Memory) -> tuple[int, ...]:
    """Return the positions of the array parameters of which every thread accesses an element.

    Threads that a check ends before count as well: the access would be wrong for those that go on.
    """
    always, positions = set(memory.function.body.ops), range(len(memory.function.params))

    def is_always_executed(a: Access) -> bool:
        passed = a.always_executed or (a.op in always and not isinstance(a.op, (ops.Native, ops.Call)))
        return passed and len(a.roots) == 1

    return tuple(i for i in positions if any(map(is_always_executed, memory.of_parameter(i))))


def constant_arrays(memory: Memory) -> tuple[int, ...]:
    """Return the positions of the arrays that are only read, if none of the arguments overlaps another."""
    if not names_its_memory(memory):
        return ()
    return tuple(i for i, use in array_uses(memory).items() if use.read and not use.written)


def taken_arrays(memory: Memory) -> tuple[int, ...]:
    """Return the positions of the arrays of which a function takes elements; none if it takes others as well."""
    roots = {root for a in memory.accesses if (kind := kind_of(a)) is not None and kind.takes for root in a.roots}
    taken = tuple(i for i, p in enumerate(memory.function.params) if Root("parameter", p) in roots)
    return taken if len(taken) == len(roots) else ()


def counters(memory: Memory) -> tuple[int, ...]:
    """Return the positions of the arrays of integers of which additions ask what was there before, as for a free place.

    None if the function takes elements of others than ``taken_arrays`` says: those that are taken, and these, are
    updated without atomics where no other OS thread touches them.
    """
    takes = any(kind.takes for a in memory.accesses if (kind := kind_of(a)) is not None)
    if takes and not taken_arrays(memory):
        return ()

    def counts(a: Access) -> bool:
        return adds(a) and a.used and len(a.roots) == 1

    found = []
    for i, p in enumerate(memory.function.params):
        scalar = p.type.dtype if isinstance(p.type, Array) else None
        if isinstance(scalar, Scalar) and scalar.is_int and any(map(counts, memory.of_parameter(i))):
            found.append(i)
    return tuple(found)


def own_arrays(memory: Memory) -> tuple[int, ...]:
    """Return the positions of the arrays of which each thread touches the elements at its own index alone.

    The first indices of every access are those of the thread, one for each dimension of the grid; there may be more.
    """
    ndim = memory.function.tid_ndim
    own = tuple(ThreadIndex(axis, ndim) for axis in range(ndim))

    def is_own(a: Access) -> bool:
        return a.indices is not None and a.indices[:ndim] == own

    found = ((i, memory.of_parameter(i)) for i in range(len(memory.function.params)))
    return tuple(i for i, accesses in found if ndim and accesses and all(map(is_own, accesses)))


_UNSAFE = (ops.AtAddress, ops.Barrier, ops.Breakpoint, ops.Check, ops.IsLive, ops.Native, ops.Print, ops.Search)


def is_self_contained(memory: Memory) -> bool:
    """Return whether a function reaches memory through its array parameters alone, can't fail, and shows nothing."""

    def is_safe(f: Function) -> bool:
        called, outlined = find_ops(f.body, ops.Call), find_ops(f.body, ops.Outlined)
        callees = [*(o.callee for o in called), *(o.callee for o in outlined)]
        return not has_op(f, *_UNSAFE) and all(map(is_safe, callees))

    known = all(root.kind in ("parameter", "local") for root in memory.all_roots)
    return known and not memory.anywhere and is_safe(memory.function)


def queried_objects(f: Function) -> tuple[tuple[int, int], ...]:
    """Return the parameters that are ids of objects, by position, with the kind of object; -1 stands for other ids."""
    places = {p: i for i, p in enumerate(f.params)}
    return tuple(dict.fromkeys((places.get(id, -1), kind) for id, kind in _queries(f)))


def _queries(f: Function) -> Iterator[tuple[Value, int]]:
    """The ids of the objects that ``f`` reads, and their kinds."""
    for o in f.body.walk() if has_op(f, ops.AtAddress, ops.Outlined) else ():
        if isinstance(o, ops.AtAddress) and o.kind:
            yield o.address, o.kind
        elif isinstance(o, ops.Outlined):
            for place, kind in queried_objects(o.callee):
                yield o.args[place], kind


def names_its_memory(memory: Memory) -> bool:
    """Return whether a function reaches parameters and arrays that it makes alone, and never by an address.

    Then nothing else happens to a parameter that overlaps no other than what its own accesses say.
    """
    known = ("parameter", "local", "shared", "object")
    return not memory.anywhere and all(root.kind in known for root in memory.all_roots)


def _use(accesses: Iterable[Access]) -> Use:
    kinds = {"update" if is_update(a) else a.kind for a in accesses}
    updated, loaded, stored = (kind in kinds for kind in ("update", "load", "store"))
    updates = [kind for a in accesses if (kind := kind_of(a)) is not None]
    extreme = any(kind.winners for kind in updates)
    taken = any(kind.takes for kind in updates)  # loaded and overwritten at one time
    return Use(loaded or updated, stored or updated, updated, stored or taken, loaded or taken, extreme)
