"""Indices and slices: of arrays, vectors, matrices and tuples, constant and dynamic."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from warp_like.base.errors import (
    WarpCodegenAttributeError,
    WarpCodegenError,
    WarpCodegenIndexError,
    WarpCodegenTypeError,
    WarpCodegenValueError,
)
from warp_like.builtins.patterns import Literal
from warp_like.frontend import selection
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.operands import Extents, Operand, describe
from warp_like.frontend.selection import Index, Member, Span, in_range, known_index
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Aggregate, Array, Quat, Scalar, Struct, TileStack, Transform, Vec, element_shape, int64


def indices(ctx: Context, node: ast.expr) -> list[Index]:
    """Build what stands in brackets."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [_span(ctx, e) if isinstance(e, ast.Slice) else ctx.index(e) for e in parts]


def _span(ctx: Context, node: ast.Slice) -> Span:
    def bound(e: ast.expr | None) -> Value | Literal | None:
        return None if e is None else ctx.index(e, "a bound of a slice")

    return Span(bound(node.lower), bound(node.upper), bound(node.step), node)


def without_spans(at: Sequence[Index]) -> list[Value | Literal] | None:
    """Return indices among which is no slice; None where there is one."""
    plain = [index for index in at if not isinstance(index, Span)]
    return plain if len(plain) == len(at) else None


def read(ctx: Context, base: Operand, at: Sequence[Index]) -> Operand:
    """Return ``base[at]``: an element or a view of an array, a part of a vector or matrix, members of a tuple."""
    if isinstance(base, tuple):
        return _member(ctx, base, at)
    if isinstance(base, Value):
        if isinstance(base.type, Array):
            plain = without_spans(at)
            if plain is None:
                return array_slice(ctx, base, at)
            array, where = array_indices(ctx, base, plain)
            if len(where) == _ndim(array):
                return ctx.b.load(array, where)
            return ctx.b.view(array, where)
        if isinstance(base.type, Aggregate):
            return selection.extract(ctx, base, selection.narrow(ctx, base.type, (), at))
    raise not_indexable(base)


def not_indexable(base: Operand) -> WarpCodegenTypeError:
    """Return the error for an index into something that has no elements."""
    given = with_article(describe(base)) if isinstance(base, Value) else describe(base)
    return WarpCodegenTypeError(f"{given} can't be indexed")


def _member(ctx: Context, base: tuple[Operand, ...], at: Sequence[Index]) -> Operand:
    (index, *more) = at
    if more:
        raise WarpCodegenTypeError("a tuple is indexed by one constant")
    if isinstance(index, Span):
        return base[index.constant()]
    known = known_index(index)
    if isinstance(base, Extents) and (known is None or len(base) <= known < base.ENTRIES):
        none = ctx.b.constant(0, base[0].type)
        base = (*base, *(none for _ in range(len(base), base.ENTRIES)))
    if known is not None:
        return base[in_range(known, len(base), "a tuple", "members")]
    members = _as_vector(ctx, base)
    return selection.extract(ctx, members, selection.narrow(ctx, members.type, (), at))


def _as_vector(ctx: Context, base: tuple[Operand, ...]) -> Value:
    """The members of a tuple, as of ``a.shape``, as a vector: its components are chosen at run time.

    Raises:
        WarpCodegenTypeError: They are no numbers of one type.
    """
    types = {o.type for o in base if isinstance(o, Value)} or {o.default for o in base if isinstance(o, Literal)}
    t = next(iter(types), None)
    if len(types) != 1 or not isinstance(t, Scalar) or not all(isinstance(o, (Value, Literal)) for o in base):
        raise WarpCodegenTypeError(
            "a tuple is indexed by a constant, got a value of run time",
            help="that works for tuples of numbers of one type, as a.shape",
        )
    return ctx.b.make(Vec(len(base), t), [ctx.convert(o, t, "a member of the tuple") for o in base])


