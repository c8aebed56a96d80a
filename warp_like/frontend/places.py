"""Places that are assigned: variables, elements of arrays, parts of tiles, and components and fields of these."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from warp_like.base.errors import (
    WarpCodegenAttributeError,
    WarpCodegenError,
    WarpCodegenKeyError,
    WarpCodegenTypeError,
)
from warp_like.base.frozen import Frozen
from warp_like.builtins.patterns import Literal
from warp_like.frontend import indexing, selection
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.host import number
from warp_like.frontend.names import MISSING
from warp_like.frontend.operands import Operand, describe
from warp_like.frontend.references import holds_tile
from warp_like.frontend.selection import Index, Member, Selection, narrow, selected_type
from warp_like.frontend.tile_views import TileView
from warp_like.ir.core import Value
from warp_like.ir.types import (
    Aggregate,
    Array,
    IndexedArray,
    Quat,
    Struct,
    Transform,
    Type,
    Vec,
)


class Name(Frozen):
    """A variable."""

    name: str


class Component(Frozen):
    """A part of a variable's value: what ``path`` selects of the field that ``fields`` lead to."""

    name: str
    path: Selection
    fields: tuple[int, ...] = ()


class Element(Frozen):
    """An array element, or what ``path`` selects of it; ``indices`` may still be too few."""

    array: Value
    indices: tuple[Value, ...]
    path: Selection = ()


class Part(Frozen):
    """The indexed array that indices into another one leave; it has no name, and only its elements are assigned."""

    array: Value


class TilePart(Frozen):
    """A part of the tile in a variable, or of an element of it: what ``path`` selects of the field at ``fields``."""

    view: TileView
    path: Selection = ()
    fields: tuple[int, ...] = ()


Place = Name | Component | Element | Part | TilePart


def place(ctx: Context, node: ast.expr) -> Place:
    """Return the place that a target names; its indices are evaluated now."""
    with ctx.at(node):
        match node:
            case ast.Name():
                return Name(node.id)
            case ast.Subscript():
                return _subscripted(ctx, _inner(ctx, node.value), node)
            case ast.Attribute():
                return _attributed(ctx, _inner(ctx, node.value), node)
    raise WarpCodegenError(f"{ast.unparse(node)} can't be assigned")


def _inner(ctx: Context, node: ast.expr) -> Place:
    """The place that holds the one being assigned; any expression that gives an array will do."""
    if isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)) and not _in_tuple(ctx, node):
        inner = place(ctx, node)
        if isinstance(inner, Name) and (view := tile_of(ctx, inner.name, node)) is not None:
            return TilePart(view)
        if _is_array_field(ctx, inner):
            array = load(ctx, inner)
            assert isinstance(array, Value)
            return Element(array, ())
        if not isinstance(inner, Name):
            return inner
    operand = ctx.expr(node)
    if isinstance(operand, Value) and isinstance(operand.type, Array):
        return Element(operand, ())
    if isinstance(node, ast.Name):
        if ctx.scope.variable(node.id) is None:
            with ctx.at(node):
                raise WarpCodegenTypeError(
                    f"`{node.id}` is a constant of the module: its parts can't be assigned",
                    help="copy it to a variable first",
                )
        return Name(node.id)
    with ctx.at(node):
        raise WarpCodegenTypeError(f"a part of {with_article(describe(operand))} that has no name can't be assigned")


def _is_array_field(ctx: Context, where: Place) -> bool:
    """Whether an array stands at a place in a struct: one of its fields, or that of an element of an array."""
    if isinstance(where, Component):
        return not where.path and isinstance(_type_at(ctx, where), Array)
    full = isinstance(where, Element) and len(where.indices) == _ndim(where)
    return full and isinstance(_type_at(ctx, where), Array)


def _in_tuple(ctx: Context, node: ast.expr) -> bool:
    """Whether ``node`` is an item of a variable that is a tuple, or lies deeper in it."""
    if not isinstance(node, ast.Subscript):
        return False
    while isinstance(node, ast.Subscript):
        node = node.value
    variable = ctx.scope.variable(node.id) if isinstance(node, ast.Name) else None
    return variable is not None and isinstance(variable.value, tuple)


