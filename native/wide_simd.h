// Vectors of 8 numbers, for the files that are compiled for AVX2 alone (see native/CMakeLists.txt). Code in them runs
// only where a kernel was compiled for a processor that has AVX2 (`Inline.native` in `builtins/overload.py`). So they
// use no inline function of a library, which the linker could share with other files.
#pragma once

#include "wide_bvh.h"

#ifdef __AVX2__
#include <immintrin.h>

namespace wl {

namespace {

using V = __m256;

constexpr float kInfinity = __builtin_inff();

inline V all(float x) { return _mm256_set1_ps(x); }
inline void store(float* p, V x) { _mm256_store_ps(p, x); }
inline V load(const float* p) { return _mm256_load_ps(p); }
inline V less_equal(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
inline uint32_t bits_of(V mask) { return static_cast<uint32_t>(_mm256_movemask_ps(mask)); }
inline V choose(V mask, V a, V b) { return _mm256_blendv_ps(b, a, mask); }
inline bool finite(float x) { return __builtin_fabsf(x) < kInfinity; }
inline V absolute(V a) { return _mm256_andnot_ps(all(-0.0f), a); }

inline __m256i load_words(const int32_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
inline void store_words(int32_t* p, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }

// A layer of a sorting network: of `k` and what it is compared with, lanes of `kLower` keep the smaller one.
template <int kLower>
inline __m256i layer(__m256i k, __m256i other) {
    return _mm256_blend_epi32(_mm256_max_epi32(k, other), _mm256_min_epi32(k, other), kLower);
}

// The largest comes first. It takes no branches, which would be guessed wrong: the order of children is by chance.
inline __m256i sort_descending(__m256i k) {
    k = layer<0xAA>(k, _mm256_shuffle_epi32(k, 0xB1));
    k = layer<0xCC>(k, _mm256_shuffle_epi32(k, 0x1B));
    k = layer<0xAA>(k, _mm256_shuffle_epi32(k, 0xB1));
    k = layer<0xF0>(k, _mm256_permute4x64_epi64(_mm256_shuffle_epi32(k, 0x1B), 0x4E));
    k = layer<0xCC>(k, _mm256_shuffle_epi32(k, 0x4E));
    return layer<0xAA>(k, _mm256_shuffle_epi32(k, 0xB1));
}

// The lanes of a mask as a vector of bits.
inline V mask_of(uint32_t lanes) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i there = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(lanes)), bit);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(there, bit));
}

// Sorts the children of a node in `met`, the farthest first, after which come the others. A key has the bits of the
// distance (never negative, so they are in its order) but for the last three, in whose place is the number of the
// child: a distance that is a little too small, so that no node is left out by it.
inline __m256i sorted_keys(V distances, V met) {
    __m256i key = _mm256_andnot_si256(_mm256_set1_epi32(kWide - 1), _mm256_castps_si256(distances));
    key = _mm256_or_si256(key, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return sort_descending(_mm256_blendv_epi8(_mm256_set1_epi32(INT32_MIN), key, _mm256_castps_si256(met)));
}

inline float distance_of(int32_t key) {
    const int32_t bits = key & ~(kWide - 1);
    float distance;
    __builtin_memcpy(&distance, &bits, 4);
    return distance;
}

template <typename T>
const T* at_address(uint64_t address) {
    return reinterpret_cast<const T*>(static_cast<uintptr_t>(address));
}

}  // namespace

}  // namespace wl
#endif
