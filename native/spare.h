// Memory that an OS thread keeps from launch to launch.
#pragma once

#include <cstdint>

#include "platform.h"

namespace wl {

constexpr int64_t kMostSpare = 4 << 20;  // more than this is given back after a launch

// Memory of this size, or none.
struct Block {
    char* memory = nullptr;
    int64_t capacity = 0;
};

// Null where there is none.
inline char* allocate_block(int64_t nbytes) {
    return static_cast<char*>(allocate_aligned(static_cast<size_t>(nbytes), kAlignment));
}

struct Spare : Block {
    ~Spare() { free_aligned(memory); }
};

// Keeps `block` in place of a smaller one if it is not too large, else frees it.
inline void give_back(Spare* spare, const Block& block) {
    if (block.capacity > kMostSpare || block.capacity <= spare->capacity) return free_aligned(block.memory);
    free_aligned(spare->memory);
    static_cast<Block&>(*spare) = block;
}

}  // namespace wl
