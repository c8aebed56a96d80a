// Prepared: a launch with its arguments packed and its code chosen, which runs as often as wanted. Graphs and recorded
// launches are made of them.
#pragma once

#include "python.h"

namespace wl {

extern PyTypeObject PreparedType;

inline bool is_prepared(PyObject* object) { return Py_TYPE(object) == &PreparedType; }

// Whether options, or Python values that its code was made from, have changed since it was made.
bool is_stale(PyObject* prepared);

// Takes the vectors, matrices and the like among its arguments as they are now.
void refresh_values(PyObject* prepared);

// Runs it; false with an exception set.
bool run_prepared(PyObject* prepared);

bool register_prepared(PyObject* module);

}  // namespace wl
