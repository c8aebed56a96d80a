"""Rigid transformations: a translation ``p``, then a rotation ``q``, a unit quaternion, seven numbers together.

Functions don't normalise the quaternion; gradients are those of the formulas in the seven numbers.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

import numpy as np

from warp_like.builtins import reference, rigid, rotations
from warp_like.builtins.device import transform as device
from warp_like.builtins.logic import _all_equal, _any_different, _different, _equal
from warp_like.builtins.operators import (
    COMPARISON,
    _difference_adjoint,
    _neg_adjoint,
    _scaled_adjoint,
    _scaled_quotient_adjoint,
    _scaling_adjoint,
    _sum_adjoint,
)
from warp_like.builtins.patterns import M44, TF, V3, F, Q
from warp_like.builtins.quaternion import NO_VALUE
from warp_like.builtins.spec import Elementwise, Expand, Inline, Special, builtin
from warp_like.builtins.special import MADE
from warp_like.builtins.utility import _lerp, _lerp_ref
from warp_like.ir.types import bool_, float32

GROUP = "Transformations"

# --- making one, and its parts --------------------------------------------------------------------------------


def _host(*args: Any, p: Any = None, q: Any = None, dtype: Any = None) -> Any:
    from warp_like.values import transformation  # needs the native extension

    given = (getattr(type(a), "_scalar_", None) for a in (*args, p, q))
    made = transformation(dtype or next((s for s in given if s is not None), float32))
    return made(*args, p=p, q=q) if args or p is not None or q is not None else made(0.0)


@builtin(
    group=GROUP, lower=MADE, ref=_host, example="t = wp.transformation(wp.vec3(1.0, 2.0, 3.0), wp.quat_identity())"
)
def transformation(p: Any, q: Any = None, dtype: Any = None) -> Any:
    """Return the transform of translation ``p``, a vector of three, and rotation ``q``, the identity if left out.

    The type as a function does the same: ``wp.transform(p, q)``.
    """


@builtin(
    name="transformation",
    group=GROUP,
    lower=MADE,
    ref=_host,
    example="t = wp.transformation(1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)",
)
def transformation_of(*args: Any, dtype: Any = None) -> Any:
    """Return a transform of seven numbers, of one for all of them, or of another transform; else zero."""


@builtin(
    group=GROUP,
    lower=Special(),
    adjoint=NO_VALUE,
    ref=lambda dtype=float32: _host((0.0, 0.0, 0.0), dtype=dtype),
    example="t = wp.transform_identity()",
)
def transform_identity(dtype: Any = float) -> Any:
    """Return the transform that leaves points where they are."""


@builtin(group=GROUP, lower=Expand(lambda b, xform: b.make(*_part(b, xform, "p"))), ref=lambda xform: xform[:3])
def transform_get_translation(xform: TF) -> V3:
    """Return the translation, as ``xform.p``."""


@builtin(group=GROUP, lower=Expand(lambda b, xform: b.make(*_part(b, xform, "q"))), ref=lambda xform: xform[3:])
def transform_get_rotation(xform: TF) -> Q:
    """Return the rotation, as ``xform.q``."""


def _part(b: Any, xform: Any, name: str) -> Any:
    at, t = xform.type.parts[name]
    return t, [b.extract(xform, i) for i in at]


@builtin(
    group=GROUP,
    lower=Inline(device.with_translation),
    ref=lambda xform, p: np.append(p, xform[3:]),
    assigns=("xform",),
    example="""
    t = wp.transform_identity()
    wp.transform_set_translation(t, wp.vec3(1.0, 2.0, 3.0))
    """,
)
def transform_set_translation(xform: TF, p: V3) -> TF:
    """Set the translation of the variable ``xform``, as ``xform.p = p``."""


@builtin(
    group=GROUP,
    lower=Inline(device.with_rotation),
    ref=lambda xform, q: np.append(xform[:3], q),
    assigns=("xform",),
    example="""
    t = wp.transform_identity()
    wp.transform_set_rotation(t, wp.quat(1.0, 0.0, 0.0, 0.0))
    """,
)
def transform_set_rotation(xform: TF, q: Q) -> TF:
    """Set the rotation of the variable ``xform``, as ``xform.q = q``."""


# --- arithmetic -----------------------------------------------------------------------------------------------


@builtin(name="add", group=GROUP, lower=Elementwise("add"), ref=np.add, adjoint=_sum_adjoint)
def add_transform(a: TF, b: TF) -> TF:
    """Return the sum of two transforms, number by number."""


@builtin(name="sub", group=GROUP, lower=Elementwise("sub"), ref=np.subtract, adjoint=_difference_adjoint)
def sub_transform(a: TF, b: TF) -> TF:
    """Return the difference of two transforms, number by number."""


@builtin(name="neg", group=GROUP, lower=Elementwise("neg"), ref=np.negative, adjoint=_neg_adjoint)
def neg_transform(x: TF) -> TF:
    """Return the transform with each number negated."""


@builtin(name="pos", group=GROUP, lower=Expand(lambda b, x: x), ref=np.positive, adjoint=lambda b, g, out, x: g)
def pos_transform(x: TF) -> TF:
    """Return the transform."""


@builtin(name="mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply, adjoint=_scaled_adjoint)
def mul_transform_scalar(a: TF, b: F) -> TF:
    """Return transform ``a`` with each number multiplied by ``b``."""


@builtin(name="mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply, adjoint=_scaling_adjoint)
def mul_scalar_transform(a: F, b: TF) -> TF:
    """Return transform ``b`` with each number multiplied by ``a``."""


@builtin(name="div", group=GROUP, lower=Elementwise("div"), ref=reference.divide, adjoint=_scaled_quotient_adjoint)
def div_transform_scalar(a: TF, b: F) -> TF:
    """Return transform ``a`` with each number divided by ``b``."""


@builtin(name="mul", group=GROUP, lower=Inline(device.multiply), ref=rigid.multiply)
def mul_transform(a: TF, b: TF) -> TF:
    """Return the product of two transforms: the one that applies ``b``, then ``a``."""


@builtin(name="lerp", group=GROUP, lower=Expand(_lerp), ref=_lerp_ref)
def lerp_transform(a: TF, b: TF, t: F) -> TF:
    """Return the transform ``a * (1 - t) + b * t``, whose quaternion is not normalised."""


@builtin(name="eq", group=GROUP, lower=Expand(_all_equal), ref=_equal, adjoint=COMPARISON)
def eq_transform(a: TF, b: TF) -> bool_:
    """Return whether all seven numbers are equal."""


@builtin(name="ne", group=GROUP, lower=Expand(_any_different), ref=_different, adjoint=COMPARISON)
def ne_transform(a: TF, b: TF) -> bool_:
    """Return whether some number differs."""


# --- moving points --------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Inline(device.multiply), ref=rigid.multiply)
def transform_multiply(a: TF, b: TF) -> TF:
    """Return the transform that applies ``b``, then ``a``, as ``a * b``."""


@builtin(group=GROUP, lower=Inline(device.point), ref=rigid.point)
def transform_point(xform: TF, point: V3) -> V3:
    """Return the point rotated by ``xform.q``, then moved by ``xform.p``."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, xform, vec: b.quat_rotate(b.transform_get_rotation(xform), vec)),
    ref=lambda xform, vec: rigid.point(xform, vec) - xform[:3],
)
def transform_vector(xform: TF, vec: V3) -> V3:
    """Return the direction rotated by ``xform.q``."""


