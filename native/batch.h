// Launches of one kernel on the elements of a batch, in one call from Python.
//
// A thread runs the whole grid of one element before it takes the next, so what a kernel's threads share stays within
// an element, and additions need no atomics that the kernel alone would not need.
#pragma once

#include "python.h"

namespace wl {

// Dispatcher.try_batch
PyObject* try_batch(PyObject* dispatcher, PyObject* const* args, Py_ssize_t nargs);

}  // namespace wl
