#include "free_blocks.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "alloc.h"
#include "platform.h"

namespace wl {

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMostBytes = 0;  // the sanitizer has to see that an array is gone
#else
constexpr size_t kMostBytes = size_t{64} << 20;  // of all blocks that are kept
#endif
constexpr size_t kSmallest = size_t{256} << 10;  // malloc keeps smaller ones itself
constexpr size_t kLargest = kMostBytes / 2;
constexpr int kMostBlocks = 32;

// Stands before the bytes that an array gets.
struct Block {
    void* base;    // of all its memory
    size_t room;   // bytes that an array may use
    size_t pages;  // bytes of pages of its own; 0 where malloc made it
};
static_assert(sizeof(Block) <= kAlignment);

void* bytes_of(Block* block) { return block + 1; }

Block* block_of(void* bytes) { return static_cast<Block*>(bytes) - 1; }

// Lets `base` begin with a block whose bytes are aligned.
Block* placed(void* base, size_t room, size_t pages) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(base) + sizeof(Block);
    Block* const block = block_of(reinterpret_cast<void*>((first + kAlignment - 1) & ~uintptr_t{kAlignment - 1}));
    *block = {base, room, pages};
    return block;
}

// One line for the header and the alignment, and one behind the bytes: a vector load at the end stays inside, and an
// empty array has an address of its own.
constexpr size_t kExtra = sizeof(Block) + 2 * kAlignment - 1;

Block* from_malloc(size_t nbytes, bool zero) {
    // calloc leaves fresh pages to the system to clear
    void* const base = zero ? std::calloc(nbytes + kExtra, 1) : std::malloc(nbytes + kExtra);
    if (!base) return nullptr;
    prefer_large_pages(base, nbytes + kExtra);
    return placed(base, nbytes, 0);
}

// A block that may be kept has pages of its own: within malloc's it would hold on to all that lies below it.
Block* from_pages(size_t nbytes) {
    const size_t page = page_size(), pages = (nbytes + kExtra + page - 1) / page * page;
    void* const base = map_pages(pages);
    if (!base) return nullptr;
    prefer_large_pages(base, pages);
    return placed(base, pages - kExtra, pages);
}

void release(Block* block) {
    if (block->pages) {
        unmap_pages(block->base, block->pages);
    } else {
        std::free(block->base);
    }
}

struct Kept {
    Block* blocks[kMostBlocks];  // the oldest first
    int count = 0;
    size_t bytes = 0;

    Block* remove(int at) {
        Block* const block = blocks[at];
        bytes -= block->room;
        --count;
        std::memmove(blocks + at, blocks + at + 1, static_cast<size_t>(count - at) * sizeof(Block*));
        return block;
    }

    void add(Block* block) {
        while (count == kMostBlocks || bytes + block->room > kMostBytes) release(remove(0));
        blocks[count++] = block;
        bytes += block->room;
    }

    // The smallest block of at least `nbytes`, of which at most a fifth is left unused; null where there is none.
    Block* take(size_t nbytes) {
        int best = -1;
        for (int i = 0; i < count; ++i) {
            const size_t room = blocks[i]->room;
            if (room >= nbytes && room - nbytes <= room / 5 && (best < 0 || room < blocks[best]->room)) best = i;
        }
        return best < 0 ? nullptr : remove(best);
    }
};

Kept kept;

}  // namespace

void* take_block(size_t nbytes, bool zero) {
    const bool is_kept = nbytes >= kSmallest && nbytes <= kLargest;
    Block* block = is_kept ? kept.take(nbytes) : nullptr;
    if (block) {
        if (zero) std::memset(bytes_of(block), 0, nbytes);
    } else {
        block = is_kept ? from_pages(nbytes) : from_malloc(nbytes, zero);
    }
    return block ? bytes_of(block) : nullptr;
}

void give_back_block(void* bytes) {
    Block* const block = block_of(bytes);
    if (block->pages) {
        kept.add(block);
    } else {
        release(block);
    }
}

}  // namespace wl
