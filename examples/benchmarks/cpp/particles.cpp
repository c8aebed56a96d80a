// Particles: all pairs, lists of neighbours, springs.
#include <algorithm>
#include <vector>

#include "lanes.h"

template <class T>
static void nbody_of(int64_t n, const T* p, const T* m, T* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        T ax = 0, ay = 0, az = 0;
        for (int64_t j = 0; j < n; ++j) {
            const T dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1], dz = p[3 * j + 2] - p[3 * i + 2];
            const T r = std::sqrt(dx * dx + dy * dy + dz * dz + T(1.0e-2)), w = m[j] / (r * r * r);
            ax += w * dx, ay += w * dy, az += w * dz;
        }
        out[3 * i] = ax, out[3 * i + 1] = ay, out[3 * i + 2] = az;
    }
}

extern "C" {

void nbody(int64_t n, const float* p, const float* m, float* out) { nbody_of(n, p, m, out); }
void nbody64(int64_t n, const double* p, const double* m, double* out) { nbody_of(n, p, m, out); }

void neighbours(int64_t n, const float* p, const int32_t* lists, const int32_t* counts, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        float fx = 0, fy = 0, fz = 0;
        for (int32_t k = 0; k < counts[i]; ++k) {
            const float* q = p + 3 * lists[i * 32 + k];
            const float dx = p[3 * i] - q[0], dy = p[3 * i + 1] - q[1], dz = p[3 * i + 2] - q[2];
            const float s = 1 / (dx * dx + dy * dy + dz * dz), c = s * s * s, w = 24 * s * c * (2 * c - 1);
            fx += w * dx, fy += w * dy, fz += w * dz;
        }
        out[3 * i] = fx, out[3 * i + 1] = fy, out[3 * i + 2] = fz;
    }
}

void density(int64_t n, const float* p, const int32_t* order, const int32_t* first, int64_t side, float* out) {
    const float radius = 1.0f / side, scale = 315 / (64 * 3.14159265f) / std::pow(radius, 9.0f);
    const int64_t last = side - 1;
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        const float here[3] = {p[3 * i], p[3 * i + 1], p[3 * i + 2]};
        int64_t low[3], high[3];
        for (int c = 0; c < 3; ++c) {
            const int64_t at = std::min<int64_t>(here[c] * side, last);
            low[c] = std::max<int64_t>(at - 1, 0), high[c] = std::min<int64_t>(at + 1, last);
        }
        float total = 0;
        for (int64_t a = low[0]; a <= high[0]; ++a)
            for (int64_t b = low[1]; b <= high[1]; ++b) {  // the cells of a row follow each other
                const int64_t row = (a * side + b) * side;
                for (int32_t k = first[row + low[2]]; k < first[row + high[2] + 1]; ++k) {
                    const float* q = p + 3 * order[k];
                    const float dx = here[0] - q[0], dy = here[1] - q[1], dz = here[2] - q[2];
                    const float s = radius * radius - (dx * dx + dy * dy + dz * dz);
                    total += s > 0 ? s * s * s : 0;
                }
            }
        out[i] = scale * total;
    }
}

// Each thread adds to an array of its own, which are summed at the end: twice as fast as atomic additions.
void springs(int64_t n, int64_t points, const float* p, const int32_t* ends, float* force) {
#pragma omp parallel
    {
        std::vector<float> own(3 * points);
        float* f = own.data();
#pragma omp for nowait
        for (int64_t s = 0; s < n; ++s) {
            const int64_t a = 3 * ends[2 * s], b = 3 * ends[2 * s + 1];
            const float dx = p[b] - p[a], dy = p[b + 1] - p[a + 1], dz = p[b + 2] - p[a + 2];
            const float r = std::sqrt(dx * dx + dy * dy + dz * dz), w = 50 * (r - 0.8f) / r;
            f[a] += w * dx, f[a + 1] += w * dy, f[a + 2] += w * dz;
            f[b] -= w * dx, f[b + 1] -= w * dy, f[b + 2] -= w * dz;
        }
#pragma omp single
        std::memset(force, 0, 3 * points * sizeof(float));
#pragma omp critical
        for (int64_t i = 0; i < 3 * points; ++i) force[i] += f[i];
    }
}

}  // extern "C"

#ifdef LANES
// A body in each lane, two registers of them, and all others one after the other.
template <class V, class T>
static void nbody_lanes_of(int64_t n, const T* p, const T* m, T* out) {
    constexpr int64_t w = lanes<V>;
    constexpr int wide = 2;
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += wide * w) {
        V x[wide], y[wide], z[wide], ax[wide] = {}, ay[wide] = {}, az[wide] = {};
        for (int c = 0; c < wide; ++c) {
            const T* from = p + 3 * (i + c * w);
            x[c] = load_strided<V>(from, 3), y[c] = load_strided<V>(from + 1, 3), z[c] = load_strided<V>(from + 2, 3);
        }
        for (int64_t j = 0; j < n; ++j)
            for (int c = 0; c < wide; ++c) {
                const V dx = p[3 * j] - x[c], dy = p[3 * j + 1] - y[c], dz = p[3 * j + 2] - z[c];
                const V r = inverse_root(dx * dx + dy * dy + dz * dz + T(1.0e-2)), f = m[j] * r * r * r;
                ax[c] += f * dx, ay[c] += f * dy, az[c] += f * dz;
            }
        for (int c = 0; c < wide; ++c) {
            T* to = out + 3 * (i + c * w);
            store_strided(to, 3, ax[c]), store_strided(to + 1, 3, ay[c]), store_strided(to + 2, 3, az[c]);
        }
    }
}

extern "C" {

void nbody_lanes(int64_t n, const float* p, const float* m, float* out) { nbody_lanes_of<Float>(n, p, m, out); }
void nbody64_lanes(int64_t n, const double* p, const double* m, double* out) { nbody_lanes_of<Double>(n, p, m, out); }

}  // extern "C"
#endif
