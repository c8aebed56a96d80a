// Which chunks of a launch each of its OS threads takes.
//
// The grid has a part for each of them. An OS thread works through one part, then helps with the others. Which one it
// begins with follows from the processor that it runs on: launches come one after another on the same arrays, and so a
// processor finds in its caches what it read or wrote the last time. Processors that share no cache each keep their
// part of arrays that are too large for one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "affinity.h"
#include "chunks.h"

namespace wl {

class ChunkScheduler {
  public:
    // For the kernel threads from `begin` to `count`, of which one takes `thread_ns`, and `participants` OS threads.
    // Chunks are `fixed` kernel threads long if that is not 0; else it depends on the time that they take, but no chunk
    // is shorter than `least`, nor cuts rows that go together if there are many. In one part chunks are taken in their
    // order.
    ChunkScheduler(int64_t begin, int64_t count, double thread_ns, int participants, const ChunkAlignment& alignment,
                   int64_t fixed, int64_t least, bool one_part, const std::atomic<int32_t>* cancel)
        : thread_ns_(thread_ns),
          participants_(participants),
          alignment_(alignment),
          fixed_(fixed),
          least_(least),
          cancel_(cancel) {
        const bool many = alignment.rows && count / alignment.rows >= kGroups * participants;
        if (!many && static_cast<double>(alignment.rows) * thread_ns > kShortestNs) alignment_.rows = 0;
        const int64_t unit = fixed             ? fixed
                             : alignment_.rows ? alignment_.rows
                                               : in_vectors(kBlock, alignment.lanes, INT64_MAX);
        parts_ = std::min(participants, kMostParts);
        if (one_part || count / parts_ < least + 4 * unit) parts_ = 1;
        int64_t at = begin;
        for (int k = 0; k < parts_; ++k) {
            // The same places whatever `begin` is, which depends on how long the first threads took.
            const bool is_last = k + 1 == parts_;  // it takes all that is left, however little
            int64_t end = is_last ? count : count / parts_ * (k + 1) / unit * unit;
            if (!is_last && end - begin < least) end = begin;
            part_[k].cursor.store(at, std::memory_order_relaxed);
            part_[k].claimed.store(false, std::memory_order_relaxed);
            part_[k].end = at = end;
        }
    }

    // Calls `work(begin, end)` for chunks until none is left, or until `between` says no; that is called after each with
    // the time and with what a kernel thread took.
    template <typename Work, typename Between>
    void participate(Work work, Between between) {
        double thread_ns = thread_ns_;
        int64_t begin, end;
        double before = now_ns();
        bool own;
        const int first = claim(&own);
        for (int k = 0; k < parts_; ++k, own = false) {
            while (take(&part_[(first + k) % parts_], own, thread_ns, &begin, &end)) {
                work(begin, end);
                const double after = now_ns();
                thread_ns = (after - before) / static_cast<double>(end - begin);
                if (!between(after, thread_ns)) return;
                before = after;
            }
        }
    }

  private:
    static constexpr int kMostParts = 64;
    static constexpr int64_t kOwnShares = 4;
    static constexpr int64_t kGroups = 4;  // of rows that go together, for each participant: fewer are cut

    struct alignas(64) Part {
        std::atomic<int64_t> cursor;
        int64_t end;
        std::atomic<bool> claimed;
    };

    // The part that goes with this processor, or the next one that nobody has claimed; whether it is `own` now.
    int claim(bool* own) {
        const int first = current_cpu() % parts_;
        for (int k = 0; k < parts_; ++k) {
            const int at = (first + k) % parts_;
            *own = parts_ > 1 && !part_[at].claimed.exchange(true, std::memory_order_relaxed);
            if (*own) return at;
        }
        return first;
    }

    // Takes the next chunk of `part`: about kTargetNs of work, but only a share of what is left, so that all finish
    // together. That share is larger for the part's owner, which others come to help when they are done with theirs.
    bool take(Part* part, bool own, double thread_ns, int64_t* begin, int64_t* end) {
        int64_t at = part->cursor.load(std::memory_order_relaxed);
        for (;;) {
            const int64_t left = part->end - at;
            if (left <= 0 || cancel_->load(std::memory_order_relaxed)) return false;
            const int64_t shares = own ? kOwnShares : 2 * participants_;
            int64_t size = fixed_ ? std::min(fixed_, left) : timed(at, left, left / shares + 1, thread_ns);
            if (size < least_) size = least_;
            if (left - size < least_) size = left;
            if (part->cursor.compare_exchange_weak(at, at + size, std::memory_order_relaxed)) {
                *begin = at;
                *end = at + size;
                return true;
            }
        }
    }

    int64_t timed(int64_t at, int64_t left, int64_t fair, double thread_ns) const {
        const int64_t least = within(kShortestNs, thread_ns, left);
        const int64_t size = within(kTargetNs, thread_ns, fair);
        if (alignment_.rows) return to_rows_end(at, size < least ? least : size, alignment_.rows, left);
        return in_vectors(at_block_end(at, size < least ? least : size), alignment_.lanes, left);
    }

    const double thread_ns_;  // the first estimate
    const int participants_;
    ChunkAlignment alignment_;
    const int64_t fixed_, least_;
    const std::atomic<int32_t>* const cancel_;
    int parts_;
    std::array<Part, kMostParts> part_;
};

}  // namespace wl
