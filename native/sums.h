// Sums: arrays that a kernel only adds to. A kernel's plain (not atomic) variant may run on several OS threads
// when each has a copy of these arrays of its own; the copies are added up when all have finished. Where every kernel
// thread adds near its own index, or into rows near its own, no copy is needed: chunks are kept apart by halos
// (chunks.h).
#pragma once

#include <memory>
#include <vector>

#include "args.h"
#include "extent.h"

namespace wl {

// Of the array that is packed for a parameter.
Extent extent_of(const Param& param, const uint8_t* block);

// How the plain variant of a kernel runs on certain arguments.
struct SumPlan {
    bool fits;     // it may run
    bool copies;   // each worker needs copies of arrays: of those without a halo where there is one, else of all
    int64_t halo;  // how far apart two kernel threads may be that add to one element; 0 where that does not matter
};

// The arrays that the kernel updates without atomics, or writes to while it has read others ahead, must overlap no
// other array; but one whose elements belong to threads may be another argument, too, that keeps to these elements.
// Those that need copies must be small enough against `count` kernel threads, in a grid of `dims`, for the copies to
// pay. All arrays are contiguous. A deterministic plan does not depend on the number of OS threads.
SumPlan plan_sums(const Signature& signature, const uint8_t* block, const int64_t* dims, int64_t count,
                  bool deterministic);

// Whether `data` is the memory of a sum with a halo among the arguments `block`.
bool has_halo(const Signature& signature, const uint8_t* block, const char* data);

// Whether kernel threads may share elements of an array of which the code lets no two touch one: where arguments
// overlap, or places of one are the same memory.
bool shares_private_elements(const Signature& signature, const uint8_t* block);

// Adds `bytes` of numbers, which have 32 or 64 bits, at `from` to those at `to`.
void add_scalars(Scalar scalar, char* to, const char* from, int64_t bytes);

// One worker's copies, zero at first.
class PrivateSums {
  public:
    // Null when the memory does not allow it. Without `with_halo`, arrays that have a halo are not copied.
    static std::unique_ptr<PrivateSums> make(const Signature& signature, const uint8_t* block, bool with_halo);
    ~PrivateSums();
    PrivateSums(const PrivateSums&) = delete;
    PrivateSums& operator=(const PrivateSums&) = delete;

    // The argument block with the copies in place of the arrays.
    const uint8_t* block() const { return block_.get(); }

    // Adds the copies to the arrays in `block`.
    void add_to(const uint8_t* block) const;

    // Makes the copies zero again.
    void clear();

    std::unique_ptr<PrivateSums> next;  // for a list of them

  private:
    PrivateSums(const Signature& signature, std::unique_ptr<uint8_t[]> block)
        : signature_(signature), block_(std::move(block)) {}

    const Signature& signature_;
    std::unique_ptr<uint8_t[]> block_;
    std::vector<int> copied_;  // positions of the parameters
};

}  // namespace wl
