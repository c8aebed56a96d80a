// Fingerprints: hashes of what arrays hold, to notice that somebody has written to them.
#pragma once

#include "array.h"

namespace wl {

// Of all elements of an array on the CPU.
uint64_t fingerprint(const Array* array);

// The same for small arrays; of larger ones, of elements all over it, in a time that does not depend on its size.
uint64_t quick_fingerprint(const Array* array);

bool register_fingerprint(PyObject* module);

}  // namespace wl
