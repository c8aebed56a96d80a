"""Ops that exist only while a function is being differentiated."""

from __future__ import annotations

from warp_like.base.errors import WarpCodegenError
from warp_like.ir.core import Function, Op, Value, attr, op, operand


@op("not_recomputable")
class NotRecomputable(Op):
    """A primal value that the reverse sweep can't compute again, and why."""

    reason: str = attr()
    help: str = attr()


@op("replayed")
class Replayed(Op):
    """``value``, for which ``replay`` stands where the reverse sweep needs it again."""

    value: Value = operand()
    replay: Value = operand()


def require_recomputable(g: Function) -> None:
    """Refuse the derivative ``g`` if it needs a value that can't be computed.

    Raises:
        WarpCodegenError: With the reason and the place in the primal kernel.
    """
    missing = first_not_recomputable(g)
    if missing is not None:
        raise WarpCodegenError(missing.reason, missing.loc, missing.help)


def first_not_recomputable(g: Function) -> NotRecomputable | None:
    """Return an op of ``g`` that stands for a value which can't be computed, if there is one."""
    return next((o for o in g.body.walk() if isinstance(o, NotRecomputable)), None)
