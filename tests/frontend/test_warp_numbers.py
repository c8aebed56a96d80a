"""What kernels compute is what warp-lang 1.19 computes: the numbers here are those that it was seen to give.

Where the two differ on purpose, the page "Coming from Warp" says so, and nothing of it stands here.
"""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def indices(a: wp.array(dtype=float), m: wp.array2d(dtype=float), n: int, o: wp.array(dtype=float)):
    o[0] = a[-1]
    o[1] = a[n - 5]
    b = a[1:4]
    o[2] = b[0]
    o[3] = float(b.shape[0])
    o[4] = float(len(a))
    c = m[1]
    o[5] = c[2]
    d = m[0:2, 1]
    o[6] = d[1]
    o[7] = m[-1, -1]
    e = a[::2]
    o[8] = e[1]
    o[9] = float(m.shape[0] * 10 + m.shape[1])


@wp.kernel
def atomics(a: wp.array(dtype=float), ia: wp.array(dtype=int), o: wp.array(dtype=float)):
    o[0] = wp.atomic_add(a, 0, 5.0)
    o[1] = a[0]
    o[2] = wp.atomic_max(a, 1, -9.0)
    o[3] = wp.atomic_min(a, 1, -9.0)
    o[4] = a[1]
    o[5] = wp.atomic_exch(a, 2, 8.0)
    o[6] = wp.atomic_cas(a, 2, 8.0, 1.5)
    o[7] = a[2]
    o[8] = wp.atomic_sub(a, 3, 1.0)
    o[9] = a[3]
    k = wp.atomic_and(ia, 0, 1)
    o[10] = float(k)
    wp.atomic_or(ia, 1, 8)
    o[11] = float(ia[1])
    wp.atomic_xor(ia, 2, 1)
    o[12] = float(ia[2])
    a[4] += 2.5
    o[13] = a[4]
    a[4] -= 1.0
    o[14] = a[4]


@wp.kernel
def vector_atomics(v: wp.array(dtype=wp.vec3), o: wp.array(dtype=float)):
    x = wp.atomic_add(v, 0, wp.vec3(1.0, 2.0, 3.0))
    o[0] = x[1]
    o[1] = v[0][1]
    v[1] += wp.vec3(1.0, 1.0, 1.0)
    o[2] = v[1][0]
    wp.atomic_max(v, 0, wp.vec3(0.0, 9.0, 0.0))
    o[3] = v[0][1]
    o[4] = v[0][2]


