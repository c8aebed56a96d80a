// Stencils: the border is told apart outside the inner loop, which the compiler vectorises.
#include <algorithm>
#include <cstdint>

template <class T>
static void jacobi_of(int64_t n, int64_t m, const T* u, T* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        const T* row = u + i * m;
        if (i == 0 || i == n - 1) {
            std::copy(row, row + m, out + i * m);
            continue;
        }
        out[i * m] = row[0];
#pragma omp simd
        for (int64_t j = 1; j < m - 1; ++j)
            out[i * m + j] = T(0.25) * (row[j - m] + row[j + m] + row[j - 1] + row[j + 1]);
        out[i * m + m - 1] = row[m - 1];
    }
}

static inline float relaxed(float f, float weight, float density, float along, float square, float omega) {
    return f + omega * (weight * density * (1 + along + 0.5f * along * along - 1.5f * square) - f);
}

// One point of the lattice: `left` and `right` are its neighbours' columns.
static inline void relax_point(int64_t size, const float* f, int64_t row, int64_t up, int64_t down, int64_t j,
                               int64_t left, int64_t right, float omega, float* out) {
    const float f0 = f[row + j], f1 = f[size + row + left], f2 = f[2 * size + up + j];
    const float f3 = f[3 * size + row + right], f4 = f[4 * size + down + j], f5 = f[5 * size + up + left];
    const float f6 = f[6 * size + up + right], f7 = f[7 * size + down + right], f8 = f[8 * size + down + left];
    const float density = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
    const float x = 3 * (f1 + f5 + f8 - f3 - f6 - f7) / density, y = 3 * (f2 + f5 + f6 - f4 - f7 - f8) / density;
    const float s = (x * x + y * y) / 9, straight = 1.0f / 9, across = 1.0f / 36;
    out[row + j] = relaxed(f0, 4.0f / 9, density, 0, s, omega);
    out[size + row + j] = relaxed(f1, straight, density, x, s, omega);
    out[2 * size + row + j] = relaxed(f2, straight, density, y, s, omega);
    out[3 * size + row + j] = relaxed(f3, straight, density, -x, s, omega);
    out[4 * size + row + j] = relaxed(f4, straight, density, -y, s, omega);
    out[5 * size + row + j] = relaxed(f5, across, density, x + y, s, omega);
    out[6 * size + row + j] = relaxed(f6, across, density, y - x, s, omega);
    out[7 * size + row + j] = relaxed(f7, across, density, -x - y, s, omega);
    out[8 * size + row + j] = relaxed(f8, across, density, x - y, s, omega);
}

constexpr int SPACE[19][3] = {{-1, -1, 0}, {-1, 0, -1}, {-1, 0, 0}, {-1, 0, 1}, {-1, 1, 0}, {0, -1, -1}, {0, -1, 0},
                              {0, -1, 1},  {0, 0, -1},  {0, 0, 0},  {0, 0, 1},  {0, 1, -1}, {0, 1, 0},   {0, 1, 1},
                              {1, -1, 0},  {1, 0, -1},  {1, 0, 0},  {1, 0, 1},  {1, 1, 0}};

// One point of the lattice in space, unrolled over its directions; `wraps` where a neighbour may be at the other end.
template <bool wraps>
static inline __attribute__((always_inline)) void relax_in_space(int64_t size, int64_t l, int64_t k,
                                                                 const float* const* rows, float omega, float* to) {
    float pulled[19], density = 0, u[3] = {};
#pragma GCC unroll 19
    for (int d = 0; d < 19; ++d) {
        const int64_t from = k - SPACE[d][2];
        pulled[d] = rows[d][wraps ? (from + l) % l : from];
        density += pulled[d];
        for (int c = 0; c < 3; ++c)
            if (SPACE[d][c]) u[c] += SPACE[d][c] > 0 ? pulled[d] : -pulled[d];
    }
    for (int c = 0; c < 3; ++c) u[c] /= density;
    const float square = 1.5f * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
#pragma GCC unroll 19
    for (int d = 0; d < 19; ++d) {
        const int far = SPACE[d][0] * SPACE[d][0] + SPACE[d][1] * SPACE[d][1] + SPACE[d][2] * SPACE[d][2];
        float along = 0;
        for (int c = 0; c < 3; ++c)
            if (SPACE[d][c]) along += SPACE[d][c] > 0 ? u[c] : -u[c];
        along *= 3;
        const float weight = far == 0 ? 1.0f / 3 : far == 1 ? 1.0f / 18 : 1.0f / 36;
        const float balance = weight * density * (1 + along * (1 + 0.5f * along) - square);
        to[d * size + k] = pulled[d] + omega * (balance - pulled[d]);
    }
}

extern "C" {

void jacobi(int64_t n, int64_t m, const float* u, float* out) { jacobi_of(n, m, u, out); }
void jacobi64(int64_t n, int64_t m, const double* u, double* out) { jacobi_of(n, m, u, out); }

void heat(int64_t n, int64_t m, int64_t l, const float* u, float* out) {
#pragma omp parallel for collapse(2)
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j) {
            const float* row = u + (i * m + j) * l;
            float* to = out + (i * m + j) * l;
            if (i == 0 || j == 0 || i == n - 1 || j == m - 1) {
                std::copy(row, row + l, to);
                continue;
            }
            to[0] = row[0];
#pragma omp simd
            for (int64_t k = 1; k < l - 1; ++k) {
                const float around = row[k - m * l] + row[k + m * l] + row[k - l] + row[k + l] + row[k - 1] + row[k + 1];
                to[k] = row[k] + 0.1f * (around - 6 * row[k]);
            }
            to[l - 1] = row[l - 1];
        }
}

void lattice(int64_t n, int64_t m, const float* f, float omega, float* out) {
    const int64_t size = n * m;
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        const int64_t row = i * m, up = (i > 0 ? i - 1 : n - 1) * m, down = (i < n - 1 ? i + 1 : 0) * m;
        relax_point(size, f, row, up, down, 0, m - 1, 1, omega, out);
#pragma omp simd
        for (int64_t j = 1; j < m - 1; ++j) relax_point(size, f, row, up, down, j, j - 1, j + 1, omega, out);
        relax_point(size, f, row, up, down, m - 1, m - 2, 0, omega, out);
    }
}

void lattice3(int64_t n, int64_t m, int64_t l, const float* f, float omega, float* out) {
    const int64_t size = n * m * l;
#pragma omp parallel for collapse(2)
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j) {
            const float* rows[19];  // of the point that each population comes from
            for (int d = 0; d < 19; ++d) {
                const int64_t from_i = (i - SPACE[d][0] + n) % n, from_j = (j - SPACE[d][1] + m) % m;
                rows[d] = f + d * size + (from_i * m + from_j) * l;
            }
            float* to = out + (i * m + j) * l;
            relax_in_space<true>(size, l, 0, rows, omega, to);
#pragma omp simd
            for (int64_t k = 1; k < l - 1; ++k) relax_in_space<false>(size, l, k, rows, omega, to);
            relax_in_space<true>(size, l, l - 1, rows, omega, to);
        }
}

}  // extern "C"
