// Telling debuggers and profilers of compiled kernels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wl {

// Registers an object, which a debugger reads its lines from, by GDB's JIT interface; it has to stay in memory until
// `forget_code`. Returns a handle.
void* announce_code(const char* object, size_t size);
void forget_code(void* handle);

// Adds a function to the map by which perf names addresses without a file.
void name_for_perf(const char* name, uint64_t address, uint64_t size);

}  // namespace wl
