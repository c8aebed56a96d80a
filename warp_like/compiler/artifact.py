"""A compiled kernel as bytes: object code and what the runtime must know about it."""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from typing import Any

from warp_like.base.contract import MAX_DIMS
from warp_like.base.frozen import Frozen
from warp_like.base.hashing import seal, unseal
from warp_like.base.loc import Excerpt
from warp_like.base.reach import Reach

_MAGIC = b"warp_like artifact 11\n"


class Damaged(Exception):
    """Bytes that are not a whole artifact."""


class KernelCode(Frozen):
    """The code of a compiled kernel.

    Attributes:
        entry: The name of the entry point.
        binary: Object code (CPU), PTX text or a cubin (CUDA).
        faults: For CUDA, the texts of the errors that the code reports by number, for ``base.faults.explain``.
    """

    entry: str
    binary: bytes
    faults: tuple[str, ...] = ()


class Effects(Frozen):
    """What a compiled kernel does to its arrays, and what else can be seen of it.

    Attributes:
        reads: Positions of the array parameters that the entry reads.
        writes: Positions of the array parameters that the entry stores to or updates.
        stores: Positions of those that it overwrites (not only updates).
        takes: Positions of those that it takes elements of, where these are all: of which it leaves 0, and one thread
            gets what was there. On the CPU, also of those whose additions ask for it (``passes.effects.counters``).
        sums: Positions of those that it only adds to.
        spans: Of some of ``sums``, how far apart along each axis threads may be that add to one element; see
            ``passes.sums.spans``.
        ahead: Of those of one dimension, the greatest offset from the thread's index.
        thread_private: Positions of those that it adds to, of which each thread of the grid touches its own element
            alone.
        reduced: Positions of the arrays into whose elements it reduces over many threads before it updates them; on the
            CPU, or its plain variant does.
        apart: Positions of those that it writes to while it has read others ahead (``passes/spmd/filters.py``): plain
            variants are for launches in which these overlap no other argument.
        extremes: Positions of those that it updates by atomics whose derivative looks for the winner: ``atomic_min``.
        rewrites: Positions of those that it loads from as well as overwrites.
        serial: Positions of those that it updates by atomics such that the order of its threads shows; a grid of one
            thread, which has an order, then has an adjoint of its own (``Signature.alone``).
        always_accessed: Positions of those that every thread accesses.
        prelaunch_copies: For an adjoint, positions of the arrays of which it takes copies from before the launch, as
            its last parameters.
        nested_reads: Of arrays that elements of array parameters hold, which it reads: the parameter's position and the
            field, as ``"a.b"``.
        nested_writes: Of the same, which it stores to or updates.
        saved_results: How many results of atomics it keeps for its adjoint where it is compiled to
            (``Signature.saves_results``), and else about how many it could.
        order_dependent: Whether what it computes depends on the order in which its threads run, other than through
            ``sums``.
        non_associative: Whether ``sums`` depend on that order, being of floats.
        prints: Whether it prints.
        no_overlap: For CUDA, whether no array that it writes may overlap another one: elements that it reads decide
            whether threads of a block stay together.
        objects: The ids of objects that it queries: the positions of uint64 parameters, or -1 for ids that come from
            elsewhere, and the kind of object (``contract.ObjectKind``).
        own: Positions of the arrays of which each thread touches the elements at its own index in the grid alone: the
            first indices of all accesses are those of the thread.
        fusible: Whether other launches may run between its threads: it reaches memory through its array parameters
            alone, no order of its threads shows, and it can't fail.
        self_contained: Whether it reaches memory through its array parameters alone, and shows and checks nothing.
        reaches: How far into its arrays every launch reaches, which launches compare with the arrays' extents. None in
            debug mode, where the code checks each index.
    """

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    stores: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    spans: tuple[tuple[int, tuple[int, ...]], ...] = ()
    ahead: tuple[tuple[int, int], ...] = ()
    thread_private: tuple[int, ...] = ()
    reduced: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    extremes: tuple[int, ...] = ()
    rewrites: tuple[int, ...] = ()
    serial: tuple[int, ...] = ()
    always_accessed: tuple[int, ...] = ()
    prelaunch_copies: tuple[int, ...] = ()
    nested_reads: tuple[tuple[int, str], ...] = ()
    nested_writes: tuple[tuple[int, str], ...] = ()
    saved_results: int = 0
    order_dependent: bool = False
    non_associative: bool = False
    prints: bool = False
    no_overlap: bool = False
    objects: tuple[tuple[int, int], ...] = ()
    own: tuple[int, ...] = ()
    fusible: bool = False
    self_contained: bool = False
    reaches: tuple[Reach, ...] = ()


