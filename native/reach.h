// How far a kernel's unconditional accesses reach into its arrays, compared with the arrays' extents before a launch.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "args.h"

namespace wl {

// Along one axis of an array (warp_like/base/reach.py): the thread's index along dimension `dim` of the grid, moved by
// at most `offset`. After the last dimension, there is one index.
struct Reach {
    int64_t extent;  // where the axis' extent is in the argument block
    int64_t offset;
    int dim;
};

// Reads what `pack_reaches` has packed; false with an exception set.
bool read_reaches(const char* bytes, size_t size, const Signature& signature, std::vector<Reach>* reaches);

// Whether all are in range of the arrays in an argument block, for a grid that has threads.
inline bool all_fit(const std::vector<Reach>& reaches, const uint8_t* block, const int64_t* dims) {
    for (const Reach& reach : reaches) {
        int64_t extent;
        std::memcpy(&extent, block + reach.extent, sizeof extent);
        const int64_t threads = reach.dim == kMaxDims ? 1 : dims[reach.dim];
        if (reach.offset < 0 || extent - reach.offset < threads) return false;
    }
    return true;
}

}  // namespace wl