def array_indices(ctx: Context, array: Value, at: Sequence[Value | Literal]) -> tuple[Value, list[Value]]:
    """Return an array and all indices into it: those of a view are put before ``at``.

    A constant negative index counts from the end.
    """
    where: list[Value] = []
    t = array.type
    assert isinstance(t, Array)
    if len(at) > t.ndim:
        element = t.dtype
        help = f"index the element apart: a[{', '.join(['i'] * t.ndim)}][...]" if element_shape(element) else None
        dimensions = "dimension" if t.ndim == 1 else "dimensions"
        raise WarpCodegenIndexError(
            f"{with_article(str(t))} has {t.ndim} {dimensions}, got {len(at)} indices", help=help
        )
    if isinstance(array.op, ops.View) and array.op.field is None:
        where, array = list(array.op.indices), array.op.array
    for index in at:
        where.append(_axis_index(ctx, array, len(where), index))
    return array, where


def _axis_index(ctx: Context, array: Value, axis: int, index: Value | Literal) -> Value:
    known = known_index(index)
    if known is not None and isinstance(array.op, ops.LocalArray):
        shape = array.op.shape
        of = f"axis {axis} of " if len(shape) > 1 else ""
        in_range(known, shape[axis], f"{of}an array of shape {shape}", "elements")
    if known is None or known >= 0:
        return ctx.settle(index)
    counted: Value = ctx.b.apply("sub", ctx.b.dim(array, axis), -known)
    return counted


def array_slice(ctx: Context, array: Value, at: Sequence[Index]) -> Value:
    """Return the part of an array that indices and slices select, a view; bounds count and clamp as in Python."""
    plain = next(i for i, index in enumerate(at) if isinstance(index, Span))
    t = array.type
    assert isinstance(t, Array)
    if len(at) > t.ndim:
        array_indices(ctx, array, [Literal(0)] * len(at))  # raises: too many
    if plain:
        array = ctx.b.view(*array_indices(ctx, array, [i for i in at[:plain] if not isinstance(i, Span)]))
        t = array.type
        assert isinstance(t, Array)
    start, count, step, kept = [], [], [], []
    for axis in range(t.ndim):
        index = at[plain + axis] if plain + axis < len(at) else None
        if index is not None and not isinstance(index, Span):
            start.append(_axis_index(ctx, array, axis, index))
            continue
        first, n, by = _bounds(ctx, index, ctx.b.dim(array, axis, int64))
        start.append(first)
        count.append(n)
        step.append(by if isinstance(by, Value) else ctx.b.constant(by, int64))
        kept.append(axis)
    return ctx.b.slice(array, start, count, step, tuple(kept))


def _bounds(ctx: Context, span: Span | None, extent: Value) -> tuple[Value, Value, int | Value]:
    """The first index, the number of indices and the step of a slice of ``extent`` elements, as Python has them."""
    b = ctx.b
    step = 1
    if span is not None and span.step is not None:
        known = known_index(span.step)
        if known is None:
            return _computed_bounds(ctx, span, span.step, extent)
        if known == 0:
            raise WarpCodegenValueError("the step of a slice is not 0")
        step = known
    start, stop = (None, None) if span is None else (span.start, span.stop)
    top = extent if step > 0 else b.apply("sub", extent, 1)
    if step > 0:
        first = b.constant(0, int64) if start is None else _clamped(ctx, start, extent, 0, top)
        last = extent if stop is None else _clamped(ctx, stop, extent, 0, top)
        if start is None and stop is None and step == 1:
            return first, extent, step
        length = b.apply("sub", last, first)
    else:
        first = top if start is None else _clamped(ctx, start, extent, -1, top)
        last = b.constant(-1, int64) if stop is None else _clamped(ctx, stop, extent, -1, top)
        length = b.apply("sub", first, last)
    if abs(step) != 1:
        length = b.apply("div", b.apply("add", length, abs(step) - 1), abs(step))
    return first, b.apply("max", length, 0), step


