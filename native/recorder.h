// Recorder: what takes part in the operations of each OS thread (warp_like/runtime/memory/recorder.py), and whether
// something has to see the launches of all of them. A launch asks here before it begins without Python.
#pragma once

#include "python.h"

namespace wl {

// The tape, or what captures launches in its place, that is active in this thread; borrowed, null when there is none.
PyObject* active_recorder();

// The graph that this thread captures; borrowed, null when there is none.
PyObject* captured_graph();

// Whether captures, timings or settings have to see every launch.
bool launches_are_held();

bool register_recorder(PyObject* module);

}  // namespace wl
