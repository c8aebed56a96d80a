"""Fourier transforms on tiles, by Stockham's algorithm: the rows behind what the frontend builds.

A stage joins ``radix`` transforms of length ``done`` each into longer ones, at ``count`` places side by side. Its inner
loop goes over the places where there are enough of them, else over the elements of the transforms, and runs in lanes
(``For.simd``): all loads and stores are of neighbours, but those of the last stage, whose lanes go along rows of
``radix`` numbers each (``passes/spmd/consecutive.py``). Between stages, real and imaginary parts lie apart. The radices
are factors of the length: 16 and less where these are powers of two, written out (``_joined``).

The roots of one of a stage are constants, in the order in which its lanes need them.
"""

from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Callable, Sequence

from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import counted
from warp_like.builtins.patterns import F, TileOf, VecOf
from warp_like.builtins.spec import Expand, declare_row
from warp_like.builtins.tiles import GROUP, at_number, tabulated, tile_type
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import MOST_IN_REGISTERS, Scalar, Tile, Vec, float64

LARGEST_UNROLLED = 13
"""The largest odd radix with code for each number. That of larger ones, which grows with the square, is loops."""
LANES = 8
"""The places from which on neighbours are joined in vectors, rather than elements that lie apart."""
MOST_TABULATED = 1 << 15
"""The most roots of one that are constants of the code; those of longer transforms are computed by the kernel."""

Complex = tuple[Value, Value]
Number = Value | int
Read = Callable[[Value], Complex]
"""Gives the number at a place."""
Put = Callable[[Sequence[Value], Value, Complex], list[Value]]
"""Puts a number at a place of tiles; returns what these are then."""


# --- the plan -------------------------------------------------------------------------------------------------


