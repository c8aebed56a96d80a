#include "ordered_sums.h"

#include <utility>

namespace wl {

std::unique_ptr<PrivateSums> OrderedSums::exchange(int64_t at, std::unique_ptr<PrivateSums> copy) {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.emplace(at / size_, std::move(copy));
    while (!finished_.empty() && finished_.begin()->first == next_) {
        std::unique_ptr<PrivateSums> done = std::move(finished_.begin()->second);
        finished_.erase(finished_.begin());
        done->add_to(block_);
        done->clear();
        done->next = std::move(free_);
        free_ = std::move(done);
        ++next_;
        freed_.notify_one();
    }
    if (!free_) {
        lock.unlock();
        if (std::unique_ptr<PrivateSums> fresh = begin()) return fresh;
        lock.lock();
        freed_.wait(lock, [this] { return static_cast<bool>(free_); });
    }
    std::unique_ptr<PrivateSums> taken = std::move(free_);
    free_ = std::move(taken->next);
    return taken;
}

}  // namespace wl
