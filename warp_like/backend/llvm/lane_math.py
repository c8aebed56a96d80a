"""Arithmetic on floats in lanes that the backend writes itself, and functions of the module that hold it."""

from __future__ import annotations

from collections.abc import Callable

from warp_like.backend.llvm.values import LaneScalar, constant, register_type, suffix, vector
from warp_like.backend.llvm.writer import PURE_CALL, Writer, aligned


class LaneMath:
    """Arithmetic on registers of one float type in lanes; numbers stand for constants."""

    def __init__(self, w: Writer, t: LaneScalar) -> None:
        self.w, self.t = w, t
        self.reg, self.mask, self.integer = register_type(t), vector("i1", t), vector(f"i{t.bits}", t)
        self.digits, self.one = (52, 1023) if t.bits == 64 else (23, 127)
        """The bits of a mantissa, and the exponent of 1."""

    def _text(self, x: str | float) -> str:
        return x if isinstance(x, str) else constant(x, self.t)

    def _binary(self, op: str, x: str | float, y: str | float) -> str:
        return self.w.op(f"{op} {self.reg} {self._text(x)}, {self._text(y)}")

    def bits(self, n: int) -> str:
        """An integer in all lanes."""
        return f"splat (i{self.t.bits} {n})"

    def to_bits(self, x: str) -> str:
        """A number's bits as an integer."""
        return self.w.op(f"bitcast {self.reg} {x} to {self.integer}")

    def from_bits(self, n: str) -> str:
        """The number of these bits."""
        return self.w.op(f"bitcast {self.integer} {n} to {self.reg}")

    def negative(self, x: str) -> str:
        """``-x``."""
        return self.w.op(f"fneg {self.reg} {x}")

    def add(self, x: str | float, y: str | float) -> str:
        return self._binary("fadd", x, y)

    def sub(self, x: str | float, y: str | float) -> str:
        return self._binary("fsub", x, y)

    def mul(self, x: str | float, y: str | float) -> str:
        return self._binary("fmul", x, y)

    def add_product(self, z: str | float, x: str, y: str | float) -> str:
        """``z + x * y``, rounded once where processors do that."""
        if "fma" in self.w.target.feature_set:
            return self.intrinsic("fma", x, y, z)
        return self.add(z, self.mul(x, y))

    def compare(self, how: str, x: str | float, y: str | float) -> str:
        """``how`` is a condition of LLVM's ``fcmp``."""
        return self._binary(f"fcmp {how}", x, y)

    def both(self, x: str, y: str) -> str:
        return self.w.op(f"and {self.mask} {x}, {y}")

    def either(self, x: str, y: str) -> str:
        return self.w.op(f"or {self.mask} {x}, {y}")

    def unless(self, x: str) -> str:
        return self.w.op(f"xor {self.mask} {x}, splat (i1 true)")

    def select(self, cond: str, x: str | float, y: str | float) -> str:
        return self.w.select(cond, self.reg, self._text(x), self._text(y), self.mask)

    def intrinsic(self, name: str, *args: str | float) -> str:
        texts = [self._text(a) for a in args]
        return self.w.intrinsic(f"llvm.{name}.{suffix(self.t)}", self.reg, [self.reg] * len(args), texts)

    def abs(self, x: str) -> str:
        return self.intrinsic("fabs", x)

    def clamp(self, x: str, low: float, high: float) -> str:
        """``x`` between two numbers; one of them for NaN."""
        return self.intrinsic("minimumnum", self.intrinsic("maximumnum", x, low), high)

    def any(self, mask: str) -> str:
        """Whether ``mask`` has a lane, as ``i1``."""
        bits = self.w.op(f"bitcast {self.mask} {mask} to i{self.t.width}")
        return self.w.op(f"icmp ne i{self.t.width} {bits}, 0")


def call_function(v: LaneMath, what: str, args: list[str], body: Callable[..., str], more: str = "") -> str:
    """Append a call of the module's function for ``what``; ``body`` is its definition, ``more`` its attributes."""
    w, name = v.w, f"wl_{what}_{suffix(v.t)}"
    params = [f"%x{k}" for k in range(len(args))]
    given = ", ".join(f"{v.reg} {p}" for p in params)
    head = f"define internal {v.reg} @{name}({given}) {w.attributes(f'nounwind noinline{more}')}"
    w.define(name, head, v.reg, lambda: body(*params))
    passed = ", ".join(f"{v.reg} {a}" for a in args)
    return w.op(f"call {v.reg} @{name}({passed}) {w.attributes(PURE_CALL)}")


