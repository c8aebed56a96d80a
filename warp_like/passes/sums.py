"""Which atomic updates need not be atomic where no other launch touches the arrays meanwhile.

Two kinds of array parameters that a kernel adds to, all of whose elements have at least 32 bits (shorter ones would
round differently in another order):

* *Summed*: the kernel only adds to them, and uses no old element. Additions may then happen anywhere, at any time, so
  each OS thread may add into a copy of its own.
* *Own*: every access is at the thread's own index in the grid, so no two threads share an element.

Of a summed array to which every thread adds at constant offsets from its own index, only threads that are close to each
other share elements: ``spans`` says how close.

*Reduced* arrays are those to which every thread applies a minimum, a maximum or an operation on bits at an index that
is the same for all. What the threads of a chunk contribute may be combined in registers, and meet the element once.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import blocks, substitute
from warp_like.ir.types import Array, Scalar, scalar_of

_REDUCED = frozenset(("min", "max", "and", "or", "xor"))
_Access = ops.Load | ops.Store | ops.Atomic | ops.AtomicCas


def plain_additions(f: Function) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions of the summed and of the own arrays of ``f`` that it adds to atomically."""
    accesses = _accesses(f)
    if not accesses.keys() <= set(f.params):
        return (), ()  # an array that came through control flow: nobody knows which one it is
    used = {v for o in f.body.walk() for v in o.operands()}
    summed, own = [], []
    for i, p in enumerate(f.params):
        found = accesses.get(p, [])
        if not any(_adds(o) for o in found) or not _is_wide(p):
            continue
        if all(_is_own(o) for o in found):
            own.append(i)
        elif all(_adds(o) and o.results[0] not in used for o in found):
            summed.append(i)
    return tuple(summed), tuple(own)


