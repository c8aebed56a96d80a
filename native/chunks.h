// How a launch is cut into chunks: small ones first, which tell what a kernel thread costs, then large ones
// that the caller works through alone or takes turns at with others. Code that runs several threads at once takes as
// long for one as for all of them, so chunks hold whole vectors and, where it takes several rows at once, whole rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>

#include "args.h"

namespace wl {

constexpr double kShareNs = 20e3;        // what has to be left for workers to be woken
constexpr double kShareTakesNs = 100e3;  // the same of a launch whose atomics take elements, of which others wait
constexpr double kWorthNs = 10e3;        // of that, what each woken worker has to find
constexpr double kKeepGilNs = 10e3;      // a launch that takes longer lets other Python threads run
constexpr double kTargetNs = 100e3;      // a shared chunk
constexpr double kShortestNs = 5e3;      // a shared chunk near the end
constexpr double kAloneNs = 2e6;         // a chunk of a launch that runs alone
constexpr int64_t kFixedChunks = 64;     // at most, of a deterministic launch
constexpr int64_t kFixedPart = 1 << 14;  // kernel threads of such a chunk between two looks at signals
constexpr int64_t kFewThreads = 64;      // kernel threads, of which one more or less that runs alone is felt
constexpr int64_t kBlock = 64;           // chunks end at multiples of this, away from shared cache lines
constexpr int64_t kCleared = -1;         // what a halo's threads add to has been set to zero by the chunks beside it

// What the code runs at once.
struct ChunkAlignment {
    int64_t lanes = 1;  // kernel threads side by side along the grid's last dimension
    int64_t rows = 0;   // of the rows that it takes together, the kernel threads; 0: it takes them one by one
};

// The alignment of code that takes `rows` rows of the grid `dims` at once.
inline ChunkAlignment chunk_alignment(int64_t lanes, int64_t rows, const int64_t* dims) {
    int last = kMaxDims - 1;
    while (last > 0 && dims[last] == 1) --last;
    int64_t threads;
    if (rows < 2 || __builtin_mul_overflow(rows, dims[last], &threads)) threads = 0;
    return {lanes, threads};
}

inline double now_ns() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline int64_t at_block_end(int64_t begin, int64_t size) {
    const int64_t end = (begin + size) / kBlock * kBlock;
    return end > begin && size >= kBlock ? end - begin : size;
}

// The threads that fit into `budget_ns`, kept within [1, most].
inline int64_t within(double budget_ns, double thread_ns, int64_t most) {
    const double fit = budget_ns / (thread_ns > 1e-3 ? thread_ns : 1e-3);
    if (fit >= static_cast<double>(most)) return most;
    return fit < 1 ? 1 : static_cast<int64_t>(fit);
}

// `size` made whole vectors, but no more than `most`.
inline int64_t in_vectors(int64_t size, int64_t lanes, int64_t most) {
    const int64_t whole = (size + lanes - 1) / lanes * lanes;
    return whole < most ? whole : most;
}

// The chunk of a launch that has to give the same bits whatever the number of threads and the time that they take:
// where a chunk ends decides which kernel threads share vectors. Few that share nothing (`apart`) are a chunk each.
inline int64_t fixed_chunk(int64_t count, int64_t lanes, bool apart) {
    if (apart && count <= kFewThreads) return 1;
    const int64_t blocks = (count + kFixedChunks * kBlock - 1) / (kFixedChunks * kBlock);
    return in_vectors(blocks * kBlock, lanes, INT64_MAX);
}

// Calls `work(begin, end)` for the threads of a chunk, a fixed one in parts while `go()` holds: it may be long, and
// where parts end must not depend on the time.
template <typename Work, typename Go>
void in_parts(int64_t begin, int64_t end, bool is_fixed, Work work, Go go) {
    while (is_fixed && end - begin > kFixedPart) {
        work(begin, begin + kFixedPart);
        begin += kFixedPart;
        if (!go()) return;
    }
    work(begin, end);
}

// About `size` threads, to where rows that are taken together end.
inline int64_t to_rows_end(int64_t begin, int64_t size, int64_t rows, int64_t most) {
    const int64_t end = std::max((begin + size) / rows, begin / rows + 1) * rows;
    return std::min(end - begin, most);
}

// The next chunk of a launch that runs on the caller's thread: 1 and 15 threads or vectors, then ever more.
inline int64_t next_alone(int64_t done, int64_t left, double thread_ns, const ChunkAlignment& alignment) {
    const int64_t lanes = alignment.lanes;
    if (done == 0) return in_vectors(1, lanes, left);
    const int64_t first = 16 * lanes;
    if (done < first) {
        const bool slow = thread_ns * static_cast<double>(lanes) > kKeepGilNs;
        return in_vectors(slow ? 1 : first - done, lanes, left);
    }
    const int64_t most = done < left / 16 ? done * 16 : left;
    const int64_t size = within(kAloneNs, thread_ns, most);
    if (alignment.rows && done >= alignment.rows / 16) return to_rows_end(done, size, alignment.rows, left);
    return in_vectors(at_block_end(done, size), lanes, left);
}

// Keeps kernel threads from running at the same time that are less than a halo's width apart, though chunks run side by
// side. The first threads of each chunk, its halo, wait until the rest of the chunk and the chunk before it are done;
// whoever is done last runs them. Chunks are at least twice as long as their halos, so that halos are apart as well.
class Halos {
  public:
    // For the chunks of the threads from `first` to `count`; what comes before them is done. Without a width, chunks
    // run whole.
    Halos(int64_t width, int64_t first, int64_t count) : width_(width), first_(first), count_(count) {}

    // Calls `work` for the chunk from `begin` to `end` but its halo, with `begin`, and for the halos that can run then,
    // with `kCleared`.
    template <typename Work>
    void run(int64_t begin, int64_t end, Work work) {
        if (!width_) return work(begin, end, begin);
        work(std::min(halo_end(begin), end), end, begin);
        for (const int64_t at : {begin, end}) {
            if (at < count_ && second_side(at)) work(at, halo_end(at), kCleared);
        }
    }

  private:
    int64_t halo_end(int64_t at) const { return count_ - at < width_ ? count_ : at + width_; }

    // Notes that a chunk beside the halo at `at` is done; whether both are.
    bool second_side(int64_t at) {
        if (at == first_) return true;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (one_side_.insert(at).second) return false;
        one_side_.erase(at);
        return true;
    }

    const int64_t width_, first_, count_;
    std::mutex mutex_;
    std::set<int64_t> one_side_;  // halos of which one chunk is done
};

}  // namespace wl
