// Zeroing and copying of memory, by all workers where there is much of it.
#pragma once

#include "python.h"

namespace wl {

// Both are called with the GIL, and return false with an exception set when a signal handler raised.
bool set_zero(void* data, int64_t bytes);
bool copy_bytes(void* to, const void* from, int64_t bytes);

// Whether an Array is contiguous, writable memory of the host that no framework wants to hear of.
bool is_zeroable(PyObject* array);

// Sets such an array to zero.
bool set_array_zero(PyObject* array);

// Array._try_zero
PyObject* try_zero_array(PyObject* array, PyObject*);

}  // namespace wl
