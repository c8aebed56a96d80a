// Whether the memory that an array shares with a tensor is still there. A tensor may be resized and its storage emptied
// although somebody looks at it: the memory is then freed, and the array must not touch it again.
#pragma once

#include "array.h"

namespace wl {

// Notes in a new array where its owner, a tensor of PyTorch's, has its memory. Owners of other kinds keep memory.
void note_tensor_memory(Array* array);

// Whether the memory of an array is there; `require_memory` sets an exception where it is not.
bool has_tensor_memory(const Array* array);
bool require_tensor_memory(const Array* array);

inline bool has_memory(const Array* array) { return !array->tensor_data || has_tensor_memory(array); }
inline bool require_memory(const Array* array) { return !array->tensor_data || require_tensor_memory(array); }

// What keeps the memory of `owner` and tells whether it is still there: of a PyTorch tensor, an array over the memory
// that it has now; all else is returned itself. Null with an exception.
Ref tensor_keeper(PyObject* owner);

bool register_tensor_memory();

}  // namespace wl
