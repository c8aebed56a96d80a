// Loading LLVM's library ahead of its use, while Python does something else.
#pragma once

#include "python.h"

namespace wl {

// Waits until the library is loaded, if that has begun. Called without the GIL.
void wait_for_preload();

bool register_preload(PyObject* module);

}  // namespace wl
