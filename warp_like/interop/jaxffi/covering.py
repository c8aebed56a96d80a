"""Which outputs a kernel overwrites as a whole, so that they need not be zeroed before: half of the memory traffic."""

from __future__ import annotations

from warp_like.analysis.memory import Access, analyse, is_thread_private
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, Type
from warp_like.passes.effects import array_uses


def elementwise_stores(f: Function) -> frozenset[int]:
    """Return the positions of the arrays of which every thread stores the element that its own indices name.

    If the grid has the shape of such an array, all of it is stored. An array that is read as well is not among them.
    Only stores that every thread comes to count, whatever it computes.
    """
    memory = analyse(f)

    def covers(a: Access, p: Value) -> bool:
        return (
            a.always_executed
            and a.kind == "store"
            and len(a.roots) == 1
            and is_thread_private(a)
            and _elements(a.array) == _elements(p)
        )

    found = ((i, f.params[i]) for i, use in array_uses(memory).items() if not use.read)
    return frozenset(i for i, p in found if any(covers(a, p) for a in memory.of_parameter(i)))


def _elements(array: Value) -> Type:
    """The type of the elements: of a field of structs another one than that of the structs."""
    assert isinstance(array.type, Array)
    return array.type.dtype
