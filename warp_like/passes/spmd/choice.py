"""Which kernels are compiled for lanes, and for how many.

Code without loops is left to LLVM's vectoriser, which does streaming well. It can't vectorise over threads what has
loops of its own; that is what lanes are for, and for atomics that all lanes make to one address.
"""

from __future__ import annotations

from dataclasses import dataclass

from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import scalar_of
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.spmd.widen import NotWidenable, widen


@dataclass(frozen=True)
class Choice:
    """A function to be lowered, one thread or ``width`` lanes at a time, and why."""

    function: Function
    width: int
    reason: str


def choose(f: Function, vector_bits: int, wanted: int) -> Choice:
    """Return ``f`` in the form in which the CPU runs it.

    Args:
        f: What ``finish`` left.
        vector_bits: The width of the target's vector registers.
        wanted: The lanes that the user asks for; 0 leaves the choice to the rules here, 1 means no lanes.
    """
    if wanted == 1:
        return Choice(f, 1, "vector_width is 1")
    if not wanted and not _has_loop(f):
        return Choice(f, 1, "no loop: left to LLVM's vectoriser")
    width = wanted or vector_bits // _widest(f)
    try:
        wide = widen(f, width)
    except NotWidenable as e:
        return Choice(f, 1, str(e))
    reason = "vector_width asks for it" if wanted else f"{vector_bits}-bit vectors of {_widest(f)}-bit numbers"
    return Choice(dce(cse(wide)), width, reason)


def _has_loop(f: Function) -> bool:
    return any(isinstance(o, (ops.For, ops.While)) for o in f.body.walk())


def _widest(f: Function) -> int:
    """The bits of the widest floating-point numbers that ``f`` computes with; 32 where there are none."""
    computed = (scalar_of(r.type) for o in f.body.walk() if isinstance(o, ops.Apply) for r in o.results)
    return max([32, *(s.bits for s in computed if s is not None and s.is_float)])
