"""The stack of the reverse sweep in lanes: a push saves a row, what all lanes save at once, and a pop takes a row.

A loop that saves begins for all lanes at one time and goes on until its last lane has left. So the loop that takes back
has to *end* for all lanes at one time (it is reverse-aligned): it runs as often, and a lane with fewer iterations joins
later. Then the lanes that take part when a row is popped are those that took part when it was pushed. The same holds of
loops inside of such loops, and of branches, which run when one of their lanes takes them. Where the lanes part, both
sides of a branch run, first the one and then the other: the branch that takes back has to begin with the other.

For this to hold, pops must mirror their pushes: from the innermost block around both, a pop lies in as many loops and
branches, of the same kind, as its push. That a loop takes back as many iterations as were saved follows from pushes and
pops nesting like brackets. The transform of ``passes.ad`` makes nothing else.
"""

from __future__ import annotations

from warp_like.base.frozen import Frozen
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op

Path = tuple[tuple[Op, int], ...]
"""The ops around an op, outermost first, each with the number of its region."""


class Stacks(Frozen):
    """How a function uses the stack.

    Attributes:
        reverse_aligned: What takes back what another op of its kind saved. Loops then end for all lanes at one time,
            and branches run their second side first.
        mirrored: Whether pops mirror their pushes; if not, all threads have to go the same way.
    """

    reverse_aligned: frozenset[Op]
    mirrored: bool


def find_stacks(f: Function) -> Stacks:
    """Return how ``f`` uses the stack."""
    pushes: dict[int, list[Path]] = {}
    pops: dict[int, list[Path]] = {}
    _collect(f.body, (), pushes, pops)
    saving: set[Op] = set()
    reverse_aligned: set[Op] = set()
    mirrored = True
    for slot, places in pops.items():
        for taken in places:
            for saved in pushes.get(slot, []):
                a, b = _apart(saved, taken)
                mirrored &= len(a) == len(b) and all(map(_is_mirror, a, b))
                saving.update(o for o, _ in a)
                reverse_aligned.update(o for o, _ in b)
    return Stacks(frozenset(reverse_aligned), mirrored and saving.isdisjoint(reverse_aligned))


def _collect(b: Block, path: Path, pushes: dict[int, list[Path]], pops: dict[int, list[Path]]) -> None:
    for o in b.ops:
        if isinstance(o, ops.Push):
            pushes.setdefault(o.slot, []).append(path)
        elif isinstance(o, ops.Pop):
            pops.setdefault(o.slot, []).append(path)
        for k, r in enumerate(o.regions()):
            _collect(r, (*path, (o, k)), pushes, pops)


def _apart(a: Path, b: Path) -> tuple[Path, Path]:
    """Two paths from where they part."""
    k = 0
    while k < min(len(a), len(b)) and a[k] == b[k]:
        k += 1
    return a[k:], b[k:]


def _is_mirror(push: tuple[Op, int], pop: tuple[Op, int]) -> bool:
    """Whether a pop lies in an op as its push lies in another: in a loop, or on the same side of a branch."""
    (saving, side), (taking, other) = push, pop
    if isinstance(saving, ops.If):
        return isinstance(taking, ops.If) and side == other
    return isinstance(taking, ops.For)
