"""The arguments of builtins of tiles: tiles, shapes, offsets, options."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from warp_like.base.errors import WarpCodegenTypeError, WarpCodegenValueError
from warp_like.builtins.patterns import Literal
from warp_like.builtins.tiles import tile_type
from warp_like.frontend import arguments as plain
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.host import Host
from warp_like.frontend.operands import Operand, describe
from warp_like.frontend.selection import known_index
from warp_like.frontend.tile_views import TileView
from warp_like.ir.core import Value
from warp_like.ir.types import Array, Scalar, Struct, Tile, Type, float32, holds_arrays, scalar_of

MOST_DIMENSIONS = 4
MOST_ELEMENTS = 2**31 - 1
"""The indices of elements are int32."""
STORAGE = ("register", "shared")


class Arguments:
    """The arguments of a call of ``name`` by parameter, each of which is built once, when it is first asked for.

    Raises:
        WarpCodegenTypeError: Too many, too few, or one that does not exist.
    """

    def __init__(self, ctx: Context, node: ast.Call, name: str, params: str, required: int) -> None:
        self.ctx, self.name, self.node = ctx, name, node
        self._built: dict[str, Operand] = {}
        self.given = plain.arguments(node, name, params.split(), required)
        if "storage" in self.given:
            self.word("storage", STORAGE)

    def has(self, param: str) -> bool:
        """Return whether ``param`` is given."""
        return param in self.given

    def __getitem__(self, param: str) -> ast.expr:
        return self.given[param]

    def reference(self, param: str) -> Operand:
        """Return an argument; a part of a variable's tile stays that."""
        if param not in self._built:
            self._built[param] = self.ctx.reference(self[param])
        return self._built[param]

    def preset(self, param: str, operand: Operand | None) -> None:
        """Let ``param`` be what it has been built as already."""
        if operand is not None:
            self._built[param] = operand

    def view(self, param: str) -> TileView | None:
        """Return the part of a variable's tile that an argument is; None for another value."""
        return as_view(self.ctx, self.reference(param), self[param])

    def tile(self, param: str) -> Value:
        """Return a tile.

        Raises:
            WarpCodegenTypeError: It is something else.
        """
        operand = self.reference(param)
        if isinstance(operand, TileView):
            with self.ctx.at(self[param]):
                operand = operand.read(self.ctx.b, self.ctx.viewed(operand))
        return require_tile(self.ctx, operand, self[param], f"`{param}` of {self.name}()")

    def array(self, param: str) -> Value:
        """Return an array."""
        operand = self.ctx.expr(self[param])
        if not isinstance(operand, Value) or not isinstance(operand.type, Array):
            with self.ctx.at(self[param]):
                raise WarpCodegenTypeError(f"`{param}` of {self.name}() is an array, got {describe(operand)}")
        return operand

    def shape(self, param: str = "shape", most: int = MOST_DIMENSIONS) -> tuple[int, ...]:
        """Return a shape, known when the kernel is compiled: a number, or a tuple of them."""
        return constant_shape(self.ctx, self[param], f"the {param} of {self.name}()", most)

    def dtype(self, default: Type = float32, param: str = "dtype") -> Type:
        """Return the type of elements."""
        if not self.has(param):
            return default
        t = plain.type_argument(self.ctx, self[param], f"the {param} of {self.name}()")
        return require_element(self.ctx, t, self[param])

    def flag(self, param: str, default: bool) -> bool:
        """Return an option that is a constant."""
        if not self.has(param):
            return default
        operand = self.ctx.expr(self[param])
        if not isinstance(operand, Literal):
            with self.ctx.at(self[param]):
                raise WarpCodegenTypeError(f"`{param}` of {self.name}() is a constant, got {describe(operand)}")
        return bool(operand.value)

    def word(self, param: str, words: Sequence[str]) -> str:
        """Return an option that is one of ``words``, the first where it is left out."""
        if not self.has(param):
            return words[0]
        operand = self.ctx.expr(self[param])
        if not isinstance(operand, Host) or operand.obj not in words:
            with self.ctx.at(self[param]):
                *first, last = (f'"{w}"' for w in words)
                shown = f"{', '.join(first)} or {last}"
                raise WarpCodegenValueError(f"`{param}` of {self.name}() is {shown}, got {describe(operand)}")
        return str(operand.obj)

    def offset(self, ndim: int, param: str = "offset") -> list[Value]:
        """Return where a tile begins in an array of ``ndim`` dimensions: the start where it is left out."""
        if not self.has(param):
            return [self.ctx.b.index(0)] * ndim
        return offsets(self.ctx, self[param], f"the {param} of {self.name}()", ndim)

    def axis(self, ndim: int, param: str = "axis", default: int | None = None) -> int:
        """Return a constant axis of ``ndim``; negative ones count from the end."""
        if not self.has(param) and default is not None:
            return default
        return constant_axis(self.ctx, self[param], ndim, f"the {param} of {self.name}()")


