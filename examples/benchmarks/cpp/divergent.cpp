// Loops that end at different times for different points.
#include "lanes.h"

template <class T>
static void mandelbrot_of(int64_t n, int64_t m, const T* points, int32_t* out) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j) {
            const T cx = points[j], cy = points[m + i];
            T x = 0, y = 0;
            int32_t steps = 0;
            while (steps < 256 && x * x + y * y <= 4) {
                const T t = x * x - y * y + cx;
                y = 2 * x * y + cy;
                x = t;
                ++steps;
            }
            out[i * m + j] = steps;
        }
}

extern "C" {

void mandelbrot(int64_t n, int64_t m, const float* points, int32_t* out) { mandelbrot_of(n, m, points, out); }
void mandelbrot64(int64_t n, int64_t m, const double* points, int32_t* out) { mandelbrot_of(n, m, points, out); }

void march(int64_t n, int64_t m, const float* pixels, float* out) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j) {
            float dx = pixels[j], dy = pixels[i], dz = 1;
            const float scale = 1 / std::sqrt(dx * dx + dy * dy + dz * dz);
            dx *= scale, dy *= scale, dz *= scale;
            float t = 0;
            for (int step = 0; step < 64; ++step) {
                const float x = t * dx, y = t * dy, z = t * dz - 3;
                const float ux = x - 0.8f, uy = y - 0.6f, uz = z - 0.2f;
                const float first = std::sqrt(x * x + y * y + z * z) - 1;
                const float second = std::sqrt(ux * ux + uy * uy + uz * uz) - 0.5f;
                const float h = first < second ? first : second;
                if (h < 1.0e-3f || t > 10) break;
                t += h;
            }
            out[i * m + j] = t;
        }
}

}  // extern "C"

#ifdef LANES
// Lanes that are done are kept as they are; the loop ends when all are done.
template <class V, class M, class T>
static void mandelbrot_lanes_of(int64_t n, int64_t m, const T* points, int32_t* out) {
    constexpr int64_t w = lanes<V>;
    constexpr int wide = 2;
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; j += wide * w) {
            V cx[wide], x[wide] = {}, y[wide] = {};
            M steps[wide] = {}, inside[wide];
            for (int c = 0; c < wide; ++c) cx[c] = load<V>(points + j + c * w), inside[c] = ~M{};
            const T cy = points[m + i];
            for (int step = 0; step < 256; ++step) {
                for (int c = 0; c < wide; ++c) {
                    const V xx = x[c] * x[c], yy = y[c] * y[c];
                    inside[c] &= xx + yy <= 4;
                    steps[c] -= inside[c];
                    y[c] = 2 * x[c] * y[c] + cy;
                    x[c] = xx - yy + cx[c];
                }
                if (!any(inside[0] | inside[1])) break;
            }
            for (int c = 0; c < wide; ++c)
                for (int k = 0; k < w; ++k) out[i * m + j + c * w + k] = int32_t(steps[c][k]);
        }
}

extern "C" {

void mandelbrot_lanes(int64_t n, int64_t m, const float* points, int32_t* out) {
    mandelbrot_lanes_of<Float, Int>(n, m, points, out);
}

void mandelbrot64_lanes(int64_t n, int64_t m, const double* points, int32_t* out) {
    mandelbrot_lanes_of<Double, Long>(n, m, points, out);
}

void march_lanes(int64_t n, int64_t m, const float* pixels, float* out) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; j += lanes<Float>) {
            Float dx = load<Float>(pixels + j), dy = pixels[i] + Float{}, t = {};
            const Float dz = inverse_root(dx * dx + dy * dy + 1);
            dx *= dz, dy *= dz;
            Int going = ~Int{};
            for (int step = 0; step < 64; ++step) {
                const Float x = t * dx, y = t * dy, z = t * dz - 3, ux = x - 0.8f, uy = y - 0.6f, uz = z - 0.2f;
                const Float first = root(x * x + y * y + z * z) - 1;
                const Float second = root(ux * ux + uy * uy + uz * uz) - 0.5f;
                const Float h = first < second ? first : second;
                going &= (h >= 1.0e-3f) & (t <= 10);
                if (!any(going)) break;
                t = going ? t + h : t;
            }
            store(out + i * m + j, t);
        }
}

}  // extern "C"
#endif