def radices(n: int) -> list[int]:
    """Return the lengths that the stages join, the first one first: their product is ``n``.

    Powers of two come last. The last radix is at most as large as there are places for its lanes.
    """
    odd, twos = n, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    found, p = [], 3
    while odd > 1:
        while odd % p == 0:
            found.append(p)
            odd //= p
        p += 2
    found.sort(reverse=True)  # a long loop is simplest where nothing has been joined yet
    if odd == n == 1:
        return []
    if n == 1 << twos and twos <= 4:
        return [n]
    last = min(twos, 4)
    while last > 1 and 1 << 2 * last > n:
        last -= 1
    rest = twos - last
    stages = -(-rest // 4)
    found += [1 << (rest + k) // stages for k in reversed(range(stages))]
    return [*found, 1 << last] if last else found


def _root(numerator: int, length: int, sign: float) -> complex:
    """A root of one."""
    return cmath.exp(sign * 2j * math.pi * (numerator % length) / length)


class _Roots:
    """The roots of one that the stages multiply by.

    A stage that makes transforms of length ``l`` has the powers ``k q`` of the ``l``-th root: ``q`` is from 1 to before
    its radix, and ``k`` an element of a transform that it joins.
    """

    def __init__(self, b: Emitter, n: int, sign: float, t: Scalar) -> None:
        self.b, self.n, self.sign, self.type = b, n, sign, t
        self.of_stage: dict[int, int] = {}
        self.of_radix: dict[int, int] = {}
        self.numbers: list[complex] = []
        done, stages = 1, radices(n)
        for radix in stages:
            if done > 1:
                self.of_stage[done] = len(self.numbers)
                length = done * radix
                if self._fits(length):
                    self.numbers += [_root(k * q, length, sign) for q in range(1, radix) for k in range(done)]
            done *= radix
        for radix in {r for r in stages if r > LARGEST_UNROLLED and r % 2}:
            self.of_radix[radix] = len(self.numbers)
            self.numbers += [_root(k, radix, sign) for k in range(radix)]
        self.table = self._constant() if self.numbers else None
        self.computed = None if self._fits(n) else _computed(b, n, sign, t)

    def _fits(self, length: int) -> bool:
        return length <= MOST_TABULATED

    def _constant(self) -> Value:
        """The real parts, then the imaginary ones; so many that they are for memory."""
        flat = [z.real for z in self.numbers] + [z.imag for z in self.numbers]
        flat += [0.0] * (MOST_IN_REGISTERS + 1 - len(flat))
        return self.b.constant(tuple(flat), Vec(len(flat), self.type))

    def _at(self, place: Value) -> Complex:
        assert self.table is not None
        other = self.b.add(place, len(self.numbers))
        return self.b.extract(self.table, place), self.b.extract(self.table, other)

    def turn(self, z: Complex, q: Number, k: Value, done: int, radix: int) -> Complex:
        """``z`` times the power ``k q``."""
        b, length = self.b, done * radix
        if not self._fits(length):
            assert self.computed is not None
            x, y = b.components(b.extract(self.computed, b.mul(b.mul(k, q), self.n // length)))
            return times(b, z, (x, y))
        first: Number = (q - 1) * done if isinstance(q, int) else b.mul(b.sub(q, 1), done)
        return times(b, z, self._at(b.add(b.add(k, first), self.of_stage[done])))

    def of(self, radix: int, k: Value) -> Complex:
        """The power ``k`` of the root of order ``radix``, which is joined by loops."""
        return self._at(self.b.add(k, self.of_radix[radix]))


def _computed(b: Emitter, n: int, sign: float, t: Scalar) -> Value:
    """The ``n``-th roots of one, computed in float64: each the product of two of a few that take sines."""
    few = max(k for k in range(1, math.isqrt(n) + 1) if n % k == 0)
    wide, pair = Vec(2, float64), Vec(2, t)

    def roots(count: int, step: int) -> Value:
        def root(at: tuple[Value, ...]) -> Value:
            angle = b.mul(b.cast(at[0], float64), sign * 2.0 * math.pi * step / n)
            return b.make(wide, [b.cos(angle), b.sin(angle)])

        return tabulated(b, Tile((count,), wide), root)

    coarse, fine = roots(n // few, few), roots(few, 1)

    def block(i: Value, made: Value) -> list[Value]:
        x, y = b.components(b.extract(coarse, i))

        def put(j: Value, made: Value) -> list[Value]:
            u, v = b.components(b.extract(fine, j))
            parts = [b.cast(z, t) for z in times(b, (x, y), (u, v))]
            return [b.insert_component(made, b.make(pair, parts), b.add(b.mul(i, few), j))]

        return counted(b, 0, few, [made], put)

    return counted(b, 0, n // few, [b.insert(ops.Empty(), Tile((n,), pair)).result], block)[0]


# --- the transform --------------------------------------------------------------------------------------------


def _fft(sign: float) -> Callable[[Emitter, Value], Value]:
    """The transform along the last dimension."""

    def body(b: Emitter, x: Value) -> Value:
        t = tile_type(x)
        *outer, n = t.shape
        pair = t.dtype
        assert isinstance(pair, Vec)
        assert isinstance(pair.dtype, Scalar)
        stages, roots = radices(n), _Roots(b, n, sign, pair.dtype)
        line = Tile((n,), pair.dtype)

        def row(r: Value, made: Value) -> list[Value]:
            where = at_number(b, Tile(tuple(outer), pair), r)

            def first(place: Value) -> Complex:
                re, im = b.components(b.extract(x, *where, place))
                return re, im

            def put_last(tiles: Sequence[Value], place: Value, z: Complex) -> list[Value]:
                return [b.insert_component(tiles[0], b.make(pair, z), *where, place)]

            read, done = first, 1
            for radix in stages:
                if done * radix == n:
                    return _stage(b, read, [made], put_last, roots, radix, done)
                empty = [b.insert(ops.Empty(), line).result for _ in range(2)]
                parts = _stage(b, read, empty, functools.partial(_put_apart, b), roots, radix, done)
                read, done = functools.partial(_read_apart, b, parts), done * radix
            return put_last([made], b.index(0), first(b.index(0)))

        return _repeated(b, math.prod(outer), [b.insert(ops.Empty(), t).result], row)[0]

    return body


def _read_apart(b: Emitter, parts: Sequence[Value], place: Value) -> Complex:
    return b.extract(parts[0], place), b.extract(parts[1], place)


def _put_apart(b: Emitter, tiles: Sequence[Value], place: Value, z: Complex) -> list[Value]:
    return [b.insert_component(tile, x, place) for tile, x in zip(tiles, z, strict=True)]


def _stage(
    b: Emitter, read: Read, tiles: Sequence[Value], put: Put, roots: _Roots, radix: int, done: int
) -> list[Value]:
    """Join ``radix`` transforms of length ``done`` each, at all places; return what ``tiles`` are then."""
    count = roots.n // (done * radix)

    def at(i: Value, k: Value, tiles: Sequence[Value]) -> list[Value]:
        """Element ``k`` of the transforms at place ``i``: of stride ``count``."""

        def part(q: Number) -> Complex:
            z = read(b.add(b.mul(b.add(b.mul(k, radix), q), count), i))
            return roots.turn(z, q, k, done, radix) if done > 1 and q != 0 else z

        def place(q: Number) -> Value:
            return b.add(b.mul(b.add(k, b.mul(q, done) if isinstance(q, Value) else q * done), count), i)

        if radix > LARGEST_UNROLLED and radix % 2:
            return _joined_by_loops(b, part, lambda tiles, q, z: put(tiles, place(q), z), roots, radix, tiles)
        made = list(tiles)
        for q, z in enumerate(_joined(b, [part(q) for q in range(radix)], roots.sign)):
            made = put(made, place(q), z)
        return made

    over_places = count >= LANES or count >= done
    trips = (done, count) if over_places else (count, done)

    def outer(x: Value, *tiles: Value) -> list[Value]:
        def inner(y: Value, *tiles: Value) -> list[Value]:
            return at(y, x, tiles) if over_places else at(x, y, tiles)

        return _repeated(b, trips[1], tiles, inner, simd=trips[1] >= LANES)

    return _repeated(b, trips[0], tiles, outer)


def _repeated(
    b: Emitter, trips: int, init: Sequence[Value], body: Callable[..., list[Value]], *, simd: bool = False
) -> list[Value]:
    """Count up to ``trips``, as ``counted`` does, but without a loop where that is 1."""
    return body(b.index(0), *init) if trips == 1 else counted(b, 0, trips, init, body, simd=simd)


# --- a few numbers --------------------------------------------------------------------------------------------


def _joined(b: Emitter, z: Sequence[Complex], sign: float) -> list[Complex]:
    """The Fourier transform of a few numbers."""
    match len(z):
        case 1:
            return list(z)
        case 2:
            return [_add(b, *z), _sub(b, *z)]
        case 4:
            even, other = _add(b, z[0], z[2]), _sub(b, z[0], z[2])
            odd, turned = _add(b, z[1], z[3]), _quarter(_sub(b, z[1], z[3]))
            ends = (_add_turned(b, other, turned), _sub_turned(b, other, turned))
            low, high = ends if sign > 0 else ends[::-1]
            return [_add(b, even, odd), low, _sub(b, even, odd), high]
        case 8 | 16 as n:
            return _joined_in_fours(b, z, n // 4, sign)
    return _joined_odd(b, z, sign)


def _quarter(z: Complex) -> Complex:
    """The parts that ``i z`` has, the first one still to be negated."""
    return z[1], z[0]


def _add_turned(b: Emitter, z: Complex, turned: Complex) -> Complex:
    return b.sub(z[0], turned[0]), b.add(z[1], turned[1])


def _sub_turned(b: Emitter, z: Complex, turned: Complex) -> Complex:
    return b.add(z[0], turned[0]), b.sub(z[1], turned[1])


def _joined_in_fours(b: Emitter, z: Sequence[Complex], others: int, sign: float) -> list[Complex]:
    """The transform of ``4 * others`` numbers: transforms of four, turned, then transforms of ``others``."""
    n = len(z)
    fours = [_joined(b, z[j::others], sign) for j in range(others)]
    made: list[Complex] = [z[0]] * n
    for q in range(4):
        column = [_turned_by(b, fours[j][q], j * q, n, sign) for j in range(others)]
        made[q::4] = _joined(b, column, sign)
    return made


def _turned_by(b: Emitter, z: Complex, numerator: int, n: int, sign: float) -> Complex:
    """``z`` times a root of one of order 8 or 16."""
    if numerator == 0:
        return z
    root = _root(numerator, n, sign)
    eighths = 8 * numerator // n if 8 * numerator % n == 0 else 0
    if eighths % 4 == 2:
        return (b.neg(z[1]), z[0]) if root.imag > 0 else (z[1], b.neg(z[0]))
    if eighths % 2:  # (a + b i) (1 + i) = (a - b) + (a + b) i, and the like
        total, difference = b.add(*z), b.sub(*z)
        pair = (difference, total) if root.real * root.imag > 0 else (total, b.sub(z[1], z[0]))
        return b.mul(pair[0], root.real), b.mul(pair[1], root.real)
    return times(b, z, (b.constant(root.real, z[0].type), b.constant(root.imag, z[0].type)))


def _joined_odd(b: Emitter, z: Sequence[Complex], sign: float) -> list[Complex]:
    """The transform of an odd number of numbers."""
    n, half = len(z), len(z) // 2
    made = [functools.reduce(functools.partial(_add, b), z)]
    sums = [_add(b, z[p], z[-p]) for p in range(1, half + 1)]
    differences = [_sub(b, z[p], z[-p]) for p in range(1, half + 1)]
    for q in range(1, half + 1):
        roots = [_root(p * q, n, sign) for p in range(1, half + 1)]
        cosines = [_scaled(b, s, root.real) for root, s in zip(roots, sums, strict=True)]
        sines = [_scaled(b, d, root.imag) for root, d in zip(roots, differences, strict=True)]
        even = functools.reduce(functools.partial(_add, b), cosines, z[0])
        made[q:q] = _ends(b, even, functools.reduce(functools.partial(_add, b), sines))
    return made


def _joined_by_loops(
    b: Emitter,
    part: Callable[[Number], Complex],
    put: Callable[[Sequence[Value], Number, Complex], list[Value]],
    roots: _Roots,
    radix: int,
    tiles: Sequence[Value],
) -> list[Value]:
    """Put the Fourier transform of ``radix`` numbers, an odd number of them, into ``tiles``."""
    half, first = radix // 2, part(0)
    side = Tile((half,), first[0].type)

    def fold(p: Value, *carried: Value) -> list[Value]:
        *folded, re, im = carried
        x, y = part(b.add(p, 1)), part(b.sub(radix - 1, p))
        both = _add(b, x, y)
        new = zip(folded, (*both, *_sub(b, x, y)), strict=True)
        return [*(b.insert_component(tile, v, p) for tile, v in new), *_add(b, (re, im), both)]

    begun = [b.insert(ops.Empty(), side).result for _ in range(4)]
    *folded, re, im = counted(b, 0, half, [*begun, *first], fold)

    def ends(q: Value, *tiles: Value) -> list[Value]:
        def add(p: Value, *carried: Value) -> list[Value]:
            *sums, at = carried
            at = b.mod(b.add(at, q), radix)  # (p + 1) * q
            cosine, sine = roots.of(radix, at)
            factors = (cosine, cosine, sine, sine)
            terms = [b.mul(f, b.extract(tile, p)) for f, tile in zip(factors, folded, strict=True)]
            return [*(b.add(s, term) for s, term in zip(sums, terms, strict=True)), at]

        zero = b.zero(first[0].type)
        *sums, _ = counted(b, 0, half, [*first, zero, zero, b.index(0)], add)
        low, high = _ends(b, (sums[0], sums[1]), (sums[2], sums[3]))
        return put(put(tiles, q, low), b.sub(radix, q), high)

    return counted(b, 1, half + 1, put(tiles, 0, (re, im)), ends)


def _ends(b: Emitter, even: Complex, odd: Complex) -> list[Complex]:
    """Elements ``q`` and ``-q`` of a transform of odd length: ``even + i odd`` and ``even - i odd``.

    They are sums over ``p`` of ``x[p] w + x[-p] conj(w)``: those of cosines times ``x[p] + x[-p]``, and of sines times
    ``x[p] - x[-p]``.
    """
    turned = _quarter(odd)
    return [_add_turned(b, even, turned), _sub_turned(b, even, turned)]


def _add(b: Emitter, x: Complex, y: Complex) -> Complex:
    return b.add(x[0], y[0]), b.add(x[1], y[1])


def _sub(b: Emitter, x: Complex, y: Complex) -> Complex:
    return b.sub(x[0], y[0]), b.sub(x[1], y[1])


def _scaled(b: Emitter, z: Complex, factor: float) -> Complex:
    return b.mul(z[0], factor), b.mul(z[1], factor)


def times(b: Emitter, x: Complex, y: Complex) -> Complex:
    """The product of two complex numbers."""
    return b.sub(b.mul(x[0], y[0]), b.mul(x[1], y[1])), b.add(b.mul(x[0], y[1]), b.mul(x[1], y[0]))


COMPLEX = TileOf("shape", VecOf(2, F))
for _name, _other, _sign in (("_tile_fft", "_tile_ifft", -1.0), ("_tile_ifft", "_tile_fft", 1.0)):
    declare_row(
        _name,
        Expand(_fft(_sign)),
        {"x": COMPLEX},
        COMPLEX,
        group=GROUP,
        doc="Return the Fourier transform along the last dimension, without scaling.",
        adjoint=lambda b, g, out, x, other=_other: b.apply(other, g),
    )