def require_element(ctx: Context, t: Type, node: ast.expr) -> Type:
    """Return ``t``, as the type of a tile's elements.

    Raises:
        WarpCodegenTypeError: Tiles have no such elements.
    """
    if isinstance(t, Tile) or holds_arrays(t) or (scalar_of(t) is None and not isinstance(t, Struct)):
        with ctx.at(node):
            raise WarpCodegenTypeError(
                f"a tile has numbers, vectors, matrices or structs of these as elements, got {with_article(str(t))}",
                help="one tile for each field that is no array" if isinstance(t, Struct) else None,
            )
    return t


def require_tile(ctx: Context, operand: Operand, node: ast.expr, what: str) -> Value:
    """Return ``operand`` if it is a tile.

    Raises:
        WarpCodegenTypeError: It is something else.
    """
    if not isinstance(operand, Value) or not isinstance(operand.type, Tile):
        with ctx.at(node):
            help = (
                "wp.tile_load(a, shape=...)" if isinstance(operand, Value) and isinstance(operand.type, Array) else None
            )
            raise WarpCodegenTypeError(f"{what} is a tile, got {_given(operand)}", help=help)
    return operand


def _given(operand: Operand) -> str:
    return with_article(describe(operand)) if isinstance(operand, Value) else describe(operand)


def members(ctx: Context, node: ast.expr) -> list[Operand]:
    """Return the members of a tuple, or what is given alone."""
    operand = ctx.expr(node)
    if isinstance(operand, Host) and isinstance(operand.obj, (tuple, list)):
        return [Literal(n) if type(n) is int else Host(n, repr(n)) for n in operand.obj]
    return list(operand) if isinstance(operand, tuple) else [operand]


def constant_shape(ctx: Context, node: ast.expr, what: str, most: int = MOST_DIMENSIONS) -> tuple[int, ...]:
    """Return a shape that is known when the kernel is compiled.

    Raises:
        WarpCodegenTypeError: It is not, or an extent is not positive.
        WarpCodegenValueError: It has too many dimensions or elements.
    """
    parts = members(ctx, node)
    known = [known_index(p) if isinstance(p, (Value, Literal)) else None for p in parts]
    with ctx.at(node):
        if not 1 <= len(known) <= most:
            raise WarpCodegenValueError(f"a tile has 1 to {most} dimensions, got {len(known)}")
        for part, n in zip(parts, known, strict=True):
            if n is None or n < 1:
                raise WarpCodegenTypeError(
                    f"{what} is made of positive constants, got {describe(part)}",
                    help="wp.constant(64), a number of the module or wp.static(...) is one",
                )
        shape = tuple(n for n in known if n is not None)
        if math.prod(shape) > MOST_ELEMENTS:
            raise WarpCodegenValueError(f"a tile has at most {MOST_ELEMENTS} elements, got {math.prod(shape)}")
    return shape


def constant_axis(ctx: Context, node: ast.expr, ndim: int, what: str) -> int:
    """Return an axis that is known when the kernel is compiled."""
    operand = ctx.expr(node)
    known = known_index(operand) if isinstance(operand, (Value, Literal)) else None
    with ctx.at(node):
        if known is None or not -ndim <= known < ndim:
            raise WarpCodegenTypeError(f"{what} is a constant from {-ndim} to {ndim - 1}, got {describe(operand)}")
    return known % ndim


def offsets(ctx: Context, node: ast.expr, what: str, ndim: int) -> list[Value]:
    """Return a place in ``ndim`` dimensions: integers, known or not."""
    parts = members(ctx, node)
    with ctx.at(node):
        if len(parts) != ndim:
            raise WarpCodegenTypeError(f"{what} has {ndim} numbers, one for each dimension, got {len(parts)}")
        found = [ctx.settle(p) for p in parts]
        for v in found:
            if not isinstance(v.type, Scalar) or not v.type.is_int:
                raise WarpCodegenTypeError(f"{what} is made of integers, got {with_article(str(v.type))}")
    return found


def require_same_shape(ctx: Context, node: ast.expr, name: str, *tiles: Value) -> None:
    """Raise unless tiles have one shape."""
    shapes = [tile_type(t).shape for t in tiles]
    if any(s != shapes[0] for s in shapes):
        with ctx.at(node):
            shown = " and ".join(str(s) for s in dict.fromkeys(shapes))
            raise WarpCodegenTypeError(f"{name}() takes tiles of one shape, got {shown}")


def as_view(ctx: Context, operand: Operand, node: ast.expr) -> TileView | None:
    """Return the part of a variable's tile that ``operand`` is, the whole for a variable; None for another value.

    ``node`` is its syntax.
    """
    if isinstance(operand, TileView):
        return operand
    if isinstance(node, ast.Name) and isinstance(operand, Value) and isinstance(operand.type, Tile):
        return whole_view(ctx, node.id, operand.type)
    return None


def whole_view(ctx: Context, name: str, t: Tile) -> TileView:
    """Return the whole tile in a variable, as a view."""
    view = TileView(name, t.shape, t.dtype, lambda b, at: at, name, len(ctx.loops))
    view.is_whole = True
    return view


__all__ = [
    "MOST_ELEMENTS",
    "Arguments", "as_view", "constant_axis", "constant_shape", "members", "offsets", "require_element",
    "require_same_shape", "require_tile", "whole_view",
]  # fmt: skip
