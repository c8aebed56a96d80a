// Sums that come out the same whatever the number of threads: each chunk of the grid adds into a copy of its own, and
// the copies are added up in the order of the chunks.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sums.h"

namespace wl {

// Brings what chunks have added to copies, of type `Copies`, into the order of the chunks.
template <typename Copies>
class InOrder {
  public:
    // Takes the sums of the chunk of this number, and returns copies for another one. `add(copies)` adds them up and
    // makes them zero again; `make(copies)` makes new ones, and returns whether there is memory for them. Whoever calls
    // this has taken no further chunk yet: it may have to wait until another thread's copies are free.
    template <typename Add, typename Make>
    Copies exchange(int64_t number, Copies copies, Add add, Make make) {
        std::unique_lock<std::mutex> lock(mutex_);
        finished_.emplace(number, std::move(copies));
        while (!finished_.empty() && finished_.begin()->first == next_) {
            Copies done = std::move(finished_.begin()->second);
            finished_.erase(finished_.begin());
            add(&done);
            free_.push_back(std::move(done));
            ++next_;
            freed_.notify_one();
        }
        if (free_.empty()) {
            lock.unlock();
            Copies fresh;
            if (make(&fresh)) return fresh;
            lock.lock();
            freed_.wait(lock, [this] { return !free_.empty(); });
        }
        Copies taken = std::move(free_.back());
        free_.pop_back();
        return taken;
    }

  private:
    std::mutex mutex_;
    std::condition_variable freed_;
    int64_t next_ = 0;                    // the chunk whose sums are to be added next
    std::map<int64_t, Copies> finished_;  // later ones
    std::vector<Copies> free_;
};

class OrderedSums {
  public:
    // For chunks of `size` kernel threads, all but the last.
    OrderedSums(const Signature& signature, const uint8_t* block, int64_t size)
        : signature_(signature), block_(block), size_(size) {}

    // A copy to begin with; null when the memory does not allow it.
    std::unique_ptr<PrivateSums> begin() const { return PrivateSums::make(signature_, block_, true); }

    // Takes the sums of the chunk that begins at kernel thread `at`, and returns a copy for another one.
    std::unique_ptr<PrivateSums> exchange(int64_t at, std::unique_ptr<PrivateSums> copy);

  private:
    const Signature& signature_;
    const uint8_t* block_;
    const int64_t size_;
    InOrder<std::unique_ptr<PrivateSums>> order_;
};

}  // namespace wl
