// Algorithms over arrays that warp_like.utils offers: sums, scans, sorts, runs, colours of graphs. The Python functions
// check arguments and word errors; what is here only guards against what would crash. Results do not depend on the
// number of threads.
#pragma once

#include <cstring>
#include <limits>

#include "array.h"
#include "python.h"
#include "tensor_memory.h"

namespace wl {

// Element accesses at any address that is a multiple of the scalar's size.
template <typename T>
inline T load_at(const char* at) {
    return *reinterpret_cast<const T*>(at);
}
template <typename T>
inline void store_at(char* at, T value) {
    *reinterpret_cast<T*>(at) = value;
}

// Floats of two bytes, by their bits. `number` is what an element counts as in a sum: a double or an int64.
struct Half {
    uint16_t bits;
};
struct BFloat {
    uint16_t bits;
};

inline double number(Half x) {
    const int exponent = (x.bits >> 10) & 31;
    const int fraction = x.bits & 1023;
    double value;
    if (exponent == 31) {
        value = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
        value = fraction * 0x1p-24;
    } else {
        const uint64_t bits = static_cast<uint64_t>(exponent - 15 + 1023) << 52 | static_cast<uint64_t>(fraction) << 42;
        std::memcpy(&value, &bits, sizeof value);
    }
    return x.bits & 0x8000 ? -value : value;
}
inline double number(BFloat x) {
    const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline double number(float x) { return x; }
inline double number(double x) { return x; }
template <typename T>
inline int64_t number(T x) {
    return static_cast<int64_t>(x);
}

template <typename T>
using Total = decltype(number(T{}));

inline Array* array_of(PyObject* object) { return reinterpret_cast<Array*>(object); }

// The scalars of an array's elements; false with an exception set for structs.
inline bool element_of(const Array* array, Element* out) {
    if (Element::decode(array->type_code, out) && array->aligned) return true;
    PyErr_SetString(PyExc_TypeError, "needs aligned arrays of numbers");
    return false;
}

// Whether the first `n` arguments are arrays that have their memory; false with an exception set.
inline bool require_arrays(PyObject* const* args, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; ++i) {
        if (!is_array(args[i])) {
            PyErr_SetString(PyExc_TypeError, "needs arrays");
            return false;
        }
        if (!require_memory(array_of(args[i]))) return false;
    }
    return true;
}

bool register_coloring(PyObject* module);
bool register_bvh(PyObject* module);
bool register_wide_bvh(PyObject* module);
bool register_refit(PyObject* module);
bool register_reduce(PyObject* module);
bool register_scan(PyObject* module);
bool register_sort(PyObject* module);

}  // namespace wl
