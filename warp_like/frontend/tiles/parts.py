"""Parts of tiles: views, elements, slices, gathers; assignment of a tile to a part of another."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence

from warp_like.base.errors import WarpCodegenError, WarpCodegenIndexError, WarpCodegenTypeError, WarpCodegenValueError
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import over
from warp_like.builtins.patterns import Literal
from warp_like.builtins.tiles import at_number, tabulated, tile_type
from warp_like.frontend import tile_views
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.operands import NOTHING, Operand, describe
from warp_like.frontend.selection import Span, from_end, in_range, known_index, plural
from warp_like.frontend.tile_views import Index, IndexMap, TileView
from warp_like.frontend.tiles import structs
from warp_like.frontend.tiles.arguments import (
    Arguments,
    as_view,
    constant_shape,
    members,
)
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, Tile, Type, component_type, element_shape, int64

At = Value | Literal | Span
"""An index, or a slice with constant bounds; an index may be a tile of them."""


# --- subscripts ---


def subscript(ctx: Context, node: ast.Subscript, base: Value | TileView) -> Operand:
    """Return ``base[...]``: an element, a part of one, a view, or what a tile of indices gathers."""
    at = [_index(ctx, e) for e in _parts(node.slice)]
    t = base.type
    assert isinstance(t, Tile)
    gathering = [k for k, i in enumerate(at) if isinstance(i, Value) and isinstance(i.type, Tile)]
    if gathering:
        return _gathered(ctx, node, _whole(ctx, base), at, gathering)
    if len(at) > len(t.shape):
        return _component(ctx, node, base, at)
    view = as_view(ctx, base, node.value)
    shape, places = selected(ctx, t, at)
    if view is not None and shape:
        return registered(ctx, view.within(shape, places, ast.unparse(node)))
    if view is not None:
        view = view.within((), places, ast.unparse(node))
        return view.read(ctx.b, _held(ctx, view))
    assert isinstance(base, Value)
    return tile_views.part_of(ctx.b, base, shape, places)


def target(ctx: Context, node: ast.Subscript, view: TileView) -> TileView:
    """Return the part of ``view`` that ``view[...] = ...`` assigns."""
    at = [_index(ctx, e) for e in _parts(node.slice)]
    if any(isinstance(i, Value) and isinstance(i.type, Tile) for i in at):
        raise WarpCodegenTypeError(
            "what a tile of indices gathers is a copy, which can't be assigned", help="assign the elements in a loop"
        )
    if len(at) > len(view.shape):
        raise WarpCodegenIndexError(
            f"{with_article(str(view.type))} takes {plural(len(view.shape))}, got {len(at)}",
            help="index the element apart: t[i, j][k]",
        )
    t = view.type
    assert isinstance(t, Tile)
    return view.within(*selected(ctx, t, at), ast.unparse(node))


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _index(ctx: Context, node: ast.expr) -> At:
    if isinstance(node, ast.Slice):
        lower, upper, step = (
            None if e is None else ctx.index(e, "a bound of a slice") for e in (node.lower, node.upper, node.step)
        )
        return Span(lower, upper, step, node)
    operand = ctx.expr(node)
    if isinstance(operand, Value) and isinstance(operand.type, Tile):
        return operand
    with ctx.at(node):
        if isinstance(operand, Literal) and isinstance(operand.value, int):
            return Literal(int(operand.value))
        if isinstance(operand, Value) and isinstance(operand.type, Scalar) and operand.type.is_int:
            return operand
        raise WarpCodegenTypeError(f"an index is an integer, a slice or a tile of int32, got {describe(operand)}")


def selected(ctx: Context, t: Tile, at: Sequence[At]) -> tuple[tuple[int, ...], IndexMap]:
    """Return the extents of a part of a ``t``, and where its elements are."""
    if len(at) > len(t.shape):
        raise WarpCodegenIndexError(f"{with_article(str(t))} takes {plural(len(t.shape))}, got {len(at)}")
    chosen: list[Value | int | range] = []
    for k, n in enumerate(t.shape):
        index = at[k] if k < len(at) else None
        if index is None:
            chosen.append(range(n))
        elif isinstance(index, Span):
            bounds = index.constant()
            if bounds.step == 0 or not range(n)[bounds]:
                raise WarpCodegenIndexError(f"`{ast.unparse(index.node)}` selects nothing of {n} elements")
            chosen.append(range(n)[bounds])
        elif (known := known_index(index)) is not None:
            chosen.append(in_range(known, n, with_article(str(t)), "elements"))
        else:
            chosen.append(from_end(ctx, ctx.settle(index), n))
    shape = tuple(len(c) for c in chosen if isinstance(c, range))

    def places(b: Emitter, at: Index) -> Index:
        left = list(at)
        return tuple(_choose(b, c, left) for c in chosen)

    return shape, places


def _choose(b: Emitter, chosen: Value | int | range, left: list[Value]) -> Value:
    if isinstance(chosen, range):
        i = left.pop(0)
        i = i if chosen.step == 1 else b.mul(i, chosen.step)
        return i if chosen.start == 0 else b.add(i, chosen.start)
    return b.index(chosen) if isinstance(chosen, int) else chosen


def _component(ctx: Context, node: ast.Subscript, base: Value | TileView, at: Sequence[At]) -> Operand:
    """A part of an element: ``t[i, j, 0]`` of a tile of vectors."""
    t = base.type
    assert isinstance(t, Tile)
    inner = element_shape(t.dtype)
    if len(at) > len(t.shape) + len(inner) or any(isinstance(i, Span) for i in at):
        raise WarpCodegenIndexError(f"{with_article(str(t))} takes {plural(len(t.shape) + len(inner))}, got {len(at)}")
    where = [_settled(ctx, i, n, t) for i, n in zip(at, (*t.shape, *inner), strict=False)]
    whole = _whole(ctx, base)
    component_type(t, len(where))
    return ctx.b.extract(whole, *where)


def _settled(ctx: Context, i: At, n: int, t: Type) -> Value:
    assert not isinstance(i, Span)
    known = known_index(i)
    return (
        from_end(ctx, ctx.settle(i), n)
        if known is None
        else ctx.b.index(in_range(known, n, with_article(str(t)), "elements"))
    )


def _gathered(ctx: Context, node: ast.Subscript, base: Value, at: Sequence[At], gathering: Sequence[int]) -> Value:
    t, axis = tile_type(base), gathering[0]
    others = [i for k, i in enumerate(at) if k != axis]
    if len(gathering) > 1 or not all(isinstance(i, Span) and i.constant() == slice(None) for i in others):
        raise WarpCodegenTypeError(
            "one tile of indices stands beside full slices", help=f"{ast.unparse(node.value)}[indices, :]"
        )
    indices = at[axis]
    assert isinstance(indices, Value)
    given = tile_type(indices)
    if len(given.shape) != 1 or not isinstance(given.dtype, Scalar) or not given.dtype.is_int:
        raise WarpCodegenTypeError(f"the indices are a tile of integers of one dimension, got {given}")
    if len(at) > len(t.shape):
        raise WarpCodegenIndexError(f"{with_article(str(t))} takes {plural(len(t.shape))}, got {len(at)}")
    shape = (*t.shape[:axis], given.shape[0], *t.shape[axis + 1 :])
    b = ctx.b

    def element(where: Index) -> Value:
        i = b.extract(indices, where[axis])
        i = b.select(b.lt(i, 0), b.add(i, t.shape[axis]), i)
        return b.extract(base, *where[:axis], i, *where[axis + 1 :])

    return tabulated(b, Tile(shape, t.dtype), element)


def _whole(ctx: Context, base: Value | TileView) -> Value:
    return base.read(ctx.b, _held(ctx, base)) if isinstance(base, TileView) else base


def _held(ctx: Context, view: TileView) -> Value:
    return ctx.viewed(view)


def registered(ctx: Context, view: TileView) -> TileView:
    """Note a view, so that an assignment of another tile to its variable is noticed."""
    ctx.views.append(view)
    return view


# --- views ---


def _view_or_value(ctx: Context, a: Arguments, shape: tuple[int, ...], places: IndexMap, param: str = "t") -> Operand:
    """The part of ``t`` with these extents: a view where it is a variable."""
    view = a.view(param)
    if view is not None:
        t = view.type
        repeats = isinstance(t, Tile) and math.prod(shape) > math.prod(t.shape)
        return registered(ctx, view.within(shape, places, ast.unparse(a.node), repeats))
    return tile_views.part_of(ctx.b, a.tile(param), shape, places)


def _type(ctx: Context, a: Arguments, param: str = "t") -> Tile:
    view = a.view(param)
    t = view.type if view is not None else a.tile(param).type
    if not isinstance(t, Tile):
        with ctx.at(a[param]):
            raise WarpCodegenTypeError(f"`{param}` of {a.name}() is a tile, got {with_article(str(t))}")
    return t


def _tile_view(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_view", "t offset shape", 2)
    t = _type(ctx, a)
    if not a.has("shape"):
        at: list[At] = []
        for e in a["offset"].elts if isinstance(a["offset"], ast.Tuple) else [a["offset"]]:
            at.append(_slice_call(ctx, e) or _index(ctx, e))
        for index, n in zip(at, t.shape, strict=False):
            known = None if isinstance(index, Span) else known_index(index)
            if known is not None and not 0 <= known < n:
                raise WarpCodegenIndexError(f"an offset of tile_view() is from 0 to {n - 1} here, got {known}")
        shape, places = selected(ctx, t, at)
        return _view_or_value(ctx, a, shape, places)
    return _view_or_value(ctx, a, *_rectangle(ctx, a, t))


def _rectangle(ctx: Context, a: Arguments, t: Tile) -> tuple[tuple[int, ...], IndexMap]:
    """The extents of a part of a ``t`` that begins at ``offset`` and has a ``shape``, and where its elements are."""
    shape = a.shape()
    for e in a["offset"].elts if isinstance(a["offset"], ast.Tuple) else [a["offset"]]:
        if _slice_call(ctx, e) is not None:
            with ctx.at(e):
                raise WarpCodegenValueError("tile_view() takes slices as offsets, or a `shape`, not both")
    start = members(ctx, a["offset"])
    where = [ctx.settle(x) for x in start] + [ctx.b.index(0)] * (len(t.shape) - len(start))
    if len(where) != len(t.shape) or len(shape) > len(t.shape):
        raise WarpCodegenTypeError(
            f"tile_view() of {with_article(str(t))} takes {len(t.shape)} offsets, got {len(start)}"
        )
    kept = len(t.shape) - len(shape)
    for k, (i, whole) in enumerate(zip(where, t.shape, strict=True)):
        known, n = known_index(i), shape[k - kept] if k >= kept else 1
        if n > whole or (known is not None and not 0 <= known <= whole - n):
            raise WarpCodegenIndexError(f"a view of shape {shape} does not fit into {with_article(str(t))} there")

    def places(b: Emitter, index: Index) -> Index:
        return (*where[:kept], *(_sum(b, o, i) for o, i in zip(where[kept:], index, strict=True)))

    return shape, places


def _slice_call(ctx: Context, node: ast.expr) -> Span | None:
    """``slice(1, 4)`` in the offset of ``tile_view``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice"):
        return None
    given: list[ast.expr | None] = [None if isinstance(e, ast.Constant) and e.value is None else e for e in node.args]
    lower, upper, step = [None, *given, None] if len(given) == 1 else [*given, None][:3]
    made = ast.copy_location(ast.Slice(lower, upper, step), node)
    span = _index(ctx, made)
    assert isinstance(span, Span)
    return span