def _subscripted(ctx: Context, inner: Place, node: ast.Subscript) -> Place:
    if isinstance(inner, TilePart) and inner.view.shape:
        from warp_like.frontend.tiles import parts

        return TilePart(parts.target(ctx, node, inner.view))
    at = indexing.indices(ctx, node.slice)
    if isinstance(inner, Element) and not inner.path and len(inner.indices) < _ndim(inner):
        missing = _ndim(inner) - len(inner.indices)
        view = ctx.b.view(inner.array, inner.indices) if inner.indices else inner.array
        plain = indexing.without_spans(at)
        if plain is None:
            return Element(indexing.array_slice(ctx, view, at), ())
        if len(at) > missing:
            indexing.array_indices(ctx, view, plain)  # raises: too many
        array, indices = indexing.array_indices(ctx, inner.array, [*inner.indices, *plain])
        return Element(array, tuple(indices))
    t = _type_at(ctx, inner)
    if isinstance(t, IndexedArray):
        from warp_like.frontend import indexed_arrays

        plain = indexing.without_spans(at)
        if plain is not None and len(plain) >= t.ndim:
            array, where = indexed_arrays.element(ctx, _indexed(ctx, inner), plain)
            return Element(array, tuple(where))
        return Part(indexed_arrays.read(ctx, _indexed(ctx, inner), at))
    if t is None and isinstance(load(ctx, inner), tuple):
        raise WarpCodegenTypeError("the items of a tuple can't be assigned", help="make a new tuple: t = (x, t[1])")
    if not isinstance(t, Aggregate):
        raise indexing.not_indexable(load(ctx, inner))
    return _deeper(ctx, inner, at)


def _indexed(ctx: Context, where: Place) -> Value:
    operand = load(ctx, where)
    assert isinstance(operand, Value)
    return operand


def _attributed(ctx: Context, inner: Place, node: ast.Attribute) -> Place:
    t = _type_at(ctx, inner)
    if isinstance(t, Struct) and not isinstance(t, IndexedArray):
        return _field(ctx, inner, indexing.field(t, node.attr))
    if isinstance(t, Transform):
        return _deeper(ctx, inner, [indexing.member(t, node.attr)])
    if not isinstance(t, (Vec, Quat)):
        shown = with_article(str(t)) if t is not None else describe(load(ctx, inner))
        raise WarpCodegenAttributeError(f"{shown} has no attribute `{node.attr}` that can be assigned")
    return _deeper(ctx, inner, [Literal(indexing.component(t, node.attr))])


def _field(ctx: Context, inner: Place, field: int) -> Place:
    """The place of a field of the struct at ``inner``; an array in a struct is no part of it but an array."""
    match inner:
        case Name(name):
            found = Component(name, (), (field,))
        case Component(name, _, fields):
            found = Component(name, (), (*fields, field))
        case Element(array, indices):
            return Element(ctx.b.field_view(array, field), indices)
        case TilePart(view, _, fields):
            return TilePart(view, (), (*fields, field))
        case Part():
            raise AssertionError("an indexed array has no fields that are assigned")
    return found


def _deeper(ctx: Context, inner: Place, at: Sequence[Index | Member]) -> Place:
    """The part that ``at`` selects of the value at ``inner``."""
    match inner:
        case Name(name):
            t = _type_at(ctx, inner)
            assert t is not None
            return Component(name, narrow(ctx, t, (), at))
        case Component(name, path, fields):
            return Component(name, narrow(ctx, whole_type(ctx, inner), path, at), fields)
        case Element(array, indices, path):
            return Element(array, indices, narrow(ctx, element_type(inner), path, at))
        case TilePart(view, path, fields):
            return TilePart(view, narrow(ctx, field_type(view.type, fields), path, at), fields)
        case Part():
            raise AssertionError("an indexed array has no components")


def whole_type(ctx: Context, where: Component) -> Type:
    """Return the type of the variable, or the field of it, that a place is a part of."""
    held = ctx.scope.variable(where.name)
    assert held is not None
    assert isinstance(held.value, Value)
    return field_type(held.value.type, where.fields)


