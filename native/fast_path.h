// FastPath: a native function in front of a Python function that has the same parameters. The native one takes the
// usual calls; all that is unusual or wrong goes to the Python function, which alone has words for it.
#pragma once

#include "python.h"

namespace wl {

// Takes a call, or declines it: null without an exception, and with nothing done.
using Shortcut = PyObject* (*)(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

// Returns a function that tries `shortcut`, then calls `checked`. It looks like one of Python's once
// functools.update_wrapper has seen it.
PyObject* make_fast_path(Shortcut shortcut, PyObject* checked);

bool register_fast_path(PyObject* module);

}  // namespace wl
