// DispatcherSpec: what a Dispatcher is made from, an object with typed fields (runtime/kernels/program.py).
#pragma once

#include "dispatch.h"

namespace wl {

// Fills in a new Dispatcher, whose signature is empty; false with an exception set where a field is missing or wrong.
bool read_spec(PyObject* spec, Dispatcher* dispatcher);

}  // namespace wl
