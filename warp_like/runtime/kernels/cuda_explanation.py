"""What a kernel's machine code for a CUDA architecture looks like, and what bounds it: no GPU is needed."""

from __future__ import annotations

import functools
import html
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from warp_like.backend import roofline, sass
from warp_like.base.frozen import Frozen

if TYPE_CHECKING:
    from warp_like.backend.nvptx import Assembled
    from warp_like.backend.target import Target


class Part(Frozen):
    """All of a kernel's code, or one of its innermost loops.

    Attributes:
        name: ``code``, or which loop it is.
        instructions: How many instructions of each kind it has, most first.
        loads: How many loads from global memory there are of each width in bits.
        stores: The same for stores.
        updates: The same for atomic updates.
        cycles: How many cycles each part of a multiprocessor takes for a warp that passes once, most first
            (``backend/roofline.py``). What comes first bounds it.
    """

    name: str
    instructions: dict[str, int]
    loads: dict[int, int]
    stores: dict[int, int]
    updates: dict[int, int]
    cycles: dict[str, float]

    @property
    def bound(self) -> str:
        """What takes most cycles."""
        return next(iter(self.cycles))

    def lines(self) -> Iterator[str]:
        """The text of the part."""
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.instructions.items())
        yield f"{self.name:<11} {sum(self.instructions.values())} instructions"
        yield f"  kinds     {kinds}"
        for what, widths in (("loads", self.loads), ("stores", self.stores), ("updates", self.updates)):
            if widths:
                yield f"  {what:<9} {', '.join(f'{n} of {bits} bits' for bits, n in sorted(widths.items()))}"
        cycles = ", ".join(f"{part} {n:.0f}" for part, n in self.cycles.items() if n >= 0.5)
        yield f"  cycles    {cycles}"
        yield f"  bound by  {self.bound}"


class CudaExplanation(Frozen):
    """What ``Kernel.explain(target=...)`` returns: prints as text, and shows as such in notebooks.

    Attributes:
        kernel: The kernel's name.
        target: The architecture.
        machine: The GPU that the estimate is for.
        registers: Of a thread.
        spilled: The bytes of registers that a thread keeps in memory.
        shared: The bytes of shared memory of a block.
        block_dim: The threads of a block.
        warps: How many warps of such blocks a multiprocessor holds.
        most_warps: How many it can hold.
        parts: All of the code as if each instruction ran once, then its innermost loops, one round of each.
    """

    kernel: str
    target: str
    machine: str
    registers: int
    spilled: int
    shared: int
    block_dim: int
    warps: int
    most_warps: int
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        spilled = f"{self.spilled} bytes spilled" if self.spilled else "none spilled"
        lines = [
            f"kernel `{self.kernel}` for {self.target}, estimated for {self.machine}",
            "",
            f"  registers   {self.registers} a thread, {spilled}; {self.shared} bytes of shared memory",
            f"  occupancy   {self.warps} of {self.most_warps} warps a multiprocessor, in blocks of {self.block_dim}",
        ]
        return "\n".join([*lines, *(f"  {line}" for part in self.parts for line in part.lines())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(kernel: str, target: Target, made: Assembled, text: str, block_dim: int) -> CudaExplanation:
    """Return what there is to say of the machine code ``made``, whose text the disassembler gave."""
    machine, code = roofline.machine_of(target), sass.parse(text)
    warps = machine.resident_warps(made.registers, made.shared, block_dim)
    measured = functools.partial(roofline.cycles, machine=machine, warps=warps, uniform=code.uniform_accesses())
    parts = [_part("code", code.code, measured)]
    for number, loop in enumerate(code.loops(), 1):
        place = f"line {loop.line}" if loop.line else str(number)
        parts.append(_part(f"loop {place}", loop.code, measured))
    return CudaExplanation(
        kernel, target.name, machine.name, made.registers, made.spilled, made.shared, block_dim, warps, machine.warps,
        tuple(parts),
    )  # fmt: skip


def _part(
    name: str, code: Sequence[sass.Instruction], cycles: Callable[[Sequence[sass.Instruction]], dict[str, float]]
) -> Part:
    def widths(names: Sequence[str]) -> dict[int, int]:
        return dict(Counter(i.bits for i in code if i.name in names))

    return Part(
        name,
        dict(Counter(i.kind for i in code).most_common()),
        widths(sass.GLOBAL_LOADS),
        widths(sass.GLOBAL_STORES),
        widths(sass.GLOBAL_UPDATES),
        cycles(code),
    )
