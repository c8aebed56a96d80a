"""Atomics whose order shows: which they are, where the program says the order, and what is refused where it does not.

Atomic updates of an element commute while nothing looks at it: sums, or minima alone, or maxima alone, whose old values
nobody uses. Where the kernel also reads the array, uses an old value, or exchanges, what a thread sees depends on which
threads came before, and so does the gradient. The order is known where one thread makes all updates of an element: of
arrays of which each thread touches elements of its own (``private``), and in a grid of one thread. There the atomics
are written as a load, the operation and a store, which reverse mode handles as any overwriting.

All others are refused, by the rules in ``rules.py``, when the adjoint of what depends on the order is needed. This is
asked where adjoints are sent and not where values are left over: ``2 * old`` needs no value of ``old`` for its reverse.

Relies on a prepared function without structs and slices. Leaves no atomic whose order shows on memory of which each
thread touches elements of its own.

Before::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 2.0 : float32
      %2 = atomic_add %x[%0], %1 : float32
      store %y[%0], %2
      yield
    }

After::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = constant 2.0 : float32
      %2 = load %x[%0] : float32
      %3 = add %2, %1 : float32
      store %x[%0], %3
      store %y[%0], %2
      yield
    }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warp_like.analysis.memory import Access, Memory, Root, adds, analyse, is_update, root_of
from warp_like.analysis.private import private_roots
from warp_like.base.errors import WarpCodegenError
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import has_op
from warp_like.ir.types import is_differentiable
from warp_like.passes.local_arrays import lower_exclusive_atomics

_ATOMIC = (ops.Atomic, ops.AtomicCas)
ONE_THREAD = "; a launch of one thread has this gradient"
"""What ends the help where the order of several threads is the reason."""


def ordered_roots(memory: Memory) -> set[Root]:
    """Return the memory that a function updates by atomics such that the order of the updates shows."""
    roots = (root for root in memory.all_roots if root.kind not in ("local", "shared"))
    return {root for root in roots if _order_shows(memory.of(root))}


def _order_shows(accesses: Sequence[Access]) -> bool:
    atomics = [a for a in accesses if is_update(a)]
    if not atomics:
        return False
    if any(a.kind == "load" for a in accesses) or any(a.used for a in atomics):
        return True
    carries = any(is_differentiable(a.array.type) for a in atomics)
    if not carries or all(map(adds, atomics)):
        return False
    kinds = {a.kind for a in accesses}
    return len(kinds) > 1 or any(KINDS[kind].derivative is None for kind in kinds)


def roots_in_order(memory: Memory) -> set[Root]:
    """Return the memory of which the order of updates shows, and is known in any grid."""
    return ordered_roots(memory) & private_roots(memory)


def in_order(f: Function, alone: bool = False) -> Function:
    """Write the atomics of ``f`` whose order shows, and is known, as loads and stores, in place.

    ``alone`` says that the grid is one thread.
    """
    if not has_op(f, *_ATOMIC):
        return f
    memory = analyse(f)
    lowered = ordered_roots(memory) if alone else roots_in_order(memory)
    if not lowered:
        return f

    def is_lowered(array: Value) -> bool:
        roots = memory.roots(array)
        return bool(roots) and roots <= lowered

    return lower_exclusive_atomics(f, is_lowered)


def serial_arrays(memory: Memory) -> tuple[int, ...]:
    """Return the positions of the arrays for whose adjoint it matters that a grid is one thread.

    For an array that stands in elements of another one it is that one's position.
    """
    serial = {root.array for root in ordered_roots(memory) - private_roots(memory)}
    return tuple(i for i, p in enumerate(memory.function.params) if p in serial)


# --- what is refused ------------------------------------------------------------------------------------------


def refuse_old_value(o: ops.Atomic | ops.AtomicCas) -> WarpCodegenError:
    """Return the error for an adjoint that the old value of an atomic would get."""
    name = root_of(o.array).array.hint
    return WarpCodegenError(
        f"the gradient needs the derivative of what this atomic finds in `{name}`, which depends on the order of the "
        "threads",
        o.loc,
        help=f"read `{name}` in a second kernel, or use an array without requires_grad{ONE_THREAD}",
    )


def read_of_updated(name: str) -> tuple[str, str]:
    """Return why an element that the kernel updates by atomics can't be read, and what helps."""
    return (
        f"the gradient needs this element of `{name}`, which the same kernel updates by atomics",
        f"where no other thread updates the element, write `{name}[...] = {name}[...] + value`, since `+=` is an "
        f"atomic; else read `{name}` in a second kernel{ONE_THREAD}",
    )


def require_fixed(o: ops.Load, memory: Memory, varied: Collection[Value]) -> None:
    """Refuse the adjoint of an element whose derivative depends on the order in which threads update it.

    Numbers that carry no gradient may be added to the element in any order.

    Args:
        o: The load whose result has an adjoint.
        memory: What its function does to memory.
        varied: The values that carry a gradient.

    Raises:
        WarpCodegenError: It does.
    """
    for root in memory.roots(o.array):
        for x in (a.op for a in memory.of(root) if is_update(a)):
            if isinstance(x, ops.Atomic) and KINDS[x.kind].sign and x.value not in varied:
                continue
            if not isinstance(x, _ATOMIC) or _may_meet(o, x):
                reason, help = read_of_updated(root.array.hint or "an array")
                raise WarpCodegenError(reason, o.loc, help=help)


def _may_meet(a: ops.Load, b: ops.Atomic | ops.AtomicCas) -> bool:
    """Whether two accesses of one array may be of one element: not where fields or constant indices differ."""
    (fields, indices), (other_fields, other_indices) = _path(a), _path(b)
    if any(x != y for x, y in zip(fields, other_fields, strict=False)):
        return False
    pairs = zip(map(ops.constant_value, indices), map(ops.constant_value, other_indices), strict=False)
    return not any(x is not None and y is not None and x != y for x, y in pairs)


def _path(o: ops.Load | ops.Atomic | ops.AtomicCas) -> tuple[tuple[int, ...], tuple[Value, ...]]:
    """The fields that ``o`` goes through, and its indices as far as they are known."""
    fields: tuple[int, ...] = ()
    indices, array = o.indices, o.array
    while isinstance(view := array.op, ops.VIEWS):
        if isinstance(view, ops.Slice):
            indices = ()
        else:
            indices = (*view.indices, *indices)
            fields = (view.field, *fields) if view.field is not None else fields
        array = view.array
    return fields, indices
