// Memory read at indices that are data.
#include <cstdint>

extern "C" {

void gather(int64_t n, const float* x, const int32_t* order, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) out[i] = x[order[i]];
}

void sparse(int64_t n, const float* values, const int32_t* columns, const int32_t* first, const float* x, float* out) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) {
        float total = 0;
        for (int32_t k = first[i]; k < first[i + 1]; ++k) total += values[k] * x[columns[k]];
        out[i] = total;
    }
}

}  // extern "C"
