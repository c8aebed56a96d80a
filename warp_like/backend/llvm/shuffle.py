"""Taking vector registers apart and putting them together."""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.backend.llvm.values import LaneScalar, constant, register_type, suffix, vector
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.types import Scalar

_ZERO, _LARGEST = "@wl_zero", 8
"""What lanes read that are off, and the bytes of the largest scalar."""


def typed(t: Scalar, lanes: int) -> str:
    """Return the LLVM type of ``lanes`` values of the type of one lane of ``t``."""
    one = t.one if isinstance(t, LaneScalar) else t
    return f"<{lanes} x {register_type(one)}>"


def shuffle(w: Writer, type: str, a: str, b: str, picks: Sequence[int]) -> str:
    """Return the elements ``picks`` of ``a`` and ``b`` (both of ``type``), one behind the other."""
    order = ", ".join(f"i32 {i}" for i in picks)
    picked = w.op(f"shufflevector {type} {a}, {type} {b}, <{len(picks)} x i32> <{order}>")
    w.shuffled.add(picked)
    return picked


def fence(w: Writer, t: LaneScalar, x: str) -> str:
    """Return ``x`` such that LLVM does not see what made it.

    It would compare two vectors before it shuffles them, where both are shuffled alike, and shuffle the masks then:
    processors move bits of masks one by one.
    """
    float_ = vector("float" if t.bits == 32 else "double", t)
    given = w.op(f"bitcast {register_type(t)} {x} to {float_}") if t.is_int else x
    name = f"llvm.arithmetic.fence.v{t.width}f{t.bits}"
    hidden = w.intrinsic(name, float_, [float_], [given])
    return w.op(f"bitcast {float_} {hidden} to {register_type(t)}") if t.is_int else hidden


def split(w: Writer, t: LaneScalar, x: str, lanes: int) -> list[str]:
    """Return ``x`` in pieces of ``lanes`` lanes."""
    if lanes == t.width:
        return [x]
    whole = register_type(t)
    return [shuffle(w, whole, x, "poison", range(k, k + lanes)) for k in range(0, t.width, lanes)]


def join(w: Writer, t: Scalar, pieces: Sequence[str]) -> str:
    """Return ``pieces`` as one vector; each has the lanes of ``t``, and their number is a power of 2."""
    lanes = t.width if isinstance(t, LaneScalar) else 1
    parts = list(pieces)
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffle(w, typed(t, lanes), a, b, range(2 * lanes)) for a, b in pairs]
        lanes *= 2
    return parts[0]


def interleaved(w: Writer, t: LaneScalar, parts: Sequence[str]) -> str:
    """Return the first lanes of ``parts``, registers of type ``t``, then their second ones, and so on, in a vector."""
    n = len(parts)
    if n == 1:
        return parts[0]
    whole = join(w, t, [*parts, *["poison"] * ((1 << (n - 1).bit_length()) - n)])
    order = [k * t.width + lane for lane in range(t.width) for k in range(n)]
    return shuffle(w, typed(t, t.width << (n - 1).bit_length()), whole, "poison", order)


def transposed(w: Writer, t: LaneScalar, registers: Sequence[str]) -> list[str]:
    """Return registers of type ``t`` transposed, seen as blocks of as many lanes: a power of two.

    Block ``q`` of register ``k`` gets what block ``q`` of all has at ``k``.
    """
    return _transposed(w, t, registers, len(registers), 1)


def _transposed(w: Writer, t: LaneScalar, registers: Sequence[str], block: int, size: int) -> list[str]:
    """The same where ``size`` lanes that follow on each other are one element."""
    if len(registers) == 1:
        return list(registers)
    pairs = [_mixed(w, t, a, b, block, size) for a, b in zip(registers[::2], registers[1::2], strict=True)]
    return [x for k in range(2) for x in _transposed(w, t, [pair[k] for pair in pairs], block, 2 * size)]


def _mixed(w: Writer, t: LaneScalar, a: str, b: str, block: int, size: int) -> list[str]:
    """Of each block the first halves of ``a`` and ``b``, then the second ones, ``size`` lanes of each in turn."""
    half, made = block // 2, []
    for first in (0, half):
        picks = [
            source + at + first + k + n
            for at in range(0, t.width, block)
            for k in range(0, half, size)
            for source in (0, t.width)
            for n in range(size)
        ]
        made.append(shuffle(w, register_type(t), a, b, picks))
    return made


