"""Choosing between values, searching among them, and blending them."""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

import functools
from typing import Any

import numpy as np

from warp_like.builtins import reference
from warp_like.builtins.device import utility as device
from warp_like.builtins.emit import Emitter
from warp_like.builtins.patterns import ARRAY, MF, NUMBERS, VF, F, I, S, T
from warp_like.builtins.spec import Adjoints, Expand, Inline, NoGradient, Target, builtin
from warp_like.ir.core import Value
from warp_like.ir.types import Array, bool_, int32

GROUP = "Utility"
SEARCHED = NoGradient("an index carries no gradient")


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


def _holds(b: Emitter, arr: Value) -> Value:
    """Whether an array has elements."""
    assert isinstance(arr.type, Array)
    extents = [b.gt(b.dim(arr, axis), 0) for axis in range(arr.type.ndim)]
    return functools.reduce(b.bit_and, extents)


@builtin(
    name="where",
    group=GROUP,
    lower=Expand(lambda b, arr, x, y: b.select(_holds(b, arr), x, y)),
    ref=lambda arr, x, y: x if np.size(arr) else y,
    example="a[0] = wp.where(n, 1.0, 2.0)",
)
def where_array(arr: ARRAY, value_if_true: T, value_if_false: T) -> T:
    """Return ``value_if_true`` where the array has elements, else ``value_if_false``. Both are computed."""


@builtin(
    name="select",
    group=GROUP,
    lower=Expand(lambda b, arr, if_false, if_true: b.select(_holds(b, arr), if_true, if_false)),
    ref=lambda arr, if_false, if_true: if_true if np.size(arr) else if_false,
    example="a[0] = wp.select(n, 2.0, 1.0)",
)
def select_array(arr: ARRAY, value_if_false: T, value_if_true: T) -> T:
    """Return ``value_if_true`` where the array has elements: the older form of ``where``, with its order reversed."""


@builtin(
    name="unot",
    group="Operators",
    lower=Expand(lambda b, arr: b.unot(_holds(b, arr))),
    ref=lambda a: not np.size(a),
    example="a[0] = float(wp.unot(n))",
    adjoint=NoGradient("it has no value that depends on a float"),
)
def unot_array(a: ARRAY) -> bool_:
    """Return whether the array has no elements, as ``not a``."""


# --- searching ------------------------------------------------------------------------------------------------


def _lower_bound(arr: Any, begin: Any, end: Any, value: Any) -> Any:
    return max(begin, min(end - 1, begin + np.searchsorted(arr[begin:end], value)))


@builtin(
    group="Other",
    lower=Inline(device.lower_bound_of_all),
    ref=lambda arr, value: _lower_bound(arr, 0, len(arr), value),
    example="n[0] = wp.lower_bound(a, 0.5)",
    adjoint=SEARCHED,
)
def lower_bound(arr: NUMBERS, value: S) -> int32:
    """Return the first index whose element is not less than ``value``, of a sorted array; the last one if all are less.

    So the result is an index of the array, unless that is empty.
    """


@builtin(
    name="lower_bound",
    group="Other",
    lower=Inline(device.lower_bound),
    ref=_lower_bound,
    example="n[0] = wp.lower_bound(a, 1, 3, 0.5)",
    adjoint=SEARCHED,
)
def lower_bound_between(arr: NUMBERS, arr_begin: int32, arr_end: int32, value: S) -> int32:
    """Return the first index from ``arr_begin`` to before ``arr_end`` whose element is not less than ``value``.

    It is ``arr_end - 1`` if all are less, and ``arr_begin`` if the range is empty.
    """


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
