// Python's signal handlers: when native code runs them, and when they have to wait.
//
// A handler is a Python function, which may launch. So it can begin in the middle of another launch, or of the
// compilation for one, on the main thread.
#pragma once

#include "python.h"

namespace wl {

// Runs the handlers of signals that have arrived; false when one of them raised, and the exception is then set. The
// GIL is held.
//
// A handler that launches gets here again while its launch runs, and a timer's signals may come faster than that ends.
// So only a few handlers run inside of each other like this. Further signals wait until launches have ended.
bool run_signal_handlers();

bool register_signals(PyObject* module);

}  // namespace wl
