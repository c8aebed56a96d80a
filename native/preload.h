// Loading a shared library ahead of its use, while Python does something else.
#pragma once

#include "python.h"

namespace wl {

bool register_preload(PyObject* module);

}  // namespace wl
