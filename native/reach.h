// How far a kernel's unconditional accesses reach into its arrays, compared with the arrays' extents before a launch.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "args.h"

namespace wl {

// Along one axis of an array (warp_like/base/reach.py): the thread's index along an axis of the grid, moved by at most
// `offset`. Where it `folds` the axes from this one to the last, they count as one; after the last, there is one index.
struct Reach {
    int64_t extent;  // where the axis' extent is in the argument block
    int64_t offset;
    int axis;
    bool folds;
};

// Reads what `pack_reaches` has packed; false with an exception set.
bool read_reaches(const char* bytes, size_t size, const Signature& signature, std::vector<Reach>* reaches);

// Whether all are in range of the arrays in an argument block, for a grid that has threads; `folded` has the threads of
// the axes from each to the last.
inline bool all_fit(const std::vector<Reach>& reaches, const uint8_t* block, const int64_t* dims,
                    const int64_t* folded) {
    for (const Reach& reach : reaches) {
        int64_t extent;
        std::memcpy(&extent, block + reach.extent, sizeof extent);
        const int64_t threads = (reach.folds ? folded : dims)[reach.axis];
        if (reach.offset < 0 || extent - reach.offset < threads) return false;
    }
    return true;
}

}  // namespace wl
