"""Lower selects between arrays to selects between integers, so that later passes see each array by its name.

``x = a if c else b`` becomes a number that says which of its *candidates* ``x`` is, arguments of the kernel mostly, and
loops carry such numbers (``a, b = b, a``). An access branches on the number and is an access to one array on each side:
derivatives, lanes and the analysis of what is written need to know nothing about choices. Where a candidate is a view,
such as ``m[i]``, its indices are carried along.

Runs when calls are inlined and structs are gone; afterwards no branch and no loop has a result that is an array.

Before::

    kernel k(%c: bool, %x: array1d[float32], %y: array1d[float32]) {
      %0 = if %c : array1d[float32] {
        yield %x
      } else {
        yield %y
      }
      %1 = tid 0 of 1 : int32
      %2 = constant 1.0 : float32
      store %0[%1], %2
      yield
    }

After::

    kernel k(%c: bool, %x: array1d[float32], %y: array1d[float32]) {
      %0 = if %c : int32 {
        %1 = constant 0 : int64
        %2 = constant 0 : int32
        yield %2
      } else {
        %3 = constant 0 : int64
        %4 = constant 1 : int32
        yield %4
      }
      %5 = tid 0 of 1 : int32
      %6 = constant 1.0 : float32
      %7 = constant 0 : int32
      %8 = eq %0, %7 : bool
      if %8 {
        store %x[%5], %6
        yield
      } else {
        store %y[%5], %6
        yield
      }
      yield
    }
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.base.frozen import Frozen
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, blocks, clone_function, has_op, has_regions, substitute
from warp_like.ir.types import Array, int32, int64
from warp_like.passes.cse import pure_key
from warp_like.passes.inline import inline
from warp_like.passes.rewriter import Rewriter, prune_results, rewrite


class Candidate(Frozen):
    """An array that may be chosen: the array of ``fields`` of ``root``, less ``count`` leading dimensions.

    ``root`` is None for the array that stands where none was given. With ``kept`` it is a slice with these dimensions,
    of the array of ``ndim`` dimensions that this is otherwise. With ``nested`` the root's elements are arrays, and
    one of them, at as many indices, takes the place of the root.
    """

    root: Value | None
    fields: tuple[int, ...] = ()
    count: int = 0
    ndim: int = 0
    kept: tuple[int, ...] | None = None
    nested: int = 0

    @property
    def carried(self) -> int:
        """How many integers say which part of ``root`` it is."""
        return self.nested + self.count + (self.ndim + 2 * len(self.kept) if self.kept is not None else 0)


_NOTHING = Candidate(None)


class Choice:
    """What stands for a chosen array: which of ``candidates`` it is, and their indices; ``views`` are taken of it."""

    def __init__(
        self,
        candidates: tuple[Candidate, ...],
        which: Value | None,
        indices: dict[Candidate, tuple[Value, ...]],
        views: tuple[ops.View | ops.Slice, ...] = (),
    ) -> None:
        self.candidates = candidates
        self.which = which
        self.indices = indices
        self.views = views


def lower_array_selects(f: Function) -> Function:
    """Rewrite what chooses between arrays in ``f``, in place; functions that it still calls are replaced by copies.

    Raises:
        WarpCodegenTypeError: An array that is made inside of a branch or loop is chosen for what follows it.
    """
    if _has_choices(f) or has_op(f, ops.Call):
        _drop_unchanged(f)
        rewrite(f, _Lowerer(_candidates(f)))
    return f


def _has_choices(f: Function) -> bool:
    results = (r for o in f.body.walk() if o._REGIONS for r in o.results)
    return has_regions(f.body) and any(isinstance(r.type, Array) for r in results)


def _drop_unchanged(f: Function) -> None:
    """Use the array itself where a branch or loop only passes it on."""
    unchanged = _unchanged(f)
    substitute(f.body, unchanged)
    for o in f.body.walk():
        if any(r in unchanged for r in o.results):
            prune_results(o, [r not in unchanged for r in o.results])


def _unchanged(f: Function) -> dict[Value, Value]:
    """Return the arrays that a branch or loop only passes on, and what each of them is.

    Array ``i`` of an element is the same one wherever it is read. Where both sides of a branch read it, so does an op
    that is added before the branch.
    """
    found: dict[Value, Value] = {}
    before = -1
    while before != (before := len(found)):
        same = _Same(found)
        for block in list(blocks(f.body)):
            for o in list(block.ops):
                for slot in _array_slots(o):
                    sources = [s for s in map(same.final, slot.sources) if s not in slot.targets]
                    if slot.targets[0] not in found and len(set(map(same.number, sources))) == 1:
                        is_read_again = isinstance(o, ops.If) and sources[0] is not sources[-1]
                        source = same.compute_before(o, block, sources[0]) if is_read_again else sources[0]
                        found.update(dict.fromkeys(slot.targets, source))
    return found


class _Same:
    """Which values are computed in the same way, where ``known`` says what others only pass on."""

    def __init__(self, known: dict[Value, Value]) -> None:
        self.known = known
        self.first: dict[Hashable, Value] = {}

    def final(self, v: Value) -> Value:
        while v in self.known:
            v = self.known[v]
        return v

    def number(self, v: Value) -> Value:
        """Return one value for all that are the same."""
        v = self.final(v)
        key = pure_key(v.op, self.number) if v.op is not None else None
        return v if key is None else self.first.setdefault(key, v)

    def compute_before(self, o: Op, block: Block, v: Value) -> Value:
        """Compute ``v``, which is of pure ops inside of ``o``, before ``o`` as well."""
        inside = _defined_inside(o)
        new: list[Op] = []
        cloner = Cloner()

        def copy_of(x: Value) -> Value:
            if x not in cloner.mapping:
                last = self.final(x)
                if last in inside and last.op is not None:
                    for operand in last.op.operands():
                        copy_of(operand)
                    new.append(cloner.op(last.op))
                cloner.mapping[x] = cloner.value(last)
            return cloner.mapping[x]

        found = copy_of(v)
        k = block.ops.index(o)
        block.ops[k:k] = new
        return found


def _defined_inside(o: Op) -> set[Value]:
    return {v for r in o.regions() for b in blocks(r) for x in b.ops for v in x.results}


# --- which arrays there are to choose from ---


def _candidates(f: Function) -> dict[Value, dict[Candidate, None]]:
    """Return the candidates of each array that a branch or loop gives or carries."""
    found: dict[Value, dict[Candidate, None]] = {}
    flows: list[tuple[dict[Candidate, None], list[Value]]] = []
    for o in f.body.walk():
        for slot in _array_slots(o):
            shared: dict[Candidate, None] = {}
            found.update(dict.fromkeys(slot.targets, shared))
            flows.append((shared, slot.sources))
    before = -1
    while before != (before := sum(len(shared) for shared, _ in flows)):
        for shared, sources in flows:
            for s in sources:
                shared.update(dict.fromkeys(_meant(s, found)))
    for shared, _ in flows:
        if len(shared) > 1:
            shared.pop(_NOTHING, None)  # it fills the place of an array on paths that do not read it
    return found


class _Slot(Frozen):
    """A result or carried value of a branch or loop: the values that it is, and those that flow into it."""

    targets: tuple[Value, ...]
    sources: list[Value]


def _array_slots(o: Op) -> list[_Slot]:
    columns: list[tuple[tuple[Value, ...], list[Value]]]
    match o:
        case ops.If():
            columns = [((r,), [a, b]) for r, a, b in zip(o.results, o.then.yielded, o.orelse.yielded, strict=True)]
        case ops.For():
            inside = zip(o.results, o.body.params[1:], o.init, o.body.yielded, strict=True)
            columns = [((r, p), [first, last]) for r, p, first, last in inside]
        case ops.While():
            both = zip(o.results, o.cond.params, o.body.params, o.init, o.body.yielded, strict=True)
            columns = [((r, p, q), [first, last]) for r, p, q, first, last in both]
        case _:
            return []
    return [_Slot(targets, sources) for targets, sources in columns if isinstance(targets[0].type, Array)]


def _meant(v: Value, known: dict[Value, dict[Candidate, None]]) -> list[Candidate]:
    """The arrays that ``v`` may be."""
    if v in known:
        return list(known[v])
    if isinstance(v.op, ops.Make):
        return [_NOTHING]
    if isinstance(v.op, ops.VIEWS):
        found = _meant(v.op.array, known)
        if all(c.kept is None for c in found):
            return [_viewed(c, v.op) for c in found]
    if isinstance(v.op, ops.NestedArray):
        return [Candidate(v.op.array, nested=len(v.op.indices))]
    return [Candidate(v)]


def _viewed(c: Candidate, view: ops.View | ops.Slice) -> Candidate:
    if isinstance(view, ops.Slice):
        return c.replace(ndim=len(view.start), kept=view.kept)
    if view.field is not None:
        return c.replace(fields=(*c.fields, view.field))
    return c.replace(count=c.count + len(view.indices))


# --- rewriting ---


class _Lowerer(Rewriter):
    def __init__(self, candidates: dict[Value, dict[Candidate, None]]) -> None:
        super().__init__()
        self.candidates = candidates
        self.choices: dict[Value, Choice] = {}
        self.yielding: list[Sequence[Value] | None] = []  # what the values of the block being rebuilt become
        self.callees: dict[Function, Function] = {}

    def visit(self, o: Op) -> None:
        with at(o.loc):
            match o:
                case ops.If():
                    self.require_outside(o)
                    self.regions(o, o.results)
                    self.finish(o)
                case ops.For() | ops.While():
                    self.require_outside(o)
                    self.loop(o)
                case ops.Yield():
                    targets = self.yielding[-1] if self.yielding else None
                    if targets is not None:
                        o.values = tuple(x for v, t in zip(o.values, targets, strict=True) for x in self.parts(v, t))
                    self.keep(o)
                case ops.View() | ops.Slice() if o.array in self.choices:
                    self.choices[o.result] = self.view(self.choices[o.array], o)
                case ops.Dim() if o.array in self.choices:
                    self.replace(o, (self.extent(o, self.choices[o.array]),))
                case _:
                    self.access(o)

    def require_outside(self, o: Op) -> None:
        """Refuse a choice of an array that is made inside of ``o``, whose memory is not there after it."""
        inside = _defined_inside(o)
        for r in o.results:
            for c in self.candidates.get(r, ()):
                if c.root in inside:
                    raise WarpCodegenTypeError(
                        f"`{r.hint or 'an array'}` would be an array that is made inside of a branch or loop, after it",
                        help="make it before, and write to its elements inside",
                    )

    def regions(self, o: Op, targets: Sequence[Value]) -> None:
        for name in o._REGIONS:
            self.yielding.append(None if name == "cond" else targets)
            self.block(getattr(o, name))
            self.yielding.pop()

    def loop(self, o: ops.For | ops.While) -> None:
        lead = 1 if isinstance(o, ops.For) else 0
        o.init = tuple(x for v, r in zip(o.init, o.results, strict=True) for x in self.parts(v, r))
        for r in o.regions():
            r.params = [*r.params[:lead], *(x for p in r.params[lead:] for x in self.stand_ins(p))]
        self.regions(o, o.results)
        self.finish(o)

    def finish(self, o: Op) -> None:
        o.results = tuple(x for r in o.results for x in self.stand_ins(r))
        for r in o.results:
            r.op = o
        self.keep(o)

    # --- what is carried for an array: the number of the candidate, and the indices of all ---

    def stand_ins(self, target: Value) -> list[Value]:
        """New values for what is carried for ``target``; the value itself where it is no array."""
        if target not in self.candidates:
            return [target]
        found = tuple(self.candidates[target])
        which = Value(int32, target.hint) if len(found) > 1 else None
        indices = {c: tuple(Value(int64, target.hint) for _ in range(c.carried)) for c in found}
        self.choices[target] = Choice(found, which, indices)
        return [*([which] if which is not None else []), *(i for c in found for i in indices[c])]

    def parts(self, v: Value, target: Value) -> list[Value]:
        """What is carried for ``target`` where it is ``v``."""
        if target not in self.candidates:
            return [v]
        choice, found = self.choice(v), tuple(self.candidates[target])
        if choice.views:
            raise WarpCodegenTypeError(
                "a part of an array that was chosen at run time can't be chosen again", help="slice it where it is used"
            )
        zero = self.b.constant(0, int64)
        indices = [i for c in found for i in choice.indices.get(c, (zero,) * c.carried)]
        return [*([self.number(choice, found)] if len(found) > 1 else []), *indices]

    def number(self, choice: Choice, among: tuple[Candidate, ...]) -> Value:
        """Which of ``among`` a choice is."""
        numbers = [among.index(c) if c in among else 0 for c in choice.candidates]
        if choice.which is not None and numbers == list(range(len(numbers))):
            return choice.which
        found = self.b.index(numbers[-1] if numbers else 0)
        for k, n in enumerate(numbers[:-1]):
            found = self.b.select(self.b.eq(choice.which, k), self.b.index(n), found)
        return found

    def choice(self, v: Value) -> Choice:
        """``v`` as a choice, of one candidate where it is an array by its name."""
        if v in self.choices:
            return self.choices[v]
        if isinstance(v.op, ops.VIEWS):
            nested = self.choice(v.op.array)
            if all(c.kept is None for c in nested.candidates):
                return self.view(nested, v.op)
        indices: tuple[Value, ...] = ()
        if isinstance(v.op, ops.NestedArray):
            c = Candidate(v.op.array, nested=len(v.op.indices))
            indices = tuple(self.b.cast(i, int64) for i in v.op.indices)
        else:
            c = _NOTHING if isinstance(v.op, ops.Make) else Candidate(v)
        return Choice((c,), None, {c: indices})

    def view(self, choice: Choice, o: ops.View | ops.Slice) -> Choice:
        if choice.views or any(c.kept is not None for c in choice.candidates):
            return Choice(choice.candidates, choice.which, choice.indices, (*choice.views, o))
        given = (*o.start, *o.count, *o.step) if isinstance(o, ops.Slice) else o.indices
        more = tuple(self.b.cast(i, int64) for i in given)
        new = {c: _viewed(c, o) for c in choice.candidates}
        indices = {new[c]: (*choice.indices[c], *more) for c in choice.candidates}
        return Choice(tuple(new.values()), choice.which, indices)

    # --- accesses ---

    def array(self, choice: Choice, c: Candidate, like: Value) -> Value:
        """The array that candidate ``c`` is, whose type is that of ``like``."""
        if c.root is None:
            return self.b.zero(like.type)
        array, indices = c.root, choice.indices[c]
        if c.nested:
            array, indices = self.b.nested(array, indices[: c.nested]), indices[c.nested :]
        for field in c.fields:
            array = self.b.field_view(array, field)
        if c.count:
            array = self.b.view(array, indices[: c.count])
        if c.kept is not None:
            start, rest = indices[c.count : c.count + c.ndim], indices[c.count + c.ndim :]
            array = self.b.slice(array, start, rest[: len(c.kept)], rest[len(c.kept) :], c.kept)
        for view in choice.views:
            array = self.b.view_like(view, array, self.value)
        return array

    def extent(self, o: ops.Dim, choice: Choice) -> Value:
        """The extent of a chosen array; those of all candidates are at hand."""
        extents = [self.b.dim(self.array(choice, c, o.array), o.axis, o.result.type) for c in choice.candidates]  # type: ignore[arg-type]
        found = extents[-1]
        for k, e in enumerate(extents[:-1]):
            found = self.b.select(self.b.eq(choice.which, k), e, found)
        return found

    def access(self, o: Op) -> None:
        """Keep ``o``; where it is given a chosen array, branch to one for each candidate."""
        if isinstance(o, ops.Call):
            o.callee = self.callee(o.callee)
        chosen = next((v for v in o.operands() if v in self.choices), None)
        if chosen is None:
            super().visit(o)
            return
        results = self.branch(o, chosen, self.choices[chosen], 0)
        self.replace(o, results)

    def branch(self, o: Op, chosen: Value, choice: Choice, k: int) -> tuple[Value, ...]:
        """``o`` for the candidates from number ``k`` on."""
        if k == len(choice.candidates) - 1:
            array = self.array(choice, choice.candidates[k], chosen)
            new = copy.copy(o)
            new.results = tuple(Value(r.type, r.hint, new) for r in o.results)
            new.map_operands(lambda v: array if v is chosen else v)
            self.visit(new)
            return tuple(map(self.value, new.results))
        with self.b.into(Block()) as then:
            one = Choice((choice.candidates[k],), None, choice.indices, choice.views)
            self.b.yield_(*self.branch(o, chosen, one, 0))
        with self.b.into(Block()) as orelse:
            self.b.yield_(*self.branch(o, chosen, choice, k + 1))
        return self.b.if_(self.b.eq(choice.which, k), then, orelse)

    def callee(self, f: Function) -> Function:
        """``f``, its gradient and its replay without choices."""
        if f not in self.callees:
            self.callees[f] = f
            if any(map(_has_choices, (g for g in (f, f.gradient, f.replay) if g is not None))):
                self.callees[f] = new = lower_array_selects(inline(clone_function(f)))
                new.gradient = f.gradient and lower_array_selects(inline(clone_function(f.gradient)))
                new.replay = f.replay and lower_array_selects(inline(clone_function(f.replay)))
        return self.callees[f]
