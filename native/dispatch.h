// Dispatcher: launches one kernel. It holds the kernel's compiled variants and the signature by which
// arguments are packed; Python's slow path is entered only when it declines.
#pragma once

#include "python.h"

namespace wl {

bool register_dispatch(PyObject* module);

}  // namespace wl
