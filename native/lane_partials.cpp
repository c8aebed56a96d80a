#include "lane_partials.h"

#include <cstring>
#include <utility>

#include "sums.h"

namespace wl {

namespace {

constexpr double kBytesPerNs = 1.0;  // of what a launch takes; to zero and to sum them takes a tenth of it
constexpr int64_t kSize = 64;        // the least that is allocated

thread_local Spare spares[8];

// Four sums at a time, so that one addition need not wait for the other.
template <typename T>
void add_lanes(char* to, const char* from, int64_t count, int64_t lanes) {
    T* out = reinterpret_cast<T*>(to);
    const T* in = reinterpret_cast<const T*>(from);
    for (int64_t i = 0; i < count; ++i, in += lanes) {
        T sums[4] = {};
        int64_t k = 0;
        for (; k + 4 <= lanes; k += 4) {
            for (int j = 0; j < 4; ++j) sums[j] += in[k + j];
        }
        for (; k < lanes; ++k) sums[0] += in[k];
        out[i] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
}

}  // namespace

LanePartials::~LanePartials() {
    for (int i = 0; i < count_; ++i) give_back(&spares[i], found_[i]);
}

void LanePartials::expect(double ns) {
    const double most = ns * kBytesPerNs;
    most_ = most < 1e15 ? static_cast<int64_t>(most) : int64_t{1000000000000000};
}

void LanePartials::leave_out_halos(const Signature& signature, const uint8_t* args) {
    with_halos_ = &signature;
    args_ = args;
}

char* LanePartials::find(const SummedArray& array) {
    for (int i = 0; i < count_; ++i) {
        if (found_[i] == array) return found_[i].memory;
    }
    if (with_halos_ && has_halo(*with_halos_, args_, array.data)) return nullptr;
    int64_t bytes = 0;
    if (count_ == kMost || __builtin_mul_overflow(array.count, int64_t{array.lanes} * (array.bits / 8), &bytes) ||
        bytes > most_ - bytes_) {
        return nullptr;
    }
    Block block;
    if (spares[count_].capacity >= bytes) block = std::exchange(static_cast<Block&>(spares[count_]), Block{});
    if (!block.memory) block = {allocate_block(bytes + kSize), bytes + kSize};
    if (!block.memory) return nullptr;
    std::memset(block.memory, 0, static_cast<size_t>(bytes));
    bytes_ += bytes;
    found_[count_++] = {array, block};
    return block.memory;
}

void LanePartials::add() {
    for (int i = 0; i < count_; ++i) {
        const Partials& one = found_[i];
        if (one.bits == 64) {
            add_lanes<double>(one.data, one.memory, one.count, one.lanes);
        } else {
            add_lanes<float>(one.data, one.memory, one.count, one.lanes);
        }
        give_back(&spares[i], one);
    }
    count_ = 0;
    bytes_ = 0;
}

}  // namespace wl
