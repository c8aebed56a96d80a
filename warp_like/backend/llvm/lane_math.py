"""Arithmetic on floats in lanes that the backend writes itself, and functions of the module that hold it."""

from __future__ import annotations

from collections.abc import Callable

from warp_like.backend.llvm.values import LaneScalar, constant, register_type, suffix, vector
from warp_like.backend.llvm.writer import PURE_CALL, Writer, aligned


class LaneMath:
    """Arithmetic on registers of one float type in lanes; numbers stand for constants."""

    def __init__(self, w: Writer, t: LaneScalar) -> None:
        self.w, self.t = w, t
        self.reg, self.mask = register_type(t), vector("i1", t)

    def _text(self, x: str | float) -> str:
        return x if isinstance(x, str) else constant(x, self.t)

    def _binary(self, op: str, x: str | float, y: str | float) -> str:
        return self.w.op(f"{op} {self.reg} {self._text(x)}, {self._text(y)}")

    def bits(self, n: int) -> str:
        """An integer in all lanes."""
        return f"splat (i{self.t.bits} {n})"

    def add(self, x: str | float, y: str | float) -> str:
        return self._binary("fadd", x, y)

    def sub(self, x: str | float, y: str | float) -> str:
        return self._binary("fsub", x, y)

    def mul(self, x: str | float, y: str | float) -> str:
        return self._binary("fmul", x, y)

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


def denormal_digits(v: LaneMath, x: str) -> str:
    """A positive denormal number as a multiple of the least one: by its bits, since a product would take long."""
    integer, whole = vector(f"i{v.t.bits}", v.t), 2.0**52 if v.t.bits == 64 else 2.0**23
    exponent = (1023 + 52) << 52 if v.t.bits == 64 else (127 + 23) << 23
    shifted = v.w.op(f"or {integer} {v.w.op(f'bitcast {v.reg} {x} to {integer}')}, {v.bits(exponent)}")
    return v.sub(v.w.op(f"bitcast {integer} {shifted} to {v.reg}"), whole)
