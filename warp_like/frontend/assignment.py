"""Assignment: to names, to components of vectors and matrices, to elements of arrays and their components.

A vector or matrix in a variable is a value: assigning a component makes a new value. ``a[i] += v`` and its
like on arrays are atomic where the element's type has such an operation, as in Warp.
"""

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
from warp_like.frontend import constants, indexed_arrays, indexing, refused, selection
from warp_like.frontend.context import Context, statement, with_article
from warp_like.frontend.expressions import OPERATORS, binary
from warp_like.frontend.flow import matches
from warp_like.frontend.host import Host, number, type_named
from warp_like.frontend.names import MISSING
from warp_like.frontend.operands import Operand, describe, require_value_kind
from warp_like.frontend.references import holds_tile
from warp_like.frontend.scope import Unbound
from warp_like.frontend.selection import Index, Member, Selection, narrow, selected_type
from warp_like.frontend.specials import thread_index
from warp_like.frontend.tile_views import TileView
from warp_like.frontend.tiles import each_thread, parts, structs
from warp_like.frontend.tiles.arguments import as_view
from warp_like.ir.atomics import KINDS, AtomicKind, has_atomic
from warp_like.ir.core import Value
from warp_like.ir.types import (
    Aggregate,
    Array,
    IndexedArray,
    Quat,
    Struct,
    Tile,
    Transform,
    Type,
    Vec,
    element_count,
    scalar_of,
)

_OPERATORS = {kind.operator: kind for kind in KINDS.values() if kind.operator}
"""The augmented assignments that are atomic on array elements, by their sign."""


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


# --- statements ---


