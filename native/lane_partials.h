// Partial sums: where all lanes of a vector add to one float of an array, generated code may add the vector to one in
// memory instead, a partial sum for each lane. This is the memory of one OS thread during one launch; at its end the
// lanes are summed and added to the array.
#pragma once

#include <cstdint>

#include "spare.h"

namespace wl {

struct Signature;

// Floats of `bits` bits, which the code at hand adds to without atomics, by `lanes` lanes at once.
struct SummedArray {
    char* data;
    int64_t count;
    int32_t bits;
    int32_t lanes;

    bool operator==(const SummedArray& other) const {
        return data == other.data && count == other.count && bits == other.bits && lanes == other.lanes;
    }
};

class LanePartials {
  public:
    LanePartials() = default;
    ~LanePartials();
    LanePartials(const LanePartials&) = delete;
    LanePartials& operator=(const LanePartials&) = delete;

    // Says that what is left to do takes about `ns`: memory is given where setting it to zero and summing it is little
    // beside. Without a word, nothing is.
    void expect(double ns);

    // Says that other OS threads add to the sums with halos among the arguments `args` meanwhile: these arrays get no
    // partial sums, which would be added to elements of theirs.
    void leave_out_halos(const Signature& signature, const uint8_t* args);

    // Returns the array's partial sums, which are zero at first; null if there are none.
    char* find(const SummedArray& array);

    // Adds them to their arrays, and forgets them.
    void add();

  private:
    static constexpr int kMost = 8;  // arrays

    struct Partials : SummedArray, Block {};

    Partials found_[kMost];
    int count_ = 0;
    int64_t bytes_ = 0;  // of all found
    int64_t most_ = 0;   // of all that are worth it
    const Signature* with_halos_ = nullptr;
    const uint8_t* args_ = nullptr;
};

}  // namespace wl
