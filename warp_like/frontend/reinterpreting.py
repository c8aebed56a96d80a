"""``wp.cast``: the bits of a value as another type, between numbers, vectors, matrices and structs of one size.

The value is taken apart into its numbers, each at its place in memory, and the numbers of the result are made of these.
A number that has the same place and width in both is one ``Bitcast``, or the number itself where its type is the same;
any other is composed of the bits of its parts. What lies between the fields of a struct is zero.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.frontend.arguments import arguments, type_argument
from warp_like.frontend.context import Context, with_article
from warp_like.ir.core import Value
from warp_like.ir.layout import field_offsets, size_of
from warp_like.ir.types import (
    Aggregate,
    Scalar,
    Struct,
    Type,
    bool_,
    element_count,
    holds_arrays,
    uint8,
    uint16,
    uint32,
    uint64,
)

_UNSIGNED = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
"""The type that holds the bits of a number, by its bytes."""


def build_cast(ctx: Context, node: ast.Call) -> Value:
    """Build a call of ``cast``.

    Raises:
        WarpCodegenTypeError: The types differ in size, or one of them is no number or made of numbers.
    """
    given = arguments(node, "cast", ("a", "dtype"), 2)
    t = type_argument(ctx, given["dtype"], "the dtype of cast()")
    x = ctx.value(given["a"])
    for type, place in ((t, given["dtype"]), (x.type, given["a"])):
        if not isinstance(type, (Scalar, Aggregate, Struct)) or holds_arrays(type):
            with ctx.at(place):
                raise WarpCodegenTypeError(
                    f"cast() keeps the bits of numbers and of what is made of them, got {with_article(str(type))}"
                )
    if size_of(x.type) != size_of(t):
        raise WarpCodegenTypeError(
            f"cast() keeps the bits: {_with_size(x.type)} can't be {_with_size(t)}",
            help=f"wp.{t}(...) converts the value" if isinstance(t, Scalar) and isinstance(x.type, Scalar) else None,
        )
    return _assembled(ctx, t, _parts(ctx, x, 0)) if x.type != t else x


def _with_size(t: Type) -> str:
    n = size_of(t)
    return f"{with_article(str(t))} of {n} byte{'s' if n != 1 else ''}"


def _parts(ctx: Context, x: Value, at: int) -> list[tuple[int, Value]]:
    """The numbers in ``x``, which lies at byte ``at``, each with its place."""
    if isinstance(x.type, Struct):
        places = enumerate(field_offsets(x.type))
        return [part for i, offset in places for part in _parts(ctx, ctx.b.get_field(x, i), at + offset)]
    numbers = ctx.b.components(x)
    return [(at + i * size_of(n.type), n) for i, n in enumerate(numbers)]


def _assembled(ctx: Context, t: Type, parts: list[tuple[int, Value]]) -> Value:
    """The value of type ``t`` that has the bits of ``parts``."""

    def made(t: Type, at: int) -> Value:
        if isinstance(t, Struct):
            fields = zip(t.fields, field_offsets(t), strict=True)
            return ctx.b.make(t, [made(field, at + offset) for (_, field), offset in fields])
        if isinstance(t, Aggregate):
            size = size_of(t.dtype)
            return ctx.b.make(t, [_number(ctx, t.dtype, at + i * size, parts) for i in range(element_count(t))])
        assert isinstance(t, Scalar)
        return _number(ctx, t, at, parts)

    return made(t, 0)


def _number(ctx: Context, t: Scalar, at: int, parts: list[tuple[int, Value]]) -> Value:
    """The number of type ``t`` at byte ``at`` of ``parts``."""
    size = size_of(t)
    found = list(_overlapping(parts, at, size))
    if len(found) == 1 and found[0] == (at, found[0][1]) and size_of(found[0][1].type) == size:
        part = found[0][1]
        if part.type == t:
            return part
        if bool_ not in (part.type, t):
            return ctx.b.bitcast(part, t)
    whole = _UNSIGNED[size]
    bits = ctx.b.constant(0, whole)
    for place, part in found:
        wide = max(whole, _UNSIGNED[size_of(part.type)], key=size_of)
        own = ctx.b.cast(_bits(ctx, part), wide)
        shift = 8 * (place - at)
        moved = ctx.b.apply("lshift", own, shift) if shift > 0 else ctx.b.apply("rshift", own, -shift) if shift else own
        bits = ctx.b.apply("bit_or", bits, ctx.b.cast(moved, whole))
    if t == bool_:
        return ctx.b.apply("ne", ctx.b.apply("bit_and", bits, 1), 0)
    return ctx.b.bitcast(bits, t)


def _overlapping(parts: list[tuple[int, Value]], at: int, size: int) -> Iterator[tuple[int, Value]]:
    for place, part in parts:
        if place < at + size and at < place + size_of(part.type):
            yield place, part


def _bits(ctx: Context, x: Value) -> Value:
    """The bits of a number, as an unsigned one."""
    t = _UNSIGNED[size_of(x.type)]
    return ctx.b.cast(x, t) if x.type == bool_ else ctx.b.bitcast(x, t)


HANDLERS = {"cast": build_cast}
"""The builtin that is built here, by name."""
