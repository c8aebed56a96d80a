"""The plan of an adjoint: how the reverse sweep gets each value of the primal that it needs.

A value is *recomputed* where that gives the same number, and *saved* on the thread's stack where a loop carries it.
Where the sweep needs an element that the kernel has overwritten, the forward sweep works on copies from before the
launch, and everything that it loads from them is saved. What neither can give is *refused* with its place in the
user's source.

What the sweep needs is what leads to an effect of it: ``2 * old`` needs no value of ``old`` for its reverse. The
plan is made before anything of the adjoint is emitted; ``emission`` decides nothing.

Example::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32                   # recompute
      %1 = load %x[%0] : float32                # save
      %2 = mul %1, %1 : float32                 # recompute
      store %x[%0], %2
      yield
    }
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from warp_like.analysis.memory import Root, analyse, root_of
from warp_like.base.errors import WarpCodegenError
from warp_like.base.frozen import Frozen
from warp_like.base.loc import Loc
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, blocks
from warp_like.ir.types import Array, Scalar
from warp_like.passes.ad.functions import Again, again, inlined
from warp_like.passes.ad.loops import Loop, Steps, carried_values, find_strides
from warp_like.passes.ad.markers import NotRecomputable
from warp_like.passes.ad.needs import Needs
from warp_like.passes.ad.order import ONE_THREAD, read_of_updated
from warp_like.passes.ad.primal import rewritten_arrays
from warp_like.passes.ad.sweep import Sweep
from warp_like.passes.effects import array_uses
from warp_like.passes.fold import fold
from warp_like.passes.local_arrays import local_arrays


class Recompute(Frozen):
    """The value is computed again from its operands."""


class Save(Frozen):
    """The value is pushed where the forward sweep passes it, and popped by the reverse sweep."""


class Refuse(Frozen):
    """The value can't be had again."""

    reason: str
    help: str
    loc: Loc | None


Decision = Recompute | Save | Refuse


class Plan:
    """How the reverse sweep gets the values of the primal that it needs.

    Attributes:
        primal: The function that is differentiated.
        sweep: Its reverse sweep, which names values of the primal.
        again: How the results of calls are had again.
        inlined: The bodies of calls that work on pre-launch copies, which the forward sweep then runs as its own.
        saves: Whether the forward sweep repeats stores on pre-launch copies, and saves what it loads from them.
        prelaunch_copies: The positions of the arrays that it has copies of, from before the launch.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.primal = sweep.primal
        self.sweep = sweep
        self.again = {o: again(sweep, o) for o in self.primal.f.body.walk() if isinstance(o, ops.Call)}
        self.inlined: dict[ops.Call, Again] = {}
        self.saves = False
        self.prelaunch_copies: tuple[int, ...] = ()
        self._copied_roots: set[Root] = set()
        self._needs: Needs | None = None
        if self._may_lose():
            self._choose()

    # --- what the emission asks -----------------------------------------------------------------------------

    def is_saved(self, o: Op) -> bool:
        """Return whether the forward sweep runs ``o`` on pre-launch copies and saves its results."""
        match o:
            case ops.Load():
                return root_of(o.array) in self._copied_roots
            case ops.Native():
                return any(root_of(a) in self._copied_roots for a in o.args)
            case ops.Call():
                return o in self.inlined
        return False

    def is_repeated(self, o: Op) -> bool:
        """Return whether the forward sweep runs ``o`` again for its effect on pre-launch copies."""
        if isinstance(o, ops.Store):
            return root_of(o.array) in self._copied_roots
        return isinstance(o, ops.Native) and self.is_saved(o)

    def lost(self, o: Op) -> tuple[str, str] | None:
        """Return why the result of ``o`` can't be computed again, and what helps; None where it can."""
        match o:
            case ops.Atomic() | ops.AtomicCas():
                return _result_of_atomic(o)
            case ops.Native() if o.results:
                repeats = not o.code.written and not any(root_of(a) in self.primal.written for a in o.args)
                return None if repeats else _result_of_native(o)
            case ops.Load() if root_of(o.array) in self.primal.written:
                return _overwritten(o)
            case NotRecomputable():
                return o.reason, o.help
        return None

    def steps(self, loop: Loop) -> Steps:
        """Return the carried values of ``loop`` that need no saving."""
        return find_strides(loop, set(self.primal.free_values(loop.body)))

    # --- the decisions --------------------------------------------------------------------------------------

    @functools.cached_property
    def decisions(self) -> dict[Value, Decision]:
        """What is done for each value that is needed, in the order of the ops; other values are not needed."""
        needs = self._needs or self._find(self.sweep.body)
        found: dict[Value, Decision] = {}
        for block in blocks(self.primal.f.body):
            for o in block.ops:
                if isinstance(o, (ops.For, ops.While)):
                    found.update((c, self._carried(o, k)) for k, c in enumerate(carried_values(o)) if c in needs.values)
                found.update((r, self._decision(o, o in needs.lost)) for r in o.results if r in needs.values)
        return found

    def require_possible(self) -> None:
        """Refuse an adjoint that needs a value which can't be had again.

        Raises:
            WarpCodegenError: With the reason and the place in the primal kernel.
        """
        if self._needs is None or not self._needs.lost:
            return
        lost = self._needs.lost
        first = next(o for o in (*self._primal_ops({**self.again, **self.inlined}), *lost) if o in lost)
        decision = self._decision(first, True)
        assert isinstance(decision, Refuse)
        raise WarpCodegenError(decision.reason, decision.loc, decision.help)

    def _decision(self, o: Op, is_lost: bool) -> Decision:
        reason = self.lost(o) if is_lost else None
        if reason is not None:
            return Refuse(*reason, o.loc)
        return Save() if self.is_saved(o) or (self.saves and o.regions()) else Recompute()

    def _carried(self, loop: Loop, k: int) -> Decision:
        return Recompute() if k in self.steps(loop) else Save()

    # --- deciding -------------------------------------------------------------------------------------------

    def _may_lose(self) -> bool:
        """Return whether there is a value that can't be computed again, needed or not."""
        in_sweep = (o for o in self.sweep.body.walk() if isinstance(o, NotRecomputable))
        return any(map(self.lost, self._primal_ops(self.again))) or any(in_sweep)

    def _choose(self) -> None:
        """Find what is needed; where some of it is lost, try a forward sweep that saves."""
        f = self.primal.f
        sweep = _folded(self.sweep.body)
        rewritten = rewritten_arrays(self.primal.memory)
        self._needs = self._find(sweep)
        if not self._needs.lost or not (rewritten or local_arrays(f)):
            return
        self.saves = True
        self._copy(rewritten)
        for o in self.again:
            if self._uses_copies(o):
                self.inlined[o] = Again(*inlined(o.callee, o.args, o.loc), False)
        self._needs = self._find(sweep)
        while len(read := self._read_copies()) < len(self.prelaunch_copies):  # stores to the others needn't run again
            self._copy(read)
            self._needs = self._find(sweep)

    def _read_copies(self) -> Sequence[int]:
        """The positions of the arrays of whose pre-launch copies something is needed."""
        assert self._needs is not None
        read = {root_of(v) for o in self._needs.ops if not self._is_replay(o) for v in _read(o)}
        return [i for i in self.prelaunch_copies if root_of(self.primal.f.params[i]) in read]

    def _copy(self, positions: Sequence[int]) -> None:
        """Save what is loaded from own arrays and from copies of the arrays at ``positions``, and from no others."""
        f = self.primal.f
        self.prelaunch_copies = tuple(positions)
        self._copied_roots = {*map(root_of, (*(f.params[i] for i in positions), *local_arrays(f)))}

    def _find(self, sweep: Block) -> Needs:
        calls = {**self.again, **self.inlined}
        trips = {v: loop for loop, v in self.sweep.trips.items()}
        needs = Needs(self.primal.f.body, sweep, calls, trips, self._is_lost)
        return needs.run(o for o in self._primal_ops(self.inlined) if self.is_repeated(o))

    def _is_lost(self, o: Op) -> bool:
        return not self.is_saved(o) and self.lost(o) is not None

    def _uses_copies(self, o: ops.Call) -> bool:
        """Return whether a function with a gradient of its own works on an array that has a pre-launch copy."""
        if o.callee.gradient is None:  # a replay, which reads the arrays of the launch
            return False
        used = (o.args[i] for i, a in array_uses(analyse(o.callee)).items() if a.read or a.written)
        return any(root_of(a) in self._copied_roots for a in used)

    def _is_replay(self, o: Op) -> bool:
        """Return whether ``o`` calls a replay function, which reads the arrays as the launch left them."""
        return isinstance(o, ops.Call) and o in self.again and self.again[o].is_replay

    def _primal_ops(self, calls: Mapping[ops.Call, Again]) -> Iterator[Op]:
        """The ops of the primal, and after each of ``calls`` those of its body."""
        for o in self.primal.f.body.walk():
            yield o
            if isinstance(o, ops.Call) and o in calls and not calls[o].is_replay:
                yield from _walk(calls[o].body)


