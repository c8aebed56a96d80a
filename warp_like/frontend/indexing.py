"""Indices: of arrays, vectors and matrices, constant and dynamic."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence

from warp_like.base.errors import (
    WarpCodegenAttributeError,
    WarpCodegenError,
    WarpCodegenIndexError,
    WarpCodegenTypeError,
)
from warp_like.builtins.patterns import Literal
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.operands import Operand, describe
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Array, Mat, Quat, Struct, Type, Vec, element_shape

Index = Value | Literal


def indices(ctx: Context, node: ast.expr) -> list[Index]:
    """Build what stands in brackets."""
    return [ctx.index(e) for e in (node.elts if isinstance(node, ast.Tuple) else [node])]


def read(ctx: Context, base: Operand, at: Sequence[Index]) -> Operand:
    """Return ``base[at]``: an element or a view of an array, a component or a row, a member of a tuple."""
    if isinstance(base, tuple):
        return _member(base, at)
    if isinstance(base, Value):
        if isinstance(base.type, Array):
            array, where = array_indices(ctx, base, at)
            if len(where) == _ndim(array):
                return ctx.b.load(array, where)
            return ctx.b.view(array, where)
        if isinstance(base.type, (Vec, Mat, Quat)):
            return ctx.b.extract(base, *component_indices(ctx, base.type, at))
    raise not_indexable(base)


def not_indexable(base: Operand) -> WarpCodegenTypeError:
    """Return the error for an index into something that has no elements."""
    given = with_article(describe(base)) if isinstance(base, Value) else describe(base)
    return WarpCodegenTypeError(f"{given} can't be indexed")


def _member(base: tuple[Operand, ...], at: Sequence[Index]) -> Operand:
    (index, *more) = at
    known = _known(index)
    if more or known is None:
        raise WarpCodegenTypeError(
            "a tuple is indexed by one constant"
            if more
            else "a tuple is indexed by a constant, got a value of run time"
        )
    return base[_in_range(known, len(base), "a tuple", "members")]


def array_indices(ctx: Context, array: Value, at: Sequence[Index]) -> tuple[Value, list[Value]]:
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
        known = _known(index)
        if known is not None and known < 0:
            extent = ctx.b.dim(array, len(where))
            where.append(ctx.b.apply("sub", extent, -known))
        else:
            where.append(ctx.settle(index))
    return array, where


def component_indices(ctx: Context, t: Type, at: Sequence[Index]) -> list[Value | int]:
    """Return indices into a value of type ``t``, constant ones checked and made non-negative."""
    shape = element_shape(t)
    if len(at) > len(shape):
        raise WarpCodegenIndexError(f"{with_article(str(t))} takes {len(shape)} {_plural(len(shape))}, got {len(at)}")
    found: list[Value | int] = []
    words = ("rows", "columns") if isinstance(t, Mat) else ("components",)
    for index, extent, word in zip(at, shape, words, strict=False):
        known = _known(index)
        found.append(ctx.settle(index) if known is None else _in_range(known, extent, with_article(str(t)), word))
    return found


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


def field(t: Struct, name: str) -> int:
    """Return the position of field ``name``.

    Raises:
        WarpCodegenAttributeError: There is no such field.
    """
    names = [n for n, _ in t.fields]
    if name in names:
        return names.index(name)
    near = difflib.get_close_matches(name, names, n=1)
    raise WarpCodegenAttributeError(
        f"{with_article(str(t))} has no field `{name}`: it has {', '.join(names)}",
        help=f"did you mean `{near[0]}`?" if near else None,
    )


def _known(index: Index) -> int | None:
    """The value of a constant index."""
    value = index.value if isinstance(index, Literal) else ops.constant_value(index)
    return value if type(value) is int else None


def _in_range(index: int, extent: int, what: str, word: str) -> int:
    if not -extent <= index < extent:
        raise WarpCodegenIndexError(
            f"index {index} is out of range: {what} has {extent} {word if extent != 1 else word[:-1]}"
        )
    return index % extent


def _plural(n: int) -> str:
    return "index" if n == 1 else f"1 to {n} indices" if n > 1 else "indices"


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
