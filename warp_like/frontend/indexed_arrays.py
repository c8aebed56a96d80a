"""Indexed arrays in kernels: the syntax of an array for what is, to all that follows, a struct of arrays.

Element ``a[i, j]`` is ``data[index0[i], index1[j]]``. With fewer indices ``a`` gives an indexed array of the dimensions
that are left, over a view of ``data``.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.base.errors import WarpCodegenAttributeError, WarpCodegenIndexError
from warp_like.builtins.patterns import Literal
from warp_like.frontend import indexing
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.host import Host
from warp_like.frontend.operands import Extents, Operand
from warp_like.frontend.selection import Span
from warp_like.ir.core import Value
from warp_like.ir.types import IndexedArray, indexed_array


def read(ctx: Context, base: Value, at: Sequence[indexing.Index]) -> Value:
    """Return the element of an indexed array at ``at``, or the indexed array of the dimensions left."""
    t = _type(base)
    plain = indexing.without_spans(at)
    if plain is None:
        return _part(ctx, base, at)
    array, where = element(ctx, base, plain)
    if len(where) == t.ndim:
        return ctx.b.load(array, where)
    indices = [ctx.b.get_field(base, 1 + axis) for axis in range(len(where), t.ndim)]
    return ctx.b.make(indexed_array(t.dtype, len(indices)), [ctx.b.view(array, where), *indices])


def _part(ctx: Context, base: Value, at: Sequence[indexing.Index]) -> Value:
    """The indexed array that slices leave, after indices into the first dimensions: the same data by fewer indices.

    Raises:
        WarpCodegenIndexError: An index comes after a slice, or there are more than dimensions.
    """
    t = _type(base)
    first = [i for i in at if not isinstance(i, Span)]
    spans = at[len(first) :]
    if len(at) > t.ndim or indexing.without_spans(at[: len(first)]) is None:
        raise WarpCodegenIndexError(
            f"{with_article(str(t))} takes indices into its first dimensions, then slices", help="a[i, 1:3]"
        )
    array, where = element(ctx, base, first)
    indices = [ctx.b.get_field(base, 1 + axis) for axis in range(len(first), t.ndim)]
    for axis, span in enumerate(spans):
        indices[axis] = indexing.array_slice(ctx, indices[axis], [span])
    return ctx.b.make(indexed_array(t.dtype, len(indices)), [ctx.b.view(array, where) if where else array, *indices])


def element(ctx: Context, base: Value, at: Sequence[Value | Literal]) -> tuple[Value, list[Value]]:
    """Return the array under an indexed array, and where in it ``at`` leads.

    Raises:
        WarpCodegenIndexError: There are more indices than dimensions.
    """
    t = _type(base)
    if len(at) > t.ndim:
        dimensions = "dimension" if t.ndim == 1 else "dimensions"
        raise WarpCodegenIndexError(f"{with_article(str(t))} has {t.ndim} {dimensions}, got {len(at)} indices")
    where = []
    for axis, index in enumerate(at):
        indices, place = indexing.array_indices(ctx, ctx.b.get_field(base, 1 + axis), [index])
        where.append(ctx.b.load(indices, place))
    return ctx.b.get_field(base, 0), where


def attribute(ctx: Context, base: Value, name: str) -> Operand:
    """Return an attribute of an indexed array.

    Raises:
        WarpCodegenAttributeError: It has no such attribute.
    """
    t = _type(base)
    match name:
        case "shape":
            return shape(ctx, base)
        case "ndim":
            return Literal(t.ndim)
        case "dtype":
            return Host(t.dtype, f"{base.hint or 'array'}.dtype")
        case "size":
            total, *more = shape(ctx, base)
            for extent in more:
                total = ctx.b.apply("mul", total, extent)
            return total
    raise WarpCodegenAttributeError(
        f"{with_article(str(t))} has no attribute `{name}` in kernel code", help="it has shape, ndim, size and dtype"
    )


def shape(ctx: Context, base: Value) -> Extents:
    """Return the extents of an indexed array: the lengths of its indices."""
    return Extents(ctx.b.dim(ctx.b.get_field(base, 1 + axis), 0) for axis in range(_type(base).ndim))


def _type(base: Value) -> IndexedArray:
    assert isinstance(base.type, IndexedArray)
    return base.type
