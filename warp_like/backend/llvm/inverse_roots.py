"""Quotients by square roots: by the processor's estimate of ``1 / sqrt(x)`` and one Newton step.

A root and a division keep the divider of the processor busy, which takes 20 cycles for 16 lanes on Zen 4 and 24 on
Sapphire Rapids. The estimate of AVX-512 (14 bits, for denormal numbers too) and a step take 6 or 7 instructions.

``1 / sqrt(x)`` alone is always made of them. The step leaves an error of at most 1.05 units in the last place; a root
and a division that both are rounded leave up to 1.5 (`_better_of_register`). It takes fused operations: where the user
forbids these, root and division stay.

Quotients by a power of a root, ``m / (r * r * r)``, are products with its inverse where that is a normal number
(`_quotient_by_power`). Their error is less than what root, products and division may leave. A vector with another
inverse goes by a branch, in which its lane takes the root and the division.

Other quotients by roots are so under ``fast_math``, with a step that leaves about 2 units. A divisor may be a product
of two roots, too, ``m / (r * s)``. The product of ``m`` and the inverses leaves
float32 on its way only where the quotient does (`_product`). So it has no ``reassoc``: LLVM would bring back the orders
that overflow. Three roots of different numbers are multiplied and divided.

A GPU estimates ``1 / sqrt(x)`` in one instruction, to 2 units in the last place. ``fast_math`` takes that for every
quotient by a root. Else ``1 / sqrt(x)`` alone is made of it, with a step that leaves less than one unit, no more than
a root and a division that both are rounded: those take ten times the instructions (`_step`).

LLVM has such estimates, too, but they give NaN for 0 and infinity, where ``x * y * y`` is NaN; here a number replaces
it, and the result is infinite or 0. So entries tell LLVM to make none. Other processors divide: the estimate of AVX
makes infinity of denormal numbers. Plain divisions stay, since the inverse of a large divisor is denormal, which
estimates flush to 0.
"""

from __future__ import annotations

from collections.abc import Callable

from warp_like.backend.llvm.lane_math import LaneMath, choose
from warp_like.backend.llvm.shuffle import join, split
from warp_like.backend.llvm.values import LaneScalar, constant, leaves
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Lanes, Scalar, float32

LANES = 16
MOST_FACTORS = 4
"""The most roots in a divisor."""


def quotient_by_roots(w: Writer, o: ops.Apply, scalar: Callable[[Value], str]) -> str | None:
    """Append ``o`` if it is such a quotient, and return its register; ``scalar`` gives that of a value."""
    if o.fn != "div":
        return None
    if w.target.is_cuda:
        return _on_gpu(w, o, scalar)
    t = _float_in_lanes(o.result)
    if t is None or t.width % LANES or "avx512f" not in w.target.feature_set:
        return None
    roots = _roots(o.args[1])
    if roots is not None and not w.options.fast_math:
        if not w.options.fuse_fp or len(set(roots)) > 1:
            return None
        if len(roots) > 1:
            if len(roots) > MOST_FACTORS or "avx512dq" not in w.target.feature_set:
                return None
            return _quotient_by_power(LaneMath(w, t), scalar(o.args[0]), scalar(roots[0]), len(roots))
        return _by_register(w, t, scalar(roots[0]), _better_of_register) if _is_one(o.args[0]) else None
    if roots is None or len(roots) > MOST_FACTORS or (len(set(roots)) > 1 and len(roots) > 2):
        return None
    inverses = {x: _by_register(w, t, scalar(x), _of_register) for x in dict.fromkeys(roots)}
    return _product(LaneMath(w, t), scalar(o.args[0]), [inverses[x] for x in roots])


def _on_gpu(w: Writer, o: ops.Apply, scalar: Callable[[Value], str]) -> str | None:
    m, root = o.args
    is_one = _is_one(m)
    if o.result.type != float32 or not isinstance(root.op, ops.Apply) or root.op.fn != "sqrt":
        return None
    if not (is_one or w.options.fast_math):
        return None
    x = scalar(root.op.args[0])
    estimate = w.intrinsic(f"llvm.nvvm.rsqrt.approx{'.ftz' if w.options.fast_math else ''}.f", "float", ["float"], [x])
    if not w.options.fast_math:
        return _step(w, x, estimate)
    return estimate if is_one else w.op(f"fmul {w.fp}float {scalar(m)}, {estimate}")


def _is_one(v: Value) -> bool:
    """Whether ``v`` is 1 in all lanes."""
    return ops.constant_value(v.op.x if isinstance(v.op, ops.Broadcast) else v) == 1.0


def _step(w: Writer, x: str, y: str) -> str:
    """One step of Newton's method from ``y``, ``y + y / 2 * (1 - x * y * y)``; ``y`` where it is infinite, 0 or NaN."""

    def fma(a: str, b: str, c: str) -> str:
        return w.intrinsic("llvm.fma.f32", "float", ["float"] * 3, [a, b, c])

    product = w.op(f"fmul float {x}, {y}")
    missing = fma(w.op(f"fneg float {product}"), y, constant(1.0, float32))
    better = fma(w.op(f"fmul float {y}, {constant(0.5, float32)}"), missing, y)
    return w.select(w.op(f"fcmp uno float {missing}, {missing}"), "float", y, better, "i1")


