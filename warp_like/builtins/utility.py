"""Choosing between values and blending them."""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from typing import Any

from warp_like.builtins import reference
from warp_like.builtins.emit import Emitter
from warp_like.builtins.patterns import MF, VF, F, I, T
from warp_like.builtins.spec import Adjoints, Expand, Target, builtin
from warp_like.ir.core import Value
from warp_like.ir.types import bool_

GROUP = "Utility"


def _where_adjoint(b: Emitter, g: Value, out: Value, cond: Value, x: Value, y: Value) -> Adjoints:
    zero = b.zero(g.type)
    return None, b.select(cond, g, zero), b.select(cond, zero, g)


def _where(cond: Any, x: Any, y: Any) -> Any:
    return x if cond else y


@builtin(group=GROUP, lower=Target(), ref=_where, adjoint=_where_adjoint)
def where(cond: bool_, value_if_true: T, value_if_false: T) -> T:
    """Return ``value_if_true`` where ``cond``, else ``value_if_false``. Both are computed."""


@builtin(name="where", group=GROUP, lower=Expand(lambda b, c, x, y: b.select(b.ne(c, 0), x, y)), ref=_where)
def where_int(cond: I, value_if_true: T, value_if_false: T) -> T:
    """Return ``value_if_true`` where ``cond`` is not zero, else ``value_if_false``. Both are computed."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, cond, if_false, if_true: b.select(cond, if_true, if_false)),
    ref=lambda cond, if_false, if_true: if_true if cond else if_false,
)
def select(cond: bool_, value_if_false: T, value_if_true: T) -> T:
    """Return ``value_if_true`` where ``cond``: the older form of ``where``, whose order of values is reversed."""


@builtin(
    name="select",
    group=GROUP,
    lower=Expand(lambda b, cond, if_false, if_true: b.select(b.ne(cond, 0), if_true, if_false)),
    ref=lambda cond, if_false, if_true: if_true if cond else if_false,
)
def select_int(cond: I, value_if_false: T, value_if_true: T) -> T:
    """Return ``value_if_true`` where ``cond`` is not zero: the older form of ``where``, with its order reversed."""


# --- blending -------------------------------------------------------------------------------------------------


def _lerp(b: Emitter, x: Value, y: Value, t: Value) -> Value:
    return b.add(b.mul(x, b.sub(1.0, t)), b.mul(y, t))


def _lerp_ref(a: Any, b: Any, t: Any) -> Any:
    return a * (1.0 - t) + b * t


def _smoothstep(b: Emitter, low: Value, high: Value, x: Value) -> Value:
    t = b.clamp(b.div(b.sub(x, low), b.sub(high, low)), 0.0, 1.0)
    return b.mul(b.mul(t, t), b.sub(3.0, b.mul(t, 2.0)))


@builtin(group=GROUP, lower=Expand(_lerp), ref=_lerp_ref)
def lerp(a: F, b: F, t: F) -> F:
    """Return ``a * (1 - t) + b * t``."""


@builtin(name="lerp", group=GROUP, lower=Expand(_lerp), ref=_lerp_ref)
def lerp_vec(a: VF, b: VF, t: F) -> VF:
    """Return the vector ``a * (1 - t) + b * t``."""


@builtin(name="lerp", group=GROUP, lower=Expand(_lerp), ref=_lerp_ref)
def lerp_mat(a: MF, b: MF, t: F) -> MF:
    """Return the matrix ``a * (1 - t) + b * t``."""


@builtin(group=GROUP, lower=Expand(_smoothstep), ref=reference.smoothstep)
def smoothstep(a: F, b: F, x: F) -> F:
    """Return 0 for ``x`` up to ``a``, 1 from ``b`` on, and between them the cubic with flat ends."""
