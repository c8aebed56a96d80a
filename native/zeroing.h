// Gradients that a launch sets to zero piece by piece, each elements right before the threads that add to them first.
// So these find them in the cache, and memory is not passed over once more.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "array.h"
#include "dispatch.h"

namespace wl {

constexpr int64_t kLeastZeroed = 1 << 17;  // bytes of a gradient; what is less stays in the cache anyway

class Zeroing {
  public:
    // Takes the contiguous `gradient`, which lies over no other argument of the launch and is its parameter `param`.
    // False where the launch may touch elements of a piece from far off, or by another way.
    bool take(const Dispatcher* adjoint, const Grid& grid, const Param& param, const Array* gradient);

    bool empty() const { return arrays_.empty(); }

    // Whether threads add to elements of their neighbours, so that chunks that run side by side need halos.
    bool has_neighbours() const { return has_neighbours_; }

    // How many kernel threads touch what a cache holds; whole vectors.
    int64_t piece(int64_t lanes) const;

    // Sets to zero what the kernel threads from `begin` to `end`, of `count`, add to, where all before `begin` is done.
    // The last elements of the threads before `begin` are theirs, where threads share them.
    void clear(int64_t begin, int64_t end, int64_t count) const {
        for (const Part& part : arrays_) {
            const int64_t from = begin ? part.at(begin) : 0, to = end == count ? part.bytes : part.at(end);
            if (from < to) std::memset(part.data + from, 0, static_cast<size_t>(to - from));
        }
    }

    void clear_all() const { clear(0, 1, 1); }

  private:
    struct Part {
        char* data;
        int64_t bytes;
        int64_t stride;  // bytes from the elements of a kernel thread to those of the next one
        int64_t ahead;   // how many elements a kernel thread adds to ahead of its own

        int64_t at(int64_t thread) const { return std::clamp<int64_t>((thread + ahead) * stride, 0, bytes); }
    };

    std::vector<Part> arrays_;
    bool has_neighbours_ = false;
};

}  // namespace wl
