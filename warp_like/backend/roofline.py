"""An estimate of what bounds a kernel on a GPU, from its machine code: no GPU is needed, and none is asked.

A warp's instructions go through the parts of a quarter of a multiprocessor. Each part takes ``32 / lanes`` cycles for
one, so the part with the most cycles bounds how fast warps follow each other:

* *issue*: one instruction a cycle;
* *float32*, *integer*, *multiplication* (of integers), *float64*, *special* (roots, exponentials, conversions): the
  lanes of ``Machine``, as in the table of throughputs in NVIDIA's CUDA C++ Programming Guide;
* *memory*: the bytes of all accesses to global memory, over the share of the bandwidth that a quarter has in a cycle;
  as if nothing were found in a cache, and lanes of a warp touched neighbours, or one place where their addresses can be
  seen to be the same;
* *latency*: ``LATENCY`` cycles for each load in the longest chain of loads whose addresses need each other, and one for
  each instruction, over the warps that wait at the same time.

Samuel Williams, Andrew Waterman and David Patterson, "Roofline: an insightful visual performance model for multicore
architectures", 2009.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from warp_like.backend.sass import GLOBAL_LOADS, GLOBAL_STORES, GLOBAL_UPDATES, Instruction
from warp_like.backend.target import Target
from warp_like.base.frozen import Frozen

LATENCY = 600
"""The cycles that a load from global memory takes, about."""

WARP = 32
QUARTERS = 4


class Machine(Frozen):
    """The numbers of one GPU of an architecture, from its data sheet; lanes are those of a multiprocessor.

    Attributes:
        name: The GPU.
        multiprocessors: How many it has.
        clock: Cycles a second, in 1e9, at its boost clock.
        bandwidth: Of its memory, in 1e9 bytes a second.
        float32: Lanes for float32.
        float64: Lanes for float64.
        warps: The most warps that a multiprocessor holds.
        blocks: The most blocks that it holds.
        shared: The bytes of shared memory that it has for blocks.
        integer: Lanes for integers.
        special: Lanes for roots, exponentials and conversions.
        registers: The registers that it has for threads.
    """

    name: str
    multiprocessors: int
    clock: float
    bandwidth: float
    float32: int
    float64: int
    warps: int
    blocks: int
    shared: int
    integer: int = 64
    special: int = 16
    registers: int = 65536

    @property
    def bytes_a_cycle(self) -> float:
        """The bytes that a quarter of a multiprocessor gets from memory in a cycle."""
        return self.bandwidth / self.clock / self.multiprocessors / QUARTERS

    def resident_warps(self, registers: int, shared: int, block: int) -> int:
        """Return how many warps of such blocks a multiprocessor holds: registers come by 256 a warp."""
        each = -(-block // WARP)
        taken = -(-max(registers, 1) * WARP // 256) * 256
        blocks = min(self.blocks, self.warps // each, self.registers // (taken * each))
        if shared:
            blocks = min(blocks, self.shared // shared)
        return blocks * each


_KILO = 1024
MACHINES = {
    75: Machine("T4", 40, 1.59, 320, 64, 2, 32, 16, 64 * _KILO),
    80: Machine("A100 SXM 80 GB", 108, 1.41, 2039, 64, 32, 64, 32, 164 * _KILO),
    86: Machine("GeForce RTX 3090", 82, 1.695, 936, 128, 2, 48, 16, 100 * _KILO),
    87: Machine("Jetson AGX Orin 64 GB", 16, 1.3, 204.8, 128, 2, 48, 16, 164 * _KILO),
    89: Machine("GeForce RTX 4090", 128, 2.52, 1008, 128, 2, 48, 24, 100 * _KILO),
    90: Machine("H100 SXM 80 GB", 132, 1.98, 3350, 128, 64, 64, 32, 228 * _KILO),
    100: Machine("B200", 148, 1.965, 8000, 128, 64, 64, 32, 228 * _KILO),
    120: Machine("GeForce RTX 5090", 170, 2.407, 1792, 128, 2, 48, 24, 100 * _KILO),
}


def machine_of(target: Target) -> Machine:
    """Return the GPU that an estimate for an architecture is made for: one of the nearest older one with numbers."""
    return MACHINES[max(a for a in MACHINES if a <= target.arch)]


def cycles(
    code: Sequence[Instruction], machine: Machine, warps: int, uniform: frozenset[int] = frozenset()
) -> dict[str, float]:
    """Return the cycles that each part takes for a warp's pass through ``code``, most first.

    Args:
        code: The instructions, each of which runs once.
        machine: The GPU.
        warps: How many warps a multiprocessor holds.
        uniform: The addresses of accesses to one place for the whole warp.
    """
    counts = Counter(i.kind for i in code)
    lanes = {
        "float32": machine.float32,
        "float64": machine.float64,
        "integer": machine.integer,
        "multiplication": machine.integer,
        "special": machine.special,
    }
    found = {part: counts[part] * WARP * QUARTERS / n for part, n in lanes.items()}
    found["issue"] = float(len(code))
    found["memory"] = sum(_bytes(i) * (1 if i.address in uniform else WARP) for i in code) / machine.bytes_a_cycle
    found["latency"] = (_longest_chain(code) * LATENCY + len(code)) / max(warps / QUARTERS, 1)
    return dict(sorted(found.items(), key=lambda part: -part[1]))


def _bytes(i: Instruction) -> int:
    if i.name in GLOBAL_UPDATES:
        return 2 * i.bits // 8
    return i.bits // 8 if i.name in GLOBAL_LOADS or i.name in GLOBAL_STORES else 0


def _longest_chain(code: Sequence[Instruction]) -> int:
    """The most loads of ``code``, run once, that wait for one another."""
    depth: dict[int, int] = {}
    longest = 0
    for i in code:
        written, read = i.registers
        here = max((depth.get(r, 0) for r in read), default=0) + (i.name in GLOBAL_LOADS)
        longest = max(longest, here)
        for r in written:
            depth.update({r + k: here for k in range(max(i.bits // 32, 1) if i.name in GLOBAL_LOADS else 2)})
    return longest
