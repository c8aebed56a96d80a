// Kernels as XLA custom calls on CUDA: on XLA's stream, and without waiting for it unless numbers come in its buffers.
#pragma once

#include "xla_ffi_abi.h"

namespace wl {

// Hands the launches of one call to the driver; may throw std::bad_alloc.
xla::Error* execute_on_cuda_stream(const xla::CallFrame* frame);

}  // namespace wl
