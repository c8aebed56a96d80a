"""Which values carry a gradient: the forward analysis that the transform is driven by.

A value is *varied* when it is made of floats and depends on an element of an array that is differentiated. Only varied
values get adjoints; everything else costs nothing in the reverse sweep.

Example::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32                # varied
      %2 = load %y[%0] : float32
      %3 = add %1, %2 : float32                 # varied
      %4 = floor %1 : float32
      %5 = mul %3, %4 : float32                 # varied
      store %y[%0], %5
      yield
    }
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from warp_like.analysis.memory import Memory, Root, analyse, root_of, roots_written
from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import at
from warp_like.builtins.spec import NoGradient, resolve
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import OUTLINED
from warp_like.ir.types import Array, is_differentiable
from warp_like.passes.effects import use_of
from warp_like.passes.local_arrays import local_arrays


def nested_arrays(f: Function, arrays: Iterable[Value]) -> set[Root]:
    """Return where elements of ``arrays`` hold arrays of ``f`` that carry a gradient."""
    known, found = {root_of(v) for v in arrays}, set()
    for o in f.body.walk():
        if not isinstance(o, ops.NestedArray) or not is_differentiable(o.result.type):
            continue
        holder = root_of(o.array)
        if holder in known:
            found.add(root_of(o.result))
        elif holder.kind == "element":
            with at(o.loc):
                raise WarpCodegenError(
                    f"the gradient does not reach `{o.result.hint}`: it stands in an element of an array that stands "
                    "in an element of another one itself",
                    help="give the kernel the nested array of structs as an argument",
                )
    return found


def written_arrays(f: Function) -> set[Root]:
    """Return the memory that ``f`` stores to or updates."""
    return {root for o in f.body.walk() for root in roots_written(o)}


def carrying_local_arrays(memory: Memory) -> list[Value]:
    """Return the arrays of the thread's own that carry a gradient: of floats that the function writes and reads."""
    arrays = [a for a in local_arrays(memory.function) if is_differentiable(a.type)]
    uses = [use_of(memory, root_of(a)) for a in arrays]
    return [a for a, use in zip(arrays, uses, strict=True) if use.read and use.written]


def gradient_address(array: Value) -> Value | None:
    """Return where the adjoints of an object's memory are, as of the points of a mesh; None for other arrays."""
    made = root_of(array).array.op
    return made.gradient[0] if isinstance(made, ops.AtAddress) and made.gradient else None


def varied_values(
    f: Function, wrt: Collection[Value], memory: Memory | None = None, objects: bool = False
) -> set[Value]:
    """Return the values of ``f`` that depend differentiably on its parameters ``wrt``: on elements of the arrays.

    ``memory`` is what ``f`` does to memory, where that has been found already. With ``objects``, the memory of objects
    counts as well that has adjoints.
    """
    local = carrying_local_arrays(memory or analyse(f))
    analysis = _Varied({*map(root_of, (*wrt, *local)), *nested_arrays(f, wrt)}, objects)
    analysis.mark(wrt)
    analysis.block(f.body)
    return analysis.varied


class _Varied:
    def __init__(self, arrays: set[Root], objects: bool) -> None:
        self.arrays = arrays
        self.objects = objects
        self.varied: set[Value] = set()

    def mark(self, values: Iterable[Value]) -> bool:
        new = {v for v in values if v not in self.varied and is_differentiable(v.type)}
        new = {v for v in new if not isinstance(v.type, Array)}
        self.varied |= new
        return bool(new)

    def block(self, b: Block) -> None:
        for o in b.ops:
            self.op(o)

    def op(self, o: Op) -> None:
        match o:
            case ops.Load() | ops.Atomic() | ops.AtomicCas():
                if root_of(o.array) in self.arrays or (self.objects and gradient_address(o.array) is not None):
                    self.mark(o.results)
            case ops.Pop():  # of a wp.grad(); where its adjoint is needed it is refused
                self.mark(o.results)
            case ops.Call() | ops.Native():
                if any(a in self.varied or root_of(a) in self.arrays for a in o.args):
                    self.mark(o.results)
            case ops.If():
                for r in o.regions():
                    self.block(r)
                    self.mark(res for res, y in zip(o.results, r.yielded, strict=True) if y in self.varied)
            case ops.For():
                self.loop(o, [o.body.params[1:]], o.body)
            case ops.While():
                self.loop(o, [o.cond.params, o.body.params], o.body)
            case ops.Apply():
                graded = self.objects and reads_graded_memory(o)
                if graded or (any(a in self.varied for a in o.args) and not gradient_is_zero(o)):
                    self.mark(o.results)
            case _:
                if any(v in self.varied for v in o.operands()):
                    self.mark(o.results)

    def loop(self, o: ops.For | ops.While, params: list[list[Value]], body: Block) -> None:
        """Mark what the loop carries, until nothing changes: a value may vary only from the second round on."""
        flow = o.init
        changed = True
        while changed:
            changed = False
            for group in (*params, list(o.results)):
                changed |= self.mark(p for p, v in zip(group, flow, strict=True) if v in self.varied)
            for r in o.regions():
                self.block(r)
            for group in (*params, list(o.results)):
                changed |= self.mark(p for p, v in zip(group, body.yielded, strict=True) if v in self.varied)


def gradient_is_zero(o: ops.Apply) -> bool:
    """Return whether the derivative of a builtin is zero wherever it exists."""
    rule = resolve(o.fn, [a.type for a in o.args]).overload.adjoint
    return isinstance(rule, NoGradient) and rule.zero


def reads_graded_memory(o: ops.Apply) -> bool:
    """Return whether a builtin reads memory of an object that may have adjoints, as of a texture."""
    return o.fn in OUTLINED and bool(resolve(o.fn, [a.type for a in o.args]).overload.to_memory)
