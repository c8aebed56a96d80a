// The bytes of stack that a thread of a launch on CUDA needs at most, where its arguments tell: runs the programs of
// warp_like/passes/ad/stack_bound.py, over intervals of numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract.h"

namespace wl {

// Whether `count` steps are a program: each takes registers from before it, and reads inside of an argument block.
bool is_bound_program(const BoundStep* steps, size_t count, size_t block_size);

// What the program says of a launch with the argument block and the four extents of the grid: a multiple of 4, or -1
// where it says nothing.
int64_t stack_bound(const BoundStep* steps, size_t count, const uint8_t* block, const int64_t* dims);

}  // namespace wl
