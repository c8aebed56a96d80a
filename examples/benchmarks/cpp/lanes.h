// A vector register with a thread of the grid in each lane: what the functions `*_lanes` are written in, for AVX-512 and
// AVX2 with glibc's vector math. Elsewhere LANES is not defined, and the column stays empty. Grids are multiples of 16.
// Arithmetic, comparisons and `? :` are GCC's own on vector types, so a template can be one for both numbers and lanes.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

inline float root(float x) { return std::sqrt(x); }
inline double root(double x) { return std::sqrt(x); }
inline float sine(float x) { return std::sin(x); }
inline float logarithm(float x) { return std::log(x); }

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__AVX2__)
#define LANES
#include <immintrin.h>
#ifdef __AVX512F__
#define BYTES 64
#define VECTOR_MATH(name) _ZGVeN16v_##name
#define VECTOR_OP(name) _mm512_##name
#else
#define BYTES 32
#define VECTOR_MATH(name) _ZGVdN8v_##name
#define VECTOR_OP(name) _mm256_##name
#endif

typedef float Float __attribute__((vector_size(BYTES)));
typedef double Double __attribute__((vector_size(BYTES)));
typedef int32_t Int __attribute__((vector_size(BYTES)));
typedef int64_t Long __attribute__((vector_size(BYTES)));

extern "C" {
Float VECTOR_MATH(sinf)(Float);
Float VECTOR_MATH(cosf)(Float);
Float VECTOR_MATH(logf)(Float);
Float VECTOR_MATH(tanhf)(Float);
}

template <class V>
constexpr int64_t lanes = sizeof(V) / sizeof(V{}[0]);

template <class V, class T>
V load(const T* from) {
    V v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

template <class V, class T>
void store(T* to, V v) {
    std::memcpy(to, &v, sizeof v);
}

template <class V, class T>
V load_strided(const T* from, int64_t stride) {  // the lanes' elements of an array of structures
    V v;
    for (int k = 0; k < lanes<V>; ++k) v[k] = from[k * stride];
    return v;
}

template <class V, class T>
void store_strided(T* to, int64_t stride, V v) {
    for (int k = 0; k < lanes<V>; ++k) to[k * stride] = v[k];
}

inline Float root(Float x) { return VECTOR_OP(sqrt_ps)(x); }
inline Double root(Double x) { return VECTOR_OP(sqrt_pd)(x); }
inline Float sine(Float x) { return VECTOR_MATH(sinf)(x); }
inline Float cosine(Float x) { return VECTOR_MATH(cosf)(x); }
inline Float logarithm(Float x) { return VECTOR_MATH(logf)(x); }
inline Float hyperbolic_tangent(Float x) { return VECTOR_MATH(tanhf)(x); }

// 1 / sqrt(x): an approximation and one step of Newton for float32, which leave about 2 units in the last place.
inline Float inverse_root(Float x) {
#ifdef __AVX512F__
    const Float r = _mm512_rsqrt14_ps(x);
#else
    const Float r = _mm256_rsqrt_ps(x);
#endif
    return r * (1.5f - 0.5f * x * r * r);
}
inline Double inverse_root(Double x) { return 1.0 / root(x); }

template <class M>
bool any(M mask) {
#ifdef __AVX512F__
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
    return _mm256_movemask_epi8((__m256i)mask) != 0;
#endif
}
#endif
