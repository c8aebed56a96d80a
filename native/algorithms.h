// Algorithms over arrays that warp_like.utils offers: sums, scans, sorts, runs. The Python functions check arguments
// and word errors; what is here only guards against what would crash. Results do not depend on the number of threads.
#pragma once

#include "array.h"
#include "python.h"

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

inline Array* array_of(PyObject* object) { return reinterpret_cast<Array*>(object); }

// The scalars of an array's elements; false with an exception set for structs.
inline bool element_of(const Array* array, Element* out) {
    if (Element::decode(array->type_code, out) && array->aligned) return true;
    PyErr_SetString(PyExc_TypeError, "needs aligned arrays of numbers");
    return false;
}

// Whether the first `n` arguments are arrays of numbers; false with an exception set.
inline bool require_arrays(PyObject* const* args, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; ++i) {
        if (!is_array(args[i])) {
            PyErr_SetString(PyExc_TypeError, "needs arrays");
            return false;
        }
    }
    return true;
}

bool register_reduce(PyObject* module);
bool register_scan(PyObject* module);
bool register_sort(PyObject* module);

}  // namespace wl
