"""``take``: reading an element and leaving 0 there, which is one exchange, so that one thread alone gets the element.

Where no other OS thread can touch the array meanwhile, a load and a store do the same in a fraction of the time. The
runtime says so for each call of the entry, by ``Context.alone`` (``base/contract.py``): it is not 0 while the launch
runs on one OS thread, and launches of other Python threads that write to such arrays wait (``native/gil.cpp``). These
loads and stores are in no access group: threads may mean the same element, so their order counts. Additions to integers
that ask for the old number, as kernels do that hand out places in a list, are written in the same two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warp_like.backend.llvm.writer import Writer
from warp_like.base.contract import CONTEXT

_ALONE = CONTEXT.offsets["alone"]


def where_alone(
    w: Writer, types: Sequence[str], plainly: Callable[[], Sequence[str]], atomically: Callable[[], Sequence[str]]
) -> tuple[str, ...]:
    """Return the registers, of ``types``, that either code gives: ``plainly`` if no other OS thread is at work."""
    if w.target.is_device:
        return tuple(atomically())
    at = w.op(f"getelementptr inbounds i8, ptr %ctx, i64 {_ALONE}")
    alone = w.op(f"load i64, ptr {at}, align 8, !invariant.load {w.metadata('empty', '!{}')}")
    plain, shared, taken = w.label("alone"), w.label("shared"), w.label("taken")
    w.branch(w.op(f"icmp ne i64 {alone}, 0"), plain, shared)
    sources = []
    for label, code in ((plain, plainly), (shared, atomically)):
        w.start(label)
        sources.append((code(), w.block))
        w.jump(taken)
    w.start(taken)
    phis = w.phis(types)
    for values, block in sources:
        phis.add(values, block)
    phis.finish()
    return tuple(phis.registers)
