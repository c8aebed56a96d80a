// LLVM as llvmlite's library has it, without llvmlite's Python: to import that takes as long as four small kernels.
#pragma once

#include "python.h"

namespace wl {

// Finds the functions in llvmlite's library and compiles a few lines: the first compilation of a process takes three
// times as long as others. Called once, by the thread that loads the library, before any other use.
void open_llvm(void* library);

bool register_llvm(PyObject* module);

}  // namespace wl
