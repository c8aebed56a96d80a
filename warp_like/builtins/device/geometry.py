"""Distances and intersections of shapes, in the kernel language."""
# mypy: ignore-errors
# ruff: noqa


def closest_on_edges(p1, q1, p2, q2, epsilon):
    # Ericson (2005), Real-Time Collision Detection, section 5.1.9.
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    zero, one = p1.dtype(0.0), p1.dtype(1.0)
    a, e, f = dot(d1, d1), dot(d2, d2), dot(d2, r)
    epsilon = max(epsilon, zero)
    s, t = zero, zero
    if a <= epsilon and e <= epsilon:
        s = zero  # two points
    elif a <= epsilon:
        t = clamp(f / e, zero, one)
    else:
        c = dot(d1, r)
        if e <= epsilon:
            s = clamp(-c / a, zero, one)
        else:
            b = dot(d1, d2)
            # |d1 x d2|^2, which a * e - b * b loses to rounding where the edges are almost parallel.
            n = cross(d1, d2)
            across = dot(n, n)
            if across > zero:
                s = clamp(dot(cross(n, d2), r) / across, zero, one)
            t = (b * s + f) / e
            if t < zero:
                t = zero
                s = clamp(-c / a, zero, one)
            elif t > one:
                t = one
                s = clamp((b - c) / a, zero, one)
    return vector(s, t, length((p1 + d1 * s) - (p2 + d2 * t)))


def lie_apart(axis, a1, a2, b0, b1, b2):
    x, y = dot(axis, a1), dot(axis, a2)
    p, q, r = dot(axis, b0), dot(axis, b1), dot(axis, b2)
    zero = a1.dtype(0.0)
    return max(zero, max(x, y)) < min(p, min(q, r)) or max(p, max(q, r)) < min(zero, min(x, y))


def triangles_intersect(v0, v1, v2, u0, u1, u2):
    # Two convex shapes lie apart where an axis is found along which they do (Ericson, 2005, Real-Time Collision Detection,
    # section 5.2.1). Enough for triangles are their normals and the products of their edges; in one plane, where these
    # products are all normals, the edges turned in the plane. An axis of length 0 tells nothing, and does no harm.
    a1, a2 = v1 - v0, v2 - v0
    b0, b1, b2 = u0 - v0, u1 - v0, u2 - v0
    ours = matrix_from_rows(a1, a2 - a1, a2)
    theirs = matrix_from_rows(b1 - b0, b2 - b1, b2 - b0)
    n, m = cross(ours[0], ours[1]), cross(theirs[0], theirs[1])
    apart = _apart(n, a1, a2, b0, b1, b2) or _apart(m, a1, a2, b0, b1, b2)
    for i in range(3):
        if not apart:
            apart = _apart(cross(n, ours[i]), a1, a2, b0, b1, b2) or _apart(cross(m, theirs[i]), a1, a2, b0, b1, b2)
        for j in range(3):
            if not apart:
                apart = _apart(cross(ours[i], theirs[j]), a1, a2, b0, b1, b2)
    return where(apart, 0, 1)
