// Values and gradients, derived by hand: the floors of benchmark_backward.py. A thread of the grid in each lane.
#include "lanes.h"

#include <omp.h>

#include <vector>

extern "C" {

// out = a x + y
void saxpy_gradient(int64_t n, float a, const float* x, const float* y, const float* seed, float* out, float* adj_x,
                    float* adj_y) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) {
        out[i] = a * x[i] + y[i];
        adj_x[i] = a * seed[i];
        adj_y[i] = seed[i];
    }
}

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

// out = x + h (v + h f), f the forces of the springs. Force and adjoint of a spring are computed together; each thread
// adds both to an array of its own.
void springs_gradient(int64_t n, int64_t springs, const int32_t* ends, const float* x, const float* v, const float* seed,
                      float* out, float* adj_x, float* adj_v) {
    constexpr float h = 1.0e-2f, stiffness = 50, rest = 0.8f;
    std::vector<std::vector<float>> sums(omp_get_max_threads());
#pragma omp parallel
    {
        std::vector<float>& own = sums[omp_get_thread_num()];
        own.assign(6 * n, 0);  // the force on each point, then the adjoint of its position
#pragma omp for
        for (int64_t s = 0; s < springs; ++s) {
            const int64_t a = ends[2 * s], b = ends[2 * s + 1];
            float d[3], g[3];
            for (int c = 0; c < 3; ++c) {
                d[c] = x[3 * b + c] - x[3 * a + c];
                g[c] = h * h * (seed[3 * a + c] - seed[3 * b + c]);
            }
            const float square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2], ratio = rest / std::sqrt(square);
            const float w = stiffness * (1 - ratio);
            const float along = stiffness * ratio / square * (g[0] * d[0] + g[1] * d[1] + g[2] * d[2]);
            float *at_a = own.data() + 6 * a, *at_b = own.data() + 6 * b;
            for (int c = 0; c < 3; ++c) {
                const float force = w * d[c], adjoint = w * g[c] + along * d[c];
                at_a[c] += force, at_a[3 + c] -= adjoint;
                at_b[c] -= force, at_b[3 + c] += adjoint;
            }
        }
#pragma omp for
        for (int64_t i = 0; i < n; ++i)
            for (int c = 0; c < 3; ++c) {
                float force = 0, adjoint = seed[3 * i + c];
                for (const std::vector<float>& part : sums)
                    if (!part.empty()) force += part[6 * i + c], adjoint += part[6 * i + 3 + c];
                out[3 * i + c] = x[3 * i + c] + h * (v[3 * i + c] + h * force);
                adj_x[3 * i + c] = adjoint;
                adj_v[3 * i + c] = h * seed[3 * i + c];
            }
    }
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

// out_i: the sum over h of output_h tanh(hidden_h . p_i + bias_h). What is summed over the points is summed in
// registers of each thread, then over lanes and threads.
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

// out: the angle after some explicit steps. The angles are kept, for the lanes of one vector.
void pendulum_gradient(int64_t n, int64_t steps, const float* q0, const float* v0, const float* seed, float* out,
                       float* adj_q0, float* adj_v0) {
    constexpr float h = 1.0e-2f;
#pragma omp parallel
    {
        std::vector<float> angles(steps * lanes<Float>);
#pragma omp for
        for (int64_t i = 0; i < n; i += lanes<Float>) {
            Float q = load<Float>(q0 + i), v = load<Float>(v0 + i);
            for (int64_t k = 0; k < steps; ++k) {
                store(&angles[k * lanes<Float>], q);
                v -= h * sine(q);
                q += h * v;
            }
            store(out + i, q);
            Float adj_q = load<Float>(seed + i), adj_v = {};
            for (int64_t k = steps - 1; k >= 0; --k) {
                adj_v += h * adj_q;
                adj_q -= h * cosine(load<Float>(&angles[k * lanes<Float>])) * adj_v;
            }
            store(adj_q0 + i, adj_q);
            store(adj_v0 + i, adj_v);
        }
    }
}

// out_i = last . tanh(second tanh(first p_i)). Sums over the points stay in vectors in each thread's nearest cache.
void deep_network_gradient(int64_t n, const float* p, const float* first, const float* second, const float* last,
                           const float* seed, float* out, float* adj_p, float* adj_first, float* adj_second,
                           float* adj_last) {
    constexpr int from = 8, width = 16;
    std::memset(adj_first, 0, width * from * sizeof(float));
    std::memset(adj_second, 0, width * width * sizeof(float));
    std::memset(adj_last, 0, width * sizeof(float));
#pragma omp parallel
    {
        Float first_sums[width][from] = {}, second_sums[width][width] = {}, last_sums[width] = {};
#pragma omp for
        for (int64_t t = 0; t < n; t += lanes<Float>) {
            const Float g = load<Float>(seed + t);
            Float x[from], adj_x[from] = {}, a[width], adj_a[width] = {}, total = {};
            for (int j = 0; j < from; ++j) x[j] = load_strided<Float>(p + from * t + j, from);
            for (int i = 0; i < width; ++i) {
                Float s = {};
                for (int j = 0; j < from; ++j) s += first[i * from + j] * x[j];
                a[i] = hyperbolic_tangent(s);
            }
            for (int i = 0; i < width; ++i) {
                Float s = {};
                for (int j = 0; j < width; ++j) s += second[i * width + j] * a[j];
                const Float b = hyperbolic_tangent(s), adj_s = g * last[i] * (1 - b * b);
                total += last[i] * b;
                last_sums[i] += g * b;
                for (int j = 0; j < width; ++j) {
                    adj_a[j] += second[i * width + j] * adj_s;
                    second_sums[i][j] += a[j] * adj_s;
                }
            }
            for (int i = 0; i < width; ++i) {
                const Float adj_s = adj_a[i] * (1 - a[i] * a[i]);
                for (int j = 0; j < from; ++j) {
                    adj_x[j] += first[i * from + j] * adj_s;
                    first_sums[i][j] += x[j] * adj_s;
                }
            }
            store(out + t, total);
            for (int j = 0; j < from; ++j) store_strided(adj_p + from * t + j, from, adj_x[j]);
        }
#pragma omp critical
        for (int i = 0; i < width; ++i) {
            for (int j = 0; j < from; ++j) adj_first[i * from + j] += sum_of(first_sums[i][j]);
            for (int j = 0; j < width; ++j) adj_second[i * width + j] += sum_of(second_sums[i][j]);
            adj_last[i] += sum_of(last_sums[i]);
        }
    }
}

}  // extern "C"
#endif