@wp.kernel
def negative_numbers(n: int, o: wp.array(dtype=float)):
    p = n - 12
    o[0] = float(p // 3)
    o[1] = float(p % 3)
    o[2] = float(p / 3)
    o[3] = float(p >> 1)
    o[4] = float(~p)
    o[5] = float(-p // 3)
    o[6] = float(p // -3)
    o[7] = float(p % -3)
    q = float(p) + 0.5
    o[8] = q // 2.0
    o[9] = q % 2.0
    o[10] = float(int(q))
    o[11] = float(wp.int32(-2.7))
    o[12] = float(int(2.7))
    o[13] = wp.mod(q, -2.0)
    o[14] = wp.floordiv(q, -2.0)


@wp.kernel
def casts(n: int, o: wp.array(dtype=float)):
    o[0] = float(wp.uint8(n + 253))
    o[1] = float(wp.int8(n + 123))
    o[2] = float(wp.uint32(n))
    o[3] = float(wp.int64(n))
    o[4] = float(bool(n))
    o[5] = float(wp.bool(0.5))
    o[6] = float(int(True))
    o[7] = float(wp.float16(1.0 / 3.0))
    o[8] = float(wp.float64(n))
    o[9] = wp.round(2.5)
    o[10] = wp.rint(2.5)
    o[11] = wp.round(-2.5)
    o[12] = wp.trunc(-2.7)
    o[13] = float(wp.uint16(-n))
    o[14] = wp.frac(-2.25)
    o[15] = wp.sign(0.0)
    o[16] = wp.step(0.0)
    o[17] = wp.nonzero(-3.0)


@wp.kernel
def loops(n: int, o: wp.array(dtype=float)):
    s = 0.0
    for _ in range(n):
        s += 1.0
    o[0] = s
    t = 0
    for i in range(n, 0, -2):
        t = t * 10 + i
    o[1] = float(t)
    c = 0
    while c < 100:
        c += 1
        if c % 2 == 0:
            continue
        if c > n:
            break
    o[2] = float(c)
    u = 0
    for i in range(0, n, 2):
        for j in range(i):
            if j == 2:
                break
            u += j + 1
    o[3] = float(u)
    for x in range(3):
        o[4] = o[4] + float(x)


@wp.kernel
def conditions(a: wp.array(dtype=float), n: int, o: wp.array(dtype=float)):
    o[0] = wp.where(n > 3, 1.0, 2.0)
    o[1] = 1.0 if (n > 3 and n < 10) or n == 20 else 2.0
    o[2] = float(0 < n < 6)
    o[3] = float(not n)
    o[4] = float(n == 5 and a[0] > -100.0)
    o[5] = wp.where(a[0] > 0.0, a[1], a[2])
    x = 1.0
    if n > 10:
        x = 2.0
    elif n > 4:
        x = 3.0
    else:
        x = 4.0
    o[6] = x


@wp.kernel
def components(n: int, o: wp.array(dtype=float)):
    w = wp.vec3(1.0, 2.0, 3.0)
    w[1] = 5.0
    w.z = 7.0
    o[0] = w[0] + w[1] + w[2]
    w *= 2.0
    o[1] = w.x
    z = wp.vec3(4.0)
    o[2] = z[2]
    y = -w
    o[3] = y[1]
    o[4] = wp.dot(w, z)
    k = n - 4
    o[5] = w[k]
    M = wp.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    o[6] = M[1, 2]
    r = M[2]
    o[7] = r[0]
    M[0, 0] = 10.0
    o[8] = M[0][0]
    M[1] = w
    o[9] = M[1, 1]
    o[10] = wp.trace(M)
    eye = wp.identity(n=3, dtype=float)
    o[11] = eye[1, 1]
    D = wp.diag(w)
    o[12] = D[2, 2]
    q = wp.quat(1.0, 2.0, 3.0, 4.0)
    o[13] = q[3]
    o[14] = q.x
    o[15] = wp.length(q)
    o[16] = (M * w)[0]
    o[17] = (w * M)[1]
    o[18] = (M @ M)[0, 1]
    o[19] = wp.mat22(1.0)[0, 1]


@wp.kernel
def making(o: wp.array(dtype=float)):
    A = wp.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2))
    o[0] = A[1, 0]
    B = wp.vector(1.0, 2.0, 3.0, 4.0, 5.0)
    o[1] = B[4]
    C = wp.vector(length=4, dtype=float)
    o[2] = C[3]
    E = wp.matrix(2.0, shape=(2, 3))
    o[3] = E[1, 2]
    T = wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat_identity())
    o[4] = wp.transform_get_translation(T)[1]
    o[5] = T[6]
    S = wp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    o[6] = S[3]
    S2 = wp.spatial_vector(wp.vec3(1.0), wp.vec3(2.0))
    o[7] = S2[5]
    F = wp.matrix_from_rows(wp.vec3(1.0), wp.vec3(2.0))
    o[8] = F[1, 0]
    G = wp.matrix_from_cols(wp.vec2(1.0), wp.vec2(2.0))
    o[9] = G[0, 1]
    H = wp.quaternion(1.0, 2.0, 3.0, 4.0)
    o[10] = H.w
    J = wp.transform_identity()
    o[11] = J[6]
    K = wp.quat()
    o[12] = K[3]
    P = wp.transform()
    o[13] = P[6]
    Q2 = wp.vec3d(wp.float64(1.0), wp.float64(2.0), wp.float64(3.0))
    o[14] = float(Q2[1])
    R = wp.vec3(wp.vec3(1.0, 2.0, 3.0))
    o[15] = R[1]


