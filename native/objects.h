// The ids that refer to live objects: hash grids, bounding volume hierarchies, meshes. An id is the address of the
// object's descriptor, which kernels read; so a launch that is given another number would read anywhere.
#pragma once

#include <cstdint>

#include "python.h"

namespace wl {

// Whether `id` is that of a live object of the kind (`ObjectKind`) on the CUDA device; -1 is the CPU. Takes no GIL.
bool is_live(uint64_t id, int kind, int32_t place);

// The same for code in debug mode, which runs on the CPU.
extern "C" int32_t wl_is_live(uint64_t id, int32_t kind);

bool register_objects(PyObject* module);

}  // namespace wl
