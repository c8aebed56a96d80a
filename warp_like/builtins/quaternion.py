"""Quaternions, stored as ``x, y, z, w``: arithmetic, rotation, and the ways to and from other forms of a rotation.

Functions of rotations take unit quaternions and don't normalise them; gradients are those of the formulas in the four
components.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

import numpy as np

from warp_like.builtins import (
    matrix,  # noqa: F401 (its rows of a name come first)
    reference,
    rotations,
)
from warp_like.builtins.device import quaternion as device
from warp_like.builtins.emit import Emitter
from warp_like.builtins.logic import _all_equal, _any_different, _different, _equal
from warp_like.builtins.operators import (
    COMPARISON,
    _difference_adjoint,
    _neg_adjoint,
    _scaled_adjoint,
    _scaled_quotient_adjoint,
    _scaling_adjoint,
    _sum_adjoint,
    sum_of_products,
)
from warp_like.builtins.patterns import V3, F, MatOf, Q
from warp_like.builtins.precision import in_float32
from warp_like.builtins.spec import Adjoints, Elementwise, Expand, Inline, NoGradient, Special, builtin
from warp_like.builtins.special import MADE
from warp_like.builtins.utility import _lerp, _lerp_ref
from warp_like.builtins.vector import _every, _inverse_length, _length_adjoint, _some
from warp_like.ir.core import Value
from warp_like.ir.types import bool_, float32, int32

GROUP = "Quaternion Math"
NO_VALUE = NoGradient("it is constant")

# --- making one -----------------------------------------------------------------------------------------------


def _host(*args: Any, dtype: Any = float32, **parts: Any) -> Any:
    from warp_like.values import quaternion  # needs the native extension

    forms = ("x", "y", "z", "w"), ("ijk", "real"), ("quat",)
    if parts:
        rest = next((f[len(args) :] for f in forms if {*f[len(args) :]} == {*parts}), None)
        if rest is None:
            raise TypeError(
                f"wp.quaternion() has no form with {len(args)} arguments by position and {', '.join(parts)}"
            )
        args = (*args, *(parts[p] for p in rest))
    given = getattr(type(args[0]), "_scalar_", None) if args else None
    return quaternion(given or dtype or float32)(*args)


@builtin(group=GROUP, lower=Special(), adjoint=NO_VALUE, ref=_host, example="q = wp.quaternion(dtype=float)")
def quaternion(dtype: Any = float) -> Any:
    """Return the quaternion that is zero."""


@builtin(name="quaternion", group=GROUP, lower=MADE, ref=_host, example="q = wp.quaternion(0.0, 0.0, 0.6, 0.8)")
def quaternion_of_numbers(x: Any, y: Any, z: Any, w: Any, dtype: Any = None) -> Any:
    """Return the quaternion of four numbers; ``w`` is its real part."""


@builtin(
    name="quaternion", group=GROUP, lower=MADE, ref=_host, example="q = wp.quaternion(wp.vec3(0.0, 0.0, 0.6), 0.8)"
)
def quaternion_of_parts(ijk: Any, real: Any, dtype: Any = None) -> Any:
    """Return the quaternion of the imaginary part ``ijk``, a vector of 3, and the real part."""


@builtin(
    name="quaternion",
    group=GROUP,
    lower=MADE,
    ref=_host,
    example="q = wp.quaternion(wp.quat_identity(), dtype=wp.float64)",
)
def quaternion_of_quaternion(quat: Any, dtype: Any = None) -> Any:
    """Return a quaternion with the components converted to ``dtype``."""


@builtin(
    group=GROUP,
    lower=Special(),
    adjoint=NO_VALUE,
    ref=lambda dtype=float32: _host(0.0, 0.0, 0.0, 1.0, dtype=dtype),
    example="q = wp.quat_identity()",
)
def quat_identity(dtype: Any = float) -> Any:
    """Return the quaternion of no rotation, ``0, 0, 0, 1``."""


# --- arithmetic -----------------------------------------------------------------------------------------------


@builtin(name="add", group=GROUP, lower=Elementwise("add"), ref=np.add, adjoint=_sum_adjoint)
def add_quat(a: Q, b: Q) -> Q:
    """Return the sum of two quaternions."""


@builtin(name="sub", group=GROUP, lower=Elementwise("sub"), ref=np.subtract, adjoint=_difference_adjoint)
def sub_quat(a: Q, b: Q) -> Q:
    """Return the difference of two quaternions."""


@builtin(name="neg", group=GROUP, lower=Elementwise("neg"), ref=np.negative, adjoint=_neg_adjoint)
def neg_quat(x: Q) -> Q:
    """Return the negated quaternion, which stands for the same rotation."""


@builtin(name="pos", group=GROUP, lower=Expand(lambda b, x: x), ref=np.positive, adjoint=lambda b, g, out, x: g)
def pos_quat(x: Q) -> Q:
    """Return the quaternion."""


@builtin(name="mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply, adjoint=_scaled_adjoint)
def mul_quat_scalar(a: Q, b: F) -> Q:
    """Return quaternion ``a`` scaled by ``b``."""


@builtin(name="mul", group=GROUP, lower=Elementwise("mul"), ref=np.multiply, adjoint=_scaling_adjoint)
def mul_scalar_quat(a: F, b: Q) -> Q:
    """Return quaternion ``b`` scaled by ``a``."""


@builtin(name="div", group=GROUP, lower=Elementwise("div"), ref=reference.divide, adjoint=_scaled_quotient_adjoint)
def div_quat_scalar(a: Q, b: F) -> Q:
    """Return quaternion ``a`` divided by ``b``."""


@builtin(name="div", group=GROUP, lower=Elementwise("div"), ref=reference.divide)
def div_scalar_quat(a: F, b: Q) -> Q:
    """Return the quaternion of ``a`` divided by each component of ``b``."""


@builtin(
    name="div_approx",
    group=GROUP,
    lower=Elementwise("div_approx"),
    ref=reference.divide,
    adjoint=_scaled_quotient_adjoint,
)
def div_approx_quat_scalar(a: Q, b: F) -> Q:
    """Return quaternion ``a`` divided by ``b``, as ``div_approx`` of numbers."""


@builtin(name="div_approx", group=GROUP, lower=Elementwise("div_approx"), ref=reference.divide)
def div_approx_scalar_quat(a: F, b: Q) -> Q:
    """Return the quaternion of ``a`` divided by each component of ``b``, as ``div_approx`` of numbers."""


@builtin(
    name="isfinite",
    group=GROUP,
    lower=Expand(lambda b, q: _every(b, q, b.isfinite)),
    ref=lambda a: np.all(np.isfinite(a)),
    adjoint=COMPARISON,
)
def isfinite_quat(a: Q) -> bool_:
    """Return whether all components are finite."""


@builtin(
    name="isnan",
    group=GROUP,
    lower=Expand(lambda b, q: _some(b, q, b.isnan)),
    ref=lambda a: np.any(np.isnan(a)),
    adjoint=COMPARISON,
)
def isnan_quat(a: Q) -> bool_:
    """Return whether some component is NaN."""


@builtin(
    name="isinf",
    group=GROUP,
    lower=Expand(lambda b, q: _some(b, q, b.isinf)),
    ref=lambda a: np.any(np.isinf(a)),
    adjoint=COMPARISON,
)
def isinf_quat(a: Q) -> bool_:
    """Return whether some component is infinite."""


@builtin(name="eq", group=GROUP, lower=Expand(_all_equal), ref=_equal, adjoint=COMPARISON)
def eq_quat(a: Q, b: Q) -> bool_:
    """Return whether all components are equal; ``q`` and ``-q``, the same rotation, are not."""


@builtin(name="ne", group=GROUP, lower=Expand(_any_different), ref=_different, adjoint=COMPARISON)
def ne_quat(a: Q, b: Q) -> bool_:
    """Return whether some component differs."""


@builtin(name="mul", group=GROUP, lower=Inline(device.multiply), ref=rotations.multiply)
def mul_quat(a: Q, b: Q) -> Q:
    """Return the product of two quaternions: the rotation by ``b``, then by ``a``."""


@builtin(
    name="dot",
    group=GROUP,
    lower=Expand(in_float32(lambda b, x, y: sum_of_products(b, b.components(x), b.components(y)))),
    ref=np.dot,
    adjoint=lambda b, g, out, x, y: (b.mul(y, g), b.mul(x, g)),
)
def dot_quat(a: Q, b: Q) -> F:
    """Return the dot product of two quaternions."""


@builtin(
    name="length_sq",
    group=GROUP,
    lower=Expand(in_float32(lambda b, x: b.dot(x, x))),
    ref=lambda a: np.dot(a, a),
    adjoint=lambda b, g, out, x: b.mul(x, b.mul(g, 2.0)),
)
def length_sq_quat(a: Q) -> F:
    """Return the squared length of a quaternion."""


@builtin(
    name="length",
    group=GROUP,
    lower=Expand(in_float32(lambda b, x: b.sqrt(b.dot(x, x)))),
    ref=np.linalg.norm,
    adjoint=in_float32(_length_adjoint),
)
def length_quat(a: Q) -> F:
    """Return the length of a quaternion. Its gradient at zero is 0."""


def _normalize(b: Emitter, q: Value) -> Value:
    identity = b.constant((0.0, 0.0, 0.0, 1.0), q.type)
    return b.select(b.eq(b.length(q), 0.0), identity, b.mul(q, _inverse_length(b, q)))


def _normalize_adjoint(b: Emitter, g: Value, out: Value, q: Value) -> Adjoints:
    return b.mul(b.sub(g, b.mul(out, b.dot(out, g))), _inverse_length(b, q))


@builtin(
    name="normalize",
    group=GROUP,
    lower=Expand(in_float32(_normalize)),
    ref=rotations.normalize,
    adjoint=in_float32(_normalize_adjoint),
)
def normalize_quat(a: Q) -> Q:
    """Return the unit quaternion in the direction of ``a``; zero gives the identity, with gradient 0."""


@builtin(name="lerp", group=GROUP, lower=Expand(_lerp), ref=_lerp_ref)
def lerp_quat(a: Q, b: Q, t: F) -> Q:
    """Return the quaternion ``a * (1 - t) + b * t``, which is not normalised."""


# --- rotation -------------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Inline(device.conjugate), ref=rotations.conjugate)
def quat_inverse(quat: Q) -> Q:
    """Return the inverse of a unit quaternion, its conjugate."""


@builtin(group=GROUP, lower=Inline(device.rotate), ref=rotations.rotate)
def quat_rotate(quat: Q, vec: V3) -> V3:
    """Return ``vec`` rotated by a unit quaternion."""


@builtin(group=GROUP, lower=Inline(device.rotate_back), ref=lambda q, v: rotations.rotate(rotations.conjugate(q), v))
def quat_rotate_inv(quat: Q, vec: V3) -> V3:
    """Return ``vec`` rotated by the inverse of a unit quaternion."""


@builtin(group=GROUP, lower=Inline(device.slerp), ref=rotations.slerp)
def quat_slerp(a: Q, b: Q, t: F) -> Q:
    """Return the rotation on the shorter arc from ``a`` to ``b``, two unit quaternions, at the fraction ``t``."""


# --- other forms ----------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Inline(device.to_matrix), ref=rotations.to_matrix)
def quat_to_matrix(quat: Q) -> MatOf(3, 3, F):
    """Return the rotation matrix of a unit quaternion."""


@builtin(group=GROUP, lower=Inline(device.from_matrix), ref=rotations.from_matrix)
def quat_from_matrix(mat: MatOf(3, 3, F)) -> Q:
    """Return the unit quaternion of a rotation matrix."""


@builtin(name="quat_from_matrix", group=GROUP, lower=Inline(device.from_matrix), ref=rotations.from_matrix)
def quat_from_matrix_4(mat: MatOf(4, 4, F)) -> Q:
    """Return the unit quaternion of the rotation in a 4x4 transformation matrix without scale."""


@builtin(group=GROUP, lower=Inline(device.from_axis_angle), ref=rotations.from_axis_angle)
def quat_from_axis_angle(axis: V3, angle: F) -> Q:
    """Return the rotation about the unit vector ``axis`` by ``angle`` radians."""


@builtin(group=GROUP, lower=Inline(device.between), ref=rotations.between)
def quat_between_vectors(a: V3, b: V3) -> Q:
    """Return the rotation by the least angle that turns the direction of ``a`` to that of ``b``.

    Between opposite directions it is half a turn about some axis across, and where one of them is zero the identity.
    """


@builtin(group=GROUP, lower=Inline(device.to_axis_angle), ref=rotations.to_axis_angle)
def quat_to_axis_angle(quat: Q) -> (V3, F):
    """Return axis and angle, between 0 and pi, of a rotation: ``axis, angle = wp.quat_to_axis_angle(q)``.

    The axis of the identity is zero, and the gradient there is 0.
    """


@builtin(
    name="quat_to_axis_angle",
    group=GROUP,
    lower=Expand(lambda b, quat, axis, angle: b.quat_to_axis_angle(quat)),
    ref=lambda quat, axis, angle: rotations.to_axis_angle(quat),
    assigns=("axis", "angle"),
    example="""
    axis, angle = wp.vec3(), 0.0
    wp.quat_to_axis_angle(wp.quat(1.0, 0.0, 0.0, 0.0), axis, angle)
    """,
)
def quat_to_axis_angle_into(quat: Q, axis: V3, angle: F) -> (V3, F):
    """Assign axis and angle of a rotation to the variables ``axis`` and ``angle``."""


@builtin(group=GROUP, lower=Inline(device.from_rpy), ref=rotations.from_rpy)
def quat_rpy(roll: F, pitch: F, yaw: F) -> Q:
    """Return the rotation about the fixed axes x by ``roll``, then y by ``pitch``, then z by ``yaw``, in radians."""


@builtin(group=GROUP, lower=Inline(device.to_rpy), ref=rotations.to_rpy)
def quat_to_rpy(q: Q) -> V3:
    """Return roll, pitch and yaw of a unit quaternion, in radians, the inverse of ``quat_rpy``."""


@builtin(group=GROUP, lower=Inline(device.from_euler), ref=rotations.from_euler)
def quat_from_euler(e: V3, i: int32, j: int32, k: int32) -> Q:
    """Return the rotation about axis ``i`` by ``e[i]``, then axis ``j`` by ``e[j]``, then axis ``k`` by ``e[k]``.

    Axes are 0, 1 or 2 and stay fixed; angles are in radians.
    """


@builtin(group=GROUP, lower=Inline(device.to_euler), ref=rotations.to_euler)
def quat_to_euler(q: Q, i: int32, j: int32, k: int32) -> V3:
    """Return the angles ``e`` of rotations about the fixed axes ``i``, then ``j``, then ``k``, that make up one.

    They are ``e[i]``, ``e[j]`` and ``e[k]``; where ``i == k``, the last one is the element that is left. The second
    lies between -pi/2 and pi/2, or between 0 and pi where ``i == k``; the others may exceed pi.

    In gimbal lock the first and the third angle are one of many solutions, and their gradient is 0.
    """


@builtin(group=GROUP, lower=Inline(device.twist), ref=rotations.twist)
def quat_twist(axis: V3, q: Q) -> Q:
    """Return the part of a rotation that is about the unit vector ``axis``."""


@builtin(group=GROUP, lower=Inline(device.twist_angle), ref=lambda a, q: abs(rotations.twist_angle(a, q)))
def quat_twist_angle(axis: V3, q: Q) -> F:
    """Return the angle, from 0 to 2 pi, of a rotation's part about the unit vector ``axis``."""


@builtin(group=GROUP, lower=Inline(device.twist_angle_signed), ref=rotations.twist_angle)
def quat_twist_angle_signed(axis: V3, q: Q) -> F:
    """Return the angle, from -2 pi to 2 pi, of a rotation's part about the unit vector ``axis``."""


@builtin(group=GROUP, name="_quat_about", lower=Inline(device.about), ref=rotations.about)
def quat_about(axis: int32, angle: F) -> Q:
    """Return the rotation about a coordinate axis."""


@builtin(group=GROUP, name="_sinc", lower=Inline(device.sinc_of_root), ref=lambda z: np.sinc(np.sqrt(abs(z)) / np.pi))
def sinc_of_root(z: F) -> F:
    """Return ``sin(sqrt(z)) / sqrt(z)`` for small ``z``."""