def _sum(b: Emitter, x: Value, y: Value) -> Value:
    if x.type != y.type:
        x, y = b.cast(x, int64), b.cast(y, int64)
    known = known_index(x)
    if known == 0:
        return y
    total: Value = b.add(x, y)
    return total


def _transpose(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_transpose", "a", 1)
    t = _type(ctx, a, "a")
    if len(t.shape) != 2:
        raise WarpCodegenTypeError(f"tile_transpose() takes a tile of 2 dimensions, got {len(t.shape)}")
    made = _view_or_value(ctx, a, t.shape[::-1], lambda b, at: at[::-1], "a")
    if isinstance(made, TileView):
        made.transposed = a.view("a")
    return made


def _broadcast(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_broadcast", "a shape", 2)
    t, shape = _type(ctx, a, "a"), a.shape()
    missing = len(shape) - len(t.shape)
    if missing < 0 or any(n not in (1, m) for n, m in zip(t.shape, shape[max(missing, 0) :], strict=True)):
        raise WarpCodegenTypeError(f"a tile of shape {t.shape} can't be broadcast to {shape}")

    def places(b: Emitter, at: Index) -> Index:
        return tuple(b.index(0) if n == 1 else i for n, i in zip(t.shape, at[missing:], strict=True))

    return _view_or_value(ctx, a, shape, places, "a")


def _squeeze(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_squeeze", "t axis", 1)
    t = _type(ctx, a)
    dropped = {k for k, n in enumerate(t.shape) if n == 1}
    if a.has("axis"):
        known = [known_index(x) if isinstance(x, (Value, Literal)) else None for x in members(ctx, a["axis"])]
        ndim = len(t.shape)
        outside = [k for k in known if k is not None and not -ndim <= k < ndim]
        given = {k % ndim for k in known if k is not None}
        with ctx.at(a["axis"]):
            if outside:
                raise WarpCodegenValueError(
                    f"an axis of tile_squeeze() is from {-ndim} to {ndim - 1} here, got {outside[0]}"
                )
            if len(given) != len(known) or not given <= dropped:
                raise WarpCodegenTypeError(
                    f"tile_squeeze() drops axes of extent 1, known when the kernel is compiled; the tile is {t.shape}"
                )
        dropped = given
    if len(dropped) == len(t.shape):
        dropped.discard(0)
    shape = tuple(n for k, n in enumerate(t.shape) if k not in dropped)

    def places(b: Emitter, at: Index) -> Index:
        left = list(at)
        return tuple(b.index(0) if k in dropped else left.pop(0) for k in range(len(t.shape)))

    return _view_or_value(ctx, a, shape, places)


def _reshape(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_reshape", "t shape", 2)
    t = _type(ctx, a)
    shape = _new_shape(ctx, a, math.prod(t.shape))

    def places(b: Emitter, at: Index) -> Index:
        number = at[0]
        for i, n in zip(at[1:], shape[1:], strict=True):
            number = b.add(b.mul(number, n), i)
        return at_number(b, t, number)

    return _view_or_value(ctx, a, shape, places)


def _new_shape(ctx: Context, a: Arguments, count: int) -> tuple[int, ...]:
    """The shape that is given, with what ``-1`` stands for."""
    known = [known_index(x) if isinstance(x, (Value, Literal)) else None for x in members(ctx, a["shape"])]
    if known.count(-1) == 1 and None not in known:
        rest = math.prod(n for n in known if n is not None and n != -1)
        if rest > 0 and count % rest == 0:
            return tuple(count // rest if n == -1 else n for n in known if n is not None)
    shape = constant_shape(ctx, a["shape"], "the shape of tile_reshape()")
    if math.prod(shape) != count:
        with ctx.at(a["shape"]):
            raise WarpCodegenTypeError(f"a tile of {count} elements can't have the shape {shape}")
    return shape


def _slice_indexed(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_slice_indexed", "t indices", 2)
    made = ast.copy_location(ast.Subscript(a["t"], a["indices"], ast.Load()), node)
    return subscript(ctx, made, a.tile("t"))


# --- elements ---


def _extract(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_extract", "a i j k l m n", 2)
    t = a.tile("a")
    at = [_index(ctx, a[p]) for p in "ijklmn" if a.has(p)]
    most = len(element_shape(t.type))
    if not len(tile_type(t).shape) <= len(at) <= most:
        raise WarpCodegenTypeError(
            f"tile_extract() of {with_article(str(t.type))} takes {len(tile_type(t).shape)} indices, more for a part "
            f"of the element, got {len(at)}"
        )
    where = [_settled(ctx, i, n, t.type) for i, n in zip(at, element_shape(t.type), strict=False)]
    return ctx.b.extract(t, *where)


def changing(ctx: Context, a: Arguments, param: str) -> TileView:
    """Return the part of a variable's tile that an argument is, which the call changes.

    Raises:
        WarpCodegenError: It is a value that no variable holds.
    """
    if ctx.no_assignment:
        raise WarpCodegenError(
            f"{a.name}() changes a tile, so it can't stand {ctx.no_assignment}",
            help="call it in a statement of its own before",
        )
    view = a.view(param)
    if view is None:
        operand = a.reference(param)
        with ctx.at(a[param]):
            raise WarpCodegenTypeError(
                f"{a.name}() changes `{param}`, so it takes a variable that holds a tile or a part of it, got "
                f"{describe(operand)}",
                help="assign it to a variable first",
            )
    return view


def replace(ctx: Context, view: TileView, part: Value) -> None:
    """Let a part of a variable's tile be ``part``."""
    made = part if view.is_whole else view.replaced(ctx.b, _held(ctx, view), part)
    made.hint = view.root
    ctx.scope.replace(view.root, made)


def combine(ctx: Context, view: TileView, name: str, by: Value) -> None:
    """Let a part of a variable's tile be what builtin ``name`` makes of it and tile ``by``.

    Elements of a part that are one element of the tile, as in a broadcast, change one after the other.
    """
    whole, b = _held(ctx, view), ctx.b

    def element(x: Value, y: Value) -> Value:
        got = structs.of_elements(ctx, name, x, y) or ctx.apply(name, x, y)
        assert isinstance(got, Value)
        return got

    if view.is_whole:
        made = structs.operator(ctx, name, whole, by) or ctx.apply(name, whole, by)
        assert isinstance(made, Value)
    else:

        def change(at: Index, made: Value) -> list[Value]:
            where = view.places(b, at)
            return [b.insert_component(made, element(b.extract(made, *where), b.extract(by, *at)), *where)]

        made = over(b, view.shape, [whole], change)[0]
    made.hint = view.root
    ctx.scope.replace(view.root, made)


def _assign(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_assign", "dst src offset", 2)
    view = changing(ctx, a, "dst")
    source = a.tile("src")
    t, to = tile_type(source), view.type
    assert isinstance(to, Tile)
    where = a.offset(len(view.shape))
    if _is_of_floats(t) and _is_of_floats(to):
        source = ctx.b.cast(source, Tile(t.shape, to.dtype))  # as Warp
    elif t.dtype != to.dtype:
        with ctx.at(a["src"]):
            raise WarpCodegenTypeError(f"{with_article(str(t))} can't be assigned to a part of {with_article(str(to))}")
    if len(t.shape) > len(view.shape):
        with ctx.at(a["src"]):
            raise WarpCodegenTypeError(f"{with_article(str(t))} can't be assigned to a part of {with_article(str(to))}")
    kept = len(view.shape) - len(t.shape)
    if any(n > m for n, m in zip(t.shape, view.shape[kept:], strict=True)):
        with ctx.at(a["src"]):
            raise WarpCodegenTypeError(f"{with_article(str(t))} does not fit into {with_article(str(to))}")

    def places(b: Emitter, index: Index) -> Index:
        return (*where[:kept], *(_sum(b, o, i) for o, i in zip(where[kept:], index, strict=True)))

    replace(ctx, view.within(t.shape, places, ast.unparse(node)), source)
    return NOTHING


def _is_of_floats(t: Tile) -> bool:
    return isinstance(t.dtype, Scalar) and t.dtype.is_float


HANDLERS: dict[str, Callable[[Context, ast.Call], Operand]] = {
    "tile_view": _tile_view,
    "tile_transpose": _transpose,
    "tile_broadcast": _broadcast,
    "tile_squeeze": _squeeze,
    "tile_reshape": _reshape,
    "tile_slice_indexed": _slice_indexed,
    "tile_extract": _extract,
    "tile_assign": _assign,
}

__all__ = ["HANDLERS", "changing", "combine", "registered", "replace", "selected", "subscript", "target"]
