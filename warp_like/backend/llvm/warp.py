"""Atomic updates on GPUs whose address all lanes of a warp share: reduced in registers first, so that one lane updates.

The gain is large, since updates of one address run one after the other: a sum over an array into one element, the
gradient of a parameter that all threads read. It is done where the update's old value is not used and where the
address can be seen to be the same for all threads, or nearly always to be so: an index that only arguments, extents,
counters of loops and the thread's place along the outer dimensions of the grid decide. Lanes of a warp may be in
different iterations or in two rows of the grid, so there the addresses are compared.

Lanes that are not all there update one by one: which of them run together is the hardware's affair, and a warp that is
not whole is rare where it costs.
"""

from __future__ import annotations

from collections.abc import Callable

from warp_like.analysis.indices import UNKNOWN, Affine, Index, ThreadIndex, Uniform
from warp_like.analysis.memory import analyse
from warp_like.backend.llvm.exchange import combine_whole
from warp_like.backend.llvm.simt import simt_of
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Function, Op
from warp_like.ir.types import Scalar


def shared_addresses(f: Function) -> dict[Op, str]:
    """Return the atomic updates of ``f`` whose address all threads share: ``always``, or ``mostly``.

    Mostly where that holds of threads at the same iteration of a loop, or in the same row of the grid, whose last
    dimension runs along the lanes. Updates whose old value is used are not there.
    """
    found: dict[Op, str] = {}
    for a in analyse(f).accesses:
        if isinstance(a.op, ops.Atomic) and KINDS[a.kind].reduction and not a.used:
            indices = (UNKNOWN,) if a.indices is None else a.indices
            if all(map(_is_of_rows, indices)):
                everywhere = all(isinstance(i, Uniform) and not i.loops for i in indices)
                found[a.op] = "always" if everywhere else "mostly"
    return found


def _is_of_rows(index: Index) -> bool:
    """Whether threads of one row of the grid, at the same iterations of loops, agree on an index."""
    match index:
        case Uniform():
            return True
        case ThreadIndex(axis=axis, ndim=ndim):
            return axis < ndim - 1
        case Affine(terms=terms):
            return all(axis < ndim - 1 for axis, ndim, _ in terms)
    return False


def is_reduced(t: Scalar) -> bool:
    """Return whether lanes are combined for elements of ``t``. Shorter floats would round differently."""
    return t.bits in (32, 64) and not t.is_bool


def update(
    w: Writer,
    kind: str,
    address: str,
    parts: list[tuple[Scalar, str]],
    each: Callable[[list[str]], object],
    *,
    uniform: bool,
) -> None:
    """Update the element at ``address`` by the scalars ``parts`` of each lane.

    Args:
        w: Where the text goes.
        kind: The kind of update, which has a ``reduction``.
        address: The element's address.
        parts: The scalars, of types that ``is_reduced``.
        each: Appends the atomic update of the element by given registers.
        uniform: All lanes have the same address; else that is looked at.
    """
    whole, one, single, done = (w.label(name) for name in ("whole", "one", "single", "updated"))
    simt = simt_of(w.target)
    w.branch(simt.is_whole(w, simt.active(w)), whole, single)
    w.start(whole)
    if not uniform:
        same = w.label("same")
        number = w.op(f"ptrtoint {w.array_pointer} {address} to i64")
        w.branch(simt.same(w, number), same, single)
        w.start(same)
    totals = [combine_whole(w, KINDS[kind].reduction, t, x) for t, x in parts]
    w.branch(w.op(f"icmp eq i32 {simt.lane(w)}, 0"), one, done)
    w.start(one)
    each(totals)
    w.jump(done)
    w.start(single)
    each([x for _, x in parts])
    w.jump(done)
    w.start(done)
