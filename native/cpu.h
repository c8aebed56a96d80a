// What processor this is, as far as code generation can tell.
#pragma once

#include "python.h"

namespace wl {

bool register_cpu(PyObject* module);

}  // namespace wl
