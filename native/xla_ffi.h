// Kernels as XLA custom calls on the CPU: one handler for all of them, without Python, lock or GIL in the call.
//
// A call site carries four attributes, made when JAX traces it (warp_like/interop/jaxffi/target.py):
//   plan    the key of the compiled entry point, a hash of what it was compiled from
//   dims    the four extents of the grid
//   block   the argument block as 64-bit words: all that is known then, with holes for pointers and scalars
//   binds   kBindWords words for each hole: what fills it
// Operands and results may have more leading dimensions than their binding says. Those are of a batch: equal
// in all results, and equal to that or 1 in operands. The kernel runs once for each element of the batch.
#pragma once

#include "python.h"

namespace wl {

bool register_xla_ffi(PyObject* module);

}  // namespace wl
