"""Parts of vectors, matrices and quaternions: a component, a row, a column, a slice, a block.

A part is named by one selector for each dimension of the whole value: an index, or a ``range`` of constant indices
that the part keeps as a dimension of its own. Indexing a part again narrows its ranges, so ``m[0:2][1]`` and
``m[1]`` are the same selection.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from warp_like.base.errors import WarpCodegenIndexError, WarpCodegenTypeError
from warp_like.base.frozen import Frozen
from warp_like.builtins import loops
from warp_like.builtins.patterns import Literal
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.operands import describe
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Mat, Quat, Scalar, Transform, Type, Vec, element_shape, int32, int64, is_large, scalar_of


class Span(Frozen):
    """``start:stop:step`` in brackets; None where left out."""

    start: Value | Literal | None
    stop: Value | Literal | None
    step: Value | Literal | None
    node: ast.Slice

    def constant(self) -> slice:
        """Return the slice where its bounds are constants.

        Raises:
            WarpCodegenTypeError: One of them is known only at run time.
        """
        return slice(*(self._constant(part) for part in (self.start, self.stop, self.step)))

    def _constant(self, part: Value | Literal | None) -> int | None:
        known = None if part is None else known_index(part)
        if part is not None and known is None:
            raise WarpCodegenTypeError(
                f"a slice of a vector, matrix, tile or tuple has constant bounds, got {describe(part)} in "
                f"`{ast.unparse(self.node)}`",
                help="the number of components is part of the type: index them one by one in a loop",
            )
        return known


class Member(Frozen):
    """Consecutive components that are a value with a type of its own: ``p`` and ``q`` of a transform."""

    at: range
    type: Type


Index = Value | Literal | Span
Selector = Value | int | range | Member
Selection = tuple[Selector, ...]
"""A selector for each dimension of a value; empty for the whole."""


def known_index(index: Value | Literal) -> int | None:
    """Return the value of a constant index, else None."""
    value = index.value if isinstance(index, Literal) else ops.constant_value(index)
    return value if type(value) is int else None


def narrow(ctx: Context, t: Type, selection: Selection, at: Sequence[Index | Member]) -> Selection:
    """Return what ``at`` selects of the part of a ``t`` that ``selection`` is.

    Raises:
        WarpCodegenIndexError: Too many indices, an index out of range, or into nothing.
    """
    part = selected_type(t, selection)
    whole = selection or tuple(range(n) for n in element_shape(t))
    shape = element_shape(part)
    what = with_article(str(part))
    if len(at) > len(shape):
        raise WarpCodegenIndexError(f"{what} takes {plural(len(shape))}, got {len(at)}")
    words = ("rows", "columns") if isinstance(part, Mat) else ("components",)
    left = list(zip(at, words, strict=False))
    return tuple(s if isinstance(s, (Value, int)) or not left else _choose(ctx, s, *left.pop(0), what) for s in whole)


def _choose(ctx: Context, among: range | Member, index: Index | Member, word: str, what: str) -> Selector:
    """What ``index`` chooses among the indices of a selector."""
    if isinstance(index, Member):
        return index
    kept = _range(among)
    if isinstance(index, Span):
        bounds = index.constant()
        if bounds.step == 0:
            raise WarpCodegenIndexError(f"the step of `{ast.unparse(index.node)}` is 0")
        return kept[bounds]
    known = known_index(index)
    if known is not None:
        return kept[in_range(known, len(kept), what, word)]
    if not kept:
        raise WarpCodegenIndexError(f"{what} has no {word} to index")
    i = from_end(ctx, ctx.settle(index), len(kept))
    if kept != range(len(kept)):
        i = i if i.type == int32 else ctx.b.cast(i, int64)
        inside = ctx.b.apply("bit_and", ctx.b.apply("ge", i, 0), ctx.b.apply("lt", i, len(kept)))
        i = ctx.b.apply("add", ctx.b.apply("mul", i, kept.step), kept.start)
        i = ctx.b.select(inside, i, ctx.b.constant(-1, i.type))  # no component of the rest
    return i


def from_end(ctx: Context, i: Value, extent: int) -> Value:
    """Return index ``i`` of run time with ``extent`` added where it is negative."""
    t = i.type
    assert isinstance(t, Scalar)
    if not t.is_signed or isinstance(i.op, ops.Tid):
        return i
    if t.bits < 32:
        i = ctx.b.cast(i, int32)
    return ctx.b.select(ctx.b.apply("lt", i, 0), ctx.b.apply("add", i, extent), i)


def in_range(index: int, extent: int, what: str, word: str) -> int:
    """Return a constant index counted from the start.

    Raises:
        WarpCodegenIndexError: It is out of range.
    """
    if not -extent <= index < extent:
        raise WarpCodegenIndexError(
            f"index {index} is out of range: {what} has {extent} {word if extent != 1 else word[:-1]}"
        )
    return index % extent


def plural(n: int) -> str:
    """Return how many indices something with ``n`` dimensions takes."""
    return "1 index" if n == 1 else f"1 to {n} indices" if n > 1 else "0 indices"


def _range(s: range | Member) -> range:
    return s.at if isinstance(s, Member) else s


def selected_type(t: Type, selection: Selection) -> Type:
    """Return the type of a part of a ``t``."""
    if selection and isinstance(selection[0], Member):
        return selection[0].type
    shape = [len(s) for s in selection if isinstance(s, range)]
    scalar = scalar_of(t)
    if not selection or scalar is None:
        return t
    return scalar if not shape else Vec(shape[0], scalar) if len(shape) == 1 else Mat(shape[0], shape[1], scalar)


def extract(ctx: Context, x: Value, selection: Selection) -> Value:
    """Return a part of ``x``."""
    direct = _direct(x.type, selection)
    if direct is not None:
        return ctx.b.extract(x, *direct) if direct else x
    t = selected_type(x.type, selection)
    if is_large(t):
        return loops.tabulate(ctx.b, t, lambda index: ctx.b.extract(x, *_inside(ctx, selection, index)))
    return ctx.b.make(t, [ctx.b.extract(x, *at) for at in _positions(selection)])


def insert(ctx: Context, x: Value, selection: Selection, part: Value) -> Value:
    """Return ``x`` with a part replaced."""
    direct = _direct(x.type, selection)
    if direct is not None:
        return ctx.b.insert_component(x, part, *direct) if direct else part
    if is_large(part.type):

        def replace(index: loops.Index, whole: Value) -> list[Value]:
            return [ctx.b.insert_component(whole, ctx.b.extract(part, *index), *_inside(ctx, selection, index))]

        return loops.for_each(ctx.b, part.type, [x], replace)[0]
    for at, component in zip(_positions(selection), ctx.b.components(part), strict=True):
        x = ctx.b.insert_component(x, component, *at)
    return x


def _direct(t: Type, selection: Selection) -> tuple[Value | int, ...] | None:
    """The indices of a component or a row; none for the whole, None for any other part."""
    if isinstance(t, (Quat, Transform)) and any(isinstance(s, (range, Member)) for s in selection):
        return None  # a slice of a quaternion is a vector
    shape = element_shape(t)
    plain: list[Value | int] = []
    for s in selection:
        if isinstance(s, (range, Member)):
            break
        plain.append(s)
    rest = tuple(zip(selection[len(plain) :], shape[len(plain) :], strict=False))
    return tuple(plain) if all(s == range(n) for s, n in rest) else None


def _inside(ctx: Context, selection: Selection, index: loops.Index) -> list[Value | int]:
    """The indices of a component of which a part has the ``index``."""
    given = iter(index)
    return [ctx.b.add(ctx.b.mul(next(given), s.step), s.start) if isinstance(s, range) else s for s in selection]  # type: ignore[misc]


def _positions(selection: Selection) -> list[tuple[Value | int, ...]]:
    """The indices of each component of a part, in its own row-major order."""
    found: list[tuple[Value | int, ...]] = [()]
    for s in selection:
        found = [(*at, i) for at in found for i in (_range(s) if isinstance(s, (range, Member)) else (s,))]
    return found
