"""Inserting ops into blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from warp_like.base.loc import current_loc
from warp_like.ir import ops
from warp_like.ir.core import Block, Op, Value
from warp_like.ir.literal import as_float
from warp_like.ir.types import (
    Array,
    Scalar,
    Struct,
    Tile,
    Type,
    bool_,
    component_type,
    element_count,
    element_shape,
    int32,
    scalar_of,
)


class Builder:
    """Appends ops to a block, giving each the current source location.

    The methods cover ops whose result type follows from their operands' structure alone; builtin calls are typed
    one floor up, by ``warp_like.builtins.emit.Emitter``.
    """

    def __init__(self, block: Block) -> None:
        self.block = block

    def into(self, block: Block) -> Into:
        """Append to ``block`` inside the ``with``."""
        return Into(self, block)

    def insert(self, op: Op, *types: Type, hint: str = "") -> Op:
        """Append ``op`` with results of ``types``; an op that has a location already keeps it."""
        op.results = (Value(types[0], hint, op),) if len(types) == 1 else tuple([Value(t, hint, op) for t in types])
        if op.loc is None:
            op.loc = current_loc()
        self.block.ops.append(op)
        return op

    def constant(self, value: Any, type: Type) -> Value:
        """A constant of ``type``; a plain number is repeated over the components of a vec, mat, quat or transform."""
        scalar = scalar_of(type)
        if scalar is None:
            raise TypeError(f"no constant of {type}")
        if isinstance(type, Tile):
            return self.fill(type, self.constant(value, type.dtype))
        if not isinstance(type, Scalar):
            flat = value if isinstance(value, tuple) else (value,) * element_count(type)
            return self.insert(ops.Constant(tuple(_as(v, scalar) for v in flat)), type).result
        return self.insert(ops.Constant(_as(value, scalar)), type).result

    def zero(self, type: Type) -> Value:
        """The zero of a scalar, vec, mat, quat, transform or struct type; an array without elements."""
        if isinstance(type, Struct):
            return self.make(type, [self.zero(t) for _, t in type.fields])
        if isinstance(type, Array):
            return self.make(type, ())
        if isinstance(type, Tile):
            return self.fill(type, self.zero(type.dtype))
        return self.constant(0, type)

    def index(self, i: int) -> Value:
        """An int32 constant."""
        return self.constant(i, int32)

    def cast(self, x: Value, to: Type) -> Value:
        """``x`` converted to ``to``; ``x`` itself when it has that type."""
        return x if x.type == to else self.insert(ops.Cast(x), to).result

    def bitcast(self, x: Value, to: Type) -> Value:
        """The bits of ``x`` as ``to``."""
        return x if x.type == to else self.insert(ops.Bitcast(x), to).result

    def make(self, type: Type, elements: Sequence[Value]) -> Value:
        """An aggregate from its scalars."""
        return self.insert(ops.Make(tuple(elements)), type).result

    def fill(self, type: Tile, x: Value) -> Value:
        """The tile whose elements are all ``x``."""
        return self.insert(ops.Fill(x), type).result

    def threads(self, x: Value, count: int) -> Value:
        """The tile of the values of ``x`` in the ``count`` threads of the block."""
        return self.insert(ops.TileOfThreads(x), Tile((count,), x.type)).result

    def extract(self, x: Value, *indices: Value | int) -> Value:
        """A component of ``x``, a row of a matrix, or an element of a tile."""
        at = tuple(self.index(i) if isinstance(i, int) else i for i in indices)
        return self.insert(ops.Extract(x, at), component_type(x.type, len(at))).result

    def insert_component(self, x: Value, value: Value, *indices: Value | int) -> Value:
        """``x`` with one component replaced."""
        at = tuple(self.index(i) if isinstance(i, int) else i for i in indices)
        return self.insert(ops.Insert(x, value, at), x.type).result

    def get_field(self, x: Value, field: int) -> Value:
        """The field of a struct at position ``field``; that of a struct just made is taken directly."""
        assert isinstance(x.type, Struct), x.type
        if isinstance(x.op, ops.Make):
            return x.op.elements[field]
        return self.insert(ops.GetField(x, field), x.type.fields[field][1]).result

    def with_field(self, x: Value, field: int, value: Value) -> Value:
        """The struct ``x`` with one field replaced."""
        assert isinstance(x.type, Struct), x.type
        fields = range(len(x.type.fields))
        return self.make(x.type, [value if i == field else self.get_field(x, i) for i in fields])

    def components(self, x: Value) -> list[Value]:
        """All scalars of a vec, mat (row-major), quat, transform or tile, or its structs; ``[x]`` for a scalar."""
        if isinstance(x.type, Scalar):
            return [x]
        return [self.extract(x, *indices) for indices in itertools.product(*map(range, element_shape(x.type)))]

    def load(self, array: Value, indices: Sequence[Value]) -> Value:
        """An element of ``array``."""
        if isinstance(_array_type(array).dtype, Array):
            return self.nested(array, indices)
        return self.insert(ops.Load(array, tuple(indices)), _array_type(array).dtype).result

    def nested(self, array: Value, indices: Sequence[Value]) -> Value:
        """The array that is an element of ``array``."""
        where = tuple(indices)
        while isinstance(view := array.op, ops.View) and view.field is None:
            array, where = view.array, (*view.indices, *where)
        return self.insert(ops.NestedArray(array, where), _array_type(array).dtype, hint=_place(array)).result

    def store(self, array: Value, indices: Sequence[Value], value: Value) -> None:
        """Write an element of ``array``."""
        self.insert(ops.Store(array, tuple(indices), value))

    def atomic(self, kind: str, array: Value, indices: Sequence[Value], value: Value) -> Value:
        """Update an element of ``array`` atomically; the old value."""
        return self.insert(ops.Atomic(kind, array, tuple(indices), value), _array_type(array).dtype).result

    def view(self, array: Value, indices: Sequence[Value]) -> Value:
        """The sub-array of ``array`` at leading ``indices``."""
        t = _array_type(array)
        return self.insert(ops.View(array, tuple(indices), None), Array(t.dtype, t.ndim - len(indices))).result

    def field_view(self, array: Value, field: int) -> Value:
        """The array of one field of the structs in ``array``."""
        t = _array_type(array)
        assert isinstance(t.dtype, Struct), t
        if isinstance(array.op, ops.View) and array.op.field is None:  # indices last, where loads take them in
            return self.view(self.field_view(array.op.array, field), array.op.indices)
        return self.insert(ops.View(array, (), field), Array(t.dtype.fields[field][1], t.ndim)).result

    def slice(
        self, array: Value, start: Sequence[Value], count: Sequence[Value], step: Sequence[Value], kept: tuple[int, ...]
    ) -> Value:
        """The part of ``array`` that begins at ``start`` and goes on along the dimensions ``kept``."""
        made = ops.Slice(array, tuple(start), tuple(count), tuple(step), kept)
        return self.insert(made, Array(_array_type(array).dtype, len(kept))).result

    def view_like(self, v: ops.View | ops.Slice, array: Value, value: Callable[[Value], Value]) -> Value:
        """The view ``v`` of its array, taken of another ``array``; ``value`` maps its indices."""
        if isinstance(v, ops.Slice):
            start, count, step = (tuple(map(value, part)) for part in (v.start, v.count, v.step))
            return self.slice(array, start, count, step, v.kept)
        return self.view(array, tuple(map(value, v.indices))) if v.field is None else self.field_view(array, v.field)

    def dim(self, array: Value, axis: int, type: Scalar = int32) -> Value:
        """The extent of ``array`` along ``axis``."""
        return self.insert(ops.Dim(array, axis), type).result

    def yield_(self, *values: Value) -> None:
        """End the current block."""
        self.insert(ops.Yield(tuple(values)))

    def if_(self, cond: Value, then: Block, orelse: Block) -> tuple[Value, ...]:
        """Run one of two complete blocks."""
        return self.insert(ops.If(cond, then, orelse), *(v.type for v in then.yielded)).results

    def for_(
        self, lo: Value, hi: Value, step: Value, init: Sequence[Value], body: Block, *, simd: bool = False
    ) -> tuple[Value, ...]:
        """Count; ``body`` is complete."""
        return self.insert(ops.For(lo, hi, step, tuple(init), body, simd=simd), *(v.type for v in init)).results

    def while_(self, init: Sequence[Value], cond: Block, body: Block) -> tuple[Value, ...]:
        """Repeat; both blocks are complete."""
        return self.insert(ops.While(tuple(init), cond, body), *(v.type for v in init)).results

    def true(self) -> Value:
        """The bool constant true."""
        return self.constant(True, bool_)


class Into:
    """What ``Builder.into`` returns. Each block that a pass rebuilds has one; a generator would take longer."""

    __slots__ = ("_block", "_builder", "_outer")

    def __init__(self, builder: Builder, block: Block) -> None:
        self._builder = builder
        self._block = block

    def __enter__(self) -> Block:
        self._outer, self._builder.block = self._builder.block, self._block
        return self._block

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._builder.block = self._outer


def _place(array: Value) -> str:
    """The name in messages of an element of ``array``, an array of fields: ``a[...].data``; empty without a name."""
    path = ""
    while isinstance(array.op, ops.VIEWS):
        if isinstance(array.op, ops.View) and array.op.field is not None:
            t = _array_type(array.op.array).dtype
            assert isinstance(t, Struct)
            path = f".{t.fields[array.op.field][0]}{path}"
        array = array.op.array
    return f"{array.hint}[...]{path}" if array.hint else ""


def _array_type(array: Value) -> Array:
    assert isinstance(array.type, Array), array.type
    return array.type


def _as(value: Any, t: Scalar) -> bool | int | float:
    if t.is_bool:
        return bool(value)
    return as_float(value) if t.is_float else int(value)


def fields(b: Builder, x: Value) -> list[Value]:
    """Return the fields of a struct that are none, nested ones in place; of another value, itself."""
    if not isinstance(x.type, Struct):
        return [x]
    return [v for k in range(len(x.type.fields)) for v in fields(b, b.get_field(x, k))]


def from_fields(b: Builder, t: Type, parts: list[Value]) -> Value:
    """Return a value of type ``t`` from the parts that ``fields`` gives, taken from the front of ``parts``."""
    if isinstance(t, Struct):
        return b.make(t, [from_fields(b, field, parts) for _, field in t.fields])
    return parts.pop(0)
