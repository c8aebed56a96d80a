"""Replace every struct by its fields, so that later passes see scalars, vectors, matrices and arrays only.

Runs once calls are inlined. Afterwards no value has a struct type; structs remain as elements of arrays, which are
accessed through the array of one field (``View`` with ``field``). A struct that branches or loops carry is carried
field by field, except for its arrays: which array a field holds has to be known, and is then used directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import blocks, clone_function
from warp_like.ir.types import Array, Struct, Type, leaf_fields
from warp_like.passes.inline import inline
from warp_like.passes.rewriter import Rewriter, prune_results, rewrite


def flatten_structs(f: Function) -> Function:
    """Flatten ``f`` in place; functions that it still calls are replaced by flattened copies.

    Raises:
        WarpCodegenTypeError: Which array a field holds depends on the path taken.
    """
    if not _uses_structs(f):
        return f
    flattener = _Flattener(f)
    rewrite(f, flattener)
    f.body.ops[:0] = flattener.first.ops
    return f


class _Flattener(Rewriter):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.first = Block()  # views of parameters go before everything, so that what loads through them can move
        self.known: set[Value] = set(f.params)
        self.views: dict[tuple[Value, int], Value] = {}
        self.fields: dict[Value, tuple[Value, ...]] = {}  # of each struct, nested ones in place
        self.callees: dict[Function, Function] = {}

    def parts(self, v: Value) -> tuple[Value, ...]:
        """What stands for ``v``: its fields if it is a struct."""
        return self.fields[v] if isinstance(v.type, Struct) else (self.value(v),)

    def expand(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(p for v in values for p in self.parts(v))

    def visit(self, o: Op) -> None:
        with at(o.loc):
            match o:
                case ops.Make() if isinstance(o.result.type, Struct):
                    self.fields[o.result] = self.expand(o.elements)
                case ops.GetField():
                    self.get_field(o)
                case ops.Load() if isinstance(o.result.type, Struct):
                    self.fields[o.result] = tuple(self.load(o.array, o.indices))
                case ops.View(field=int(k)):
                    self.replace(o, (self.view(o.array, k),))
                case ops.Store() if isinstance(o.value.type, Struct):
                    self.store(o.array, o.indices, iter(self.fields[o.value]))
                case ops.Apply() if any(isinstance(r.type, Struct) for r in o.results):
                    self.choose(o)
                case ops.If():
                    super().visit(o)
                    self.end_if(o)
                case ops.For():
                    self.loop(o, [o.body.params[1:]])
                case ops.While():
                    self.loop(o, [o.cond.params, o.body.params])
                case ops.Yield():
                    o.values = self.expand(o.values)
                    self.keep(o)
                case ops.Call():
                    o.callee = self.callee(o.callee)
                    self.keep(o)
                case _:
                    super().visit(o)

    def get_field(self, o: ops.GetField) -> None:
        assert isinstance(o.x.type, Struct)
        counts = [_count(t) for _, t in o.x.type.fields]
        start = sum(counts[: o.field])
        found = self.fields[o.x][start : start + counts[o.field]]
        if isinstance(o.result.type, Struct):
            self.fields[o.result] = found
        else:
            self.replace(o, found)

    def choose(self, o: ops.Apply) -> None:
        """Choose field by field; ``where`` is the one builtin that takes structs."""
        assert o.fn == "where", o.fn
        cond, *sides = o.args
        pairs = zip(self.split(o.result), *(self.fields[s] for s in sides), strict=True)
        self.fields[o.result] = tuple(
            self.one_array(new, [a, b], set()) if isinstance(a.type, Array) else self.b.select(cond, a, b)
            for new, a, b in pairs
        )

    # --- arrays of structs ---

    def view(self, array: Value, field: int) -> Value:
        """The array of one field of the structs in ``array``."""
        if isinstance(array.op, ops.View) and array.op.field is None:
            return self.b.view(self.view(array.op.array, field), array.op.indices)
        if isinstance(array.op, ops.Slice):
            return self.b.view_like(array.op, self.view(array.op.array, field), self.value)
        if array not in self.known:
            return self.b.field_view(array, field)
        if (array, field) not in self.views:
            with self.b.into(self.first):
                made = self.views[array, field] = self.b.field_view(array, field)
            self.known.add(made)
        return self.views[array, field]

    def load(self, array: Value, indices: tuple[Value, ...]) -> list[Value]:
        t = _element(array)
        if not isinstance(t, Struct):
            return [self.b.load(array, indices)]
        return [v for k in range(len(t.fields)) for v in self.load(self.view(array, k), indices)]

    def store(self, array: Value, indices: tuple[Value, ...], values: Iterator[Value]) -> None:
        t = _element(array)
        if not isinstance(t, Struct):
            self.b.store(array, indices, next(values))
            return
        for k in range(len(t.fields)):
            self.store(self.view(array, k), indices, values)

    # --- control flow ---

    def end_if(self, o: ops.If) -> None:
        """Give ``o`` one result a field. An array that both branches hold is used directly."""
        split = {v for r in o.results if isinstance(r.type, Struct) for v in self.split(r)}
        o.results = self.expand(o.results)
        inside = _defined(o)
        keep = []
        for r, *yielded in zip(o.results, o.then.yielded, o.orelse.yielded, strict=True):
            keep.append(not (r in split and isinstance(r.type, Array)))
            if not keep[-1]:
                self.mapping[r] = self.one_array(r, yielded, inside)
        for r in o.results:
            r.op = o
        self.resolve()
        prune_results(o, keep)

    def loop(self, o: ops.For | ops.While, params: list[list[Value]]) -> None:
        """Carry the fields of structs one by one. Arrays are not carried: they stay what they are."""
        keep: list[bool] = []
        first: list[Value] = []
        for v, *group in zip(o.init, *params, strict=True):
            pieces = self.parts(v)
            first += pieces
            is_struct = isinstance(v.type, Struct)
            keep += [not (is_struct and isinstance(p.type, Array)) for p in pieces]
            for p in group if is_struct else ():
                fresh = self.split(p)
                held = zip(fresh, pieces, strict=True)
                self.fields[p] = tuple(x if isinstance(x.type, Array) else new for new, x in held)
        for r in o.regions():
            lead = r.params[: len(r.params) - len(o.init)]
            carried = [self.carried(p) for p in r.params[len(lead) :]]
            r.params = [*lead, *(p for group in carried for p in group)]
        o.init = tuple(first)
        for r in o.regions():
            self.block(r)
        for result in o.results:
            if isinstance(result.type, Struct):
                self.split(result)
        o.results = self.expand(o.results)
        inside = _defined(o)
        for result, start, last, kept in zip(o.results, o.init, o.body.yielded, keep, strict=True):
            result.op = o
            if not kept:
                self.mapping[result] = self.one_array(result, [start, last], inside)
        self.resolve()
        prune_results(o, keep)
        self.keep(o)

    def carried(self, p: Value) -> list[Value]:
        """The parameters that stand for the carried value ``p``; for an array one that nothing uses."""
        if not isinstance(p.type, Struct):
            return [p]
        return [Value(v.type, v.hint) if isinstance(v.type, Array) else v for v in self.fields[p]]

    def split(self, v: Value) -> tuple[Value, ...]:
        """Let fresh values stand for the fields of ``v``."""
        assert isinstance(v.type, Struct)
        found = tuple(Value(t, path) for path, t in leaf_fields(v.type, f"{v.hint or v.type.name}."))
        self.fields[v] = found
        return found

    def one_array(self, field: Value, given: Sequence[Value], inside: set[Value]) -> Value:
        """The array that ``field`` is, where ``given`` are what the paths that meet here hold."""
        known = list(dict.fromkeys(v for v in given if not _is_nothing(v))) or list(given[:1])
        if len(known) > 1 or known[0] in inside:
            raise WarpCodegenTypeError(
                f"which array a field of a struct holds depends on the path that leads here (`{field.hint}`)",
                help="kernel code can't choose between arrays: read the element inside of each branch",
            )
        return known[0]

    def resolve(self) -> None:
        """Look up the fields of structs in ``mapping``."""
        for v, found in self.fields.items():
            self.fields[v] = tuple(map(self.value, found))

    def callee(self, f: Function) -> Function:
        """``f``, its gradient and its replay without structs."""
        if f not in self.callees:
            self.callees[f] = f
            if any(map(_uses_structs, (g for g in (f, f.gradient, f.replay) if g is not None))):
                self.callees[f] = new = flatten_structs(inline(clone_function(f)))
                new.gradient = f.gradient and flatten_structs(inline(clone_function(f.gradient)))
                new.replay = f.replay and flatten_structs(inline(clone_function(f.replay)))
        return self.callees[f]


def _count(t: Type) -> int:
    return len(leaf_fields(t)) if isinstance(t, Struct) else 1


def _element(array: Value) -> Type:
    assert isinstance(array.type, Array)
    return array.type.dtype


def _is_nothing(v: Value) -> bool:
    """Whether ``v`` stands where no array has been given."""
    return isinstance(v.op, ops.Make) and isinstance(v.type, Array)


def _defined(o: Op) -> set[Value]:
    found: set[Value] = set()
    for r in o.regions():
        for b in blocks(r):
            found.update(b.params)
            found.update(v for inner in b.ops for v in inner.results)
    return found


def _uses_structs(f: Function) -> bool:
    """Whether a value in ``f``, or in a function that it calls, is a struct."""
    for b in blocks(f.body):
        for o in b.ops:
            if any(isinstance(v.type, Struct) for v in o.results) or (isinstance(o, ops.View) and o.field is not None):
                return True
            if isinstance(o, ops.Call) and _uses_structs(o.callee):
                return True
    return False
