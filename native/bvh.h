// What the files on bounding volume hierarchies share.
#pragma once

#include <cstdint>

#include "array.h"
#include "python.h"

namespace wl {

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
