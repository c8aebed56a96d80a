"""Two numbers put together as an atomic update does it, by what the table of atomics says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from warp_like.backend.llvm.instructions import apply_builtin
from warp_like.backend.llvm.values import constant, register_type, suffix
from warp_like.backend.llvm.writer import Writer
from warp_like.builtins.patterns import Literal
from warp_like.builtins.spec import resolve
from warp_like.ir.atomics import KINDS
from warp_like.ir.types import Scalar, Type

INTRINSIC = "llvm."


def combined(w: Writer, kind: str, t: Scalar, a: str, b: str, flags: str = "") -> str:
    """Return the new number that an update of ``a`` by ``b`` gives, in each lane of ``t``.

    Of a number and none, ``min`` and ``max`` give the number. ``flags`` are for instructions on floats.
    """
    row, reg = KINDS[kind], register_type(t)
    name = row.operation.of(t)
    if name.startswith(INTRINSIC):
        return w.intrinsic(f"{name}.{suffix(t)}", reg, [reg, reg], [a, b])
    if name:
        return w.op(f"{name} {flags if t.is_float else ''}{reg} {a}, {b}")
    assert row.new is not None, kind
    made: _Number = row.new(_Instructions(w), _Number(t, a), _Number(t, b))  # type: ignore[arg-type, assignment]
    return made.register


class _Number(NamedTuple):
    """A scalar in a register, as the functions in the rows of the table see it."""

    type: Type
    register: str


class _Instructions:
    """An emitter of those builtins that the backend lowers itself, straight to LLVM."""

    def __init__(self, w: Writer) -> None:
        self.w = w

    def apply(self, name: str, *args: _Number | float) -> _Number:
        """Append the call of a builtin of one result; numbers adapt to the types of the other arguments."""
        resolved = resolve(name, [a.type if isinstance(a, _Number) else Literal(a) for a in args])
        registers = [
            (a.register if isinstance(a, _Number) else constant(a, t),)
            for a, t in zip(args, resolved.args, strict=True)
            if isinstance(t, Scalar)
        ]
        (t,), (x,) = resolved.results, apply_builtin(self.w, name, list(resolved.args), list(registers))
        return _Number(t, x)

    def __getattr__(self, name: str) -> Callable[..., _Number]:
        return functools.partial(self.apply, name)

    def select(self, cond: _Number, a: _Number, b: _Number) -> _Number:
        """``a`` where ``cond``, else ``b``."""
        return self.apply("where", cond, a, b)
