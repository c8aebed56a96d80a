// What the machine can do at most: bytes from and to memory, and multiply-adds in registers. All cores take part.
#include "lanes.h"

#ifndef LANES
typedef float Float __attribute__((vector_size(16)));
typedef double Double __attribute__((vector_size(16)));
#endif

// Independent chains, so that the latency of one multiply-add hides behind the others. out[0] is the number of
// operations of all threads; out[1] comes from the result, which keeps the loop in the program.
template <class V, class T>
static void multiply_add(int64_t repeats, double* out) {
    constexpr int chains = 12;
    double operations = 0, total = 0;
#pragma omp parallel reduction(+ : operations, total)
    {
        V sums[chains];
        const V a = V{} + T(0.999), b = V{} + T(0.001);
        for (int c = 0; c < chains; ++c) sums[c] = V{} + T(c);
        for (int64_t i = 0; i < repeats; ++i)
#pragma GCC unroll 12
            for (int c = 0; c < chains; ++c) sums[c] = sums[c] * a + b;
        for (int c = 0; c < chains; ++c) total += sums[c][0];
        operations += 2.0 * chains * double(sizeof(V) / sizeof(T)) * double(repeats);
    }
    out[0] = operations, out[1] = total;
}

extern "C" {

void multiply_add32(int64_t repeats, double* out) { multiply_add<Float, float>(repeats, out); }
void multiply_add64(int64_t repeats, double* out) { multiply_add<Double, double>(repeats, out); }

void triad(int64_t n, const float* x, const float* y, float* out) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] + 3.0f * y[i];
}

}  // extern "C"
