// Plain loops, shared among the cores by OpenMP and left to the compiler to vectorise.
#include <cstdint>

template <class T>
static void saxpy_of(int64_t n, const T* x, const T* y, T a, T* out) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + y[i];
}

extern "C" {

void copy(int64_t n, const float* x, float* out) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) out[i] = x[i];
}

void saxpy(int64_t n, const float* x, const float* y, float a, float* out) { saxpy_of(n, x, y, a, out); }

void saxpy64(int64_t n, const double* x, const double* y, double a, double* out) { saxpy_of(n, x, y, a, out); }

}  // extern "C"
