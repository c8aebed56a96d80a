// What DLPack's exchange API leaves out about PyTorch's tensors, without a call through Python: whether a negation is
// pending, and the counter of writes in place. And their address, which that API takes ten times as long for.
//
// They are functions of PyTorch's library under the names of its C++ interface, and of its C interface for compiled
// programs. They are used only where the library
// has them under exactly those names and a tensor has shown that objects are laid out as they need it; elsewhere
// Python's methods do the same.
#pragma once

#include "dlpack_abi.h"
#include "python.h"

namespace wl {

// Whether `api` is that of a PyTorch with the functions below.
bool is_torch(const DLPackExchangeAPI* api);

// Whether `tensor`, which an API that `is_torch` has read, can be given to the functions below. Sets no exception.
bool reads_torch(PyObject* tensor);

bool torch_is_negated(PyObject* tensor);
bool torch_is_inference(PyObject* tensor);  // made in inference mode, without a counter of writes

// Where the first element of `tensor` lies; null where that is not known in this way.
const void* torch_data(PyObject* tensor);

// Counts a write in place; false, and nothing is counted, where PyTorch refuses it.
bool torch_count_write(PyObject* tensor);

}  // namespace wl
