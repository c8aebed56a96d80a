"""NumPy references of the quaternion builtins; a quaternion is an array ``x, y, z, w``."""

from __future__ import annotations

from typing import Any

import numpy as np


def multiply(a: Any, b: Any) -> Any:
    """Return the Hamilton product."""
    return np.append(a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3]), a[3] * b[3] - np.dot(a[:3], b[:3]))


def conjugate(q: Any) -> Any:
    """Return the conjugate."""
    return q * np.array([-1, -1, -1, 1], q.dtype)


def normalize(q: Any) -> Any:
    """Return the unit quaternion; the identity for zero."""
    size = np.linalg.norm(q)
    return q / size if size > 0 else np.array([0.0, 0.0, 0.0, 1.0])


def to_matrix(q: Any) -> Any:
    """Return the matrix of ``rotate``."""
    x, y, z = q[:3]
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return (2 * q[3] ** 2 - 1) * np.eye(3) + 2 * q[3] * skew + 2 * np.outer(q[:3], q[:3])


def rotate(q: Any, v: Any) -> Any:
    """Return the rotated vector."""
    return to_matrix(q) @ v


def from_axis_angle(axis: Any, angle: Any) -> Any:
    """Return the rotation about ``axis``."""
    return np.append(axis * np.sin(angle / 2), np.cos(angle / 2))


def between(a: Any, b: Any) -> Any:
    """Return the rotation by the least angle from the direction of ``a`` to that of ``b``."""
    if not np.any(a) or not np.any(b):
        return np.array([0.0, 0.0, 0.0, 1.0])
    u, v = a / np.linalg.norm(a), b / np.linalg.norm(b)
    if 1.0 + np.dot(u, v) > 1e-6:
        return normalize(np.append(np.cross(u, v), 1.0 + np.dot(u, v)))
    axis = np.cross(u, [1.0, 0.0, 0.0] if abs(u[0]) < 0.6 else [0.0, 1.0, 0.0])
    return np.append(axis / np.linalg.norm(axis), 0.0)


def to_axis_angle(q: Any) -> Any:
    """Return axis and angle."""
    size = np.linalg.norm(q[:3])
    axis = q[:3] / (size if size > 0 else 1) * np.copysign(1.0, q[3])
    return axis, 2 * np.arctan2(size, abs(q[3]))


def from_matrix(m: Any) -> Any:
    """Return the unit quaternion, from a row of ``4 q q^T`` with a large diagonal element."""
    d = np.array([m[0, 0], m[1, 1], m[2, 2], m[0, 0] + m[1, 1] + m[2, 2]])
    big = 3 if d[3] >= 0 else int(np.argmax(d[:3]))
    rows = np.array(
        [
            [1 + d[0] - d[1] - d[2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[2, 1] - m[1, 2]],
            [m[0, 1] + m[1, 0], 1 - d[0] + d[1] - d[2], m[1, 2] + m[2, 1], m[0, 2] - m[2, 0]],
            [m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], 1 - d[0] - d[1] + d[2], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], 1 + d[3]],
        ]
    )
    return normalize(rows[big])


def about(axis: Any, angle: Any) -> Any:
    """Return the rotation about a coordinate axis; one that does not exist adds nothing."""
    q = np.array([0.0, 0.0, 0.0, np.cos(angle / 2)])
    if 0 <= axis < 4:
        q[int(axis)] = np.sin(angle / 2)
    return q


def from_rpy(roll: Any, pitch: Any, yaw: Any) -> Any:
    """Return the rotation about x, then y, then z."""
    return multiply(about(2, yaw), multiply(about(1, pitch), about(0, roll)))


def to_rpy(q: Any) -> Any:
    """Return roll, pitch and yaw."""
    x, y, z, w = q
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2 * (w * y - z * x), -1, 1))
    return np.array([roll, pitch, np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))])


def from_euler(e: Any, i: Any, j: Any, k: Any) -> Any:
    """Return the rotation about three fixed axes."""
    return multiply(about(k, e[k]), multiply(about(j, e[j]), about(i, e[i])))


def to_euler(q: Any, i: Any, j: Any, k: Any) -> Any:
    """Return the angles about fixed axes, after Bernardes and Viollet (2022)."""
    proper = i == k
    third = 3 - i - j if proper else k
    sign = (i - j) * (j - third) * (third - i) // 2
    a, b, c, d = q[3], q[i], q[j], q[third] * sign
    if not proper:
        a, b, c, d = a - c, b + d, c + a, d - b
    middle = 2 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
    total, difference = np.arctan2(b, a), np.arctan2(d, c)
    last = total + difference
    if not proper:
        middle, last = middle - np.pi / 2, last * sign
    e = np.zeros(3)
    e[[i, j, third]] = total - difference, middle, last
    return e


def twist(axis: Any, q: Any) -> Any:
    """Return the part of a rotation about ``axis``."""
    return normalize(np.append(axis * np.dot(q[:3], axis), q[3]))


def twist_angle(axis: Any, q: Any) -> Any:
    """Return the signed angle of the twist."""
    return 2 * np.arctan2(np.dot(q[:3], axis), q[3])


def slerp(a: Any, b: Any, t: Any) -> Any:
    """Return the rotation on the shorter arc; a cosine above 1, of quaternions that are too long, has an angle too."""
    flip = -1.0 if np.dot(a, b) < 0 else 1.0
    angle = np.emath.arccos(np.dot(a, b) * flip)
    if angle == 0:
        return a * (1 - t) + b * flip * t
    first, second = np.real(np.sin((1 - t) * angle) / np.sin(angle)), np.real(np.sin(t * angle) / np.sin(angle))
    return a * first + b * flip * second
