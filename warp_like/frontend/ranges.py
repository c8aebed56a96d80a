"""What a ``for`` loop may run over."""

from __future__ import annotations

from collections.abc import Callable

from warp_like.base.frozen import Frozen
from warp_like.frontend.operands import Operand
from warp_like.ir.core import Value


class Counted(Frozen):
    """A loop over ``range(lo, hi, step)``; ``item`` gives what the target is assigned at an index."""

    lo: Value
    hi: Value
    step: Value
    item: Callable[[Value], Operand] = lambda index: index


Ranges = tuple[Callable[[Value], list[Value]], Callable[[Value], list[Value]], Callable[[Value], Counted]]


class Walk(Frozen):
    """A loop over what a query finds.

    Attributes:
        query: The struct that says where the walk is.
        next: Returns for a query whether there is another thing, the query after it, and its index.
        ranges: Where things come in ranges: what returns for a query whether there is a first range, the rest of the
            one under way, and the query that has it; the same for the range after it; and the loop over the range of a
            query.
    """

    query: Value
    next: Callable[[Value], list[Value]]
    ranges: Ranges | None = None


class Items(Frozen):
    """A loop over operands known when the kernel is built."""

    items: tuple[Operand, ...]
