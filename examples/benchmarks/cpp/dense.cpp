// A naive matrix product and a network evaluated for each point.
#include "lanes.h"

template <class T>
static void matmul_of(int64_t n, int64_t m, const T* a, const T* b, T* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j) {
            T total = 0;
            for (int64_t k = 0; k < n; ++k) total += a[i * n + k] * b[k * m + j];
            out[i * m + j] = total;
        }
}

extern "C" {

void matmul(int64_t n, int64_t m, const float* a, const float* b, float* out) { matmul_of(n, m, a, b, out); }
void matmul64(int64_t n, int64_t m, const double* a, const double* b, double* out) { matmul_of(n, m, a, b, out); }

void network(int64_t n, const float* p, const float* hidden, const float* bias, const float* output, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        float total = 0;
        for (int h = 0; h < 64; ++h) {
            const float* w = hidden + 3 * h;
            total += output[h] * std::tanh(w[0] * p[3 * i] + w[1] * p[3 * i + 1] + w[2] * p[3 * i + 2] + bias[h]);
        }
        out[i] = total;
    }
}

}  // extern "C"

#ifdef LANES
// Threads of one row in the lanes, two registers of them: an element of `a` is the same for all, those of `b` lie side
// by side.
template <class V, class T>
static void matmul_lanes_of(int64_t n, int64_t m, const T* a, const T* b, T* out) {
    constexpr int64_t w = lanes<V>, wide = 2;
#pragma omp parallel for collapse(2)
    for (int64_t j = 0; j < m; j += wide * w)
        for (int64_t i = 0; i < n; i += 4) {
            V total[4][wide] = {};
            for (int64_t k = 0; k < n; ++k)
                for (int c = 0; c < wide; ++c) {
                    const V right = load<V>(b + k * m + j + c * w);
                    for (int r = 0; r < 4; ++r) total[r][c] += a[(i + r) * n + k] * right;
                }
            for (int r = 0; r < 4; ++r)
                for (int c = 0; c < wide; ++c) store(out + (i + r) * m + j + c * w, total[r][c]);
        }
}

extern "C" {

void matmul_lanes(int64_t n, int64_t m, const float* a, const float* b, float* out) {
    matmul_lanes_of<Float>(n, m, a, b, out);
}

void matmul64_lanes(int64_t n, int64_t m, const double* a, const double* b, double* out) {
    matmul_lanes_of<Double>(n, m, a, b, out);
}

void network_lanes(int64_t n, const float* p, const float* hidden, const float* bias, const float* output, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += lanes<Float>) {
        const Float x = load_strided<Float>(p + 3 * i, 3), y = load_strided<Float>(p + 3 * i + 1, 3);
        const Float z = load_strided<Float>(p + 3 * i + 2, 3);
        Float total = {};
        for (int h = 0; h < 64; ++h) {
            const float* w = hidden + 3 * h;
            total += output[h] * hyperbolic_tangent(w[0] * x + w[1] * y + w[2] * z + bias[h]);
        }
        store(out + i, total);
    }
}

}  // extern "C"
#endif
