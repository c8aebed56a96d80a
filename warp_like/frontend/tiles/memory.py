"""Tiles from and to arrays: what lies outside of an array reads as zero, and is not written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import over
from warp_like.builtins.tiles import tile_type
from warp_like.frontend.context import Context
from warp_like.frontend.operands import NOTHING, Operand
from warp_like.frontend.tiles.arguments import Arguments, require_element
from warp_like.frontend.tiles.structs import add_to
from warp_like.ir import ops
from warp_like.ir.atomics import has_atomic
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Array, Struct, Tile, Type, int32, int64

Index = tuple[Value, ...]


def _load(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_load", "a shape offset storage bounds_check aligned", 2)
    array, shape = a.array("a"), a.shape()
    t = Tile(shape, _element(a, array, len(shape)))
    offset, b = a.offset(len(shape)), ctx.b
    a.flag("aligned", False)
    if not a.flag("bounds_check", True):
        start = b.insert(ops.Empty(), t).result
        return over(
            b, shape, [start], lambda at, made: [b.insert_component(made, b.load(array, _moved(b, at, offset)), *at)]
        )[0]

    def put(at: Index, made: Value) -> list[Value]:
        return [b.insert_component(made, b.load(array, _moved(b, at, offset)), *at)]

    return _inside(b, array, offset, shape, [b.zero(t)], put)[0]


def _store(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_store", "a t offset bounds_check aligned", 2)
    array, t = a.array("a"), a.tile("t")
    shape, b = tile_type(t).shape, ctx.b
    _require_elements(a, array, t)
    offset = a.offset(len(shape))
    a.flag("aligned", False)

    def put(at: Index) -> list[Value]:
        b.store(array, _moved(b, at, offset), b.extract(t, *at))
        return []

    if a.flag("bounds_check", True):
        _inside(b, array, offset, shape, [], put)
    else:
        over(b, shape, [], put)
    return NOTHING


def _atomic(kind: str) -> Callable[[Context, ast.Call], Operand]:
    def build(ctx: Context, node: ast.Call) -> Operand:
        a = Arguments(ctx, node, f"tile_atomic_{kind}", "a t offset bounds_check", 2)
        array, t = a.array("a"), a.tile("t")
        shape, b = tile_type(t).shape, ctx.b
        _require_elements(a, array, t)
        _require_atomic(kind, t)
        offset = a.offset(len(shape))

        def update(at: Index, made: Value) -> list[Value]:
            old = _updated(b, kind, array, _moved(b, at, offset), b.extract(t, *at))
            return [b.insert_component(made, old, *at)]

        start = b.zero(t.type)
        if a.flag("bounds_check", True):
            return _inside(b, array, offset, shape, [start], update)[0]
        return over(b, shape, [start], update)[0]

    return build


def _require_atomic(kind: str, t: Value) -> None:
    element = tile_type(t).dtype
    adds_structs = kind == "add" and isinstance(element, Struct)
    if not adds_structs and not has_atomic(kind, element):
        raise WarpCodegenTypeError(f"tile_atomic_{kind}() does not work on elements of {element}")


def _updated(b: Emitter, kind: str, array: Value, where: Sequence[Value], value: Value) -> Value:
    return add_to(b, array, where, value) if kind == "add" else b.atomic(kind, array, where, value)


# --- through indices ---


def _load_indexed(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_load_indexed", "a indices shape offset axis storage", 3)
    array, indices, shape = a.array("a"), a.tile("indices"), a.shape()
    t = Tile(shape, _element(a, array, len(shape)))
    places = _Indexed(a, array, indices, shape)
    b = ctx.b

    def put(at: Index, made: Value) -> list[Value]:
        def load(where: Sequence[Value]) -> list[Value]:
            return [b.insert_component(made, b.load(array, where), *at)]

        return places.if_inside(at, [made], load)

    return over(b, shape, [b.zero(t)], put)[0]


def _store_indexed(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_store_indexed", "a indices t offset axis", 3)
    array, indices, t = a.array("a"), a.tile("indices"), a.tile("t")
    _require_elements(a, array, t)
    shape, b = tile_type(t).shape, ctx.b
    places = _Indexed(a, array, indices, shape)

    def put(at: Index) -> list[Value]:
        def store(where: Sequence[Value]) -> list[Value]:
            b.store(array, where, b.extract(t, *at))
            return []

        return places.if_inside(at, [], store)

    over(b, shape, [], put)
    return NOTHING


def _atomic_indexed(kind: str) -> Callable[[Context, ast.Call], Operand]:
    def build(ctx: Context, node: ast.Call) -> Operand:
        a = Arguments(ctx, node, f"tile_atomic_{kind}_indexed", "a indices t offset axis", 3)
        array, indices, t = a.array("a"), a.tile("indices"), a.tile("t")
        _require_elements(a, array, t)
        _require_atomic(kind, t)
        shape, b = tile_type(t).shape, ctx.b
        places = _Indexed(a, array, indices, shape)

        def update(at: Index, made: Value) -> list[Value]:
            def add(where: Sequence[Value]) -> list[Value]:
                return [b.insert_component(made, _updated(b, kind, array, where, b.extract(t, *at)), *at)]

            return places.if_inside(at, [made], add)

        return over(b, shape, [b.zero(t.type)], update)[0]

    return build


class _Indexed:
    """Where the elements of a tile lie in an array: along one axis, a tile of indices says it."""

    def __init__(self, a: Arguments, array: Value, indices: Value, shape: tuple[int, ...]) -> None:
        self.b, self.array, self.indices = a.ctx.b, array, indices
        self.offset = a.offset(len(shape))
        self.axis = a.axis(len(shape), default=0)
        t = tile_type(indices)
        if len(t.shape) != 1 or t.shape[0] != shape[self.axis] or t.dtype != int32:
            with a.ctx.at(a["indices"]):
                raise WarpCodegenTypeError(
                    f"the indices of {a.name}() are a tile of {shape[self.axis]} int32, one for each element along "
                    f"axis {self.axis}, got {t}"
                )

    def if_inside(self, at: Index, otherwise: list[Value], do: Callable[[Sequence[Value]], list[Value]]) -> list[Value]:
        """Return what ``do`` gives for the place of the element at ``at`` in the array, if it has one."""
        b = self.b
        numbers = list(at)
        numbers[self.axis] = b.extract(self.indices, at[self.axis])
        where = _moved(b, numbers, self.offset)
        inside = b.true()
        for k, i in enumerate(where):
            inside = b.bit_and(inside, b.bit_and(b.ge(i, 0), b.lt(i, b.dim(self.array, k, int64))))
        with b.into(Block()) as then:
            b.yield_(*do(where))
        with b.into(Block()) as orelse:
            b.yield_(*otherwise)
        return list(b.if_(inside, then, orelse))


# --- places ---


def _moved(b: Emitter, at: Sequence[Value], offset: Sequence[Value]) -> list[Value]:
    """The sums of indices and offsets, as int64: an int32 sum could wrap in an array of more than 2^31 elements."""
    return [b.add(b.cast(o, int64), b.cast(i, int64)) for i, o in zip(at, offset, strict=True)]


def _inside(
    b: Emitter,
    array: Value,
    offset: Sequence[Value],
    shape: Sequence[int],
    init: Sequence[Value],
    body: Callable[..., Sequence[Value]],
) -> list[Value]:
    """Go over the indices of a tile at ``offset`` of an array that are inside of it, as ``over`` does."""
    bounds: list[tuple[Value, Value]] = []
    for k, (o, n) in enumerate(zip(offset, shape, strict=True)):
        before = b.neg(b.cast(o, int64))
        after = b.add(before, b.dim(array, k, int64))
        bounds.append((b.cast(b.clamp(before, 0, n), int32), b.cast(b.clamp(after, 0, n), int32)))

    def loop(axis: int, at: Index, carried: Sequence[Value]) -> list[Value]:
        if axis == len(bounds):
            return list(body(at, *carried))
        i = Value(int32)
        params = [Value(v.type) for v in carried]
        with b.into(Block([i, *params])) as block:
            b.yield_(*loop(axis + 1, (*at, i), params))
        return list(b.for_(*bounds[axis], b.index(1), carried, block))

    return loop(0, (), list(init))


def _element(a: Arguments, array: Value, ndim: int) -> Type:
    """The type of the elements of an array that has as many dimensions as a tile."""
    t = array.type
    assert isinstance(t, Array)
    if t.ndim != ndim:
        with a.ctx.at(a["a"]):
            raise WarpCodegenTypeError(
                f"{a.name}() takes an array of as many dimensions as the tile, got {t.ndim} and {ndim}",
                help="index the leading dimensions: a[i]" if t.ndim > ndim else None,
            )
    return require_element(a.ctx, t.dtype, a["a"])


def _require_elements(a: Arguments, array: Value, t: Value) -> None:
    given = tile_type(t)
    element = _element(a, array, len(given.shape))
    if element != given.dtype:
        with a.ctx.at(a["t"]):
            raise WarpCodegenTypeError(
                f"{a.name}() takes a tile of the array's elements: the array has {element}, the tile {given.dtype}",
                help="wp.tile_astype(t, dtype=...)",
            )


HANDLERS = {
    "tile_load": _load,
    "tile_store": _store,
    "tile_load_indexed": _load_indexed,
    "tile_store_indexed": _store_indexed,
    **{f"tile_atomic_{kind}": _atomic(kind) for kind in ("add", "min", "max")},
    "tile_atomic_add_indexed": _atomic_indexed("add"),
}
