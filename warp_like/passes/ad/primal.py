"""What differentiation knows of a function: which values vary, and which memory carries gradients."""

from __future__ import annotations

from collections.abc import Collection, Set

from warp_like.analysis.memory import Access, Memory, Root, analyse, root_of, roots_written
from warp_like.analysis.private import private_roots
from warp_like.base.errors import WarpCodegenError
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import free_values
from warp_like.passes.ad.activity import carrying_local_arrays, nested_arrays, varied_values, written_arrays


class Primal:
    """A function, and the analyses of it that the reverse sweep and the plan share.

    Attributes:
        f: The function.
        wrt: Its differentiated parameters.
        memory: What it does to memory.
        private: The memory of which no two threads touch an element.
        written: The memory that it writes to.
        varied: The values that carry a gradient.
        objects: Whether gradients go to the memory of objects, too.
        local: Its own arrays that carry one.
    """

    def __init__(self, f: Function, wrt: Collection[Value], objects: bool = False) -> None:
        _require_no_exchange_through_memory(f)
        self.f = f
        self.wrt = wrt
        self.memory = analyse(f)
        self.private = private_roots(self.memory)
        self.written: set[Root] = written_arrays(f)
        self.local = set(carrying_local_arrays(self.memory))
        self.varied = varied_values(f, wrt, self.memory, objects)
        self.objects = objects
        self._carrying = {*map(root_of, (*wrt, *self.local)), *nested_arrays(f, wrt)}
        self._writing: dict[Op, bool] = {}
        self._free: dict[Block, dict[Value, None]] = {}

    def touches_gradient(self, o: Op) -> bool:
        """Return whether the reverse sweep has anything to do for the control-flow op ``o``."""
        return any(r in self.varied for r in o.results) or self.writes_adjoints(o)

    def writes_adjoints(self, o: Op) -> bool:
        """Return whether something inside ``o`` writes an array that has adjoints."""
        found = self._writing.get(o)
        if found is None:
            inner = [x for r in o.regions() for x in r.ops]
            found = any(self.writes_adjoint_of(x) or (x._REGIONS and self.writes_adjoints(x)) for x in inner)
            self._writing[o] = found
        return found

    def writes_adjoint_of(self, o: Op) -> bool:
        """Return whether ``o`` itself, or a function that it calls, writes an array that has adjoints."""
        return any(root in self._carrying for root in roots_written(o))

    def free_values(self, block: Block) -> list[Value]:
        """The values that a block of the function uses from outside."""
        return free_values(block, self._free)


def rewritten_arrays(memory: Memory, lowered: Set[Root] = frozenset()) -> list[int]:
    """Return the positions of the arrays that a function loads from and stores to, and does not update by atomics.

    Its atomics on the memory ``lowered`` count as a load and a store.
    """

    def kinds(a: Access) -> tuple[str, ...]:
        is_lowered = isinstance(a.op, (ops.Atomic, ops.AtomicCas)) and a.roots <= lowered
        return ("load", "store") if is_lowered else (a.kind,)

    found = []
    for i in range(len(memory.function.params)):
        accesses = [
            a for a in memory.of_parameter(i) if not isinstance(a.op, ops.NestedArray)
        ]  # which no kernel changes
        if {kind for a in accesses for kind in kinds(a)} == {"load", "store"}:
            found.append(i)
    return found


def _require_no_exchange_through_memory(f: Function) -> None:
    """Refuse threads of a block that wait for what others write: the reverse sweep would have to wait the other way."""
    for o in f.body.walk():
        if isinstance(o, ops.Barrier) or (isinstance(o, ops.LocalArray) and o.shared):
            what = "block_sync()" if isinstance(o, ops.Barrier) else "shared_array()"
            raise WarpCodegenError(
                f"{what} has no gradient: reverse mode does not go through memory that threads share",
                o.loc,
                help="wp.block_sum, wp.warp_sum and wp.warp_shuffle have gradients; or give a function that does this "
                "a gradient of its own by @wp.func_grad",
            )
