"""Replace every struct by its fields, so that later passes see scalars, vectors, matrices and arrays only.

Runs once calls are inlined. Afterwards no value has a struct type; structs remain as elements of arrays, which are
accessed through the array of one field (``View`` with ``field``). A struct that branches or loops carry is carried
field by field, its arrays, too; ``lower_array_selects`` finds which arrays these are.

Below, the load of the other field is left for ``dce``.

Before::

    kernel k(%p: array1d[struct Point], %x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %p[%0] : struct Point
      %2 = field %1.b : float32
      store %x[%0], %2
      yield
    }

After::

    kernel k(%p: array1d[struct Point], %x: array1d[float32]) {
      %0 = view %p.a : array1d[float32]
      %1 = view %p.b : array1d[float32]
      %2 = tid 0 of 1 : int32
      %3 = load %0[%2] : float32
      %4 = load %1[%2] : float32
      store %x[%2], %4
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import clone_function, find_ops, result_types, substitute
from warp_like.ir.types import Array, Struct, Tile, Type, is_differentiable, leaf_fields
from warp_like.passes.inline import inline
from warp_like.passes.rewriter import Rewriter, rewrite


def flatten_structs(f: Function) -> Function:
    """Flatten ``f`` in place, its parameters and results too; what it still calls is replaced by flattened copies."""
    if not _uses_structs(f):
        return f
    flattener = _Flattener(f)
    for p in f.params:
        if has_fields(p.type):
            flattener.split(p)
    f.body.params = list(flattener.expand(f.params))
    flattener.known.update(f.body.params)
    rewrite(f, flattener)
    f.body.ops[:0] = flattener.first.ops
    f.results = tuple(v.type for v in f.body.yielded)
    return f


def flatten_gradient(f: Function, arguments: Sequence[Type]) -> Function:
    """Flatten the gradient of a function of ``arguments``: fields without a gradient get no adjoint.

    It takes, last, the adjoint of each argument that has one, and returns those that are no arrays.
    """
    f = flatten_structs(f)
    leaves = [leaf for t in arguments if is_differentiable(t) for leaf in _leaves(t)]
    first = len(f.params) - len(leaves)
    zeros = Block()
    b = Emitter(zeros)
    dropped = {p: b.zero(p.type) for p, t in zip(f.params[first:], leaves, strict=True) if not is_differentiable(t)}
    f.body.params = [p for p in f.params if p not in dropped]
    substitute(f.body, dropped)
    f.body.ops[:0] = zeros.ops
    last = f.body.ops[-1]
    assert isinstance(last, ops.Yield)
    last.values = tuple(v for v in last.values if is_differentiable(v.type))
    f.results = tuple(v.type for v in last.values)
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
        return self.fields[v] if has_fields(v.type) else (self.value(v),)

    def expand(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(p for v in values for p in self.parts(v))

    def visit(self, o: Op) -> None:
        with at(o.loc):
            match o:
                case ops.Make() if has_fields(o.result.type):
                    self.fields[o.result] = self.expand(o.elements)
                case ops.Fill() | ops.TileOfThreads() | ops.Empty() if has_fields(o.result.type):
                    self.make_tile(o)
                case ops.Extract() if has_fields(o.x.type):
                    self.fields[o.result] = tuple(self.b.extract(x, *o.indices) for x in self.fields[o.x])
                case ops.Insert() if has_fields(o.x.type):
                    pairs = zip(self.fields[o.x], self.fields[o.value], strict=True)
                    self.fields[o.result] = tuple(self.b.insert_component(x, y, *o.indices) for x, y in pairs)
                case ops.GetField():
                    self.get_field(o)
                case ops.Load() if has_fields(o.result.type):
                    self.fields[o.result] = tuple(self.load(o.array, o.indices))
                case ops.NestedArray():
                    self.replace(o, (self.b.nested(self.value(o.array), tuple(map(self.value, o.indices))),))
                case ops.View(field=int(k)):
                    self.replace(o, (self.view(o.array, k),))
                case ops.Store() if has_fields(o.value.type):
                    self.store(o.array, o.indices, iter(self.fields[o.value]))
                case ops.Apply() if any(has_fields(r.type) for r in o.results):
                    self.choose(o)
                case ops.If():
                    super().visit(o)
                    self.end(o)
                case ops.For():
                    self.loop(o, [o.body.params[1:]])
                case ops.While():
                    self.loop(o, [o.cond.params, o.body.params])
                case ops.Yield():
                    o.values = self.expand(o.values)
                    self.keep(o)
                case ops.Call():
                    o.callee = self.callee(o.callee)
                    o.args = self.expand(o.args)
                    self.end(o)
                    self.keep(o)
                case _:
                    super().visit(o)

    def get_field(self, o: ops.GetField) -> None:
        assert isinstance(o.x.type, Struct)
        counts = [_count(t) for _, t in o.x.type.fields]
        start = sum(counts[: o.field])
        found = self.fields[o.x][start : start + counts[o.field]]
        if has_fields(o.result.type):
            self.fields[o.result] = found
        else:
            self.replace(o, found)

    def make_tile(self, o: ops.Fill | ops.TileOfThreads | ops.Empty) -> None:
        """Make a tile for each field of its elements."""
        types = [t for _, t in _paths(o.result.type)]
        if isinstance(o, ops.Empty):
            self.fields[o.result] = tuple(self.b.insert(ops.Empty(), t).result for t in types)
            return
        pairs = zip(types, self.fields[o.x], strict=True)
        self.fields[o.result] = tuple(self.b.insert(type(o)(x), t).result for t, x in pairs)

    def choose(self, o: ops.Apply) -> None:
        """Choose field by field; ``where`` is the one builtin that takes structs."""
        assert o.fn == "where", o.fn
        cond, *sides = o.args
        pairs = zip(self.split(o.result), *(self.fields[s] for s in sides), strict=True)
        self.fields[o.result] = tuple(
            self.array_of(cond, a, b) if isinstance(a.type, Array) else self.b.select(cond, a, b) for _, a, b in pairs
        )

    def array_of(self, cond: Value, a: Value, b: Value) -> Value:
        """The array ``a`` or ``b``."""
        sides = []
        for array in (a, b):
            with self.b.into(Block()) as block:
                self.b.yield_(array)
            sides.append(block)
        return self.b.if_(cond, *sides)[0]

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
        """Write a struct field by field; an array in it must be the one that the element holds (``nested_arrays``)."""
        t = _element(array)
        if not isinstance(t, Struct):
            self.b.store(array, indices, next(values))
            return
        for k in range(len(t.fields)):
            self.store(self.view(array, k), indices, values)

    # --- control flow ---

    def end(self, o: ops.If | ops.For | ops.While | ops.Call) -> None:
        """Give ``o`` one result a field."""
        for r in o.results:
            if has_fields(r.type):
                self.split(r)
        o.results = self.expand(o.results)
        for r in o.results:
            r.op = o

    def loop(self, o: ops.For | ops.While, params: list[list[Value]]) -> None:
        """Carry the fields of structs one by one."""
        lead = 1 if isinstance(o, ops.For) else 0
        for p in (p for group in params for p in group if has_fields(p.type)):
            self.split(p)
        o.init = self.expand(o.init)
        for r in o.regions():
            r.params = [*r.params[:lead], *self.expand(r.params[lead:])]
            self.block(r)
        self.end(o)
        self.keep(o)

    def split(self, v: Value) -> tuple[Value, ...]:
        """Let fresh values stand for the fields of ``v``."""
        found = tuple(Value(t, path) for path, t in _paths(v.type, v.hint))
        self.fields[v] = found
        return found

    def callee(self, f: Function) -> Function:
        """``f``, its gradient and its replay without structs."""
        if f not in self.callees:
            self.callees[f] = f
            if any(map(_uses_structs, (g for g in (f, f.gradient, f.replay) if g is not None))):
                self.callees[f] = new = flatten_structs(inline(clone_function(f)))
                types = [p.type for p in f.params]
                new.gradient = f.gradient and flatten_gradient(inline(clone_function(f.gradient)), types)
                new.replay = f.replay and flatten_structs(inline(clone_function(f.replay)))
        return self.callees[f]


def _count(t: Type) -> int:
    return len(_leaves(t))


def _leaves(t: Type) -> list[Type]:
    return [leaf for _, leaf in _paths(t)] if has_fields(t) else [t]


def _paths(t: Type, hint: str = "") -> list[tuple[str, Type]]:
    """The fields of a struct, or of the elements of a tile, nested ones in place, by their paths."""
    struct = t.dtype if isinstance(t, Tile) else t
    assert isinstance(struct, Struct)
    found = leaf_fields(struct, f"{hint or struct.name}.")
    return [(path, Tile(t.shape, leaf)) for path, leaf in found] if isinstance(t, Tile) else found


def has_fields(t: Type) -> bool:
    """Return whether ``t`` is a struct, or a tile of them."""
    return isinstance(t.dtype if isinstance(t, Tile) else t, Struct)


def _element(array: Value) -> Type:
    assert isinstance(array.type, Array)
    return array.type.dtype


def _uses_structs(f: Function) -> bool:
    """Whether a value in ``f``, or in a function that it calls, is a struct."""
    if f.role != "kernel" and any(has_fields(p.type) for p in f.params):
        return True
    if any(map(has_fields, result_types(f.body))):
        return True
    if any(o.field is not None for o in find_ops(f.body, ops.View)):
        return True
    return any(_uses_structs(o.callee) for o in find_ops(f.body, ops.Call))
