// The device that a launch means which names none: each thread may have one of its own.
#pragma once

#include "python.h"

namespace wl {

// Borrowed; null where nobody has named one, which means the CPU.
PyObject* current_device();

bool register_current_device(PyObject* module);

}  // namespace wl
