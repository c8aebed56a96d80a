"""NumPy references of the transform and spatial builtins; a transform is an array of seven, a spatial vector of six."""

from __future__ import annotations

from typing import Any

import numpy as np

from warp_like.builtins import rotations


def point(t: Any, v: Any) -> Any:
    """Return the moved point."""
    return rotations.rotate(t[3:], v) + t[:3]


def multiply(a: Any, b: Any) -> Any:
    """Return the transform that applies ``b``, then ``a``."""
    return np.append(point(a, b[:3]), rotations.multiply(a[3:], b[3:]))


def inverse(t: Any) -> Any:
    """Return the inverse of a transform with a unit quaternion."""
    back = rotations.conjugate(t[3:])
    return np.append(-rotations.rotate(back, t[:3]), back)


def compose(position: Any, rotation: Any, scale: Any) -> Any:
    """Return the 4x4 matrix that scales, then rotates, then moves."""
    m = np.eye(4, dtype=np.result_type(position))
    m[:3, :3] = rotations.to_matrix(rotation) * scale
    m[:3, 3] = position
    return m


def decompose(m: Any) -> Any:
    """Return position, rotation and scale; the scale of x is negative where the matrix mirrors."""
    scale = np.linalg.norm(m[:3, :3], axis=0)
    side = -1.0 if np.linalg.det(m[:3, :3]) < 0 else 1.0
    turned = m[:3, :3] / np.where(scale == 0, 1, scale) * np.array([side, 1, 1])
    return m[:3, 3], rotations.from_matrix(turned), scale * np.array([side, 1, 1])


def motion_cross(a: Any, b: Any) -> Any:
    """Return the cross product of a motion with a motion, by its 6x6 matrix."""
    return _cross_matrix(a) @ b


def force_cross(a: Any, b: Any) -> Any:
    """Return the cross product of a motion with a force: minus the transposed matrix of ``motion_cross``."""
    return -_cross_matrix(a).T @ b


def _cross_matrix(a: Any) -> Any:
    w, v = _skew(a[:3]), _skew(a[3:])
    return np.block([[w, np.zeros_like(w)], [v, w]])


def _skew(v: Any) -> Any:
    return np.cross(np.eye(3, dtype=v.dtype), v).T * -1


def adjoint(r: Any, s: Any) -> Any:
    """Return the 6x6 matrix of blocks ``r, 0; s, r``."""
    return np.block([[r, np.zeros_like(r)], [s, r]])


def twist(t: Any, x: Any) -> Any:
    """Return the twist seen from the frame that ``t`` leads to."""
    r = rotations.to_matrix(t[3:])
    return adjoint(r, _skew(t[:3]) @ r) @ x


def wrench(t: Any, x: Any) -> Any:
    """Return the wrench seen from the frame that ``t`` leads to."""
    r = rotations.to_matrix(t[3:])
    return np.block([[r, _skew(t[:3]) @ r], [np.zeros_like(r), r]]) @ x
