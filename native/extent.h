// Extents of memory, and what is known about them, found by address.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "python.h"

namespace wl {

// Where an array's elements lie: the first byte, and the one behind the last.
struct Extent {
    uintptr_t begin;
    uintptr_t end;
    bool empty() const { return begin >= end; }
    bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
    bool holds(const Extent& other) const { return begin <= other.begin && other.end <= end; }
};

// Of the array that is packed at `slot` with elements of `itemsize` bytes.
Extent extent_of(const int64_t* slot, int ndim, int64_t itemsize);

// Whether two places of an array may be one element in memory.
bool overlaps_itself(int ndim, const int64_t* shape, const int64_t* strides, int64_t itemsize);

// Of an Array.
Extent extent_of(PyObject* array);

// Lists of values by the extent that they are about. All that overlap one are found in logarithmic time: extents are
// kept apart by the power of two below their length, and those of one length that begin too early to overlap are never
// looked at.
template <typename Value>
class IntervalMap {
  public:
    using List = std::vector<Value>;

    // The list of exactly this extent, which is not empty; made if there is none.
    List& at(const Extent& extent) {
        const int length = length_of(extent);
        for (Row& row : rows_) {
            if (row.length == length) return row.lists[{extent.begin, extent.end}];
        }
        rows_.push_back({length, {}});
        return rows_.back().lists[{extent.begin, extent.end}];
    }

    // Calls `visit(extent, list)` for each extent that overlaps, until it returns false; returns whether it never did.
    // `visit` changes the lists if it likes, but makes none.
    template <typename Visit>
    bool overlapping(const Extent& extent, Visit visit) {
        if (extent.empty()) return true;
        for (Row& row : rows_) {
            const uintptr_t longest = (uintptr_t{2} << row.length) - 1;
            auto at = row.lists.lower_bound({extent.begin > longest ? extent.begin - longest : 0, 0});
            for (; at != row.lists.end() && at->first.first < extent.end; ++at) {
                const Extent found{at->first.first, at->first.second};
                if (found.overlaps(extent) && !visit(found, at->second)) return false;
            }
        }
        return true;
    }

    template <typename Visit>
    void all(Visit visit) const {
        for (const Row& row : rows_) {
            for (const auto& entry : row.lists) {
                for (const Value& value : entry.second) visit(value);
            }
        }
    }

  private:
    struct Row {
        int length;  // the power of two
        std::map<std::pair<uintptr_t, uintptr_t>, List> lists;
    };

    static int length_of(const Extent& extent) { return 63 - __builtin_clzll(extent.end - extent.begin); }

    std::vector<Row> rows_;
};

bool register_extent(PyObject* module);

}  // namespace wl
