"""Distances between shapes, in the kernel language."""
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
