// Making arrays: in fresh memory, and over the memory of NumPy arrays and tensors.
#pragma once

#include "array.h"
#include "python.h"

namespace wl {

// Returns an array over the memory of a NumPy array, memoryview or PyTorch tensor, with elements of `dtype`, or of its
// own scalars if that is None. `leaf` says that a tensor is not the result of an operation which it would keep alive.
// Null where Python has to see to it, or with an exception set when memory is out.
Ref shared_array(PyObject* object, PyObject* dtype, bool leaf);

// Whether the host may see the elements of an array; sets an exception where not. The memory of one over a tensor may
// be gone, and a subclass may stand for elements that are computed later: it then has a method `_no_elements`, which
// raises.
bool require_elements(Array* array);

bool register_make(PyObject* module);

}  // namespace wl
