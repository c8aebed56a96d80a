// Reductions by OpenMP: each thread has its own result, and the threads' results are put together at the end.
#include <cstdint>

extern "C" {

void sum(int64_t n, const float* x, float* out) {
    float total = 0;
#pragma omp parallel for simd reduction(+ : total)
    for (int64_t i = 0; i < n; ++i) total += x[i];
    *out = total;
}

void dot64(int64_t n, const double* x, const double* y, double* out) {
    double total = 0;
#pragma omp parallel for simd reduction(+ : total)
    for (int64_t i = 0; i < n; ++i) total += x[i] * y[i];
    *out = total;
}

void max(int64_t n, const float* x, float* out) {
    float largest = 0;
#pragma omp parallel for simd reduction(max : largest)
    for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    *out = largest;
}

void histogram(int64_t n, const int32_t* values, int32_t* out) {
    int32_t counts[256] = {};
#pragma omp parallel for reduction(+ : counts)
    for (int64_t i = 0; i < n; ++i) ++counts[values[i]];
    for (int bin = 0; bin < 256; ++bin) out[bin] = counts[bin];
}

}  // extern "C"
