// What snippets of wp.func_native can use: the kernel language's types as C++ sees them, and atomics.
//
// Layouts are those of warp_like/ir/layout.py. The text stands in front of every snippet, for the host's compiler, for
// nvcc and for NVRTC, which has no headers; nothing here has external linkage.
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#else
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#endif

#ifdef __CUDACC__
#define WL_INLINE __device__ __forceinline__
#define WL_ENTRY __device__
#define WP_TILE_SYNC() __syncthreads()
#else
#define WL_ENTRY
#define WP_TILE_SYNC() ((void)0)  // a block is one thread
#define WL_INLINE inline __attribute__((always_inline))
#endif

namespace wp {
namespace {

// A 16-bit float as its bits; converts to and from float.
struct bfloat16 {
    uint16_t bits;
    bfloat16() = default;
    WL_INLINE bfloat16(float x) {
        uint32_t u;
        memcpy(&u, &x, 4);
        bits = static_cast<uint16_t>(x != x ? (u >> 16) | 0x40 : (u + 0x7fff + ((u >> 16) & 1)) >> 16);
    }
    WL_INLINE operator float() const {
        const uint32_t u = static_cast<uint32_t>(bits) << 16;
        float x;
        memcpy(&x, &u, 4);
        return x;
    }
};

#ifdef __CUDACC__
struct half {
    uint16_t bits;
    half() = default;
    WL_INLINE half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
    WL_INLINE operator float() const {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
    }
};
#elif defined(__FLT16_MANT_DIG__)
typedef _Float16 half;
#endif

template <unsigned N, typename T>
struct vec_t {
    T c[N];
    WL_INLINE T& operator[](int i) { return c[i]; }
    WL_INLINE const T& operator[](int i) const { return c[i]; }
};

template <unsigned Rows, unsigned Cols, typename T>
struct mat_t {
    T data[Rows][Cols];
    WL_INLINE T& operator()(int i, int j) { return data[i][j]; }
    WL_INLINE const T& operator()(int i, int j) const { return data[i][j]; }
    WL_INLINE T* operator[](int i) { return data[i]; }
    WL_INLINE const T* operator[](int i) const { return data[i]; }
};

template <typename T>
struct quat_t {
    T x, y, z, w;
};

template <typename T>
struct transform_t {
    vec_t<3, T> p;
    quat_t<T> q;
};

template <unsigned N, typename T>
WL_INLINE vec_t<N, T> operator+(vec_t<N, T> a, const vec_t<N, T>& b) {
    for (unsigned i = 0; i < N; ++i) a.c[i] += b.c[i];
    return a;
}

template <unsigned N, typename T>
WL_INLINE vec_t<N, T> operator-(vec_t<N, T> a, const vec_t<N, T>& b) {
    for (unsigned i = 0; i < N; ++i) a.c[i] -= b.c[i];
    return a;
}

template <unsigned N, typename T>
WL_INLINE vec_t<N, T> operator*(vec_t<N, T> a, T s) {
    for (unsigned i = 0; i < N; ++i) a.c[i] *= s;
    return a;
}

template <unsigned N, typename T>
WL_INLINE vec_t<N, T> operator*(T s, vec_t<N, T> a) {
    return a * s;
}

template <unsigned N, typename T>
WL_INLINE vec_t<N, T>& operator+=(vec_t<N, T>& a, const vec_t<N, T>& b) {
    return a = a + b;
}

template <unsigned N, typename T>
WL_INLINE T dot(const vec_t<N, T>& a, const vec_t<N, T>& b) {
    T sum = a.c[0] * b.c[0];
    for (unsigned i = 1; i < N; ++i) sum += a.c[i] * b.c[i];
    return sum;
}

template <typename T>
struct plain {
    typedef T type;
};
template <typename T>
struct plain<const T> {
    typedef T type;
};

// An array of N dimensions; strides in bytes. `a(i, j)` is an element; `a[k]` the element at row-major position k. An
// array of adjoints that nobody asked for has no memory: what is written to it goes nowhere.
template <typename T, int N>
struct array_t {
    T* data;
    int64_t shape[N];
    int64_t strides[N];

    template <typename... I>
    WL_INLINE T& operator()(I... indices) const {
        static_assert(sizeof...(I) == N, "an array takes one index for each dimension");
        const int64_t at[] = {static_cast<int64_t>(indices)...};
        return element(at);
    }
    WL_INLINE T& operator[](int64_t k) const {
        int64_t at[N];
        for (int axis = N - 1; axis > 0; --axis) {
            at[axis] = k % shape[axis];
            k /= shape[axis];
        }
        at[0] = k;
        return element(at);
    }
    WL_INLINE T& element(const int64_t* at) const {
        if (!data) return nowhere;
        int64_t offset = 0;
        for (int axis = 0; axis < N; ++axis) offset += at[axis] * strides[axis];
        return *reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(offset));
    }
    mutable typename plain<T>::type nowhere;
};

// An array as it is passed: the same without a place for what goes nowhere.
template <int N>
struct passed_array {
    void* data;
    int64_t shape[N];
    int64_t strides[N];
};

template <typename T, int N>
WL_INLINE array_t<T, N> array_from(const passed_array<N>* a) {
    array_t<T, N> made;
    made.data = static_cast<T*>(a->data);
    for (int axis = 0; axis < N; ++axis) {
        made.shape[axis] = a->shape[axis];
        made.strides[axis] = a->strides[axis];
    }
    return made;
}

template <typename T, int N, typename... I>
WL_INLINE T* address(const array_t<T, N>& a, I... indices) {
    return &a(indices...);
}

#ifdef __CUDACC__
template <typename T>
WL_INLINE T atomic_add(T* target, T value) {
    return atomicAdd(target, value);
}
#else
template <typename T>
WL_INLINE T atomic_add(T* target, T value) {
    T old, sum;
    __atomic_load(target, &old, __ATOMIC_RELAXED);
    do {
        sum = old + value;
    } while (!__atomic_compare_exchange(target, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
#endif

template <unsigned N, typename T>
WL_INLINE vec_t<N, T> atomic_add(vec_t<N, T>* target, vec_t<N, T> value) {
    for (unsigned i = 0; i < N; ++i) value.c[i] = atomic_add(&target->c[i], value.c[i]);
    return value;
}

template <typename T, typename V>
WL_INLINE T atomic_add(const array_t<T, 1>& a, int64_t i, V value) {
    return atomic_add(&a(i), static_cast<T>(value));
}

template <typename T, typename V>
WL_INLINE T atomic_add(const array_t<T, 2>& a, int64_t i, int64_t j, V value) {
    return atomic_add(&a(i, j), static_cast<T>(value));
}

template <typename T, typename V>
WL_INLINE T atomic_add(const array_t<T, 3>& a, int64_t i, int64_t j, int64_t k, V value) {
    return atomic_add(&a(i, j, k), static_cast<T>(value));
}

}  // namespace
}  // namespace wp
