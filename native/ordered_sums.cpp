#include "ordered_sums.h"

namespace wl {

std::unique_ptr<PrivateSums> OrderedSums::exchange(int64_t at, std::unique_ptr<PrivateSums> copy) {
    using Copy = std::unique_ptr<PrivateSums>;
    const auto add = [this](Copy* done) {
        (*done)->add_to(block_);
        (*done)->clear();
    };
    const auto make = [this](Copy* fresh) {
        *fresh = begin();
        return static_cast<bool>(*fresh);
    };
    return order_.exchange(at / size_, std::move(copy), add, make);
}

}  // namespace wl
