// Telling debuggers and profilers of compiled kernels: GDB's JIT compilation interface, and perf's map of a process.
#include "debugger.h"

#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <new>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

// A debugger finds these by their names: it reads the list that the descriptor holds, and stops at the function.
extern "C" {

struct jit_code_entry {
    jit_code_entry* next_entry;
    jit_code_entry* prev_entry;
    const char* symfile_addr;
    uint64_t symfile_size;
};

struct jit_descriptor {
    uint32_t version;
    uint32_t action_flag;  // 1: an entry was added, 2: one goes
    jit_code_entry* relevant_entry;
    jit_code_entry* first_entry;
};

__attribute__((visibility("default"), used)) jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};

__attribute__((visibility("default"), used, noinline)) void __jit_debug_register_code() {
    asm volatile("" ::: "memory");
}
}

namespace wl {

namespace {

std::mutex list_lock;

void notify(uint32_t action, jit_code_entry* entry) {
    __jit_debug_descriptor.action_flag = action;
    __jit_debug_descriptor.relevant_entry = entry;
    __jit_debug_register_code();
    __jit_debug_descriptor.action_flag = 0;
    __jit_debug_descriptor.relevant_entry = nullptr;
}

}  // namespace

void* announce_code(const char* object, size_t size) {
    auto* entry = new (std::nothrow) jit_code_entry{nullptr, nullptr, object, size};
    if (!entry) return nullptr;
    const std::lock_guard<std::mutex> guard(list_lock);
    entry->next_entry = __jit_debug_descriptor.first_entry;
    if (entry->next_entry) entry->next_entry->prev_entry = entry;
    __jit_debug_descriptor.first_entry = entry;
    notify(1, entry);
    return entry;
}

void forget_code(void* handle) {
    auto* entry = static_cast<jit_code_entry*>(handle);
    if (!entry) return;
    const std::lock_guard<std::mutex> guard(list_lock);
    (entry->prev_entry ? entry->prev_entry->next_entry : __jit_debug_descriptor.first_entry) = entry->next_entry;
    if (entry->next_entry) entry->next_entry->prev_entry = entry->prev_entry;
    notify(2, entry);
    delete entry;
}

void name_for_perf(const char* name, uint64_t address, uint64_t size) {
#if defined(__linux__)
    char path[64];
    std::snprintf(path, sizeof path, "/tmp/perf-%d.map", static_cast<int>(getpid()));
    FILE* map = std::fopen(path, "a");
    if (!map) return;  // a profile without names is no reason to fail
    std::fprintf(map, "%" PRIx64 " %" PRIx64 " %s\n", address, size, name);
    std::fclose(map);
#else
    (void)name, (void)address, (void)size;
#endif
}

}  // namespace wl
