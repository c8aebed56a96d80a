"""Assignment: to names, to components of vectors and matrices, to elements of arrays and their components.

A vector or matrix in a variable is a value: assigning a component makes a new value. ``a[i] += v`` and its
like on arrays are atomic where the element's type has such an operation, as in Warp.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.frontend import constants, indexing, selection
from warp_like.frontend.context import Context, statement, with_article
from warp_like.frontend.expressions import OPERATORS, binary
from warp_like.frontend.flow import matches
from warp_like.frontend.host import Host, type_named
from warp_like.frontend.operands import Operand, describe, require_value_kind
from warp_like.frontend.places import (
    Component,
    Element,
    Name,
    Part,
    Place,
    TilePart,
    element_type,
    field_type,
    load,
    part_of,
    place,
    replaced,
    require_full,
    tile_of,
    tile_part,
    whole_type,
)
from warp_like.frontend.scope import Unbound
from warp_like.frontend.selection import Selection, selected_type
from warp_like.frontend.specials import thread_index
from warp_like.frontend.tile_views import TileView
from warp_like.ir.atomics import KINDS, AtomicKind, has_atomic
from warp_like.ir.core import Value
from warp_like.ir.types import Tile, Type, element_count, scalar_of

_OPERATORS = {kind.operator: kind for kind in KINDS.values() if kind.operator}
"""The augmented assignments that are atomic on array elements, by their sign."""


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
                from warp_like.frontend import refused

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
        if kind is not None and has_atomic(kind.name, element_type(where)):
            _atomic(ctx, where, kind, node, operand)
            return
    if isinstance(where, Name) and (view := tile_of(ctx, where.name, node.target)) is not None:
        where = TilePart(view)  # a tile changes in place
    with ctx.at(node.target):
        old = load(ctx, where)
    if isinstance(where, TilePart) and _combined(ctx, where, node, old, operand):
        return
    new = binary(ctx, node.op, old, operand, nodes)
    with ctx.at(node.target):
        store(ctx, where, new, node.target, node.value)


def _combined(ctx: Context, where: TilePart, node: ast.AugAssign, old: Operand, operand: Operand) -> bool:
    """Add to, or subtract from, a part of a tile in place; False where that is done like any other assignment."""
    from warp_like.frontend.tiles import each_thread, parts, structs

    name, _ = OPERATORS[type(node.op)]
    if _is_by_threads(ctx, where) and name in each_thread.IN_ANY_ORDER:
        _change_by_threads(ctx, where, operand, lambda x, y: _operated(ctx, where, node, x, y))
        return True
    added = structs.of_elements(ctx, name, old, operand)
    if added is not None:
        parts.replace(ctx, where.view, replaced(ctx, tile_part(ctx, where), where.fields, where.path, added))
        return True
    if where.path or where.fields or name not in ("add", "sub") or not isinstance(operand, Value):
        return False
    if not isinstance(operand.type, Tile) or operand.type != where.view.type:
        return False
    parts.combine(ctx, where.view, name, operand)
    return True


def _operated(ctx: Context, where: TilePart, node: ast.AugAssign, old: Value, operand: Operand) -> Value:
    """What ``old``, the element of a tile at a place or a part of it, becomes by ``node``."""
    from warp_like.frontend.tiles import structs

    new: Operand = structs.of_elements(ctx, OPERATORS[type(node.op)][0], old, operand) or binary(
        ctx, node.op, old, operand, [node.target, node.value]
    )
    return _part(ctx, new, old.type, where.path, f"`{ast.unparse(node.target)}`", node.value)


def _is_by_threads(ctx: Context, where: TilePart) -> bool:
    """Whether each thread of a block assigns an element of its own, or a part of one; several may name the same."""
    return not where.view.shape and ctx.session.block_dim > 1


def _change_by_threads(
    ctx: Context, where: TilePart, operand: Operand, change: Callable[[Value, Operand], Value]
) -> None:
    """Let each thread change a part of an element; ``change`` takes the part as it is then, and the operand."""
    operand = require_value_kind(operand)
    given = [operand] if isinstance(operand, Value) else []
    indices = [s for s in where.path if isinstance(s, Value)]

    def changed(element: Value, thread: Sequence[Value]) -> Value:
        at = iter(thread[len(given) :])
        path = tuple(next(at) if isinstance(s, Value) else s for s in where.path)
        old = part_of(ctx, element, where.fields, path)
        return replaced(ctx, element, where.fields, path, change(old, thread[0] if given else operand))

    from warp_like.frontend.tiles import each_thread

    each_thread.change_element(ctx, where.view, [*given, *indices], changed)


def _atomic(ctx: Context, where: Element, kind: AtomicKind, node: ast.AugAssign, operand: Operand) -> None:
    """Update an element; with a path, by a value that changes nothing but the component."""
    t = element_type(where)
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


# --- storing ---


def store(ctx: Context, where: Place, operand: Operand, target: ast.expr, source: ast.expr) -> None:
    """Assign ``operand`` to a place; ``target`` and ``source`` are the syntax of both."""
    if isinstance(where, Name):
        ctx.bind(where.name, operand, source)
        return
    shown = f"`{ast.unparse(target)}`"
    match where:
        case Component(name, path, fields):
            old = ctx.read(name)
            assert isinstance(old, Value)
            part = _part(ctx, operand, selected_type(whole_type(ctx, where), path), path, shown, source)
            new = replaced(ctx, old, fields, path, part)
            new.hint = name
            ctx.scope.replace(name, new)
        case Element(array, indices, path):
            indexing.require_element(array, indices)
            t = element_type(where)
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
        part = _part(ctx, operand, selected_type(field_type(t, fields), path), path, shown, source)
    if (path or fields) and _is_by_threads(ctx, where):
        _change_by_threads(ctx, where, part, lambda _, new: ctx.settle(new))
        return
    if path or fields:
        part = replaced(ctx, tile_part(ctx, where), fields, path, part)
    from warp_like.frontend.tiles import parts

    parts.replace(ctx, view, part)


def _part(ctx: Context, operand: Operand, t: Type, path: Selection, shown: str, source: ast.expr) -> Value:
    """``operand`` as what is assigned to a part of type ``t``; a number fills a slice or a row."""
    scalar = scalar_of(t)
    with ctx.at(source):
        if path and scalar is not None and scalar != t and ctx.fits(operand, scalar):
            number = ctx.convert(operand, scalar, shown, source)
            return ctx.b.make(t, [number] * element_count(t))
        return ctx.convert(operand, t, shown, source)
