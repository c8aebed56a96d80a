// Sums that come out the same whatever the number of threads: each chunk of the grid adds into a copy of its own, and
// the copies are added up in the order of the chunks.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "sums.h"

namespace wl {

class OrderedSums {
  public:
    // For chunks of `size` kernel threads, all but the last.
    OrderedSums(const Signature& signature, const uint8_t* block, int64_t size)
        : signature_(signature), block_(block), size_(size) {}

    // A copy to begin with; null when the memory does not allow it.
    std::unique_ptr<PrivateSums> begin() const { return PrivateSums::make(signature_, block_, true); }

    // Takes the sums of the chunk that begins at kernel thread `at`, and returns a copy for another one. Whoever calls
    // this has taken no further chunk yet: it may have to wait until another thread's copy is free.
    std::unique_ptr<PrivateSums> exchange(int64_t at, std::unique_ptr<PrivateSums> copy);

  private:
    const Signature& signature_;
    const uint8_t* block_;
    const int64_t size_;
    std::mutex mutex_;
    std::condition_variable freed_;
    int64_t next_ = 0;                                          // the chunk whose sums are to be added next
    std::map<int64_t, std::unique_ptr<PrivateSums>> finished_;  // later ones
    std::unique_ptr<PrivateSums> free_;                         // a list
};

}  // namespace wl
