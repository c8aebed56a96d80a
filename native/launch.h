// The public `launch` and `Launch.launch`: what runs without Python where nothing is unusual. See
// warp_like/runtime/launching/launch.py.
#pragma once

#include "python.h"

namespace wl {

bool register_launch(PyObject* module);

}  // namespace wl