def from_lanes(w: Writer, t: LaneScalar, x: str) -> list[str]:
    """Return each lane of ``x``."""
    return [w.op(f"extractelement {register_type(t)} {x}, i32 {k}") for k in range(t.width)]


def to_lanes(w: Writer, t: LaneScalar, scalars: Sequence[str]) -> str:
    """Return ``scalars``, one a lane, as a vector."""
    got = "poison"
    for k, x in enumerate(scalars):
        got = w.op(f"insertelement {register_type(t)} {got}, {register_type(t.one)} {x}, i32 {k}")
    return got


_ORDERS = "@wl_compressed"


def compressed(w: Writer, t: LaneScalar, x: str, mask: str) -> str:
    """Return the lanes of ``x`` that are in ``mask``, at the front in their order; the others may be anything."""
    features, reg, test = w.target.feature_set, register_type(t), f"<{t.width} x i1>"
    by_table = "avx2" in features and "avx512vl" not in features and t.bits == 32 and t.width in (4, 8)
    if not by_table:
        name = f"llvm.experimental.vector.compress.{suffix(t)}"
        return w.intrinsic(name, reg, [reg, test, reg], [x, mask, "poison"])
    numbers = ", ".join(f"i64 {_order(k)}" for k in range(256))
    w.helper(_ORDERS, f"{_ORDERS} = private constant [256 x i64] [{numbers}], align 64")
    row = w.op(f"zext i{t.width} {w.op(f'bitcast {test} {mask} to i{t.width}')} to i64")
    at = w.op(f"getelementptr inbounds [256 x i64], ptr {_ORDERS}, i64 0, i64 {row}")
    order = w.op(f"zext <8 x i8> {w.op(f'load <8 x i8>, ptr {at}, align 8')} to <8 x i32>")
    eight = "<8 x i32>"
    whole = x if t.width == 8 else shuffle(w, reg, x, "poison", [0, 1, 2, 3, 0, 1, 2, 3])
    whole = w.op(f"bitcast {typed(t, 8)} {whole} to {eight}")
    made = w.intrinsic("llvm.x86.avx2.permd", eight, [eight, eight], [whole, order])
    made = w.op(f"bitcast {eight} {made} to {typed(t, 8)}")
    return made if t.width == 8 else shuffle(w, typed(t, 8), made, "poison", range(4))


def _order(mask: int) -> int:
    """The numbers of the bits of ``mask``, a byte each."""
    return sum(bit << 8 * k for k, bit in enumerate(n for n in range(8) if mask >> n & 1))


def splat(w: Writer, t: LaneScalar, x: str) -> str:
    """Return ``x`` in all lanes."""
    if not x.startswith("%"):
        return f"splat ({register_type(t.one)} {x})"
    whole = register_type(t)
    first = w.op(f"insertelement {whole} poison, {register_type(t.one)} {x}, i32 0")
    return w.op(f"shufflevector {whole} {first}, {whole} poison, <{t.width} x i32> zeroinitializer")


def iota(t: LaneScalar) -> str:
    """Return the integers from 0 on, one a lane."""
    one = register_type(t.one)
    return f"<{', '.join(f'{one} {k}' for k in range(t.width))}>"


def look_up(w: Writer, t: LaneScalar, numbers: Sequence[float], index: str) -> str:
    """Return for each lane the one of ``numbers``, float64 constants, at its ``index``, an integer of 64 bits.

    There are a power of two of them, at least 8; higher bits of the index are ignored. AVX-512 has them in registers.
    """
    integer = vector("i64", t)
    texts = [f"double {constant(n, t.one)}" for n in numbers]
    if "avx512f" in w.target.feature_set and t.width % 8 == 0:
        parts = split(w, LaneScalar("int", 64, t.width), index, 8)
        return join(w, LaneScalar(t.kind, t.bits, 8), [_in_registers(w, texts, part) for part in parts])
    table = w.table(f"[{len(texts)} x double] [{', '.join(texts)}], align 64")
    at = w.op(f"and {integer} {index}, splat (i64 {len(texts) - 1})")
    return gather(w, t, w.op(f"getelementptr double, ptr {table}, {integer} {at}"))


