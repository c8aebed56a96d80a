// Steps repeated on each thread's own state. The steps are templates: of numbers, and of lanes.
#include "lanes.h"

template <class V>
struct Point {
    V x, y, z;
};

template <class T, class V>
static inline Point<V> slope(Point<V> s) {
    return {T(10) * (s.y - s.x), s.x * (T(28) - s.z) - s.y, s.x * s.y - T(8.0 / 3.0) * s.z};
}

template <class T, class V>
static inline Point<V> moved(Point<V> s, T h, Point<V> k) {
    return {s.x + h * k.x, s.y + h * k.y, s.z + h * k.z};
}

template <class T, class V>
static inline Point<V> lorenz_steps(Point<V> s, int64_t steps) {
    const T h = T(0.01);
    for (int64_t step = 0; step < steps; ++step) {
        const Point<V> a = slope<T>(s), b = slope<T>(moved(s, h / 2, a)), c = slope<T>(moved(s, h / 2, b));
        const Point<V> d = slope<T>(moved(s, h, c));
        s.x += h / 6 * (a.x + 2 * b.x + 2 * c.x + d.x);
        s.y += h / 6 * (a.y + 2 * b.y + 2 * c.y + d.y);
        s.z += h / 6 * (a.z + 2 * b.z + 2 * c.z + d.z);
    }
    return s;
}

template <class T>
static void lorenz_of(int64_t n, const T* start, int64_t steps, T* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        const Point<T> s = lorenz_steps<T>(Point<T>{start[3 * i], start[3 * i + 1], start[3 * i + 2]}, steps);
        out[3 * i] = s.x, out[3 * i + 1] = s.y, out[3 * i + 2] = s.z;
    }
}

template <class V>
static inline void pendulum_steps(V& q, V& v, int64_t steps) {
    const float h = 0.01f;
    for (int64_t s = 0; s < steps; ++s) {
        const V k1q = v, k1v = -sine(q);
        const V k2q = v + 0.5f * h * k1v, k2v = -sine(q + 0.5f * h * k1q);
        const V k3q = v + 0.5f * h * k2v, k3v = -sine(q + 0.5f * h * k2q);
        const V k4q = v + h * k3v, k4v = -sine(q + h * k3q);
        q += h / 6 * (k1q + 2 * k2q + 2 * k3q + k4q);
        v += h / 6 * (k1v + 2 * k2v + 2 * k3v + k4v);
    }
}

extern "C" {

void lorenz(int64_t n, const float* start, int64_t steps, float* out) { lorenz_of(n, start, steps, out); }
void lorenz64(int64_t n, const double* start, int64_t steps, double* out) { lorenz_of(n, start, steps, out); }

void pendulum(int64_t n, const float* start, int64_t steps, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        out[2 * i] = start[2 * i], out[2 * i + 1] = start[2 * i + 1];
        pendulum_steps(out[2 * i], out[2 * i + 1], steps);
    }
}

void newton64(int64_t n, const double* x, int64_t steps, double* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        double r = x[i];
        for (int64_t step = 0; step < steps; ++step) r -= (r * r - x[i]) / (2 * r);
        out[i] = r;
    }
}

}  // extern "C"

#ifdef LANES
template <class V, class T>
static void lorenz_lanes_of(int64_t n, const T* start, int64_t steps, T* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += lanes<V>) {
        const T* from = start + 3 * i;
        Point<V> s = {load_strided<V>(from, 3), load_strided<V>(from + 1, 3), load_strided<V>(from + 2, 3)};
        s = lorenz_steps<T>(s, steps);
        T* to = out + 3 * i;
        store_strided(to, 3, s.x), store_strided(to + 1, 3, s.y), store_strided(to + 2, 3, s.z);
    }
}

extern "C" {

void lorenz_lanes(int64_t n, const float* start, int64_t steps, float* out) {
    lorenz_lanes_of<Float>(n, start, steps, out);
}

void lorenz64_lanes(int64_t n, const double* start, int64_t steps, double* out) {
    lorenz_lanes_of<Double>(n, start, steps, out);
}

void pendulum_lanes(int64_t n, const float* start, int64_t steps, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += lanes<Float>) {
        Float q = load_strided<Float>(start + 2 * i, 2), v = load_strided<Float>(start + 2 * i + 1, 2);
        pendulum_steps(q, v, steps);
        store_strided(out + 2 * i, 2, q), store_strided(out + 2 * i + 1, 2, v);
    }
}

void newton64_lanes(int64_t n, const double* x, int64_t steps, double* out) {
    constexpr int wide = 2;
    constexpr int64_t w = lanes<Double>;
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += wide * w) {
        Double square[wide], r[wide];
        for (int c = 0; c < wide; ++c) square[c] = r[c] = load<Double>(x + i + c * w);
        for (int64_t step = 0; step < steps; ++step)
            for (int c = 0; c < wide; ++c) r[c] -= (r[c] * r[c] - square[c]) / (2 * r[c]);
        for (int c = 0; c < wide; ++c) store(out + i + c * w, r[c]);
    }
}

}  // extern "C"
#endif
