"""Linear algebra on tiles and Fourier transforms: the rows behind what the frontend builds.

Derivatives: of the Cholesky factor after Murray, "Differentiation of the Cholesky decomposition" (arXiv:1602.07527); of
solves by solves with the transposed matrix, after Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from warp_like.builtins.device import tiles as device
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import counted
from warp_like.builtins.patterns import F, S, TileOf, VecOf, W
from warp_like.builtins.spec import Adjoint, Adjoints, Expand, Inline, Lowering, declare_row
from warp_like.builtins.tiles import GROUP, at_number, tabulated, tile_type
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Tile, Vec, float64

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


# --- Fourier transforms ---------------------------------------------------------------------------------------


def _factors(n: int) -> list[int]:
    """The prime factors of ``n``, fours in place of two twos."""
    found, p = [], 2
    while n > 1:
        if n % 4 == 0:
            found.append(4)
            n //= 4
        elif n % p == 0:
            found.append(p)
            n //= p
        else:
            p += 1
    return found


def _fft(sign: float) -> Callable[[Emitter, Value], Value]:
    """The transform along the last dimension, by Stockham's algorithm; the radices are the factors of its length."""

    def body(b: Emitter, x: Value) -> Value:
        t = tile_type(x)
        *outer, n = t.shape
        rows = math.prod(outer)
        line, pair = Tile((n,), t.dtype), t.dtype
        assert isinstance(pair, Vec)
        turns = _turns(b, n, sign, pair)
        stages = _factors(n)

        def row(r: Value, made: Value) -> list[Value]:
            where = at_number(b, Tile(tuple(outer), pair), r)
            data, at = x, where
            done = 1
            for number, radix in enumerate(stages):
                last = number == len(stages) - 1
                out, to = (made, where) if last else (b.insert(ops.Empty(), line).result, ())
                data, at = _stage(b, (data, at), (out, to), turns, sign, radix, done), to
                done *= radix
            return [data if stages else b.insert_component(made, b.extract(x, *where, 0), *where, 0)]

        return counted(b, 0, rows, [b.insert(ops.Empty(), t).result], row)[0]

    return body


_Line = tuple[Value, tuple[Value, ...]]
"""A tile, and the indices of a row of it: none where it is one."""
LARGEST_UNROLLED = 13
"""The largest radix with code for each number. That of larger ones, which grows with the square, is loops."""
SHORT = 4
"""The places from which on neighbours are joined in vectors, rather than elements that lie apart."""


