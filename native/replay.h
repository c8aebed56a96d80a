// Replay: a recorded list of launches and calls, run again without Python in between
// (warp_like/runtime/launching/graph.py).
#pragma once

#include "python.h"

namespace wl {

bool register_replay(PyObject* module);

}  // namespace wl