def _folded(body: Block) -> Block:
    """Return a folded copy of a reverse sweep, which shows what it does not need."""
    f = Function("sweep", [], (), "func")
    f.body = Cloner().block(body)
    return fold(f).body


def _walk(found: Sequence[Op]) -> Iterator[Op]:
    for o in found:
        yield o
        for r in o.regions():
            yield from r.walk()


def _read(o: Op) -> Iterable[Value]:
    """The arrays of which ``o`` may read elements."""
    if isinstance(o, (ops.Store, ops.Dim, *ops.VIEWS)):
        return ()
    return [v for v in o.operands() if isinstance(v.type, Array)]


# --- why a value is lost --------------------------------------------------------------------------------------


def _result_of_atomic(o: ops.Atomic | ops.AtomicCas) -> tuple[str, str]:
    is_integer = isinstance(o.result.type, Scalar) and o.result.type.is_int
    record = "record the launch on a wp.Tape, which keeps integers that atomics outside of loops return; else "
    return (
        "the result of an atomic can't be recomputed for the gradient",
        f"{record if is_integer else ''}store it to an array in a first kernel and read that array in a second "
        f"one{ONE_THREAD}",
    )


def _result_of_native(o: ops.Native) -> tuple[str, str]:
    return (
        f"the gradient needs the result of `{o.code.name}`, native code that can't run again, since it or the "
        "kernel changes an array that it is given",
        "give func_native a replay_snippet, or say writes=[...] if it writes fewer arrays than it is given",
    )


def _overwritten(o: ops.Load) -> tuple[str, str]:
    """Why an element that changes can't be loaded again; said of the arrays of which there are no copies."""
    root = root_of(o.array)
    if root.kind != "element":
        return read_of_updated(root.array.hint or "an array")
    return (
        f"the gradient needs this element of `{ops.base_array(o.array).hint}`, which the same kernel writes to, and of "
        "arrays that stand in elements of other arrays there are no copies",
        "write to another array, or give the kernel the array itself as an argument",
    )
