// Values and gradients, derived by hand: the floors of benchmark_backward.py. A thread of the grid in each lane.
#include "lanes.h"

extern "C" {

// out: the sum over i of (1 - x_i)^2 + 100 (x_{i+1} - x_i^2)^2
void rosenbrock_gradient(int64_t n, const float* x, const float* seed, float* out, float* adj) {
    float total = 0;
    const float g = seed[0];
#pragma omp parallel for simd reduction(+ : total)
    for (int64_t i = 1; i < n - 1; ++i) {
        const float a = 1 - x[i], b = x[i + 1] - x[i] * x[i], before = x[i] - x[i - 1] * x[i - 1];
        total += a * a + 100 * b * b;
        adj[i] = g * (200 * before - 2 * a - 400 * x[i] * b);
    }
    const float a = 1 - x[0], b = x[1] - x[0] * x[0];
    adj[0] = g * (-2 * a - 400 * x[0] * b);
    adj[n - 1] = g * 200 * (x[n - 1] - x[n - 2] * x[n - 2]);
    *out = total + a * a + 100 * b * b;
}

}  // extern "C"

#ifdef LANES
static float sum_of(Float v) {
    float total = 0;
    for (int k = 0; k < lanes<Float>; ++k) total += v[k];
    return total;
}

extern "C" {

// out: minus half the sum over all pairs of 1 / sqrt(|p_i - p_j|^2 + 0.01)
void energy_gradient(int64_t n, const float* p, const float* seed, float* out, float* adj) {
    float total = 0;
#pragma omp parallel for reduction(+ : total)
    for (int64_t i = 0; i < n; i += lanes<Float>) {
        const float* here = p + 3 * i;
        const Float x = load_strided<Float>(here, 3), y = load_strided<Float>(here + 1, 3);
        const Float z = load_strided<Float>(here + 2, 3);
        Float sum = {}, ax = {}, ay = {}, az = {};
        for (int64_t j = 0; j < n; ++j) {
            const Float dx = x - p[3 * j], dy = y - p[3 * j + 1], dz = z - p[3 * j + 2];
            const Float r = inverse_root(dx * dx + dy * dy + dz * dz + 1.0e-2f), cube = r * r * r;
            sum += r, ax += cube * dx, ay += cube * dy, az += cube * dz;
        }
        total += sum_of(sum);
        store_strided(adj + 3 * i, 3, seed[0] * ax);
        store_strided(adj + 3 * i + 1, 3, seed[0] * ay);
        store_strided(adj + 3 * i + 2, 3, seed[0] * az);
    }
    *out = -0.5f * total;
}

// out_i: the sum over h of output_h tanh(hidden_h . p_i + bias_h). What is summed over the points is summed in registers
// of each thread, then over lanes and threads.
void network_gradient(int64_t n, const float* p, const float* hidden, const float* bias, const float* output,
                      const float* seed, float* out, float* adj_p, float* adj_hidden, float* adj_bias,
                      float* adj_output) {
    constexpr int width = 32;
    std::memset(adj_hidden, 0, 3 * width * sizeof(float));
    std::memset(adj_bias, 0, width * sizeof(float));
    std::memset(adj_output, 0, width * sizeof(float));
#pragma omp parallel
    {
        Float sums[width][5] = {};
#pragma omp for
        for (int64_t i = 0; i < n; i += lanes<Float>) {
            const Float x = load_strided<Float>(p + 3 * i, 3), y = load_strided<Float>(p + 3 * i + 1, 3);
            const Float z = load_strided<Float>(p + 3 * i + 2, 3), g = load<Float>(seed + i);
            Float total = {}, ax = {}, ay = {}, az = {};
            for (int h = 0; h < width; ++h) {
                const float* w = hidden + 3 * h;
                const Float t = hyperbolic_tangent(w[0] * x + w[1] * y + w[2] * z + bias[h]);
                const Float a = g * output[h] * (1 - t * t);
                total += output[h] * t;
                ax += a * w[0], ay += a * w[1], az += a * w[2];
                sums[h][0] += a * x, sums[h][1] += a * y, sums[h][2] += a * z, sums[h][3] += a, sums[h][4] += g * t;
            }
            store(out + i, total);
            store_strided(adj_p + 3 * i, 3, ax);
            store_strided(adj_p + 3 * i + 1, 3, ay);
            store_strided(adj_p + 3 * i + 2, 3, az);
        }
#pragma omp critical
        for (int h = 0; h < width; ++h) {
            for (int c = 0; c < 3; ++c) adj_hidden[3 * h + c] += sum_of(sums[h][c]);
            adj_bias[h] += sum_of(sums[h][3]);
            adj_output[h] += sum_of(sums[h][4]);
        }
    }
}

}  // extern "C"
#endif
