// Quaternions, and a decomposition of 3 x 3 matrices. What is done for one point is a template: of numbers, and of lanes.
#include "lanes.h"

template <class V>
static inline void spin_steps(V* q, V a, V b, V c, int64_t steps) {
    V x = q[0], y = q[1], z = q[2], w = q[3];
    for (int64_t step = 0; step < steps; ++step) {
        const V nx = x + a * w + b * z - c * y, ny = y + b * w + c * x - a * z;
        const V nz = z + c * w + a * y - b * x, nw = w - a * x - b * y - c * z;
        const V scale = 1 / root(nx * nx + ny * ny + nz * nz + nw * nw);
        x = scale * nx, y = scale * ny, z = scale * nz, w = scale * nw;
    }
    q[0] = x, q[1] = y, q[2] = z, q[3] = w;
}

// One rotation of Jacobi's method: the element (p, q) of the symmetric matrix s becomes zero, v collects the rotations.
template <int p, int q, class V>
static inline void jacobi_rotation(V s[3][3], V v[3][3]) {
    constexpr int r = 3 - p - q;
    const V d = s[q][q] - s[p][p], off = 2 * s[p][q], size = root(d * d + off * off);
    const V t = off / (d < 0 ? d - size - 1.0e-30f : d + size + 1.0e-30f);
    const V c = 1 / root(1 + t * t), k = t * c;
    s[p][p] -= t * s[p][q], s[q][q] += t * s[p][q];
    s[p][q] = s[q][p] = 0 * t;
    const V rp = s[r][p], rq = s[r][q];
    s[r][p] = s[p][r] = c * rp - k * rq;
    s[r][q] = s[q][r] = k * rp + c * rq;
    for (int i = 0; i < 3; ++i) {
        const V vp = v[i][p], vq = v[i][q];
        v[i][p] = c * vp - k * vq, v[i][q] = k * vp + c * vq;
    }
}

// U log(S) V^T: V are the eigenvectors of A^T A, and the columns of A V are those of U times the singular values.
template <class V>
static inline void logarithm_of_stretch(const V a[3][3], V out[3][3]) {
    V s[3][3], v[3][3], b[3][3];
    const V zero = 0 * a[0][0];
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) {
            s[i][j] = a[0][i] * a[0][j] + a[1][i] * a[1][j] + a[2][i] * a[2][j];
            v[i][j] = i == j ? zero + 1 : zero;
        }
    for (int sweep = 0; sweep < 4; ++sweep) {
        jacobi_rotation<0, 1>(s, v);
        jacobi_rotation<0, 2>(s, v);
        jacobi_rotation<1, 2>(s, v);
    }
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) b[i][j] = a[i][0] * v[0][j] + a[i][1] * v[1][j] + a[i][2] * v[2][j];
    for (int j = 0; j < 3; ++j) {
        const V sigma = root(b[0][j] * b[0][j] + b[1][j] * b[1][j] + b[2][j] * b[2][j]);
        const V scale = logarithm(sigma) / sigma;
        for (int i = 0; i < 3; ++i) b[i][j] *= scale;
    }
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) out[i][j] = b[i][0] * v[j][0] + b[i][1] * v[j][1] + b[i][2] * v[j][2];
}

extern "C" {

void rotate(int64_t n, const float* q, const float* v, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        const float x = q[4 * i], y = q[4 * i + 1], z = q[4 * i + 2], w = q[4 * i + 3];
        const float a = v[3 * i], b = v[3 * i + 1], c = v[3 * i + 2];
        const float s = 2 * w * w - 1, d = 2 * (x * a + y * b + z * c);
        out[3 * i] = a * s + 2 * w * (y * c - z * b) + x * d;
        out[3 * i + 1] = b * s + 2 * w * (z * a - x * c) + y * d;
        out[3 * i + 2] = c * s + 2 * w * (x * b - y * a) + z * d;
    }
}

void spin(int64_t n, const float* start, const float* velocity, int64_t steps, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        const float* v = velocity + 3 * i;
        std::memcpy(out + 4 * i, start + 4 * i, 4 * sizeof(float));
        spin_steps(out + 4 * i, 0.005f * v[0], 0.005f * v[1], 0.005f * v[2], steps);
    }
}

void svd(int64_t n, const float* a, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i)
        logarithm_of_stretch((const float(*)[3])(a + 9 * i), (float(*)[3])(out + 9 * i));
}

}  // extern "C"

#ifdef LANES
extern "C" {

void spin_lanes(int64_t n, const float* start, const float* velocity, int64_t steps, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += lanes<Float>) {
        Float q[4], v[3];
        for (int c = 0; c < 4; ++c) q[c] = load_strided<Float>(start + 4 * i + c, 4);
        for (int c = 0; c < 3; ++c) v[c] = 0.005f * load_strided<Float>(velocity + 3 * i + c, 3);
        spin_steps(q, v[0], v[1], v[2], steps);
        for (int c = 0; c < 4; ++c) store_strided(out + 4 * i + c, 4, q[c]);
    }
}

void svd_lanes(int64_t n, const float* a, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += lanes<Float>) {
        Float in[3][3], result[3][3];
        for (int c = 0; c < 9; ++c) in[c / 3][c % 3] = load_strided<Float>(a + 9 * i + c, 9);
        logarithm_of_stretch(in, result);
        for (int c = 0; c < 9; ++c) store_strided(out + 9 * i + c, 9, result[c / 3][c % 3]);
    }
}

}  // extern "C"
#endif