def spans(f: Function, summed: Sequence[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return, for those of the ``summed`` arrays of which threads share elements with neighbours alone, how far off.

    With the array's position comes, for each dimension, the distance between the least and the greatest offset from the
    thread's index at which a thread adds.
    """
    accesses, found = _accesses(f), []
    for i in summed:
        offsets = [_offsets(o) for o in accesses[f.params[i]]]
        if None not in offsets:
            columns = zip(*(o for o in offsets if o is not None), strict=True)
            found.append((i, tuple(max(c) - min(c) for c in columns)))
    return tuple(found)


def reduced_arrays(f: Function) -> tuple[int, ...]:
    """Return the positions of the arrays of ``f`` of which all threads only reduce into the same few elements."""
    accesses = _accesses(f)
    used = {v for o in f.body.walk() for v in o.operands()}
    scalars = {p for p in f.params if isinstance(p.type, Scalar)}

    def reduces(o: _Access) -> bool:
        return (
            isinstance(o, ops.Atomic)
            and o.kind in _REDUCED
            and not isinstance(o.array.op, ops.VIEWS)
            and o.results[0] not in used
            and all(i in scalars or ops.constant_value(i) is not None for i in o.indices)
        )

    pairs = ((i, accesses.get(p, [])) for i, p in enumerate(f.params) if _is_wide(p))
    return tuple(i for i, found in pairs if found and all(map(reduces, found)) and _one_kind_each(found))


def _one_kind_each(found: Sequence[_Access]) -> bool:
    """Whether no element is updated by operations of two kinds."""
    kinds = [o.kind for o in found if isinstance(o, ops.Atomic)]
    if len(set(kinds)) <= 1:
        return True
    places = [tuple(ops.constant_value(i) for i in o.indices) for o in found]
    known = all(None not in place for place in places)
    return known and len(set(zip(places, kinds, strict=True))) == len(set(places))


def depends_on_order(f: Function, summed: Sequence[int] = ()) -> bool:
    """Return whether what ``f`` computes may depend on the order in which its threads run.

    So it is where threads update an element of one another such that order shows: by adding floats, which rounds, by
    exchanging, or by looking at what was there before; and where they print. The arrays at the positions ``summed`` are
    not looked at.
    """
    apart = {f.params[i] for i in summed}
    used = {v for o in f.body.walk() for v in o.operands()}
    for array, found in _accesses(f).items():
        atomics = [o for o in found if isinstance(o, (ops.Atomic, ops.AtomicCas))]
        if array in apart or (atomics and array in f.params and all(map(_is_own, found))):
            continue
        if any(o.results[0] in used or not _commutes(o) for o in atomics):
            return True
    return any(isinstance(o, (ops.Print, ops.Native)) for o in f.body.walk())


def sums_round(f: Function, summed: Sequence[int]) -> bool:
    """Return whether an array at the positions ``summed``, to which ``f`` only adds, is of floats."""
    scalars = [scalar_of(t.dtype) for t in (f.params[i].type for i in summed) if isinstance(t, Array)]
    return any(s is not None and s.is_float for s in scalars)


def _commutes(o: Op) -> bool:
    """Whether updates like ``o`` give the same bits in any order."""
    if not isinstance(o, ops.Atomic) or o.kind == "exch":
        return False
    scalar = scalar_of(o.value.type)
    return o.kind not in ("add", "sub") or (scalar is not None and scalar.is_int)


def open_own_additions(f: Function) -> Function:
    """Write the atomic additions of ``f`` to its own elements as load, add and store, in place.

    Only for arrays that it also loads from or stores to: then the additions have an order, which the reverse sweep
    needs to know.
    """
    accesses = _accesses(f)
    opened = {
        a
        for a, found in accesses.items()
        if not isinstance(a.op, ops.Inner) and all(map(_is_own, found)) and not all(map(_adds, found))
    }
    mapping: dict[Value, Value] = {}
    for block in blocks(f.body):
        kept: list[Op] = []
        for o in block.ops:
            if isinstance(o, ops.Atomic) and _adds(o) and o.array in opened:
                b = Emitter(Block())
                with at(o.loc):
                    old = b.load(o.array, o.indices)
                    b.store(o.array, o.indices, b.apply(o.kind, old, o.value))
                mapping[o.result] = old
                kept.extend(b.block.ops)
            else:
                kept.append(o)
        block.ops = kept
    substitute(f.body, mapping)
    return f


def _accesses(f: Function) -> dict[Value, list[_Access]]:
    """Return what ``f`` does with each array, views counted with what they are views of."""
    found: dict[Value, list[_Access]] = {}
    for o in f.body.walk():
        if isinstance(o, (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas)):
            root = _root(o.array)
            if not isinstance(root.op, ops.LocalArray):  # nothing else shares its memory
                found.setdefault(root, []).append(o)
    return found


def _root(v: Value) -> Value:
    while isinstance(v.op, ops.VIEWS):
        v = v.op.array
    return v


def _is_wide(p: Value) -> bool:
    scalar = scalar_of(p.type.dtype) if isinstance(p.type, Array) else None
    return scalar is not None and scalar.bits >= 32


def _adds(o: Op) -> bool:
    return isinstance(o, ops.Atomic) and o.kind in ("add", "sub")


def _is_own(o: _Access) -> bool:
    """Whether ``o`` is at the index of the thread in a grid of as many dimensions as the array has."""
    n = len(o.indices)
    if isinstance(o.array.op, ops.VIEWS):
        return False
    tids = [i.op for i in o.indices]
    return all(isinstance(t, ops.Tid) and t.axis == k and t.ndim == n for k, t in enumerate(tids))


def _offsets(o: _Access) -> tuple[int, ...] | None:
    """How far ``o`` is from the element at the index of the thread, where that is a constant."""
    if isinstance(o.array.op, ops.VIEWS):
        return None
    found = [_offset(i, k, len(o.indices)) for k, i in enumerate(o.indices)]
    return None if None in found else tuple(n for n in found if n is not None)


def _offset(index: Value, axis: int, ndim: int) -> int | None:
    match index.op:
        case ops.Tid() as t:
            return 0 if t.axis == axis and t.ndim == ndim else None
        case ops.Apply(fn="add" | "sub" as fn, args=(x, y)):
            if fn == "add" and ops.constant_value(x) is not None:
                x, y = y, x
            base, by = _offset(x, axis, ndim), ops.constant_value(y)
            if base is None or by is None:
                return None
            return base + int(by) if fn == "add" else base - int(by)
    return None
