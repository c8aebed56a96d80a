// Searches of wide trees for one or for many at once: the nodes with which each waits, and who takes the next step.
//
// A search alone waits for memory and for branches that were guessed wrong. So many go side by side: each takes one
// step, and what it reads next is fetched while the others take theirs. Their steps have hardly any branches.
#pragma once

#include "wide_simd.h"

#ifdef __AVX2__

namespace wl {

namespace {

constexpr int kSideBySide = 16;
constexpr int kShallow = 24;      // the nodes that each of many searches may wait with; few need more
constexpr int kDone = INT32_MIN;  // lies below the nodes that wait

// What `Search` derives from. It has `open(k, node, how)`, which lets children wait, and `leaf(k, block)`, which looks
// at faces and says whether one was found. Each of `kCount` searches may wait with `kDepth` nodes: `kStack` is enough
// for all.
template <class Search, int kCount, int kDepth>
class Sweep {
  protected:
    Sweep(const WideNode* nodes, const FaceBlock* blocks) : nodes_(nodes), blocks_(blocks) {
        for (int k = 0; k < kCount; ++k) {
            children_[k][0] = kDone;
            keys_[k][0] = kNearest;
            count_[k] = 1;
            face_[k] = -1;
        }
    }

    // Lets search `k` begin with the root.
    void start(int k) {
        keys_[k][1] = 0;
        children_[k][1] = 0;
        count_[k] = 2;
    }

    // Lets search `k` wait with a node that is no farther than those that it waits with.
    void wait(int k, float distance, int32_t child) {
        int32_t key;
        __builtin_memcpy(&key, &distance, 4);
        const int32_t place = count_[k];
        keys_[k][place] = key & ~(kWide - 1);
        children_[k][place] = child;
        count_[k] += !is_full(k);
        lost_ |= static_cast<uint32_t>(is_full(k)) << k;
    }

    // Lets the children of a node in `met` wait, the nearest to come first.
    void push_children(int k, V met, V distances, const int32_t* child) {
        const uint32_t mask = bits_of(met);
        if (kCount == 1) {  // a search alone gains by what is guessed
            at_[k] = kDone;
            if (!mask) return;
            if (!(mask & (mask - 1))) {
                at_[k] = child[__builtin_ctz(mask)];
                return;
            }
        }
        const __m256i key = sorted_keys(distances, met);
        const int32_t start = count_[k];
        store_words(keys_[k] + start, key);
        store_words(children_[k] + start, _mm256_permutevar8x32_epi32(load_words(child), key));
        count_[k] += __builtin_popcount(mask);
        if (kCount == 1) {  // the nearest is read at once; those after it are mostly visited, too
            for (int i = count_[k] - 2; i >= start && i >= count_[k] - 4; --i) prefetch(children_[k][i]);
        }
    }

    // Drops the nodes that are farther than what search `k` has found.
    void filter(int k) {
        int32_t left = 1;
        for (int32_t i = left; i < count_[k]; ++i) {
            keys_[k][left] = keys_[k][i];
            children_[k][left] = children_[k][i];
            left += distance_of(keys_[k][i]) <= nearest_[k];
        }
        count_[k] = left;
    }

    void prefetch(int32_t child) const {
        const char* lines = child >= 0 ? reinterpret_cast<const char*>(nodes_ + child)
                                       : reinterpret_cast<const char*>(blocks_ + ~child);
        for (int line = 0; line < 4; ++line) __builtin_prefetch(lines + 64 * line);
        __builtin_prefetch(lines + (child >= 0 ? 0 : 256));
    }

    // Goes on until no node waits in searches that are in `lanes`.
    template <class How>
    void sweep(uint32_t lanes, How how) {
        if (kCount == 1) {
            if (lanes) alone(how);
            return;
        }
        Turn turns[2];
        int now = 0;
        for (; lanes; lanes &= lanes - 1) {
            const int k = __builtin_ctz(lanes);
            filter(k);
            next(k, &turns[now]);
        }
        while (turns[now].inner_count || turns[now].leaf_count) {
            const Turn& turn = turns[now];
            Turn& then = turns[now ^= 1];
            then.inner_count = then.leaf_count = 0;
            for (int i = 0; i < turn.inner_count; ++i) {
                const int k = turn.inner[i];
                self()->open(k, nodes_[at_[k]], how);
                if (is_full(k)) {
                    lost_ |= 1u << k;
                } else {
                    next(k, &then);
                }
            }
            for (int i = 0; i < turn.leaf_count; ++i) {
                const int k = turn.leaves[i];
                if (self()->leaf(k, blocks_[~at_[k]])) filter(k);
                next(k, &then);
            }
        }
    }

    const WideNode* nodes_;
    const FaceBlock* blocks_;
    uint32_t lost_ = 0;  // the searches that were given up, which have to wait with too many nodes
    alignas(64) float nearest_[kCount < kWide ? kWide : kCount];  // what has been found, or the end
    int32_t face_[kCount];

  private:
    // Searches that are at a node, and those that are at a block.
    struct Turn {
        int32_t inner[kCount + 1], leaves[kCount + 1];
        int inner_count = 0, leaf_count = 0;
    };

    Search* self() { return static_cast<Search*>(this); }

    bool is_full(int k) const { return count_[k] > kDepth; }

    // Search `k` takes the nearest node that waits, and asks for its memory.
    void next(int k, Turn* turn) {
        const int32_t at = children_[k][--count_[k]];
        at_[k] = at;
        turn->inner[turn->inner_count] = k;
        turn->inner_count += at >= 0;
        turn->leaves[turn->leaf_count] = k;
        turn->leaf_count += at < 0 && at != kDone;
        prefetch(at == kDone ? 0 : at);
    }

    // The same for a single search.
    template <class How>
    void alone(How how) {
        for (;;) {
            while (distance_of(keys_[0][--count_[0]]) > nearest_[0]) continue;
            int32_t at = children_[0][count_[0]];
            if (at == kDone) return;
            while (at >= 0) {
                self()->open(0, nodes_[at], how);
                at = at_[0];  // the only child that it meets
            }
            if (at != kDone) self()->leaf(0, blocks_[~at]);
        }
    }

    static constexpr int32_t kNearest = -(1 << 23);  // the key of minus infinity
    static constexpr int kPlaces = kDepth + 2 * kWide;

    int32_t count_[kCount], at_[kCount];
    int32_t keys_[kCount][kPlaces], children_[kCount][kPlaces];
};

}  // namespace

}  // namespace wl
#endif