def choose(
    v: LaneMath, cond: str, name: str, args: list[str], special: Callable[..., str], usual: Callable[..., str]
) -> str:
    """Append a branch: ``special`` where ``cond``, in a function of its own, else ``usual``.

    A function, so that the usual way saves nothing.
    """
    w = v.w
    labels = [w.label(hint) for hint in ("special", "usual", "done")]
    w.branch(cond, labels[0], labels[1])
    w.start(labels[0])
    outside = call_function(v, name, args, special, f"{aligned(v.t.width * v.t.bits // 8)} cold")
    w.jump(labels[2])
    w.start(labels[1])
    inside = usual(*args)
    w.jump(labels[2])
    w.start(labels[2])
    return w.op(f"phi {v.reg} [{outside}, %{labels[0]}], [{inside}, %{labels[1]}]")


def product(v: LaneMath, x: str, y: str | float) -> tuple[str, str]:
    """A product and its error, which are exact together unless one of them overflows or is denormal."""
    p = v.mul(x, y)
    if "fma" in v.w.target.feature_set:
        return p, v.intrinsic("fma", x, y, v.negative(p))
    (a, b), (c, d) = _halves(v, x), _halves(v, y)
    return p, v.add(v.add(v.add(v.sub(v.mul(a, c), p), v.mul(a, d)), v.mul(b, c)), v.mul(b, d))


def _halves(v: LaneMath, x: str | float) -> tuple[str, str]:
    """Two numbers of half as many digits, whose sum is ``x``."""
    split = 2.0**27 + 1.0 if v.t.bits == 64 else 2.0**12 + 1.0
    scaled = v.mul(x, split)
    high = v.sub(scaled, v.sub(scaled, x))
    return high, v.sub(x, high)


def less_product(v: LaneMath, z: str, x: str, y: str | float) -> str:
    """``z - x * y``, rounded once; without fused additions, exact where the result and ``z`` less the product are."""
    if "fma" in v.w.target.feature_set:
        return v.intrinsic("fma", v.negative(x), y, z)
    p, error = product(v, x, y)
    return v.sub(v.sub(z, p), error)


# --- exponents, without arithmetic on denormal numbers, which takes processors 150 cycles -------------------------


def denormal_digits(v: LaneMath, x: str) -> str:
    """A positive denormal number as a multiple of the least one: by its bits, since a product would take long."""
    whole, w = 2.0**v.digits, v.w
    return v.sub(v.from_bits(w.op(f"or {v.integer} {v.to_bits(x)}, {v.bits(v.one + v.digits << v.digits)}")), whole)


def mantissa(v: LaneMath, x: str) -> tuple[str, str]:
    """A finite number of at least 0 as one in ``[1, 2)`` and its biased exponent.

    That of denormal numbers is not positive. 0 is 1 with an exponent below all others.
    """
    w, integer = v.w, v.integer
    small = w.op(f"icmp ult {integer} {v.to_bits(x)}, {v.bits(1 << v.digits)}")
    number = v.to_bits(v.select(small, denormal_digits(v, x), x))
    lower = w.select(small, integer, v.bits(v.one + v.digits - 1), "zeroinitializer", v.mask)
    exponent = w.op(f"sub {integer} {w.op(f'lshr {integer} {number}, {v.bits(v.digits)}')}, {lower}")
    digits = w.op(f"and {integer} {number}, {v.bits((1 << v.digits) - 1)}")
    return v.from_bits(w.op(f"or {integer} {digits}, {v.bits(v.one << v.digits)}")), exponent


def scaled(v: LaneMath, x: str, exponent: str) -> str:
    """``x * 2**exponent`` for an ``x`` of at least 0 that is not denormal, where the product does not overflow.

    A denormal result is rounded as the digits of a larger number: their bits are the result's.
    """
    w, integer, least = v.w, v.integer, v.one + v.digits - 1
    bits = v.to_bits(x)
    moved = w.op(f"add {integer} {bits}, {w.op(f'shl {integer} {exponent}, {v.bits(v.digits)}')}")
    found = w.op(f"add {integer} {w.op(f'lshr {integer} {bits}, {v.bits(v.digits)}')}, {exponent}")
    small = w.op(f"icmp slt {integer} {found}, {v.bits(1)}")
    up = w.op(f"add {integer} {exponent}, {v.bits(least)}")
    up = w.intrinsic(f"llvm.smax.v{v.t.width}i{v.t.bits}", integer, [integer] * 2, [up, v.bits(-v.digits - 2)])
    count = v.from_bits(w.op(f"add {integer} {bits}, {w.op(f'shl {integer} {up}, {v.bits(v.digits)}')}"))
    count = v.to_bits(v.add(v.select(small, count, 0.0), 2.0**v.digits))
    digits = w.op(f"sub {integer} {count}, {v.bits(v.one + v.digits << v.digits)}")
    result = v.from_bits(w.select(small, integer, digits, moved, v.mask))
    return v.select(v.compare("oeq", x, 0.0), 0.0, result)