class GridSchedule(Frozen):
    """How a compiled kernel runs the threads of a grid.

    Attributes:
        tid_ndim: How many indices the kernel asks ``wp.tid()`` for; the most, where it does not ask.
        lanes: How many threads it runs side by side in vector registers.
        reason: Why so many.
        rows: Of how many rows of the grid it runs threads at once.
        bounded: Whether it has no loops, so that what a thread costs does not depend on data.
        team: How many threads of a CUDA block run each of them together.
        combines: On CUDA, whether its threads stride over the grid and combine what they have found: no more of them
            are launched than the device runs at once.
        places: On CUDA, how many neighbouring places of the grid each thread takes.
    """

    tid_ndim: int = MAX_DIMS
    lanes: int = 1
    reason: str = ""
    rows: int = 1
    bounded: bool = False
    team: int = 1
    combines: bool = False
    places: int = 1

    def default_grid(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the grid over an array where none is said: its first dimensions, as many as the kernel asks for."""
        return tuple(shape[: self.tid_ndim])


class StackUse(Frozen):
    """The stack of a compiled adjoint, on which its threads save values.

    Attributes:
        used: Whether there is one, for which CUDA needs an arena.
        bound: The program that tells from a launch's arguments how many bytes a thread needs at most
            (``passes/ad/stack_bound.py``), packed for native code; empty where that depends on data.
    """

    used: bool = False
    bound: bytes = b""


class Artifact(Frozen):
    """A compiled kernel.

    Attributes:
        code: What runs.
        effects: What it does to its arrays.
        schedule: How it runs the threads of a grid.
        stack: What its threads save values on.
        seconds: The stages of its compilation, and how long each took.
    """

    code: KernelCode
    effects: Effects
    schedule: GridSchedule = GridSchedule()
    stack: StackUse = StackUse()
    seconds: tuple[tuple[str, float], ...] = ()

    def to_bytes(self, name: str) -> bytes:
        """Return the artifact with a checksum in front, which covers ``name``, too."""
        *effects, reaches = self.effects.as_tuple()
        plain = [(*r.as_tuple()[:-1], [e.as_tuple() for e in r.frames]) for r in reaches]
        parts = self.code.as_tuple(), (*effects, plain), self.schedule.as_tuple(), self.stack.as_tuple(), self.seconds
        return _MAGIC + seal(marshal.dumps(parts, 2), name)

    @staticmethod
    def from_bytes(data: bytes, name: str) -> Artifact:
        """Return the artifact that ``to_bytes`` wrote.

        Raises:
            Damaged: The bytes are truncated, changed, of another format or of another name.
        """
        body = unseal(data[len(_MAGIC) :], name) if data.startswith(_MAGIC) else None
        if body is None:
            raise Damaged("checksum, name or format differs")
        code, (*effects, plain), schedule, stack, seconds = marshal.loads(body)
        reaches = tuple([_reach(p) for p in plain])
        return Artifact(
            KernelCode(*code), Effects(*[*effects, reaches]), GridSchedule(*schedule), StackUse(*stack), seconds
        )


def _reach(plain: Sequence[Any]) -> Reach:
    *numbers, frames = plain
    return Reach(*[*numbers, tuple([Excerpt(*e) for e in frames])])
