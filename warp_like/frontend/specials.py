"""Builtins whose calls are built here: they take arrays, types, text or Python expressions."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from typing import cast

from warp_like.base.contract import MAX_DIMS
from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend import indexing, plain_names
from warp_like.frontend.arguments import arguments
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.host import Host, builtin_name
from warp_like.frontend.operands import Operand, describe, require_value_kind
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS, has_atomic
from warp_like.ir.core import Value
from warp_like.ir.types import (
    Aggregate,
    Array,
    IndexedArray,
    Tile,
    Type,
    element_shape,
    int32,
    int64,
)

Handler = Callable[[Context, ast.Call], Operand]


# --- threads ---


def thread_index(ctx: Context, node: ast.expr, count: int) -> Operand | None:
    """Return ``count`` thread indices if ``node`` is a call of ``tid()``, else None."""
    if count < 2 or not isinstance(node, ast.Call):
        return None
    callee = plain_names.callee(ctx, node.func)
    if not isinstance(callee, Host) or builtin_name(callee.obj) != "tid":
        return None
    with ctx.at(node):
        return _tid(ctx, node, count)


def _tid(ctx: Context, node: ast.Call, count: int = 1) -> Operand:
    arguments(node, "tid", (), 0)
    if ctx.source.role != "kernel":
        raise WarpCodegenError(
            "tid() belongs to a kernel, not to a function",
            help=f"pass the index to `{ctx.source.name}` as an argument",
        )
    if count > MAX_DIMS:
        raise WarpCodegenError(f"tid() gives 1 to {MAX_DIMS} indices, got {count} names for them")
    t = int64 if ctx.session.wide else int32
    indices = tuple(ctx.b.insert(ops.Tid(axis, count), t).result for axis in range(count))
    return indices[0] if count == 1 else indices


# --- memory ---


def _atomic(name: str, kind: str) -> Handler:
    def build(ctx: Context, node: ast.Call) -> Operand:
        array, where, (value_node,) = _element(ctx, node, name, ("value",))
        t = _element_type(array)
        _require_atomic(kind, t)
        value = _converted(ctx, value_node, t, f"the value of {name}()")
        return ctx.b.atomic(kind, array, where, value)

    return build


def _require_atomic(kind: str, t: Type) -> None:
    if not has_atomic(kind, t):
        help = KINDS[kind].needs or None
        raise WarpCodegenTypeError(f"atomic_{kind}() does not work on elements of {t}", help=help)


def _atomic_cas(ctx: Context, node: ast.Call) -> Operand:
    array, where, (compare_node, value_node) = _element(ctx, node, "atomic_cas", ("compare", "value"))
    t = _element_type(array)
    _require_atomic("cas", t)
    compare = _converted(ctx, compare_node, t, "the value compared by atomic_cas()")
    value = _converted(ctx, value_node, t, "the value of atomic_cas()")
    return ctx.b.insert(ops.AtomicCas(array, tuple(where), compare, value), t).result


def _converted(ctx: Context, node: ast.expr, t: Type, what: str) -> Value:
    operand = ctx.expr(node)
    with ctx.at(node):
        return ctx.convert(operand, t, what, node)


def _element(
    ctx: Context, node: ast.Call, name: str, last: tuple[str, ...]
) -> tuple[Value, list[Value], list[ast.expr]]:
    """The array and the element that an atomic works on, and the syntax of its ``last`` arguments."""
    keywords = {k.arg: k.value for k in node.keywords}
    params = ["arr", "i", "j", "k", "l"]
    positional = list(node.args)
    tail: list[ast.expr] = [keywords.pop(p) for p in last if p in keywords]
    if not tail:
        tail, positional = positional[-len(last) :], positional[: -len(last)]
    for p in params[len(positional) :]:
        if p in keywords:
            positional.append(keywords.pop(p))
    usage = f"wp.{name}(arr, i, {', '.join(last)})"
    if keywords:
        raise WarpCodegenTypeError(f"{name}() has no argument `{next(iter(keywords))}`", help=usage)
    if len(tail) != len(last) or len(positional) < 2:
        raise WarpCodegenTypeError(
            f"{name}() needs an array, an index for each dimension, and {' and '.join(last)}", help=usage
        )
    array = ctx.expr(positional[0])
    if not isinstance(array, Value) or not isinstance(array.type, (Array, IndexedArray)):
        with ctx.at(positional[0]):
            raise WarpCodegenTypeError(f"{name}() works on an element of an array, got {describe(array)}", help=usage)
    n = array.type.ndim
    if len(positional) - 1 != n:
        raise WarpCodegenTypeError(
            f"{name}() needs {n} {'index' if n == 1 else 'indices'} for {with_article(str(array.type))}, "
            f"got {len(positional) - 1}",
            help=f"wp.{name}(arr, {', '.join(params[1 : n + 1])}, {', '.join(last)})",
        )
    given = [ctx.index(i) for i in positional[1:]]
    if isinstance(array.type, Array):
        return (*indexing.array_indices(ctx, array, given), tail)
    from warp_like.frontend import indexed_arrays

    return (*indexed_arrays.element(ctx, array, given), tail)


def _element_type(array: Value) -> Type:
    assert isinstance(array.type, Array)
    return array.type.dtype


def _len(ctx: Context, node: ast.Call) -> Operand:
    operand = ctx.expr(arguments(node, "len", ("a",), 1)["a"])
    if isinstance(operand, tuple):
        return Literal(len(operand))
    if isinstance(operand, Host) and isinstance(operand.obj, (tuple, list, dict)):
        return Literal(len(operand.obj))
    if isinstance(operand, Value):
        if isinstance(operand.type, Array):
            return ctx.b.dim(operand, 0)
        if isinstance(operand.type, IndexedArray):
            from warp_like.frontend import indexed_arrays

            return indexed_arrays.shape(ctx, operand)[0]
        if isinstance(operand.type, (*Aggregate, Tile)):
            return Literal(element_shape(operand.type)[0])
    raise WarpCodegenTypeError(f"{describe(operand)} has no length")


# --- types ---


def _type(ctx: Context, node: ast.Call) -> Operand:
    operand = require_value_kind(ctx.expr(arguments(node, "type", ("a",), 1)["a"]))
    return Host(operand.type if isinstance(operand, Value) else operand.default, ast.unparse(node))


# --- of loops alone ---


def _loop_only(name: str, usage: str) -> Handler:
    def build(ctx: Context, node: ast.Call) -> Operand:
        raise WarpCodegenError(f"{name}() belongs to a for loop", help=usage)

    return build


HANDLERS: dict[str, Handler] = {
    "tid": _tid,
    "len": _len,
    "range": _loop_only("range", "for i in range(n)"),
    "reversed": _loop_only("reversed", "for i in reversed(range(n))"),
    "type": _type,
    "atomic_cas": _atomic_cas,
    **{f"atomic_{kind.name}": _atomic(f"atomic_{kind.name}", kind.name) for kind in KINDS.values() if kind.does},
}
"""The builtins that are built here, by name."""

_ELSEWHERE = {
    "printing": ("print", "printf"),
    "reinterpreting": ("cast",),
    "checking": ("breakpoint", "expect_eq", "expect_near", "expect_neq"),
    "making": plain_names.MADE,
    "local_arrays": plain_names.LOCAL_ARRAYS,
    "objects": (
        *("_add_at", "_bvh", "_constant_at", "_corners", "_graded_at", "_hash_grid", "_map_at", "_memory_at", "_mesh"),
        *("_require_data", "_scaled", "_size_in_bits", "_store_at", "_texture", "_value_at", "_volume", "mesh_get"),
        *("texture_sample", "volume_lookup", "volume_sample", "volume_sample_grad", "volume_store"),
    ),
}
"""The modules whose ``HANDLERS`` build other calls, which few kernels have, and the names of these builtins."""

MODULES = {name: module for module, names in _ELSEWHERE.items() for name in names}
"""The modules of ``_ELSEWHERE`` by the names of their builtins."""


def handler(name: str) -> Handler | None:
    """Return what builds the calls of builtin ``name``; None where they follow from its rows."""
    found = HANDLERS.get(name)
    if name in MODULES:
        module = importlib.import_module(f"warp_like.frontend.{MODULES[name]}")
        return cast("Handler", module.HANDLERS[name])
    if found is None and (name.startswith(("tile", "untile")) or name.endswith("_tiled")):
        from warp_like.frontend.tiles.handlers import HANDLERS as OF_TILES  # most kernels have no tiles

        found = OF_TILES.get(name)
    return found
