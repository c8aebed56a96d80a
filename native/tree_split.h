// Splits ranges of boxes in two, for the trees that `bvh.cpp` builds.
//
// Splits by the surface area heuristic follow Wald (2007), "On fast Construction of SAH-based Bounding Volume
// Hierarchies": boxes are counted in bins, and parted between two bins. Parting keeps their order. So a range that is
// counted and parted in pieces, on several threads, gives the same two ranges as one that is taken as a whole.
#pragma once

#include <cstdint>

#include "bvh.h"

namespace wl {

constexpr int kBins = 16;
constexpr int kUnbalanced = 48;         // from this depth on ranges are halved, so that the depth is bounded
enum : int { kSah, kMedian, kMorton };  // as Python numbers them

// A box that a tree is built over, as it was given: with NaN.
struct alignas(16) Item {
    float lower[3], upper[3];
    int32_t index;
    uint32_t code;  // for Morton's order

    Four low() const { return vector_at(lower); }
    Four high() const { return last_three(lower + 2); }
    Four center() const;  // numbers to sort and bin by
    Box box() const {
        Box b;
        b.add(low(), high());
        return b;
    }
};

// Items that lie together in one of two buffers. The same places of the other one are free.
struct Range {
    int64_t begin, end;
    int depth;
    int buffer;
    Box centers;  // of the items; not kept for Morton's order

    int64_t size() const { return end - begin; }
};

// The bins of items along each axis.
struct Bins {
    Four low, scale;
    int last;  // the number of the last bin

    explicit Bins(const Range& range);
    Four of(Four center) const { return least(most((center - low) * scale, four(0)), four(static_cast<float>(last))); }
};

// The boxes in each bin, along each axis.
struct BinCounts {
    Four lower[kBins][3], upper[kBins][3];
    int32_t count[kBins][4];

    void clear(const Bins& bins);
    void add(const Item* items, int64_t n, const Bins& bins);
    void add(const BinCounts& other, const Bins& bins);
    int64_t before(int axis, int bin) const;  // how many items lie in the bins up to `bin`
};

// Between which bins a range is parted.
struct Cut {
    int axis = -1;  // -1: nowhere
    int bin = 0;    // the last one of the left side
};

// The cut of least cost.
Cut cheapest_cut(const BinCounts& counts, const Bins& bins);

// Copies items to where the left side of a cut goes on, and the right one. Adds their centers to those of the sides.
void part(const Item* items, int64_t n, const Bins& bins, const Cut& cut, Item* left, Item* right, Box* left_centers,
          Box* right_centers);

class Splitter {
  public:
    Splitter(Item* first, Item* second, int method) : buffers_{first, second}, method_(method) {}

    Item* items(int buffer) const { return buffers_[buffer]; }
    // Whether bins say where to split a range, if there is a cut.
    bool is_binned(const Range& range) const;
    // Splits a range of at least two items.
    void split(const Range& range, Range* left, Range* right) const;
    // Splits it without bins.
    void split_evenly(const Range& range, Range* left, Range* right) const;
    // The two ranges of a cut that has `count` items on its left. Their centers are not set.
    void set_sides(const Range& range, int64_t count, Range* left, Range* right) const;

  private:
    Item* buffers_[2];
    int method_;
};

}  // namespace wl