def _product(v: LaneMath, m: str, inverses: list[str]) -> str:
    """``m`` times positive factors, two different ones or a power of one, with no overflow or underflow on the way.

    A power moves the product in one direction alone; only digits of a denormal ``m`` are lost. Of two factors the one
    comes first that moves ``m`` towards 1:
    ``1e38 / (sqrt(1e-38) * sqrt(1e38))`` is ``1e38 * 1e-19 * 1e19``.
    """
    if len(set(inverses)) > 1:
        first, second = inverses
        keep = v.w.op(f"xor {v.mask} {v.compare('olt', first, second)}, {v.compare('olt', v.abs(m), 1.0)}")
        inverses = [v.select(keep, first, second), v.select(keep, second, first)]
    for x in inverses:
        m = v.w.op(f"fmul contract {v.reg} {m}, {x}")
    return m


def _float_in_lanes(v: Value) -> LaneScalar | None:
    if not isinstance(v.type, Lanes) or not isinstance(v.type.of, Scalar):
        return None
    ((t, _),) = leaves(v.type)
    return t if isinstance(t, LaneScalar) and t.is_float and t.bits == 32 else None


def _roots(v: Value) -> list[Value] | None:
    """The values whose square roots make the product ``v``; None where it has other factors."""
    match v.op:
        case ops.Apply(fn="sqrt", args=(x,)):
            return [x]
        case ops.Apply(fn="mul", args=(a, b)):
            first, second = _roots(a), _roots(b)
            return None if first is None or second is None else first + second
    return None


def _by_register(w: Writer, t: LaneScalar, x: str, inverse_root: Callable[[Writer, LaneScalar, str], str]) -> str:
    one = LaneScalar(t.kind, t.bits, LANES)
    return join(w, one, [inverse_root(w, one, p) for p in split(w, t, x, LANES)])


def _estimate(v: LaneMath, x: str) -> str:
    """``1 / sqrt(x)`` to 14 bits."""
    name = "llvm.x86.avx512.rsqrt14.ps.512"
    return v.w.intrinsic(name, v.reg, [v.reg, v.reg, f"i{LANES}"], [x, "zeroinitializer", "-1"])


def _better_of_register(w: Writer, t: LaneScalar, x: str) -> str:
    """``y + y / 2 * e`` for the estimate ``y``, and ``e = 1 - x * y * y``.

    ``e`` is NaN for an ``x`` of 0, infinity or NaN, and for a negative one: there the estimate is right.
    """
    v = LaneMath(w, t)
    y = _estimate(v, x)
    product = v.mul(x, y)
    missing = v.intrinsic("fma", w.op(f"fneg {v.reg} {product}"), y, 1.0)
    better = v.intrinsic("fma", v.mul(y, 0.5), missing, y)
    return v.select(v.compare("ord", missing, missing), better, y)


def _quotient_by_power(v: LaneMath, m: str, x: str, n: int) -> str:
    """``m / sqrt(x)**n`` for ``n`` of at least 2: ``m`` times the inverse power, where that is a normal number."""
    inverse = _by_register(v.w, v.t, x, lambda w, t, p: _inverse_power(LaneMath(w, t), p, n))

    def usual(m: str, x: str, inverse: str) -> str:
        return v.mul(m, inverse)

    def special(m: str, x: str, inverse: str) -> str:
        root = power = v.intrinsic("sqrt", x)
        for _ in range(n - 1):
            power = v.mul(power, root)
        return v.select(_is_special(v, inverse), v.w.op(f"fdiv {v.reg} {m}, {power}"), usual(m, x, inverse))

    return choose(v, v.any(_is_special(v, inverse)), f"over_root_{n}", [m, x, inverse], special, usual)


def _is_special(v: LaneMath, x: str) -> str:
    """The mask of lanes that have no positive normal number: 0, a denormal or negative number, infinity or NaN."""
    any_of_them = 0xFF
    name, reg = "llvm.x86.avx512.fpclass.ps.512", f"<{LANES} x float>"
    masks = [
        v.w.intrinsic(name, f"<{LANES} x i1>", [reg, "i32"], [p, str(any_of_them)]) for p in split(v.w, v.t, x, LANES)
    ]
    return join(v.w, LaneScalar("int", 1, LANES), masks)


def _inverse_power(v: LaneMath, x: str, n: int) -> str:
    """``sqrt(x)**-n``: with the estimate ``y``, ``s = y * y`` and ``e = 1 - x * s`` it is ``y**n * (1 - e)**(-n / 2)``.

    ``e`` is less than 2**-13, so the series may end with ``n / 2 * e``. It is that of the rounded ``s``, and makes that
    rounding good, half of it where ``y`` is a factor. Where the result is a normal number, so are all on the way but
    ``n / 2 * e``, which may be 0. An ``x`` of 0, a negative one, infinity and NaN lead to infinity, 0 or NaN.
    """
    y = _estimate(v, x)
    square = v.mul(y, y)
    missing = v.intrinsic("fma", v.w.op(f"fneg {v.reg} {x}"), square, 1.0)
    power = {2: square, 3: v.mul(square, y), 4: v.mul(square, square)}[n]
    return v.intrinsic("fma", power, v.mul(missing, n / 2.0), power)


def _of_register(w: Writer, t: LaneScalar, x: str) -> str:
    """``y * (1.5 - 0.5 * (x * y * y))`` for the estimate ``y``; ``x * y`` neither overflows nor vanishes."""
    v = LaneMath(w, t)
    y = _estimate(v, x)
    near_one = v.intrinsic("minimumnum", v.mul(v.mul(x, y), y), 1.5)  # of NaN and a number it is the number
    less = w.op(f"fmul contract {v.reg} {near_one}, {constant(-0.5, t)}")
    return v.mul(y, w.op(f"fadd contract {v.reg} {less}, {constant(1.5, t)}"))
