// Sums: arrays that a kernel only adds to. A kernel's plain (not atomic) variant may run on several OS threads
// when each has a copy of these arrays of its own; the copies are added up when all have finished.
#pragma once

#include <memory>

#include "args.h"

namespace wl {

// Whether the plain variant of a kernel may run on the arguments in `block`: the arrays that it updates without atomics
// overlap no other array, and those that it sums into are small enough against `count` kernel threads for a copy for
// each worker to pay. All arrays are contiguous.
bool sums_fit(const Signature& signature, const uint8_t* block, int64_t count);

// Adds `bytes` of numbers, which have 32 or 64 bits, at `from` to those at `to`.
void add_scalars(Scalar scalar, char* to, const char* from, int64_t bytes);

// One worker's copies, zero at first.
class PrivateSums {
  public:
    // Null when the memory does not allow it.
    static std::unique_ptr<PrivateSums> make(const Signature& signature, const uint8_t* block);
    ~PrivateSums();
    PrivateSums(const PrivateSums&) = delete;
    PrivateSums& operator=(const PrivateSums&) = delete;

    // The argument block with the copies in place of the arrays.
    const uint8_t* block() const { return block_.get(); }

    // Adds the copies to the arrays in `block`.
    void add_to(const uint8_t* block) const;

    std::unique_ptr<PrivateSums> next;  // for a list of them

  private:
    PrivateSums(const Signature& signature, std::unique_ptr<uint8_t[]> block)
        : signature_(signature), block_(std::move(block)) {}

    const Signature& signature_;
    std::unique_ptr<uint8_t[]> block_;
    size_t allocated_ = 0;  // of the signature's sums
};

}  // namespace wl
