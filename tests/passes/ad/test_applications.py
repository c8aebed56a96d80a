"""Programs as users write them, of many parts of the language at once: their gradients against central differences.

Contact of rigid bodies, inverse kinematics, a solver with pivots, an adaptive integrator, sampling with gradients, a
chain of joints, a factorisation and a Fourier transform in local arrays, attention, and a search with a stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.gradients import check
from tests.long_tail import crossed

f64 = wp.float64
PROGRAMS: dict[str, Callable[[np.random.Generator], Any]] = {}


def program(make: Callable[[np.random.Generator], Any]) -> None:
    """Register what makes the arguments of ``check``."""
    PROGRAMS[make.__name__.removesuffix("_arguments")] = make


@wp.struct
class Body:
    q: wp.transformd
    qd: wp.spatial_vectord
    inertia: wp.mat33d


@wp.func
def integrate(b: Body, f: wp.vec3d, tau: wp.vec3d, dt: f64):
    w = wp.spatial_top(b.qd)
    v = wp.spatial_bottom(b.qd)
    r = wp.transform_get_rotation(b.q)
    p = wp.transform_get_translation(b.q)
    v1 = v + f * dt
    wb = wp.quat_rotate_inv(r, w)
    tb = wp.quat_rotate_inv(r, tau) - wp.cross(wb, b.inertia * wb)
    w1 = wp.quat_rotate(r, wb + wp.inverse(b.inertia) * tb * dt)
    p1 = p + v1 * dt
    r1 = wp.normalize(r + wp.quatd(w1, f64(0.0)) * r * f64(0.5) * dt)
    b.q = wp.transformd(p1, r1)
    b.qd = wp.spatial_vectord(w1, v1)
    return b


@wp.kernel
def rigid(
    pose: wp.array(dtype=wp.transformd),
    vel: wp.array(dtype=wp.spatial_vectord),
    inert: wp.array(dtype=wp.mat33d),
    corners: wp.array(dtype=wp.vec3d),
    steps: int,
    out: wp.array2d(dtype=f64),
):
    i = wp.tid()
    b = Body()
    b.q = pose[i]
    b.qd = vel[i]
    b.inertia = inert[i]
    for _ in range(steps):
        f = wp.vec3d(f64(0.0), f64(-9.8), f64(0.0))
        tau = wp.vec3d()
        for c in range(corners.shape[0]):
            wpt = wp.transform_point(b.q, corners[c])
            if wpt[1] < f64(0.0):
                arm = wpt - wp.transform_get_translation(b.q)
                vp = wp.spatial_bottom(b.qd) + wp.cross(wp.spatial_top(b.qd), arm)
                fn = -f64(100.0) * wpt[1] - f64(2.0) * wp.min(vp[1], f64(0.0))
                vt = vp - wp.vec3d(f64(0.0), vp[1], f64(0.0))
                vs = wp.length(vt)
                ff = vt * (-wp.min(f64(5.0), f64(0.5) * fn / (vs + f64(1e-6))))
                force = wp.vec3d(ff[0], fn, ff[2])
                f += force
                tau += wp.cross(arm, force)
        b = integrate(b, f, tau, f64(0.01))
    for k in range(7):
        out[i, k] = b.q[k]
    for k in range(6):
        out[i, 7 + k] = b.qd[k]


@program
def rigid_arguments(rng: np.random.Generator) -> Any:
    q = rng.normal(size=(3, 4))
    q /= np.linalg.norm(q, axis=1)[:, None]
    pose = np.concatenate([rng.normal(size=(3, 3)) * 0.1, q], 1)
    m = rng.normal(size=(3, 3, 3))
    inertia = m @ m.transpose(0, 2, 1) + 2 * np.eye(3)
    corners = np.array([[a, b, c] for a in (-0.3, 0.3) for b in (-0.2, 0.2) for c in (-0.25, 0.25)])
    return rigid, 3, [pose, rng.normal(size=(3, 6)), inertia, corners, 7], (3, 13), 1e-4


@wp.kernel
def ik(
    theta0: wp.array2d(dtype=f64),
    target: wp.array(dtype=wp.vec2d),
    lens: wp.array(dtype=f64),
    out: wp.array2d(dtype=f64),
):
    i = wp.tid()
    th = wp.zeros(shape=(4,), dtype=f64)
    px = wp.zeros(shape=(5,), dtype=f64)
    py = wp.zeros(shape=(5,), dtype=f64)
    for k in range(4):
        th[k] = theta0[i, k]
    it = 0
    while it < 30:
        a = f64(0.0)
        for k in range(4):
            a += th[k]
            px[k + 1] = px[k] + lens[k] * wp.cos(a)
            py[k + 1] = py[k] + lens[k] * wp.sin(a)
        e = target[i] - wp.vec2d(px[4], py[4])
        if wp.length(e) < f64(1e-2):
            break
        for k in range(4):
            jx = -(py[4] - py[k])
            jy = px[4] - px[k]
            th[k] += f64(0.1) * (jx * e[0] + jy * e[1])
        it += 1
    for k in range(4):
        out[i, k] = th[k]
    out[i, 4] = px[4]


@program
def ik_arguments(rng: np.random.Generator) -> Any:
    return ik, 3, [rng.normal(size=(3, 4)), rng.normal(size=(3, 2)), np.array([1.0, 0.8, 0.6, 0.4])], (3, 5), 1e-5


@wp.func
def lu_solve(A: wp.mat44d, b: wp.vec4d):
    M = A
    x = b
    for k in range(4):
        piv = k
        for r in range(k + 1, 4):
            if wp.abs(M[r, k]) > wp.abs(M[piv, k]):
                piv = r
        if piv != k:
            for c in range(4):
                t = M[k, c]
                M[k, c] = M[piv, c]
                M[piv, c] = t
            s = x[k]
            x[k] = x[piv]
            x[piv] = s
        for r in range(k + 1, 4):
            f = M[r, k] / M[k, k]
            for c in range(k, 4):
                M[r, c] = M[r, c] - f * M[k, c]
            x[r] = x[r] - f * x[k]
    for kk in range(4):
        k = 3 - kk
        for c in range(k + 1, 4):
            x[k] -= M[k, c] * x[c]
        x[k] /= M[k, k]
    return x


@wp.kernel
def lu(A: wp.array(dtype=wp.mat44d), b: wp.array(dtype=wp.vec4d), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    x = lu_solve(A[i], b[i])
    for k in range(4):
        out[i, k] = x[k]


@program
def lu_arguments(rng: np.random.Generator) -> Any:
    return lu, 4, [rng.normal(size=(4, 4, 4)), rng.normal(size=(4, 4))], (4, 4), 1e-4


@wp.func
def rhs(y: wp.vec2d, mu: f64):
    return wp.vec2d(y[1], mu * (f64(1.0) - y[0] * y[0]) * y[1] - y[0])


@wp.kernel
def rk45(y0: wp.array(dtype=wp.vec2d), mu: wp.array(dtype=f64), tend: f64, out: wp.array2d(dtype=f64)):
    i = wp.tid()
    y = y0[i]
    t = f64(0.0)
    h = f64(0.1)
    while t < tend:
        if t + h > tend:
            h = tend - t
        m = mu[i]
        k1 = rhs(y, m)
        k2 = rhs(y + k1 * (h * f64(0.5)), m)
        k3 = rhs(y + k2 * (h * f64(0.75)), m)
        yn = y + (k1 * f64(2.0 / 9.0) + k2 * f64(1.0 / 3.0) + k3 * f64(4.0 / 9.0)) * h
        k4 = rhs(yn, m)
        e = (k1 * f64(-5.0 / 72.0) + k2 * f64(1.0 / 12.0) + k3 * f64(1.0 / 9.0) + k4 * f64(-0.125)) * h
        err = wp.length(e) / f64(1e-4) + f64(1e-12)
        if err < f64(1.0):
            t = t + h
            y = yn
        fac = f64(0.9) * wp.pow(err, f64(-1.0 / 3.0))
        h = h * wp.clamp(fac, f64(0.3), f64(3.0))
    out[i, 0] = y[0]
    out[i, 1] = y[1]


@program
def rk45_arguments(rng: np.random.Generator) -> Any:
    return rk45, 3, [rng.normal(size=(3, 2)), rng.uniform(0.5, 2, 3), 3.0], (3, 2), 1e-4


@wp.func
def logp(x: wp.vec2d, a: f64):
    u = x[1] - a * x[0] * x[0]
    return -(x[0] - f64(1.0)) * (x[0] - f64(1.0)) - f64(0.5) * u * u


@wp.kernel
def hmc(x0: wp.array(dtype=wp.vec2d), a: wp.array(dtype=f64), seed: int, out: wp.array2d(dtype=f64)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    x = x0[i]
    for _ in range(3):
        p = wp.vec2d(f64(wp.randn(state)), f64(wp.randn(state)))
        xn = x
        pn = p
        for _ in range(6):
            gx, _ga = wp.grad(logp)(xn, a[0])
            pn = pn + gx * f64(0.05)
            xn = xn + pn * f64(0.1)
            gx2, _ga2 = wp.grad(logp)(xn, a[0])
            pn = pn + gx2 * f64(0.05)
        h0 = -logp(x, a[0]) + f64(0.5) * wp.dot(p, p)
        h1 = -logp(xn, a[0]) + f64(0.5) * wp.dot(pn, pn)
        if wp.log(f64(wp.randf(state))) < h0 - h1:
            x = xn
    out[i, 0] = x[0]
    out[i, 1] = x[1]


@program
def hmc_arguments(rng: np.random.Generator) -> Any:
    return hmc, 5, [rng.normal(size=(5, 2)), np.array([0.7]), 5], (5, 2), 1e-5


@wp.kernel
def pendulum(
    q: wp.array2d(dtype=f64), qd: wp.array2d(dtype=f64), mass: wp.array(dtype=f64), out: wp.array2d(dtype=f64)
):
    e = wp.tid()
    X = wp.transform_identity(dtype=f64)
    V = wp.spatial_vectord()
    E = f64(0.0)
    for k in range(q.shape[1]):
        axis = wp.vec3d(f64(0.0), f64(k % 2), f64(1 - k % 2))
        r = wp.quat_from_axis_angle(axis, q[e, k])
        Xj = wp.transformd(wp.vec3d(f64(0.0), f64(-1.0), f64(0.0)), r)
        X = wp.transform_multiply(X, Xj)
        w = wp.spatial_top(V) + wp.transform_vector(X, axis) * qd[e, k]
        p = wp.transform_get_translation(X)
        v = wp.spatial_bottom(V) + wp.cross(w, p)
        V = wp.spatial_vectord(w, v)
        E += f64(0.5) * mass[k] * wp.spatial_dot(V, V) + mass[k] * f64(9.8) * p[1]
    out[e, 0] = E
    rq = wp.transform_get_rotation(X)
    ang = f64(0.0)
    ax = wp.vec3d()
    wp.quat_to_axis_angle(rq, ax, ang)
    out[e, 1] = ang * ax[0]
    out[e, 2] = ang * ax[1] + ax[2]


@program
def pendulum_arguments(rng: np.random.Generator) -> Any:
    return pendulum, 3, [rng.normal(size=(3, 5)), rng.normal(size=(3, 5)), rng.uniform(1, 2, 5)], (3, 3), 1e-5


@wp.kernel
def chol(A: wp.array3d(dtype=f64), b: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    e = wp.tid()
    L = wp.zeros(shape=(5, 5), dtype=f64)
    y = wp.zeros(shape=(5,), dtype=f64)
    for j in range(5):
        s = A[e, j, j]
        for k in range(j):
            s -= L[j, k] * L[j, k]
        L[j, j] = wp.sqrt(s)
        for i in range(j + 1, 5):
            t = A[e, i, j]
            for k in range(j):
                t -= L[i, k] * L[j, k]
            L[i, j] = t / L[j, j]
    for i in range(5):
        s = b[e, i]
        for k in range(i):
            s -= L[i, k] * y[k]
        y[i] = s / L[i, i]
    for ii in range(5):
        i = 4 - ii
        for k in range(i + 1, 5):
            y[i] -= L[k, i] * y[k]
        y[i] /= L[i, i]
    ld = f64(0.0)
    for k in range(5):
        ld += wp.log(L[k, k])
        out[e, k] = y[k]
    out[e, 5] = ld


@program
def chol_arguments(rng: np.random.Generator) -> Any:
    m = rng.normal(size=(3, 5, 5))
    return chol, 3, [m @ m.transpose(0, 2, 1) + np.eye(5), rng.normal(size=(3, 5))], (3, 6), 1e-5


@wp.kernel
def attention(Q: wp.array2d(dtype=f64), K: wp.array2d(dtype=f64), V: wp.array2d(dtype=f64), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    D = Q.shape[1]
    m = f64(-1e30)
    total = f64(0.0)
    acc = wp.zeros(shape=(8,), dtype=f64)
    for j in range(K.shape[0]):
        if j > i:
            break
        s = f64(0.0)
        for d in range(D):
            s += Q[i, d] * K[j, d]
        s = s / wp.sqrt(f64(D))
        mn = wp.max(m, s)
        corr = wp.exp(m - mn)
        p = wp.exp(s - mn)
        total = total * corr + p
        for d in range(D):
            acc[d] = acc[d] * corr + p * V[j, d]
        m = mn
    for d in range(D):
        out[i, d] = acc[d] / total


@program
def attention_arguments(rng: np.random.Generator) -> Any:
    return attention, 6, [rng.normal(size=(6, 4)) for _ in range(3)], (6, 4), 1e-5


@wp.kernel
def kd(
    pts: wp.array(dtype=wp.vec3d),
    left: wp.array(dtype=int),
    right: wp.array(dtype=int),
    axis: wp.array(dtype=int),
    q: wp.array(dtype=wp.vec3d),
    root: int,
    out: wp.array(dtype=f64),
):
    i = wp.tid()
    stack = wp.zeros(shape=(32,), dtype=int)
    best = f64(1e30)
    total = f64(0.0)
    sp = 1
    stack[0] = root
    while sp > 0:
        sp -= 1
        n = stack[sp]
        if n < 0:
            continue
        d = q[i] - pts[n]
        d2 = wp.dot(d, d)
        if d2 < best:
            best = d2
        total += wp.exp(-d2)
        delta = d[axis[n]]
        near = left[n]
        far = right[n]
        if delta > f64(0.0):
            near = right[n]
            far = left[n]
        if delta * delta < best:
            stack[sp] = far
            sp += 1
        stack[sp] = near
        sp += 1
    out[i] = wp.sqrt(best) + total


@program
def kd_arguments(rng: np.random.Generator) -> Any:
    points = rng.normal(size=(20, 3))
    left, right, axis = (np.full(20, -1, np.int32) for _ in range(3))

    def build(indices: list[int], depth: int) -> int:
        if not indices:
            return -1
        indices = sorted(indices, key=lambda k: points[k, depth % 3])
        half = len(indices) // 2
        node = indices[half]
        axis[node] = depth % 3
        left[node], right[node] = build(indices[:half], depth + 1), build(indices[half + 1 :], depth + 1)
        return node

    root = build(list(range(20)), 0)
    return kd, 4, [points, left, right, axis, rng.normal(size=(4, 3)), root], 4, 1e-5


@wp.kernel
def fft(x: wp.array2d(dtype=wp.vec2d), out: wp.array3d(dtype=f64)):
    e = wp.tid()
    a = wp.zeros(shape=(8,), dtype=wp.vec2d)
    for k in range(8):
        r = (k & 1) * 4 + (k & 2) + (k >> 2)
        a[r] = x[e, k]
    size = 2
    while size <= 8:
        half = size / 2
        s = 0
        while s < 8:
            for k in range(half):
                ang = f64(-6.283185307179586) * f64(k) / f64(size)
                w = wp.vec2d(wp.cos(ang), wp.sin(ang))
                t = a[s + k + half]
                u = wp.vec2d(w[0] * t[0] - w[1] * t[1], w[0] * t[1] + w[1] * t[0])
                b = a[s + k]
                a[s + k] = b + u
                a[s + k + half] = b - u
            s += size
        size *= 2
    for k in range(8):
        out[e, k, 0] = a[k][0] * a[k][0] + a[k][1]
        out[e, k, 1] = wp.atan2(a[k][1], a[k][0])


@program
def fft_arguments(rng: np.random.Generator) -> Any:
    return fft, 2, [rng.normal(size=(2, 8, 2))], (2, 8, 2), 1e-5


@pytest.mark.parametrize("name", crossed(PROGRAMS, every=2))
def test_gradient(name: str) -> None:
    kernel, dim, inputs, shape, tolerance = PROGRAMS[name](np.random.default_rng(3))
    check(kernel, dim, inputs, shape, tolerance=tolerance)
