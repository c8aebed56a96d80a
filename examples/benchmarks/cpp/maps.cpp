// Special functions. With -ffast-math g++ calls glibc's vector versions; without, one number after the other.
#include <cmath>
#include <cstdint>

template <class T>
static void sine_of(int64_t n, const T* x, T* out) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) out[i] = std::sin(x[i]);
}

template <class T>
static void mix_of(int64_t n, const T* x, T* out) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) out[i] = std::exp(-x[i]) * std::log(1 + x[i]) + std::pow(x[i], T(1.7));
}

extern "C" {

void sine(int64_t n, const float* x, float* out) { sine_of(n, x, out); }
void sine64(int64_t n, const double* x, double* out) { sine_of(n, x, out); }
void mix(int64_t n, const float* x, float* out) { mix_of(n, x, out); }
void mix64(int64_t n, const double* x, double* out) { mix_of(n, x, out); }

}  // extern "C"
