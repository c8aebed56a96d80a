"""Linear algebra on tiles: the rows behind what the frontend builds.

Derivatives: of the Cholesky factor after Murray, "Differentiation of the Cholesky decomposition" (arXiv:1602.07527); of
solves by solves with the transposed matrix, after Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008).
"""

from __future__ import annotations

from collections.abc import Callable

from warp_like.builtins.device import tiles as device
from warp_like.builtins.emit import Emitter
from warp_like.builtins.patterns import S, TileOf, W
from warp_like.builtins.spec import Adjoint, Adjoints, Expand, Inline, Lowering, declare_row
from warp_like.builtins.tiles import GROUP, tabulated, tile_type
from warp_like.ir.core import Value
from warp_like.ir.types import Tile

SQUARE = TileOf(("N", "N"), W)
COLUMNS = TileOf(("N", "K"), W)


def _row(name: str, lower: Lowering, params: dict[str, TileOf], result: TileOf, doc: str, adjoint: Adjoint) -> None:
    declare_row(name, lower, params, result, group=GROUP, doc=doc, adjoint=adjoint)


# --- triangles ------------------------------------------------------------------------------------------------


def _triangle(lower: bool) -> Callable[[Emitter, Value], Value]:
    def body(b: Emitter, x: Value) -> Value:
        t = tile_type(x)

        def element(at: tuple[Value, ...]) -> Value:
            kept = b.ge(*at) if lower else b.le(*at)
            return b.select(kept, b.extract(x, *at), b.zero(t.dtype))

        return tabulated(b, t, element)

    return body


for _name, _lower in (("_tile_lower", True), ("_tile_upper", False)):
    _row(
        _name,
        Expand(_triangle(_lower)),
        {"a": SQUARE},
        SQUARE,
        "Return a matrix with zeros on one side of the diagonal.",
        lambda b, g, out, x, name=_name: b.apply(name, g),
    )


# --- Cholesky -------------------------------------------------------------------------------------------------


def _half_lower(b: Emitter, x: Value) -> Value:
    """The lower triangle, with half the diagonal."""
    t = tile_type(x)

    def element(at: tuple[Value, ...]) -> Value:
        y = b.extract(x, *at)
        below = b.select(b.gt(*at), y, b.zero(t.dtype))
        return b.select(b.eq(*at), b.mul(y, 0.5), below)

    return tabulated(b, t, element)


def _folded(b: Emitter, x: Value) -> Value:
    """The lower triangle of ``x + x^T``, and the diagonal of ``x``."""
    t = tile_type(x)

    def element(at: tuple[Value, ...]) -> Value:
        y = b.extract(x, *at)
        both = b.add(y, b.extract(x, at[1], at[0]))
        return b.select(b.eq(*at), y, b.select(b.gt(*at), both, b.zero(t.dtype)))

    return tabulated(b, t, element)


def _transposed(b: Emitter, x: Value) -> Value:
    t = tile_type(x)
    return tabulated(b, Tile(t.shape[::-1], t.dtype), lambda at: b.extract(x, at[1], at[0]))


def _cholesky_adjoint(b: Emitter, g: Value, out: Value, x: Value) -> Adjoints:
    inner = b.apply("_tile_half_lower", b.apply("_tile_product_tn", out, b.apply("_tile_lower", g)))
    left = b.apply("_tile_lower_solve_t", out, inner)
    turned = b.apply("_tile_lower_solve_t", out, b.apply("_tile_transposed", left))
    made: Value = b.apply("_tile_folded", b.apply("_tile_transposed", turned))
    return made


_row(
    "_tile_half_lower",
    Expand(_half_lower),
    {"a": SQUARE},
    SQUARE,
    "Return the lower triangle with half the diagonal.",
    lambda b, g, out, x: b.apply("_tile_half_lower", g),
)
_row("_tile_folded", Expand(_folded), {"a": SQUARE}, SQUARE, "Return the lower triangle of ``a + a^T``.", None)
_row(
    "_tile_transposed",
    Expand(_transposed),
    {"a": TileOf(("N", "K"), S)},
    TileOf(("K", "N"), S),
    "Return the transposed matrix.",
    lambda b, g, out, x: b.apply("_tile_transposed", g),
)
_row(
    "_tile_cholesky",
    Inline(device.cholesky),
    {"a": SQUARE},
    SQUARE,
    "Return the lower Cholesky factor.",
    _cholesky_adjoint,
)


# --- triangular solves ----------------------------------------------------------------------------------------


def _declare_solve(name: str, opposite: str, function: Callable[..., object], triangle: str, *, turned: bool) -> None:
    def adjoint(b: Emitter, g: Value, out: Value, m: Value, y: Value) -> Adjoints:
        gy = b.apply(opposite, m, g)
        gm = b.apply("_tile_product_nt", out, gy) if turned else b.apply("_tile_product_nt", gy, out)
        return b.neg(b.apply(triangle, gm)), gy

    _row(name, Inline(function), {"m": SQUARE, "y": COLUMNS}, COLUMNS, "Solve a triangular system.", adjoint)


_declare_solve("_tile_lower_solve", "_tile_lower_solve_t", device.lower_solve, "_tile_lower", turned=False)
_declare_solve("_tile_lower_solve_t", "_tile_lower_solve", device.lower_solve_transposed, "_tile_lower", turned=True)
_declare_solve("_tile_upper_solve", "_tile_upper_solve_t", device.upper_solve, "_tile_upper", turned=False)
_declare_solve("_tile_upper_solve_t", "_tile_upper_solve", device.upper_solve_transposed, "_tile_upper", turned=True)