@builtin(group=GROUP, lower=Inline(device.inverse), ref=rigid.inverse)
def transform_inverse(xform: TF) -> TF:
    """Return the inverse of a transform whose quaternion has length 1."""


# --- matrices -------------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Inline(device.compose), ref=rigid.compose)
def transform_compose(position: V3, rotation: Q, scale: V3) -> M44:
    """Return the 4x4 matrix that scales the axes, then rotates, then moves points (as columns)."""


@builtin(group=GROUP, lower=Inline(device.decompose), ref=rigid.decompose)
def transform_decompose(m: M44) -> (V3, Q, V3):
    """Return position, rotation and scale of a 4x4 matrix without shear: ``p, q, s = wp.transform_decompose(m)``.

    ``transform_compose(p, q, s)`` gives the matrix back. Of a matrix that mirrors, the scale of x is negative.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.to_matrix),
    ref=lambda xform: rigid.compose(xform[:3], xform[3:], np.ones(3, xform.dtype)),
)
def transform_to_matrix(xform: TF) -> M44:
    """Return the 4x4 matrix of a transform, for points as columns."""


@builtin(
    group=GROUP,
    lower=Inline(device.from_matrix),
    ref=lambda mat: np.append(mat[:3, 3], rotations.from_matrix(mat)),
)
def transform_from_matrix(mat: M44) -> TF:
    """Return the transform of a 4x4 matrix that rotates and moves; ``transform_decompose`` if it scales too."""
