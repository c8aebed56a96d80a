"""The builtins that have a ``Target`` lowering: what each is in LLVM, by name.

A row of ``SCALAR`` takes the scalar type of the first argument and registers; 16-bit floats reach it as
float32 and its result is rounded. A row of ``WHOLE`` takes IR types and values. Integer arithmetic wraps and
never traps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from warp_like.backend.llvm.casts import cast, extend_half, round_half
from warp_like.backend.llvm.shuffle import fence
from warp_like.backend.llvm.symbols import call_scalar, call_symbol
from warp_like.backend.llvm.values import (
    LaneScalar,
    Rep,
    beside,
    constant,
    is_half,
    leaves,
    register_type,
    suffix,
    vector,
)
from warp_like.backend.llvm.writer import Writer
from warp_like.builtins.spec import Elementwise, Lowering, Symbol, Target, resolve
from warp_like.ir.types import Lanes, Scalar, Type, float32, int32, lane_type, scalar_of

ScalarLowering = Callable[..., str]
WholeLowering = Callable[[Writer, list[Type], list[tuple[str, ...]]], tuple[str, ...]]

SCALAR: dict[str, ScalarLowering] = {}
WHOLE: dict[str, WholeLowering] = {}
BOOL_RESULT = {"lt", "le", "gt", "ge", "eq", "ne"}


def apply_builtin(w: Writer, name: str, types: list[Type], args: list[Rep]) -> tuple[str, ...]:
    """Append the call of builtin ``name``; return its result."""
    lower, are_scalars = _lowering(name, tuple(types))
    values = [a for a in args if isinstance(a, tuple)]
    if isinstance(lower, Elementwise):
        return _elementwise(w, lower.scalar, types, values)
    if isinstance(lower, Target) and name in WHOLE:
        return WHOLE[name](w, types, values)
    ((t, _), *_) = leaves(types[0])
    if isinstance(lower, Symbol):
        return (_symbol(w, lower, t, [v[0] for v in values]),)
    if isinstance(lower, Target) and name in SCALAR and are_scalars:
        return (_scalar(w, name, t, [v[0] for v in values]),)
    given = ", ".join(map(str, types))
    raise AssertionError(f"{name}({given}) has the lowering {lower}, which the backend can't lower")


@functools.lru_cache(maxsize=1024)
def _lowering(name: str, types: tuple[Type, ...]) -> tuple[Lowering, bool]:
    """Return how a builtin is lowered for arguments of ``types``, and whether all of them are scalars."""
    single = [lane_type(t) for t in types]
    return resolve(name, single).overload.lower, all(isinstance(s, Scalar) for s in single)


def _elementwise(w: Writer, name: str, types: list[Type], args: list[tuple[str, ...]]) -> tuple[str, ...]:
    scalars = [_scalar_type(t) for t in types]
    n = max(map(len, args))
    columns = [a if len(a) == n else a * n for a in args]
    return tuple(apply_builtin(w, name, scalars, [(x,) for x in row])[0] for row in zip(*columns, strict=True))


def _scalar_type(t: Type) -> Type:
    """Return what one component of ``t`` is, in lanes if ``t`` is."""
    scalar = scalar_of(lane_type(t))
    assert scalar is not None
    return Lanes(scalar, t.width) if isinstance(t, Lanes) else scalar


def _symbol(w: Writer, symbol: Symbol, t: Scalar, args: list[str]) -> str:
    if not is_half(t):
        return call_symbol(w, symbol, t, args)
    return round_half(w, call_symbol(w, symbol, beside(float32, t), [extend_half(w, x, t) for x in args]), t)


def _scalar(w: Writer, name: str, t: Scalar, args: list[str]) -> str:
    if not is_half(t):
        return SCALAR[name](w, t, *args)
    wide = [extend_half(w, x, t) for x in args]
    w.shuffled.update(y for x, y in zip(args, wide, strict=True) if x in w.shuffled)
    got = SCALAR[name](w, beside(float32, t), *wide)
    return got if name in BOOL_RESULT else round_half(w, got, t)


def _row(*names: str) -> Callable[[ScalarLowering], ScalarLowering]:
    def add(fn: ScalarLowering) -> ScalarLowering:
        for name in names:
            SCALAR[name] = fn
        return fn

    return add


# --- arithmetic ---------------------------------------------------------------------------------------------


def _arithmetic(name: str) -> None:
    def lower(w: Writer, t: Scalar, a: str, b: str) -> str:
        r = register_type(t)
        return w.op(f"f{name} {w.fp}{r} {a}, {b}" if t.is_float else f"{name} {r} {a}, {b}")

    SCALAR[name] = lower


for _name in ("add", "sub", "mul"):
    _arithmetic(_name)


@_row("neg")
def _neg(w: Writer, t: Scalar, x: str) -> str:
    return w.op(f"fneg {register_type(t)} {x}" if t.is_float else f"sub {register_type(t)} zeroinitializer, {x}")


@_row("div")
def _div(w: Writer, t: Scalar, a: str, b: str) -> str:
    return w.op(f"fdiv {w.fp}{register_type(t)} {a}, {b}") if t.is_float else _integer_division(w, "div", t, a, b)


@_row("mod")
def _mod(w: Writer, t: Scalar, a: str, b: str) -> str:
    if not t.is_float:
        return _integer_division(w, "rem", t, a, b)
    if isinstance(t, LaneScalar) and (t.bits == 32 or "fma" in w.target.feature_set):
        from warp_like.backend.llvm.divisions import remainder

        return remainder(w, t, a, b)
    return call_scalar(w, "fmod", "__nv_fmod", t, a, b)


def _integer_division(w: Writer, what: str, t: Scalar, a: str, b: str) -> str:
    """Append a division that gives 0 for a zero divisor, and wraps for the least integer over -1."""
    r = register_type(t)
    op = f"{'s' if t.is_signed else 'u'}{what}"
    if _is_plain_divisor(t, b):
        return w.op(f"{op} {r} {a}, {b}")
    i1 = vector("i1", t)
    zero = w.op(f"icmp eq {r} {b}, zeroinitializer")
    bad = zero
    if t.is_signed:
        least = w.op(f"icmp eq {r} {a}, {constant(-(1 << t.bits - 1), t)}")
        overflow = w.op(f"and {i1} {least}, {w.op(f'icmp eq {r} {b}, {constant(-1, t)}')}")
        bad = w.op(f"or {i1} {zero}, {overflow}")
    safe = w.select(bad, r, constant(1, t), b, i1)
    got = (
        _quotient(w, what, t, a, safe) if isinstance(t, LaneScalar) and t.bits <= 32 else w.op(f"{op} {r} {a}, {safe}")
    )
    return w.select(zero, r, constant(0, t), got, i1)


def _quotient(w: Writer, what: str, t: LaneScalar, a: str, b: str) -> str:
    """Append the quotient or remainder of integers in lanes, where it exists."""
    from warp_like.backend.llvm.divisions import integer_quotient

    r, quotient = register_type(t), integer_quotient(w, t, a, b)
    return quotient if what == "div" else w.op(f"sub {r} {a}, {w.op(f'mul {r} {quotient}, {b}')}")


def _is_plain_divisor(t: Scalar, b: str) -> bool:
    """Whether ``b`` is a constant with which a division neither fails nor overflows."""
    if isinstance(t, LaneScalar):
        b = b.removeprefix(f"splat ({register_type(t.one)} ").removesuffix(")")
    return b.lstrip("-").isdigit() and b not in ("0", "-1")


# --- comparisons and logic ----------------------------------------------------------------------------------


def _comparison(name: str) -> None:
    ordered = "u" if name == "ne" else "o"
    signless = name in ("eq", "ne")

    def lower(w: Writer, t: Scalar, a: str, b: str) -> str:
        r = register_type(t)
        if isinstance(t, LaneScalar) and t.bits >= 32 and {a, b} <= w.shuffled and w.target.triple.startswith("x86_64"):
            a = fence(w, t, a)
        if t.is_float:
            return w.op(f"fcmp {ordered}{name} {r} {a}, {b}")
        sign = "" if signless else "s" if t.is_signed else "u"
        return w.op(f"icmp {sign}{name} {r} {a}, {b}")

    SCALAR[name] = lower


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _comparison(_name)


@_row("unot")
def _unot(w: Writer, t: Scalar, x: str) -> str:
    return w.op(f"xor {register_type(t)} {x}, {constant(True, t)}")


def _bitwise(name: str, op: str) -> None:
    def lower(w: Writer, t: Scalar, a: str, b: str) -> str:
        if op == "and" and t.is_bool and constant(True, t) in (a, b):  # the mask of whole vectors
            return b if a == constant(True, t) else a
        return w.op(f"{op} {register_type(t)} {a}, {b}")

    SCALAR[name] = lower


for _name, _op in {"bit_and": "and", "bit_or": "or", "bit_xor": "xor"}.items():
    _bitwise(_name, _op)


@_row("invert")
def _invert(w: Writer, t: Scalar, x: str) -> str:
    return w.op(f"xor {register_type(t)} {x}, {constant(-1, t)}")


@_row("lshift")
def _lshift(w: Writer, t: Scalar, a: str, b: str) -> str:
    return _shift(w, "shl", t, a, b)


@_row("rshift")
def _rshift(w: Writer, t: Scalar, a: str, b: str) -> str:
    return _shift(w, "ashr" if t.is_signed else "lshr", t, a, b)


def _shift(w: Writer, op: str, t: Scalar, a: str, b: str) -> str:
    r = register_type(t)
    amount = w.op(f"and {r} {b}, {constant(t.bits - 1, t)}")
    return w.op(f"{op} {r} {a}, {amount}")


@_row("bit_count")
def _bit_count(w: Writer, t: Scalar, x: str) -> str:
    r = register_type(t)
    count = w.intrinsic(f"llvm.ctpop.{suffix(t)}", r, [r], [x])
    return cast(w, count, beside(Scalar("uint", t.bits), t), beside(int32, t))


@_row("_dot_of_pairs")
def _dot_of_pairs(w: Writer, t: Scalar, total: str, x: str, y: str) -> str:
    from warp_like.backend.llvm.pair_products import dot_of_pairs  # which few kernels need

    return dot_of_pairs(w, t, total, x, y)


# --- values of any type -------------------------------------------------------------------------------------


def _where(w: Writer, types: list[Type], args: list[tuple[str, ...]]) -> tuple[str, ...]:
    (cond,), a, b = args
    ((by, _),) = leaves(types[0])
    scalars = [s for s, _ in leaves(types[1])]
    pairs = zip(scalars, a, b, strict=True)
    return tuple(w.select(cond, register_type(s), x, y, register_type(by)) for s, x, y in pairs)


WHOLE["where"] = _where