def field_type(t: Type, fields: Sequence[int]) -> Type:
    """Return the type of the field of a ``t`` that ``fields`` lead to."""
    for k in fields:
        assert isinstance(t, Struct)
        t = t.fields[k][1]
    return t


def _type_at(ctx: Context, where: Place) -> Type | None:
    """The type of what stands at a place; None for a tuple or a Python object."""
    match where:
        case Name(name):
            held = ctx.scope.variable(name)
            return held.value.type if held is not None and isinstance(held.value, Value) else None
        case Component():
            return selected_type(whole_type(ctx, where), where.path)
        case Element():
            if len(where.indices) < _ndim(where):
                t = where.array.type
                assert isinstance(t, Array)
                return Array(t.dtype, t.ndim - len(where.indices))
            return selected_type(element_type(where), where.path)
        case Part(array):
            return array.type
        case TilePart(view, path, fields):
            return selected_type(field_type(view.type, fields), path)


def element_type(where: Element) -> Type:
    """Return the type of the elements of an array."""
    assert isinstance(where.array.type, Array)
    return where.array.type.dtype


def _ndim(where: Element) -> int:
    assert isinstance(where.array.type, Array)
    return where.array.type.ndim


def require_full(ctx: Context, where: Element, node: ast.expr) -> None:
    """Raise unless a place in an array is one element or a part of one."""
    with ctx.at(node):
        indexing.require_element(where.array, where.indices)


def load(ctx: Context, where: Place) -> Operand:
    """Return what a place holds."""
    match where:
        case Name(name):
            operand = ctx.read(name)
            if operand is None and (constant := ctx.source.resolve(name)) is not MISSING:
                copy = f"copy it to a variable first: x = {name}"
                raise WarpCodegenTypeError(
                    f"`{name}` is a constant of the module, which a kernel can't change",
                    help=copy
                    if number(constant) is None
                    else f"to count in all threads, pass an array: wp.atomic_add({name}, 0, 1); or {copy}",
                )
            if operand is None:
                raise WarpCodegenKeyError(f"`{name}` has no value yet", help=f"{name} = ... before this line")
            return operand
        case Component(name, path, fields):
            operand = ctx.read(name)
            assert isinstance(operand, Value)
            return part_of(ctx, operand, fields, path)
        case Element(array, indices, path):
            element = ctx.b.load(array, indices)
            return selection.extract(ctx, element, path)
        case Part(array):
            return array
        case TilePart(_, path, fields):
            return part_of(ctx, tile_part(ctx, where), fields, path)


def tile_of(ctx: Context, name: str, node: ast.expr) -> TileView | None:
    """Return the tile in a variable, or the part of one that it stands for."""
    if not holds_tile(ctx, name):
        return None
    from warp_like.frontend.tiles.arguments import as_view

    return as_view(ctx, ctx.reference(node), node)


def tile_part(ctx: Context, where: TilePart) -> Value:
    """Return the part of a tile at a place, without what ``path`` selects of it."""
    return where.view.read(ctx.b, ctx.viewed(where.view))


def part_of(ctx: Context, whole: Value, fields: Sequence[int], path: Selection) -> Value:
    """Return the part at ``path`` of the field that ``fields`` lead to."""
    for k in fields:
        whole = ctx.b.get_field(whole, k)
    return selection.extract(ctx, whole, path)


def replaced(ctx: Context, old: Value, fields: tuple[int, ...], path: Selection, part: Value) -> Value:
    """Return ``old`` with the part at ``path`` of the field that ``fields`` lead to replaced."""
    if not fields:
        return selection.insert(ctx, old, path, part)
    inner = replaced(ctx, ctx.b.get_field(old, fields[0]), fields[1:], path, part)
    return ctx.b.with_field(old, fields[0], inner)


__all__ = [
    "Component", "Element", "Name", "Part", "Place", "TilePart", "element_type", "field_type", "load", "part_of",
    "place", "replaced", "require_full", "tile_of", "tile_part", "whole_type",
]  # fmt: skip
