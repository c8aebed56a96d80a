// Watch: whether the Python objects that a kernel's code was made from are still where they were found.
#pragma once

#include "python.h"

namespace wl {

// Whether everything that `watch` looks at is as it was; true for null and None. Takes a few nanoseconds for each name.
bool is_current(PyObject* watch);

// Whether `object` is a Watch.
bool is_watch(PyObject* object);

bool register_watch(PyObject* module);

}  // namespace wl