@wp.kernel
def random_numbers(cdf: wp.array(dtype=float), n: int, o: wp.array(dtype=float)):
    st = wp.rand_init(42, n)
    o[0] = wp.randf(st)
    o[1] = wp.randf(st)
    o[2] = float(wp.randi(st))
    o[3] = float(wp.randi(st, 0, 10))
    o[4] = wp.randn(st)
    o[5] = wp.randf(st, -1.0, 1.0)
    p = wp.sample_unit_sphere(st)
    o[6] = p[0]
    o[7] = float(wp.randu(st))
    o[8] = float(wp.randu(st, wp.uint32(3), wp.uint32(9)))
    o[9] = wp.noise(st, 1.3)
    o[10] = float(wp.sample_cdf(st, cdf))
    t2 = wp.sample_triangle(st)
    o[11] = t2[0]
    st2 = wp.rand_init(7)
    o[12] = wp.randf(st2)


@wp.kernel
def searching(srt: wp.array(dtype=float), o: wp.array(dtype=float)):
    o[0] = float(wp.lower_bound(srt, 2.5))
    o[1] = float(wp.lower_bound(srt, 0.0))
    o[2] = float(wp.lower_bound(srt, 99.0))
    o[3] = float(wp.lower_bound(srt, 1, 3, 99.0))
    o[4] = float(wp.lower_bound(srt, 1, 3, 2.0))
    o[5] = float(wp.lower_bound(srt, 3.0))


@wp.kernel
def functions(o: wp.array(dtype=float)):
    wp.expect_eq(1, 1)
    wp.expect_near(1.0, 1.0)
    o[0] = wp.lerp(1.0, 3.0, 0.25)
    o[1] = wp.smoothstep(0.0, 1.0, 0.3)
    o[2] = wp.clamp(5.0, 0.0, 1.0)
    o[3] = wp.copysign(2.0, -0.0)
    o[4] = float(wp.bit_count(255))
    o[5] = wp.cbrt(-8.0)
    o[6] = wp.pow(2.0, 0.5)
    o[7] = 2.0**3.0
    o[8] = float(wp.min(wp.block_dim(), 1))
    x, y = (1.0, 2.0)
    x, y = (y, x)
    o[9] = x * 10.0 + y
    o[10] = wp.degrees(1.0)
    o[11] = wp.erfinv(0.3)
    o[12] = float(wp.cast(1.5, wp.int32))
    o[13] = wp.atan2(-1.0, -1.0)
    o[14] = wp.min(wp.vec3(3.0, 1.0, 2.0))
    o[15] = float(wp.argmax(wp.vec3(3.0, 1.0, 2.0)))
    o[16] = wp.log2(8.0)
    o[17] = wp.norm_huber(wp.vec3(3.0, 4.0, 0.0))


@wp.kernel
def in_place(
    a: wp.array(dtype=float),
    ia: wp.array(dtype=int),
    v: wp.array(dtype=wp.vec3),
    m: wp.array2d(dtype=float),
    n: int,
    o: wp.array(dtype=float),
):
    x = n
    x += 1
    x -= 3
    x *= 4
    x //= 5
    x %= 7
    o[0] = float(x)
    y = float(n)
    y /= 2.0
    y **= 2.0
    o[1] = y
    z = n
    z <<= 2
    z |= 1
    z &= 13
    z ^= 6
    z >>= 1
    o[2] = float(z)
    a[0] *= 3.0
    o[3] = a[0]
    a[1] /= 2.0
    o[4] = a[1]
    ia[0] |= 16
    o[5] = float(ia[0])
    v[0] *= 2.0
    o[6] = v[0][0]
    m[1, 1] += 4.0
    o[7] = m[1, 1]
    v[0][1] += 3.0
    o[8] = v[0][1]
    v[1].x = 9.0
    o[9] = v[1][0]