@statement(ast.Assign)
def build_assign(ctx: Context, node: ast.Assign) -> None:
    """``target = value``, with several targets and tuples."""
    target = node.targets[0]
    count = len(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else 1
    threads = thread_index(ctx, node.value, count)
    operand = threads if threads is not None else _given(ctx, node.targets, node.value)
    for target in node.targets:
        assign(ctx, target, operand, node.value)


def _given(ctx: Context, targets: Sequence[ast.expr], value: ast.expr) -> Operand:
    """What targets are assigned: parts of tiles stay that, also as items of a tuple, where variables get them."""
    if not isinstance(value, ast.Tuple) or not all(matches(t, value) for t in targets):
        return ctx.reference(value)
    found: list[Operand] = []
    for k, item in enumerate(value.elts):
        places = [t.elts[k] for t in targets if isinstance(t, (ast.Tuple, ast.List))]
        in_variables = all(isinstance(p, (ast.Name, ast.Tuple, ast.List)) for p in places)
        found.append(_given(ctx, places, item) if in_variables else ctx.expr(item))
    return tuple(found)


@statement(ast.AnnAssign)
def build_annotated(ctx: Context, node: ast.AnnAssign) -> None:
    """``name: type = value``: the annotation is the variable's type."""
    if node.value is None:
        raise WarpCodegenError("a variable needs a value", help=f"{ast.unparse(node.target)} = ...")
    annotated = ctx.type_meant(ctx.expr(node.annotation), node.annotation)
    with ctx.at(node.annotation):
        if not isinstance(annotated, Host):
            raise WarpCodegenTypeError(f"an annotation is a type, got {describe(annotated)}")
        t = type_named(annotated)
    operand = ctx.reference(node.value) if t is None or isinstance(t, Tile) else ctx.expr(node.value)
    if t is not None and not (isinstance(operand, TileView) and operand.type == t):
        with ctx.at(node.value):
            operand = ctx.convert(operand, t, f"`{ast.unparse(node.target)}`", node.value)
    assign(ctx, node.target, operand, node.value)


def assign(ctx: Context, target: ast.expr, operand: Operand, source: ast.expr) -> None:
    """Assign an operand to a target; ``source`` is the operand's syntax."""
    operand = constants.opened(ctx, operand)
    if isinstance(target, (ast.Tuple, ast.List)):
        _unpack(ctx, target, operand, source)
        return
    where = place(ctx, target)
    if isinstance(operand, TileView) and not isinstance(where, Name):
        operand = operand.read(ctx.b, ctx.viewed(operand))
    with ctx.at(target):
        store(ctx, where, operand, target, source)


def _unpack(ctx: Context, target: ast.Tuple | ast.List, operand: Operand, source: ast.expr) -> None:
    for part in target.elts:
        if isinstance(part, ast.Starred):
            with ctx.at(part):
                raise refused.expression(part)
    with ctx.at(target):
        if not isinstance(operand, tuple):
            raise WarpCodegenTypeError(
                f"{len(target.elts)} names can't be assigned {with_article(describe(operand))}",
                help="assign it to one name and index it",
            )
        if len(operand) != len(target.elts):
            given = "1 value" if len(operand) == 1 else f"{len(operand)} values"
            raise WarpCodegenTypeError(f"{len(target.elts)} names can't be assigned {given}")
    sources = source.elts if isinstance(source, ast.Tuple) else [source] * len(operand)
    for t, part, node in zip(target.elts, operand, sources, strict=True):
        if isinstance(t, ast.Name) and t.id == "_":  # of any type, however often
            ctx.scope.names["_"] = Unbound("`_` takes what is not needed, and can't be read", "give it a name")
        else:
            assign(ctx, t, part, node)


@statement(ast.AugAssign)
def build_augmented(ctx: Context, node: ast.AugAssign) -> None:
    """``target += value`` and its like."""
    where = place(ctx, node.target)
    operand = ctx.expr(node.value)
    nodes = [node.target, node.value]
    kind = _OPERATORS.get(OPERATORS[type(node.op)][1])
    if isinstance(where, Element):
        require_full(ctx, where, node.target)
        if kind is not None and has_atomic(kind.name, _element_type(where)):
            _atomic(ctx, where, kind, node, operand)
            return
    if isinstance(where, Name) and (view := _tile_of(ctx, where.name, node.target)) is not None:
        where = TilePart(view)  # a tile changes in place
    with ctx.at(node.target):
        old = load(ctx, where)
    if isinstance(where, TilePart) and _combined(ctx, where, OPERATORS[type(node.op)][0], old, operand, node.value):
        return
    new = binary(ctx, node.op, old, operand, nodes)
    with ctx.at(node.target):
        store(ctx, where, new, node.target, node.value)


def _tile_of(ctx: Context, name: str, node: ast.expr) -> TileView | None:
    """The tile in a variable, or the part of one that it stands for."""
    return as_view(ctx, ctx.reference(node), node) if holds_tile(ctx, name) else None


def _combined(ctx: Context, where: TilePart, name: str, old: Operand, operand: Operand, node: ast.expr) -> bool:
    """Add to, or subtract from, a part of a tile in place; False where that is done like any other assignment."""
    added = structs.of_elements(ctx, name, old, operand)
    by_threads = not where.view.shape and ctx.session.block_dim > 1
    if by_threads and (added is not None or where.path or where.fields):
        raise WarpCodegenError(
            "each thread of a block would change a part of an element, and changes of several threads would be lost",
            help="change the whole element, which is a number, vector or matrix; or use wp.tile_scatter_add()",
        )
    if added is not None:
        parts.replace(ctx, where.view, _replaced(ctx, _tile_part(ctx, where), where.fields, where.path, added))
        return True
    if where.path or where.fields:
        return False
    if by_threads and name in each_thread.IN_ANY_ORDER:
        assert isinstance(old, Value)
        by = ctx.convert(operand, old.type, f"`{where.view.text}`", node)
        each_thread.combine_element(ctx, where.view, name, by)
        return True
    if name not in ("add", "sub") or not isinstance(operand, Value):
        return False
    if not isinstance(operand.type, Tile) or operand.type != where.view.type:
        return False
    parts.combine(ctx, where.view, name, operand)
    return True


def _tile_part(ctx: Context, where: TilePart) -> Value:
    """The part of a tile at a place, without what ``path`` selects of it."""
    return where.view.read(ctx.b, ctx.viewed(where.view))


def _atomic(ctx: Context, where: Element, kind: AtomicKind, node: ast.AugAssign, operand: Operand) -> None:
    """Update an element; with a path, by a value that changes nothing but the component."""
    t = _element_type(where)
    part = selected_type(t, where.path)
    operand = require_value_kind(operand)
    if isinstance(operand, Value) and not ctx.fits(operand, part):
        # The operator's own rule says what is wrong, or gives what can't be stored.
        _, symbol = OPERATORS[type(node.op)]
        given = ctx.apply(
            OPERATORS[type(node.op)][0],
            ctx.zero(part),
            operand,
            symbol=symbol,
            nodes=[node.target, node.value],
        )
        raise WarpCodegenTypeError(f"`{ast.unparse(node.target)}` is {with_article(str(part))}, got {describe(given)}")
    with ctx.at(node.value):
        value = ctx.convert(operand, part, f"`{ast.unparse(node.target)}`", node.value)
    if where.path:
        value = selection.insert(ctx, _neutral(ctx, kind, t), where.path, value)
    ctx.b.atomic(kind.name, where.array, where.indices, value)


def _neutral(ctx: Context, kind: AtomicKind, t: Type) -> Value:
    """The value by which an update leaves everything as it was."""
    scalar = scalar_of(t)
    assert scalar is not None
    assert kind.identity is not None
    return ctx.b.constant(kind.identity(scalar), t)


# --- places ---


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
        if isinstance(inner, Name) and (view := _tile_of(ctx, inner.name, node)) is not None:
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
            return Component(name, narrow(ctx, _whole_type(ctx, inner), path, at), fields)
        case Element(array, indices, path):
            return Element(array, indices, narrow(ctx, _element_type(inner), path, at))
        case TilePart(view, path, fields):
            return TilePart(view, narrow(ctx, _field_type(view.type, fields), path, at), fields)
        case Part():
            raise AssertionError("an indexed array has no components")


def _whole_type(ctx: Context, where: Component) -> Type:
    """The type of the variable, or the field of it, that a place is a part of."""
    held = ctx.scope.variable(where.name)
    assert held is not None
    assert isinstance(held.value, Value)
    return _field_type(held.value.type, where.fields)


def _field_type(t: Type, fields: Sequence[int]) -> Type:
    """The type of the field of a ``t`` that ``fields`` lead to."""
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
            return selected_type(_whole_type(ctx, where), where.path)
        case Element():
            if len(where.indices) < _ndim(where):
                t = where.array.type
                assert isinstance(t, Array)
                return Array(t.dtype, t.ndim - len(where.indices))
            return selected_type(_element_type(where), where.path)
        case Part(array):
            return array.type
        case TilePart(view, path, fields):
            return selected_type(_field_type(view.type, fields), path)


def _element_type(where: Element) -> Type:
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
            for k in fields:
                operand = ctx.b.get_field(operand, k)
            return selection.extract(ctx, operand, path)
        case Element(array, indices, path):
            element = ctx.b.load(array, indices)
            return selection.extract(ctx, element, path)
        case Part(array):
            return array
        case TilePart(_, path, fields):
            part = _tile_part(ctx, where)
            for k in fields:
                part = ctx.b.get_field(part, k)
            return selection.extract(ctx, part, path)


def _replaced(ctx: Context, old: Value, fields: tuple[int, ...], path: Selection, part: Value) -> Value:
    """``old`` with the part at ``path`` of the field that ``fields`` lead to replaced."""
    if not fields:
        return selection.insert(ctx, old, path, part)
    inner = _replaced(ctx, ctx.b.get_field(old, fields[0]), fields[1:], path, part)
    return ctx.b.with_field(old, fields[0], inner)


def store(ctx: Context, where: Place, operand: Operand, target: ast.expr, source: ast.expr) -> None:
    """Assign ``operand`` to a place; ``target`` and ``source`` are the syntax of both."""
    shown = f"`{ast.unparse(target)}`"
    match where:
        case Name(name):
            ctx.bind(name, operand, source)
        case Component(name, path, fields):
            old = ctx.read(name)
            assert isinstance(old, Value)
            part = _part(ctx, operand, selected_type(_whole_type(ctx, where), path), path, shown, source)
            new = _replaced(ctx, old, fields, path, part)
            new.hint = name
            ctx.scope.replace(name, new)
        case Element(array, indices, path):
            indexing.require_element(array, indices)
            t = _element_type(where)
            part = _part(ctx, operand, selected_type(t, path), path, shown, source)
            if path:
                part = selection.insert(ctx, ctx.b.load(array, indices), path, part)
            ctx.b.store(array, indices, part)
        case TilePart():
            _store_tile(ctx, where, operand, shown, source)
        case Part(array):
            raise WarpCodegenError(
                f"a part of {with_article(str(array.type))} can't be assigned", help="write to the elements one by one"
            )


def _store_tile(ctx: Context, where: TilePart, operand: Operand, shown: str, source: ast.expr) -> None:
    """Assign to a part of a tile; a single value fills it."""
    view, path, fields = where.view, where.path, where.fields
    t = view.type
    if isinstance(t, Tile) and ctx.fits(operand, t.dtype):
        with ctx.at(source):
            part = ctx.b.fill(t, ctx.convert(operand, t.dtype, shown, source))
    else:
        part = _part(ctx, operand, selected_type(_field_type(t, fields), path), path, shown, source)
    if path or fields:
        part = _replaced(ctx, _tile_part(ctx, where), fields, path, part)
    parts.replace(ctx, view, part)


def _part(ctx: Context, operand: Operand, t: Type, path: Selection, shown: str, source: ast.expr) -> Value:
    """``operand`` as what is assigned to a part of type ``t``; a number fills a slice or a row."""
    scalar = scalar_of(t)
    with ctx.at(source):
        if path and scalar is not None and scalar != t and ctx.fits(operand, scalar):
            number = ctx.convert(operand, scalar, shown, source)
            return ctx.b.make(t, [number] * element_count(t))
        return ctx.convert(operand, t, shown, source)
