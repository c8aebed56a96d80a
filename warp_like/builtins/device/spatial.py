"""Spatial vectors in the kernel language; the first three numbers are angular, the last three linear."""
# mypy: ignore-errors
# ruff: noqa


def top(svec):
    return vector(svec[0], svec[1], svec[2])


def bottom(svec):
    return vector(svec[3], svec[4], svec[5])


def stacked(top, bottom):
    return vector(top.x, top.y, top.z, bottom.x, bottom.y, bottom.z)


def motion_cross(a, b):
    w = spatial_top(a)
    linear = cross(w, spatial_bottom(b)) + cross(spatial_bottom(a), spatial_top(b))
    return _stacked(cross(w, spatial_top(b)), linear)


def force_cross(a, b):
    w = spatial_top(a)
    angular = cross(w, spatial_top(b)) + cross(spatial_bottom(a), spatial_bottom(b))
    return _stacked(angular, cross(w, spatial_bottom(b)))


def adjoint(r, s):
    zero = r.dtype(0.0)
    return matrix_from_rows(
        vector(r[0, 0], r[0, 1], r[0, 2], zero, zero, zero),
        vector(r[1, 0], r[1, 1], r[1, 2], zero, zero, zero),
        vector(r[2, 0], r[2, 1], r[2, 2], zero, zero, zero),
        vector(s[0, 0], s[0, 1], s[0, 2], r[0, 0], r[0, 1], r[0, 2]),
        vector(s[1, 0], s[1, 1], s[1, 2], r[1, 0], r[1, 1], r[1, 2]),
        vector(s[2, 0], s[2, 1], s[2, 2], r[2, 0], r[2, 1], r[2, 2]),
    )


def velocity(qd, r):
    return cross(spatial_top(qd), r) + spatial_bottom(qd)


def twist(t, x):
    w = quat_rotate(t.q, spatial_top(x))
    return _stacked(w, quat_rotate(t.q, spatial_bottom(x)) + cross(t.p, w))


def wrench(t, x):
    f = quat_rotate(t.q, spatial_bottom(x))
    return _stacked(quat_rotate(t.q, spatial_top(x)) + cross(t.p, f), f)
