// Loading relocatable ELF objects of the compiler into this process, without LLVM: a kernel from the cache starts in
// well under a millisecond. Covers what the compiler emits for x86-64: position-independent code, read-only data, and
// calls of C functions. Anything else is refused, and the caller then loads the object through LLVM.
#pragma once

#include "python.h"

namespace wl {

bool register_elf(PyObject* module);

}  // namespace wl
