// Link: the tie between a tensor's gradient and that of the array over the tensor's memory, and the usual `from_torch`,
// which makes one. See warp_like/interop/torch.py.
#pragma once

#include "python.h"

namespace wl {

bool register_link(PyObject* module);

}  // namespace wl
