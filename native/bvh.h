// What the files on bounding volume hierarchies share.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "array.h"
#include "python.h"
#include "wide_bvh.h"

namespace wl {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Three numbers and one that nobody looks at, for vector instructions.
using Four = float __attribute__((vector_size(16)));

inline Four four(float x) { return Four{x, x, x, x}; }
inline Four three(const float* p) { return Four{p[0], p[1], p[2], 0}; }
inline Four vector_at(const float* p) {
    Four found;
    std::memcpy(&found, p, sizeof found);
    return found;
}
using Whole4 = int32_t __attribute__((vector_size(16)));
// The vector instructions by name: compilers do not find them by themselves. b where one is NaN.
#ifdef __SSE2__
inline Four least(Four a, Four b) { return _mm_min_ps(a, b); }
inline Four most(Four a, Four b) { return _mm_max_ps(a, b); }
inline void transpose(Four& a, Four& b, Four& c, Four& d) { _MM_TRANSPOSE4_PS(a, b, c, d); }
// The last three numbers of four.
inline Four last_three(const float* p) {
    const Four all = vector_at(p);
    return _mm_shuffle_ps(all, all, _MM_SHUFFLE(3, 3, 2, 1));
}
#else
inline Four least(Four a, Four b) { return a < b ? a : b; }
inline Four most(Four a, Four b) { return a > b ? a : b; }
inline void transpose(Four& a, Four& b, Four& c, Four& d) {
    const Four p = a, q = b, r = c, s = d;
    a = {p[0], q[0], r[0], s[0]}, b = {p[1], q[1], r[1], s[1]};
    c = {p[2], q[2], r[2], s[2]}, d = {p[3], q[3], r[3], s[3]};
}
inline Four last_three(const float* p) { return Four{p[1], p[2], p[3], p[3]}; }
#endif

struct Box {
    Four lower = four(kInfinity), upper = four(-kInfinity);

    // NaN changes nothing.
    void add(Four l, Four u) {
        lower = least(l, lower);
        upper = most(u, upper);
    }
    void add(const Box& b) { add(b.lower, b.upper); }
    float half_area() const {
        const Four size = upper - lower;
        return size[0] >= 0 ? size[0] * size[1] + size[1] * size[2] + size[2] * size[0] : 0;
    }
};

static_assert(sizeof(BinaryNode) == 32, "kernels read nodes of 32 bytes");

inline Box box_of(const BinaryNode& node) { return {three(node.lower), three(node.upper)}; }
inline void set_box(BinaryNode& node, const Box& b) {
    for (int k = 0; k < 3; ++k) node.lower[k] = b.lower[k], node.upper[k] = b.upper[k];
}

// The node behind the subtree of `i`.
inline int32_t end_of(const BinaryNode* nodes, int32_t i) { return nodes[i].first < 0 ? nodes[i].skip : i + 1; }

// The memory of a contiguous array of at least `count` elements of 4 bytes; null with an exception set for another
// object.
template <typename T>
T* memory_of(PyObject* object, int64_t count) {
    if (!is_array(object)) {
        PyErr_SetString(PyExc_TypeError, "a hierarchy is built of arrays");
        return nullptr;
    }
    const auto* a = reinterpret_cast<const Array*>(object);
    int64_t bytes = a->itemsize;
    for (int i = 0; i < a->ndim; ++i) bytes *= a->shape[i];
    if (!a->contiguous || bytes < 4 * count || reinterpret_cast<uintptr_t>(a->data) % alignof(T)) {
        PyErr_SetString(PyExc_ValueError, "a hierarchy is built of contiguous arrays that are large enough");
        return nullptr;
    }
    // An empty array may have no memory: any address but null stands for it then.
    return reinterpret_cast<T*>(a->data ? reinterpret_cast<char*>(a->data) : reinterpret_cast<char*>(object));
}

}  // namespace wl
