// The memory of arrays. Large blocks that arrays give back are kept for the next ones: the system need not map and
// clear their pages again, which costs more than many a kernel that fills them.
#pragma once

#include <cstddef>

namespace wl {

// Returns `nbytes` bytes aligned to kAlignment, with room for a vector load at their end; null where there is no
// memory.
void* take_block(size_t nbytes, bool zero);

// Takes back what take_block returned. The caller of either holds the GIL.
void give_back_block(void* block);

}  // namespace wl
