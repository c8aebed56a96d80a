// A launch on CUDA: which stream it goes to, what that stream waits for, how the grid is cut into blocks, and the call
// of the driver. Arguments are read by the same code as for the CPU.
#pragma once

#include "dispatch.h"

namespace wl {

constexpr int64_t kMostBlocks = INT32_MAX;  // of a grid's first dimension
constexpr uintptr_t kVectorAlignment = 16;  // of the data of arrays that are apart

// The grid as compiled code gets it, with what it divides by its extents with.
CudaGrid cuda_grid(const int64_t* dims);

// Whether neither the grid, of `count` threads, nor an array, nor an extent of one has more than kMaxNarrow, so that
// the fastest variant, which counts them in 32 bits, may run. All arrays are contiguous.
bool is_narrow(const Arguments& arguments, int64_t count);

// Whether no array that the kernel writes overlaps another, and the data of all is aligned to 16 bytes, so that the
// variant which assumes this may run. All arrays are contiguous.
bool are_apart(const Arguments& arguments);

// Whether the variant can run in such blocks, on such a stream; Python says why not.
bool fits(const Variant& variant, const Dispatcher* dispatcher, const Grid& grid);

// Has the dispatcher's runner launch, for a kind of device that is neither the CPU nor CUDA; false with an exception
// set.
bool execute_by_runner(Dispatcher* self, const Variant* variant, const Grid& grid, Arguments* arguments);

// Launches; false with an exception set. Returns before the kernel has run.
bool execute_on_cuda(Dispatcher* self, Variant* variant, const Grid& grid, Arguments* arguments);

bool register_cuda_launch(PyObject* module);

}  // namespace wl
