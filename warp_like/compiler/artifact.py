"""A compiled kernel as bytes: object code and what the runtime must know about it."""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from typing import Any

from warp_like.base.frozen import Frozen
from warp_like.base.hashing import checksum
from warp_like.base.loc import Excerpt
from warp_like.base.reach import Reach

_MAGIC = b"warp_like artifact 7\n"


class Damaged(Exception):
    """Bytes that are not a whole artifact."""


class Artifact(Frozen):
    """A compiled kernel.

    Attributes:
        entry: The name of the entry point.
        code: Object code (CPU), PTX text or a cubin (CUDA).
        reads: Positions of the array parameters that the entry reads.
        writes: Positions of the array parameters that the entry stores to or updates.
        stores: Positions of those that it overwrites (not only updates).
        takes: Positions of those that it takes elements of, where these are all: of which it leaves 0, and one thread
            gets what was there.
        sums: Positions of those that it only adds to.
        spans: Of some of ``sums``, how far apart along each axis threads may be that add to one element.
        own: Positions of those that it adds to, of which each thread of the grid touches its own element alone.
        extremes: Positions of those that it updates by atomics whose derivative looks for the winner: ``atomic_min``.
        rewrites: Positions of those that it loads from as well as overwrites.
        serial: Positions of those that it updates by atomics such that the order of its threads shows; a grid of one
            thread, which has an order, then has an adjoint of its own (``Signature.alone``).
        keeps: How many results of atomics it keeps for its adjoint where it is compiled to (``Signature.kept``), and
            else about how many it could.
        certain: Positions of those that every thread accesses.
        scratch: For an adjoint, positions of the arrays of which it takes copies from before the launch, as its last
            parameters.
        tid_ndim: The fewest dimensions that the entry folds the grid into.
        ordered: Whether what it computes depends on the order in which its threads run, other than through ``sums``.
        rounds: Whether ``sums`` depend on that order, being of floats.
        prints: Whether it prints.
        lanes: How many threads it runs side by side in vector registers.
        lanes_reason: Why so many.
        rows: Of how many rows of the grid it runs threads at once.
        seconds: The stages of its compilation, and how long each took.
        faults: For CUDA, the texts of the errors that the code reports by number, for ``base.faults.explain``.
        uses_stack: Whether its threads save values on a stack, for which CUDA needs an arena.
        stack_bound: For an adjoint, the program that tells from a launch's arguments how many bytes of stack a thread
            needs at most (``passes/ad/stack_bound.py``), packed for native code; empty where that depends on data.
        bounded: Whether it has no loops, so that what a thread costs does not depend on data.
        inner_reads: Of arrays that elements of array parameters hold, which it reads: the parameter's position and the
            field, as ``"a.b"``.
        inner_writes: Of the same, which it stores to or updates.
        reaches: How far into its arrays every launch reaches, which launches compare with the arrays' extents. None in
            debug mode, where the code checks each index.
        reduced: Positions of the arrays into whose elements it reduces over many threads before it updates them.
    """

    entry: str
    code: bytes
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    stores: tuple[int, ...]
    sums: tuple[int, ...] = ()
    spans: tuple[tuple[int, tuple[int, ...]], ...] = ()
    own: tuple[int, ...] = ()
    extremes: tuple[int, ...] = ()
    rewrites: tuple[int, ...] = ()
    certain: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()
    tid_ndim: int = 4
    ordered: bool = False
    rounds: bool = False
    prints: bool = False
    lanes: int = 1
    lanes_reason: str = ""
    seconds: tuple[tuple[str, float], ...] = ()
    faults: tuple[str, ...] = ()
    uses_stack: bool = False
    bounded: bool = False
    reduced: tuple[int, ...] = ()
    stack_bound: bytes = b""
    inner_reads: tuple[tuple[int, str], ...] = ()
    inner_writes: tuple[tuple[int, str], ...] = ()
    rows: int = 1
    serial: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    keeps: int = 0
    reaches: tuple[Reach, ...] = ()

    def default_grid(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the grid over an array where none is said: its first dimensions, as many as the kernel asks for."""
        return tuple(shape[: self.tid_ndim])

    def to_bytes(self) -> bytes:
        """Return the artifact with a checksum in front."""
        *facts, reaches = self.as_tuple()
        plain = [(*r.as_tuple()[:-1], [e.as_tuple() for e in r.frames]) for r in reaches]
        body = marshal.dumps((*facts, plain), 2)
        return _MAGIC + checksum(body) + body

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        """Return the artifact that ``to_bytes`` wrote.

        Raises:
            Damaged: The bytes are truncated, changed or of another format.
        """
        start = len(_MAGIC) + 16
        body = data[start:]
        if data[: len(_MAGIC)] != _MAGIC or checksum(body) != data[len(_MAGIC) : start]:
            raise Damaged("checksum or format differs")
        *facts, plain = marshal.loads(body)
        facts.append(tuple([_reach(p) for p in plain]))
        return Artifact(*facts)


def _reach(plain: Sequence[Any]) -> Reach:
    *numbers, frames = plain
    return Reach(*[*numbers, tuple([Excerpt(*e) for e in frames])])
