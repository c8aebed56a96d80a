"""Rigid transformations in the kernel language: products, points, and the ways to and from 4x4 matrices."""
# mypy: ignore-errors
# ruff: noqa


def multiply(a, b):
    return transformation(quat_rotate(a.q, b.p) + a.p, a.q * b.q)


def inverse(xform):
    back = quat_inverse(xform.q)
    return transformation(-quat_rotate(back, xform.p), back)


def point(xform, point):
    return quat_rotate(xform.q, point) + xform.p


def with_translation(xform, p):
    return transformation(p, xform.q)


def with_rotation(xform, q):
    return transformation(xform.p, q)


def compose(position, rotation, scale):
    r = quat_to_matrix(rotation)
    zero, one = position.dtype(0.0), position.dtype(1.0)
    return matrix_from_rows(
        vector(r[0, 0] * scale.x, r[0, 1] * scale.y, r[0, 2] * scale.z, position.x),
        vector(r[1, 0] * scale.x, r[1, 1] * scale.y, r[1, 2] * scale.z, position.y),
        vector(r[2, 0] * scale.x, r[2, 1] * scale.y, r[2, 2] * scale.z, position.z),
        vector(zero, zero, zero, one),
    )


def to_matrix(xform):
    one = xform.dtype(1.0)
    return transform_compose(xform.p, xform.q, vector(one, one, one))


def from_matrix(mat):
    return transformation(vector(mat[0, 3], mat[1, 3], mat[2, 3]), quat_from_matrix(mat))


def decompose(m):
    x = vector(m[0, 0], m[1, 0], m[2, 0])
    y = vector(m[0, 1], m[1, 1], m[2, 1])
    z = vector(m[0, 2], m[1, 2], m[2, 2])
    # A rotation mirrors nothing: a mirrored x axis is a negative scale.
    side = where(dot(cross(x, y), z) < 0.0, m.dtype(-1.0), m.dtype(1.0))
    rotation = quat_from_matrix(matrix_from_cols(normalize(x) * side, normalize(y), normalize(z)))
    return vector(m[0, 3], m[1, 3], m[2, 3]), rotation, vector(length(x) * side, length(y), length(z))
