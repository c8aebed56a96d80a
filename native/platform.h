// What the extension asks of the operating system. platform_posix.cpp and platform_windows.cpp answer; no other file
// needs to know which system it is, but affinity.cpp and debugger.cpp, which do something on Linux alone.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>

#ifndef _WIN32
#include <signal.h>
#endif

namespace wl {

// ---- memory

constexpr int64_t kAlignment = 64;  // a cache line, an AVX-512 vector, and what JAX needs in order to alias

// Returns memory of `nbytes` bytes at a multiple of `alignment`, a power of two; null if there is none.
void* allocate_aligned(size_t nbytes, size_t alignment);
void free_aligned(void* memory);

// Asks for large pages where an array is large enough for several: with pages of 4 KiB, kernels that stream through
// arrays take up to twice as long, since each page's address has to be looked up. Memory may then be rounded up to one
// more large page.
void prefer_large_pages(void* base, size_t nbytes);

size_t page_size();
// Returns pages that can be read and written, `nbytes` being a multiple of `page_size()`; null if there are none.
void* map_pages(size_t nbytes);
// Lets pages be executed, and no longer be written.
bool make_executable(void* pages, size_t nbytes);
void unmap_pages(void* pages, size_t nbytes);

// Bytes of memory that the machine has.
struct HostMemory {
    unsigned long long total, free;
};
HostMemory host_memory();

// ---- libraries

// Loads a shared library, by a path or name in UTF-8. It stays. Null if it can't be loaded.
void* load_library(const char* path);
// The address of `name` in such a library; null if there is none.
void* find_in(void* library, const char* name);
// The address of a function that compiled kernels may call: of the C and math libraries, or of the compiler's
// runtime; null if there is none.
void* find_function(const char* name);
// The address of `name` in the library that `address` lies in, or in one on which it depends; null if there is none.
void* find_beside(void* address, const char* name);

// ---- processes and threads

// While it lives, threads that are started get no signals, which are the main thread's business.
class SignalsBlocked {
  public:
    SignalsBlocked();
    ~SignalsBlocked();
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

#ifndef _WIN32
  private:
    sigset_t old_;
#endif
};

// ---- signals, each as long as it is deferred noted instead of handled; on the main thread

constexpr int kSignals = 65;  // their numbers are smaller

// Whether the system can defer it, and it is no fault, after which a program can't go on.
bool may_defer(int number);
// False where it is deferred already, or no handler of Python's kind is there.
bool defer(int number);
// Returns whether it has come meanwhile.
bool end_deferral(int number);
void end_deferrals();

// ---- further threads

// Lets the threads of the process that somebody waits for run before this one, where they are too many for the cores.
void give_way();

// Lets `before` be called before each fork, and `in_child` after it in the child; either may be null. False when
// there is no memory for it.
bool call_at_forks(void (*before)(), void (*in_child)());

// Stops in the debugger that the process runs under, if it does.
void stop_in_debugger();

// setjmp without the mask of signals, for a longjmp over frames that the system has no tables to unwind by.
#ifdef _WIN32
#define WL_SETJMP(buffer) _setjmp(buffer, nullptr)
#else
#define WL_SETJMP(buffer) _setjmp(buffer)
#endif

}  // namespace wl