def _turns(b: Emitter, n: int, sign: float, pair: Vec) -> Value:
    """The ``n``-th roots of one, computed in float64: each the product of two of a few that take sines."""
    few = max(k for k in range(1, math.isqrt(n) + 1) if n % k == 0)
    wide = Vec(2, float64)

    def roots(count: int, step: int) -> Value:
        def root(at: tuple[Value, ...]) -> Value:
            angle = b.mul(b.cast(at[0], float64), sign * 2.0 * math.pi * step / n)
            return b.make(wide, [b.cos(angle), b.sin(angle)])

        return tabulated(b, Tile((count,), wide), root)

    coarse, fine = roots(n // few, few), roots(few, 1)

    def block(i: Value, made: Value) -> list[Value]:
        z = b.extract(coarse, i)

        def put(j: Value, made: Value) -> list[Value]:
            parts = [b.cast(x, pair.dtype) for x in b.components(_times(b, z, b.extract(fine, j)))]
            return [b.insert_component(made, b.make(pair, parts), b.add(b.mul(i, few), j))]

        return counted(b, 0, few, [made], put)

    return counted(b, 0, n // few, [b.insert(ops.Empty(), Tile((n,), pair)).result], block)[0]


def _stage(b: Emitter, source: _Line, target: _Line, turns: Value, sign: float, radix: int, done: int) -> Value:
    """Join ``radix`` transforms of length ``done`` each, at all places; return what ``target`` is then."""
    (data, at), (out, to) = source, target
    (n,) = tile_type(turns).shape
    length, count = done * radix, n // (done * radix)

    def place(i: Value, k: Value, made: Value) -> list[Value]:
        """Element ``k`` of the transforms at place ``i``: of stride ``count``."""

        def part(q: Value | int) -> Value:
            z = b.extract(data, *at, b.add(b.mul(b.add(b.mul(k, radix), q), count), i))
            turned = done > 1 and not (isinstance(q, int) and q == 0)
            return _times(b, z, b.extract(turns, b.mul(b.mul(k, q), n // length))) if turned else z

        def put(made: Value, q: Value | int, total: Value) -> Value:
            return b.insert_component(made, total, *to, b.add(b.mul(b.add(k, b.mul(done, q)), count), i))

        if radix > LARGEST_UNROLLED:
            return [_joined_by_loops(b, part, put, turns, radix, made)]
        for q, total in enumerate(_joined(b, [part(q) for q in range(radix)], turns, sign)):
            made = put(made, q, total)
        return [made]

    if count < SHORT and count < done:
        return counted(b, 0, count, [out], lambda i, made: counted(b, 0, done, [made], lambda k, m: place(i, k, m)))[0]
    return counted(b, 0, done, [out], lambda k, made: counted(b, 0, count, [made], lambda i, m: place(i, k, m)))[0]


def _joined(b: Emitter, parts: list[Value], turns: Value, sign: float) -> list[Value]:
    """The Fourier transform of a few numbers."""
    if len(parts) == 2:
        return [b.add(*parts), b.sub(*parts)]
    if len(parts) == 4:
        even, odd = (
            (b.add(parts[0], parts[2]), b.sub(parts[0], parts[2])),
            (b.add(parts[1], parts[3]), b.sub(parts[1], parts[3])),
        )
        x, y = b.components(odd[1])
        quarter = b.make(parts[0].type, [b.neg(y), x] if sign > 0 else [y, b.neg(x)])
        return [b.add(even[0], odd[0]), b.add(even[1], quarter), b.sub(even[0], odd[0]), b.sub(even[1], quarter)]
    half, step = len(parts) // 2, tile_type(turns).shape[0] // len(parts)
    made = [functools.reduce(b.add, parts)]
    sums = [b.add(parts[p], parts[-p]) for p in range(1, half + 1)]
    differences = [b.sub(parts[p], parts[-p]) for p in range(1, half + 1)]
    for q in range(1, half + 1):
        roots = [b.components(b.extract(turns, p * q % len(parts) * step)) for p in range(1, half + 1)]
        cosines = [b.mul(cosine, x) for (cosine, _), x in zip(roots, sums, strict=True)]
        sines = [b.mul(sine, x) for (_, sine), x in zip(roots, differences, strict=True)]
        made[q:q] = _ends(b, functools.reduce(b.add, cosines, parts[0]), functools.reduce(b.add, sines))
    return made


def _joined_by_loops(
    b: Emitter,
    part: Callable[[Value | int], Value],
    put: Callable[[Value, Value | int, Value], Value],
    turns: Value,
    radix: int,
    made: Value,
) -> Value:
    """Put the Fourier transform of ``radix`` numbers, an odd number of them, into ``made``."""
    pair, (n,) = tile_type(turns).dtype, tile_type(turns).shape
    half, first = radix // 2, part(0)
    side = Tile((half,), pair)

    def fold(p: Value, sums: Value, differences: Value, total: Value) -> list[Value]:
        x, y = part(b.add(p, 1)), part(b.sub(radix - 1, p))
        both = b.add(x, y)
        return [b.insert_component(sums, both, p), b.insert_component(differences, b.sub(x, y), p), b.add(total, both)]

    begun = [b.insert(ops.Empty(), side).result, b.insert(ops.Empty(), side).result, first]
    sums, differences, total = counted(b, 0, half, begun, fold)

    def ends(q: Value, made: Value) -> list[Value]:
        def add(p: Value, even: Value, odd: Value, at: Value) -> list[Value]:
            at = b.mod(b.add(at, q), radix)  # (p + 1) * q
            cosine, sine = b.components(b.extract(turns, b.mul(at, n // radix)))
            even = b.add(even, b.mul(cosine, b.extract(sums, p)))
            return [even, b.add(odd, b.mul(sine, b.extract(differences, p))), at]

        even, odd, _ = counted(b, 0, half, [first, b.constant(0, pair), b.index(0)], add)
        low, high = _ends(b, even, odd)
        return [put(put(made, q, low), b.sub(radix, q), high)]

    return counted(b, 1, half + 1, [put(made, 0, total)], ends)[0]


def _ends(b: Emitter, even: Value, odd: Value) -> list[Value]:
    """Elements ``q`` and ``-q`` of a transform of odd length: ``even + i odd`` and ``even - i odd``.

    They are sums over ``p`` of ``x[p] w + x[-p] conj(w)``: those of cosines times ``x[p] + x[-p]``, and of sines times
    ``x[p] - x[-p]``.
    """
    x, y = b.components(odd)
    turned = b.make(odd.type, [b.neg(y), x])
    return [b.add(even, turned), b.sub(even, turned)]


def _times(b: Emitter, x: Value, y: Value) -> Value:
    (a, c), (d, e) = b.components(x), b.components(y)
    real = b.sub(b.mul(a, d), b.mul(c, e))
    return b.make(x.type, [real, b.add(b.mul(a, e), b.mul(c, d))])


COMPLEX = TileOf("shape", VecOf(2, F))
for _name, _other, _sign in (("_tile_fft", "_tile_ifft", -1.0), ("_tile_ifft", "_tile_fft", 1.0)):
    _row(
        _name,
        Expand(_fft(_sign)),
        {"x": COMPLEX},
        COMPLEX,
        "Return the Fourier transform along the last dimension, without scaling.",
        lambda b, g, out, x, other=_other: b.apply(other, g),
    )
