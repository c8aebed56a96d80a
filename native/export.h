// Views of arrays for other libraries: DLPack capsules, tensors made through the C exchange API, and NumPy arrays. What
// an array can't be, or a library can't have, is declined or refused here; runtime/arrays/exchange.py and
// interop/export.py know why.
#pragma once

#include "python.h"

namespace wl {

// Array._numpy
PyObject* numpy_of(PyObject* array, PyObject* const* args, Py_ssize_t nargs);

bool register_export(PyObject* module);

}  // namespace wl
