"""Ops that exist only while a function is being differentiated."""

from __future__ import annotations

from warp_like.ir.core import Op, Value, attr, op, operand


@op("unavailable")
class Unavailable(Op):
    """A primal value that the reverse sweep can't compute again, and why."""

    reason: str = attr()
    help: str = attr()


@op("replayed")
class Replayed(Op):
    """``value``, for which ``replay`` stands where the reverse sweep needs it again."""

    value: Value = operand()
    replay: Value = operand()
