"""Quaternions in the kernel language: products, rotations, and the ways to and from axes, angles and matrices."""
# mypy: ignore-errors
# ruff: noqa


def multiply(a, b):
    return quaternion(
        a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        a.w * b.y + a.y * b.w + a.z * b.x - a.x * b.z,
        a.w * b.z + a.z * b.w + a.x * b.y - a.y * b.x,
        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
    )


def conjugate(q):
    return quaternion(-q.x, -q.y, -q.z, q.w)


def rotate(q, v):
    axis = vector(q.x, q.y, q.z)
    return v * (2.0 * q.w * q.w - 1.0) + cross(axis, v) * (2.0 * q.w) + axis * (2.0 * dot(axis, v))


def rotate_back(q, v):
    return quat_rotate(quat_inverse(q), v)


def to_matrix(q):
    zero, one = q.dtype(0.0), q.dtype(1.0)
    return matrix_from_cols(
        quat_rotate(q, vector(one, zero, zero)),
        quat_rotate(q, vector(zero, one, zero)),
        quat_rotate(q, vector(zero, zero, one)),
    )


def between(a, b):
    # Twice the cosine of half the angle, squared, is 1 + cos(angle). Where it vanishes the cross product does, too, and
    # any axis across will do.
    u, v = normalize(a), normalize(b)
    w = 1.0 + dot(u, v)
    if w > 1e-6:
        q = normalize(quaternion(cross(u, v), w))
    else:
        zero, one = u.dtype(0.0), u.dtype(1.0)
        other = where(abs(u[0]) < 0.6, vector(one, zero, zero), vector(zero, one, zero))
        q = quaternion(normalize(cross(u, other)), zero)
    return q


def from_axis_angle(axis, angle):
    v = axis * sin(angle * 0.5)
    return quaternion(v, cos(angle * 0.5))


def to_axis_angle(q):
    v = vector(q.x, q.y, q.z)
    return normalize(v) * copysign(q.dtype(1.0), q.w), 2.0 * atan2(length(v), abs(q.w))


def from_matrix(m):
    # Shepperd (1978): four squares add up to 4; the root is taken of one that is at least 1.
    x, y, z = m[0, 0], m[1, 1], m[2, 2]
    if x + y + z >= 0.0:
        h = sqrt(1.0 + x + y + z)
        s = 0.5 / h
        q = quaternion((m[2, 1] - m[1, 2]) * s, (m[0, 2] - m[2, 0]) * s, (m[1, 0] - m[0, 1]) * s, 0.5 * h)
    elif x >= max(y, z):
        h = sqrt(1.0 + x - y - z)
        s = 0.5 / h
        q = quaternion(0.5 * h, (m[0, 1] + m[1, 0]) * s, (m[0, 2] + m[2, 0]) * s, (m[2, 1] - m[1, 2]) * s)
    elif y >= z:
        h = sqrt(1.0 - x + y - z)
        s = 0.5 / h
        q = quaternion((m[0, 1] + m[1, 0]) * s, 0.5 * h, (m[1, 2] + m[2, 1]) * s, (m[0, 2] - m[2, 0]) * s)
    else:
        h = sqrt(1.0 - x - y + z)
        s = 0.5 / h
        q = quaternion((m[0, 2] + m[2, 0]) * s, (m[1, 2] + m[2, 1]) * s, 0.5 * h, (m[1, 0] - m[0, 1]) * s)
    return normalize(q)


def from_rpy(roll, pitch, yaw):
    sr, sp, sy = sin(roll * 0.5), sin(pitch * 0.5), sin(yaw * 0.5)
    cr, cp, cy = cos(roll * 0.5), cos(pitch * 0.5), cos(yaw * 0.5)
    return quaternion(
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


def to_rpy(q):
    roll = atan2(2.0 * (q.w * q.x + q.y * q.z), 1.0 - 2.0 * (q.x * q.x + q.y * q.y))
    pitch = asin(clamp(2.0 * (q.w * q.y - q.z * q.x), -1.0, 1.0))
    yaw = atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))
    return vector(roll, pitch, yaw)


def from_euler(e, i, j, k):
    first = _quat_about(i, e[i])
    second = _quat_about(j, e[j])
    third = _quat_about(k, e[k])
    return third * second * first


def about(axis, angle):
    q = quaternion(angle * 0.0, angle * 0.0, angle * 0.0, cos(angle * 0.5))
    q[axis] = sin(angle * 0.5)
    return q


def to_euler(q, i, j, k):
    # Bernardes and Viollet (2022), Quaternion to Euler angles conversion.
    third = where(i == k, 3 - i - j, k)
    sign = q.dtype((i - j) * (j - third) * (third - i) / 2)
    tilted = i != k
    zero = q.dtype(0.0)
    a = q.w - where(tilted, q[j], zero)
    b = q[i] + where(tilted, q[third] * sign, zero)
    c = q[j] + where(tilted, q.w, zero)
    d = q[third] * sign - where(tilted, q[i], zero)
    middle = 2.0 * atan2(length(vector(c, d)), length(vector(a, b)))
    half_sum, half_difference = atan2(b, a), atan2(d, c)
    last = half_sum + half_difference
    e = vector(zero, zero, zero)
    e[i] = half_sum - half_difference
    e[j] = where(tilted, middle - 1.5707963267948966, middle)
    e[third] = where(tilted, last * sign, last)
    return e


def twist(axis, q):
    v = axis * dot(vector(q.x, q.y, q.z), axis)
    return normalize(quaternion(v, q.w))


def twist_angle_signed(axis, q):
    return 2.0 * atan2(dot(vector(q.x, q.y, q.z), axis), q.w)


def twist_angle(axis, q):
    return abs(quat_twist_angle_signed(axis, q))


def slerp(a, b, t):
    # The weights are smooth functions of the cosine, so at equal quaternions they have their derivatives too.
    flip = where(dot(a, b) < 0.0, b.dtype(-1.0), b.dtype(1.0))
    cosine = dot(a, b) * flip
    if cosine > 0.99:
        u = 1.0 - cosine
        square = u * (
            2.0 + u * (1.0 / 3.0 + u * (4.0 / 45.0 + u * (1.0 / 35.0 + u * (16.0 / 1575.0 + u * (8.0 / 2079.0)))))
        )
        whole = _sinc(square)
        first = (1.0 - t) * _sinc((1.0 - t) * (1.0 - t) * square) / whole
        second = t * _sinc(t * t * square) / whole
    else:
        angle = acos(cosine)
        first = sin((1.0 - t) * angle) / sin(angle)
        second = sin(t * angle) / sin(angle)
    return a * first + b * (second * flip)


def sinc_of_root(z):
    return 1.0 - z / 6.0 * (1.0 - z / 20.0 * (1.0 - z / 42.0 * (1.0 - z / 72.0 * (1.0 - z / 110.0))))
