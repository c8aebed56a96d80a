"""Two numbers put together as an atomic update does it, by the names that the table of atomics has for LLVM."""

from __future__ import annotations

from warp_like.backend.llvm.values import register_type, suffix
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.atomics import KINDS
from warp_like.ir.types import Scalar

INTRINSIC = "llvm."


def combined(w: Writer, kind: str, t: Scalar, a: str, b: str, flags: str = "") -> str:
    """Return the new number that an update of ``a`` by ``b`` gives, in each lane of ``t``.

    Of a number and none, ``min`` and ``max`` give the number. ``flags`` are for instructions on floats.
    """
    name, reg = KINDS[kind].operation.of(t), register_type(t)
    if name.startswith(INTRINSIC):
        return w.intrinsic(f"{name}.{suffix(t)}", reg, [reg, reg], [a, b])
    return w.op(f"{name} {flags if t.is_float else ''}{reg} {a}, {b}")