def _computed_bounds(ctx: Context, span: Span, by: Value | Literal, extent: Value) -> tuple[Value, Value, int | Value]:
    """``_bounds`` with a step that is known when the kernel runs; where that is 0, the slice is empty."""
    b = ctx.b
    step = b.cast(ctx.settle(by), int64)
    forward = b.apply("gt", step, 0)
    low = b.select(forward, b.constant(0, int64), b.constant(-1, int64))
    high = b.apply("add", extent, low)
    first = b.select(forward, low, high) if span.start is None else _clamped(ctx, span.start, extent, low, high)
    last = b.select(forward, high, low) if span.stop is None else _clamped(ctx, span.stop, extent, low, high)
    length = b.select(forward, b.apply("sub", last, first), b.apply("sub", first, last))
    size = b.apply("abs", step)
    count = b.apply("div", b.apply("add", length, b.apply("sub", size, 1)), size)
    return first, b.apply("max", count, 0), step


def _clamped(ctx: Context, bound: Value | Literal, extent: Value, low: int | Value, high: Value) -> Value:
    """A bound of a slice, counted from the end where it is negative, and moved into ``low`` to ``high``."""
    b, known = ctx.b, known_index(bound)
    if known is not None:
        counted = b.constant(known, int64) if known >= 0 else b.apply("add", extent, known)
        clamped: Value = b.apply("min", counted, high) if known >= 0 else b.apply("max", counted, low)
        return clamped
    i = b.cast(ctx.settle(bound), int64)
    i = b.select(b.apply("lt", i, 0), b.apply("add", i, extent), i)
    clamped = b.apply("min", b.apply("max", i, low), high)
    return clamped


def component(t: Vec | Quat, name: str) -> int:
    """Return the index of component ``name``.

    Raises:
        WarpCodegenAttributeError: There is no such component.
    """
    letters = "xyzw"[: element_shape(t)[0]]
    if len(name) == 1 and name in letters:
        return letters.index(name)
    help = None
    if len(name) > 1 and set(name) <= set(letters):
        help = "one component at a time: " + ", ".join(f".{c}" for c in dict.fromkeys(name))
    raise WarpCodegenAttributeError(
        f"{with_article(str(t))} has no component `{name}`: it has {', '.join(letters)}", help=help
    )


def member(t: Transform, name: str) -> Member:
    """Return member ``name`` of a transform.

    Raises:
        WarpCodegenAttributeError: There is no such part.
    """
    if name not in t.parts:
        raise WarpCodegenAttributeError(
            f"{with_article(str(t))} has no attribute `{name}`: it has p, its translation, and q, its rotation"
        )
    return Member(*t.parts[name])


def field(t: Struct, name: str) -> int:
    """Return the position of field ``name``.

    Raises:
        WarpCodegenAttributeError: There is no such field.
    """
    if isinstance(t, TileStack):
        raise WarpCodegenAttributeError(f"{with_article(str(t))} has no field `{name}`", help="wp.tile_stack_count(s)")
    names = [n for n, _ in t.fields]
    if name in names:
        return names.index(name)
    import difflib  # for messages alone

    near = difflib.get_close_matches(name, names, n=1)
    raise WarpCodegenAttributeError(
        f"{with_article(str(t))} has no field `{name}`: it has {', '.join(names)}",
        help=f"did you mean `{near[0]}`?" if near else None,
    )


def _ndim(array: Value) -> int:
    assert isinstance(array.type, Array)
    return array.type.ndim


def require_element(array: Value, where: Sequence[Value]) -> None:
    """Raise unless ``where`` names one element.

    Raises:
        WarpCodegenError: Indices are missing.
    """
    n = _ndim(array)
    if len(where) != n:
        raise WarpCodegenError(
            f"{with_article(str(array.type))} needs {n} {'index' if n == 1 else 'indices'} "
            f"to name an element, got {len(where)}",
            help="write to the elements one by one",
        )
