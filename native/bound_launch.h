// BoundLaunch: a launch with its arguments packed and its code chosen, which runs as often as wanted. Graphs and
// recorded launches are made of them.
#pragma once

#include "dispatch.h"
#include "gil.h"
#include "python.h"

namespace wl {

extern PyTypeObject BoundLaunchType;

inline bool is_bound_launch(PyObject* object) { return Py_TYPE(object) == &BoundLaunchType; }

// Whether options, or Python values that its code was made from, have changed since it was made.
bool is_stale(PyObject* bound);

// Takes the vectors, matrices and the like among its arguments as they are now; false, with nothing done, while another
// thread runs it and so reads the ones from before.
bool refresh_values(PyObject* bound);

// Runs it; false with an exception set.
bool run_bound_launch(PyObject* bound);

// What `run_bound_launch` does first: sees to the memory of tensors, and tells other libraries what will be written.
// False with an exception set.
bool begin_bound_launch(PyObject* bound);

// What a bound launch runs; it keeps all of this.
struct BoundWork {
    Dispatcher* dispatcher;
    const Variant* variant;
    const Grid* grid;
    const Operands* operands;
    const uint8_t* block;
    Footprint footprint;
};
BoundWork work_of_bound_launch(PyObject* bound);

bool register_bound_launch(PyObject* module);

}  // namespace wl
