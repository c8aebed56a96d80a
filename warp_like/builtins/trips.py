"""How often a counted loop runs: the one place that computes it, exact for every integer type.

A loop from ``lo`` towards ``hi`` by ``step`` has up to ``2**bits - 1`` iterations, more than a signed integer of as
many bits holds. So the count is unsigned, of the bits of the loop's type, and is formed by arithmetic modulo 2**bits.
With a step of 0 it runs zero times.
"""

from __future__ import annotations

from typing import Protocol

from warp_like.builtins.emit import Emitter, scalar_type
from warp_like.ir.core import Value
from warp_like.ir.ops import constant_value
from warp_like.ir.types import Scalar


def constant_trips(lo: int, hi: int, step: int) -> int:
    """Return how often a loop with constant bounds runs; ``len(range(...))`` holds no more than ``2**63 - 1``."""
    if step == 0:
        return 0
    distance = hi - lo if step > 0 else lo - hi
    return max(0, -(-distance // abs(step)))


def counter_type(t: Scalar) -> Scalar:
    """Return the type of the number of iterations of a loop that counts in ``t``."""
    return Scalar("uint", t.bits)


class Arithmetic(Protocol):
    """An emitter of the count: on scalars or in lanes."""

    def apply(self, fn: str, *args: Value) -> Value:
        """Call a builtin."""

    def number(self, n: int, t: Scalar) -> Value:
        """The constant ``n`` of type ``t``."""

    def cast(self, v: Value, t: Scalar) -> Value:
        """Integer ``v`` modulo ``2**t.bits``."""


class _Scalars:
    """Emits the count of one thread."""

    def __init__(self, b: Emitter) -> None:
        self.apply = b.apply
        self.number = b.constant
        self.cast = b.cast


def trip_count(b: Emitter, lo: Value, hi: Value, step: Value) -> Value:
    """Emit the number of iterations of a loop, of the type ``counter_type``."""
    return emit_trips(_Scalars(b), scalar_type(lo), lo, hi, step, constant_value(step))


def emit_trips(b: Arithmetic, t: Scalar, lo: Value, hi: Value, step: Value, known: int | None) -> Value:
    """Emit the number of iterations of a loop of type ``t``, whose step may be ``known``."""
    counter = counter_type(t)
    zero, one = b.number(0, counter), b.number(1, counter)
    if known == 0:
        return zero
    if known is not None:
        first, last = (lo, hi) if known > 0 else (hi, lo)
        last = b.apply("where", b.apply("lt", first, last), last, first)
        distance = b.apply("sub", b.cast(last, counter), b.cast(first, counter))
        if abs(known) == 1:
            return distance
        some, size = b.apply("ne", distance, zero), b.number(abs(known), counter)
    else:
        nothing = b.number(0, t)
        rising = b.apply("gt", step, nothing)
        some = b.apply("where", rising, b.apply("lt", lo, hi), b.apply("gt", lo, hi))
        some = b.apply("bit_and", some, b.apply("ne", step, nothing))
        up = b.apply("sub", b.cast(hi, counter), b.cast(lo, counter))
        distance = b.apply("where", rising, up, b.apply("neg", up))
        size = b.cast(step, counter)
        size = b.apply("where", rising, size, b.apply("neg", size))
        size = b.apply("where", b.apply("eq", size, zero), one, size)
    count = b.apply("add", b.apply("div", b.apply("sub", distance, one), size), one)
    return b.apply("where", some, count, zero)