def _in_registers(w: Writer, texts: Sequence[str], index: str) -> str:
    """Eight lanes of a table: processors look up one of eight or sixteen numbers."""
    eight, integer, n = "<8 x double>", "<8 x i64>", len(texts)
    registers = [f"<{', '.join(texts[k : k + 8])}>" for k in range(0, n, 8)]
    if n == 8:
        return w.intrinsic("llvm.x86.avx512.permvar.df.512", eight, [eight, integer], [registers[0], index])
    if n == 16:
        types, args = [eight, integer, eight], [registers[0], index, registers[1]]
        return w.intrinsic("llvm.x86.avx512.vpermi2var.pd.512", eight, types, args)
    low, high = (_in_registers(w, half, index) for half in (texts[: n // 2], texts[n // 2 :]))
    bit = w.op(f"trunc {integer} {w.op(f'lshr {integer} {index}, splat (i64 {n.bit_length() - 2})')} to <8 x i1>")
    return w.select(bit, eight, high, low, "<8 x i1>")


def gather(w: Writer, t: LaneScalar, pointers: str, mask: str | None = None, note: str = "", align: int = 0) -> str:
    """Return what lies at ``pointers``, a vector, for the lanes of ``mask`` (all without one); 0 for others.

    ``pointers`` are multiples of ``align``; of the type's size without it.
    """
    reg, addresses, test = register_type(t), f"<{t.width} x ptr>", f"<{t.width} x i1>"
    name = f"llvm.masked.gather.{suffix(t)}.v{t.width}p0"
    w.declare(name, f"{reg} @{name}({addresses}, i32, {test}, {reg})")
    on = constant(True, LaneScalar("bool", 8, t.width))
    if mask is not None and w.target.has_masked_gathers:
        on = mask
    elif mask is not None:
        # LLVM would branch for each lane. So other lanes read a zero of the module's.
        w.helper(_ZERO, f"{_ZERO} = private constant [{_LARGEST} x i8] zeroinitializer, align {_LARGEST}")
        pointers = w.select(mask, addresses, pointers, f"splat (ptr {_ZERO})", test)
    given = f"{addresses} {pointers}, i32 {align or t.bits // 8}, {test} {on}, {reg} zeroinitializer"
    return w.op(f"call {reg} @{name}({given}){note}")


def scatter(w: Writer, t: LaneScalar, pointers: str, x: str, mask: str | None = None, note: str = "") -> None:
    """Write each lane of ``x`` at its pointer, the last lane last, for the lanes of ``mask``."""
    reg, addresses, test = register_type(t), f"<{t.width} x ptr>", f"<{t.width} x i1>"
    name = f"llvm.masked.scatter.{suffix(t)}.v{t.width}p0"
    w.declare(name, f"void @{name}({reg}, {addresses}, i32, {test})")
    on = constant(True, LaneScalar("bool", 8, t.width)) if mask is None else mask
    w.do(f"call void @{name}({reg} {x}, {addresses} {pointers}, i32 {t.bits // 8}, {test} {on}){note}")


def masked_load(w: Writer, t: LaneScalar, base: str, mask: str, note: str) -> str:
    """Return the elements from ``base`` on, side by side, for the lanes of ``mask``; 0 for others."""
    reg, test = register_type(t), f"<{t.width} x i1>"
    name = f"llvm.masked.load.{suffix(t)}.p0"
    w.declare(name, f"{reg} @{name}(ptr, i32, {test}, {reg})")
    x = w.op(f"call {reg} @{name}(ptr {base}, i32 {t.bits // 8}, {test} {mask}, {reg} zeroinitializer){note}")
    # LLVM's instcombine makes one load of a masked load and a `select` by its mask, at the place of the `select`, also
    # past a store to the same memory. It does not see through `freeze`, which costs nothing.
    return w.op(f"freeze {reg} {x}")


def masked_store(w: Writer, t: LaneScalar, base: str, x: str, mask: str, note: str) -> None:
    """Write the lanes of ``mask``, side by side from ``base`` on."""
    reg, test = register_type(t), f"<{t.width} x i1>"
    name = f"llvm.masked.store.{suffix(t)}.p0"
    w.declare(name, f"void @{name}({reg}, ptr, i32, {test})")
    w.do(f"call void @{name}({reg} {x}, ptr {base}, i32 {t.bits // 8}, {test} {mask}){note}")