@wp.kernel
def slices(o: wp.array(dtype=float)):
    w = wp.vec4(1.0, 2.0, 3.0, 4.0)
    b = w[1:3]
    o[0] = b[1]
    w[0:2] = wp.vec2(8.0, 9.0)
    o[1] = w[1]
    M = wp.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    c = M[:, 1]
    o[2] = c[2]
    M[:, 0] = wp.vec3(7.0, 7.0, 7.0)
    o[3] = M[2, 0]
    s = M[0:2, 1:3]
    o[4] = s[1, 1]
    d = w[::-1]
    o[5] = d[0]
    o[6] = float(len(w[1:]))
    e = w[-2:]
    o[7] = e[0]
    M[1, :] = wp.vec3(1.0, 1.0, 1.0)
    o[8] = M[1, 2]
    f = M[-1]
    o[9] = f[1]
    w += wp.vec4(1.0, 1.0, 1.0, 1.0)
    o[10] = w[3]
    w[1] -= 2.0
    o[11] = w[1]


SEEN = {
    indices: [5, 1, -2, 3, 5, 6, 5, 11, 3, 34],
    atomics: [1, 6, -2, -2, -9, 3, 8, 1.5, 4, 3, 3, 12, 4, 7.5, 6.5],
    vector_atomics: [1, 3, 4, 9, 5],
    negative_numbers: [-3, -1, -2, -4, 6, 2, 2, -1, -4, -0.5, -6, -2, 2, -0.5, 3],
    casts: [2, -128, 5, 5, 1, 1, 1, 0.333251953, 5, 3, 2, -3, -2, 65531, -0.25, 1, 0, 1],
    loops: [5, 531, 7, 6, 3],
    conditions: [1, 1, 1, 0, 1, -2, 3],
    components: [13, 2, 4, -10, 104, 10, 6, 7, 10, 10, 29, 1, 14, 4, 1, 5.47722578, 82, 216, 64, 1],
    making: [3, 5, 0, 2, 2, 1, 4, 2, 2, 2, 4, 1, 0, 0, 2, 2],
    random_numbers: [
        0.88860321,
        0.531309307,
        -1.67450509e09,
        3,
        0.152643129,
        0.0273506641,
        0.643808126,
        2.49657933e09,
        7,
        -0.16301088,
        1,
        0.0447968841,
        0.50254643,
    ],
    searching: [2, 0, 3, 2, 1, 2],
    functions: [
        1.5,
        0.216000021,
        1,
        -2,
        8,
        -2,
        1.41421354,
        8,
        1,
        21,
        57.2957802,
        0.272462726,
        1.06954752e09,
        -2.3561945,
        1,
        0,
        3,
        4.5,
    ],
    in_place: [2, 6.25, 1, 3, -1, 19, 0, 9, 5, 9],
    slices: [3, 9, 8, 7, 6, 4, 3, 3, 1, 8, 5, 8],
}


def arguments() -> dict[str, object]:
    return {
        "a": wp.array([1.0, -2.0, 3.0, 4.0, 5.0], dtype=float),
        "ia": wp.array([3, 4, 5], dtype=int),
        "v": wp.array(np.arange(6.0).reshape(2, 3), dtype=wp.vec3),
        "m": wp.array(np.arange(12.0).reshape(3, 4), dtype=float),
        "srt": wp.array([1.0, 2.0, 3.0, 4.0], dtype=float),
        "cdf": wp.array([0.1, 0.3, 0.6, 1.0], dtype=float),
        "n": 5,
        "o": wp.zeros(24, dtype=float),
    }


@pytest.mark.parametrize("kernel", SEEN, ids=lambda k: k.key)
def test_numbers(kernel: wp.Kernel) -> None:
    given = arguments()
    wp.launch(kernel, dim=1, inputs=[given[name] for name in kernel.parameter_names])
    np.testing.assert_allclose(given["o"].numpy()[: len(SEEN[kernel])], SEEN[kernel], rtol=2e-6, atol=1e-6)
