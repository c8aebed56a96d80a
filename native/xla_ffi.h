// Kernels as XLA custom calls: one handler a platform for all of them, without Python, lock or GIL in the call. What a
// call says is in xla_site.h.
#pragma once

#include "python.h"

namespace wl {

bool register_xla_ffi(PyObject* module);

}  // namespace wl
