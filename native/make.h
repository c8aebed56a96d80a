// Making arrays: in fresh memory, and over the memory of NumPy arrays and tensors.
#pragma once

#include "python.h"

namespace wl {

bool register_make(PyObject* module);

}  // namespace wl
