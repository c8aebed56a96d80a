#ifndef _WIN32

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __APPLE__
#include <mach/mach.h>
#endif

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "platform.h"

namespace wl {

void* allocate_aligned(size_t nbytes, size_t alignment) {
    void* memory = nullptr;
    return posix_memalign(&memory, alignment, nbytes) ? nullptr : memory;
}

void free_aligned(void* memory) { std::free(memory); }

void prefer_large_pages(void* base, size_t nbytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr size_t kPage = 4096, kLarge = size_t{4} << 20;
    if (nbytes < kLarge) return;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(base) + kPage - 1) & ~uintptr_t{kPage - 1};
    const uintptr_t end = (reinterpret_cast<uintptr_t>(base) + nbytes) & ~uintptr_t{kPage - 1};
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: that it failed changes nothing
#else
    (void)base, (void)nbytes;
#endif
}

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void* map_pages(size_t nbytes) {
    void* pages = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
}

bool make_executable(void* pages, size_t nbytes) { return mprotect(pages, nbytes, PROT_READ | PROT_EXEC) == 0; }

void unmap_pages(void* pages, size_t nbytes) { munmap(pages, nbytes); }

HostMemory host_memory() {
    const auto pages = [](int which) { return static_cast<unsigned long long>(sysconf(which)) * page_size(); };
#ifdef __APPLE__
    vm_statistics64_data_t now = {};
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&now), &count);
    return {pages(_SC_PHYS_PAGES), static_cast<unsigned long long>(now.free_count) * page_size()};
#else
    return {pages(_SC_PHYS_PAGES), pages(_SC_AVPHYS_PAGES)};
#endif
}

void* load_library(const char* path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

void* find_in(void* library, const char* name) { return dlsym(library, name); }

void* find_function(const char* name) {
    if (void* found = dlsym(RTLD_DEFAULT, name)) return found;
    static void* const math = dlopen("libm.so.6", RTLD_NOW);
    static void* const vector_math = dlopen("libmvec.so.1", RTLD_NOW);
    for (void* library : {math, vector_math}) {
        void* found = library ? dlsym(library, name) : nullptr;
        if (found) return found;
    }
    return nullptr;
}

void* find_beside(void* address, const char* name) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) return nullptr;
    void* library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);  // searched with what it depends on
    if (!library) return nullptr;
    void* found = dlsym(library, name);
    dlclose(library);
    return found;
}

SignalsBlocked::SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }

namespace {

volatile sig_atomic_t has_come[kSignals];
bool is_deferred[kSignals];
struct sigaction usual[kSignals];

void note(int number) { has_come[number] = 1; }

}  // namespace

bool may_defer(int number) {
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
        if (number == fault) return false;
    }
    return number < NSIG;
}

bool defer(int number) {
    struct sigaction action;
    if (is_deferred[number] || sigaction(number, nullptr, &action) != 0 || action.sa_flags & SA_SIGINFO) return false;
    usual[number] = action;
    action.sa_handler = note;
    has_come[number] = 0;
    return is_deferred[number] = sigaction(number, &action, nullptr) == 0;
}

bool end_deferral(int number) {
    struct sigaction action;
    if (!is_deferred[number]) return false;
    is_deferred[number] = false;
    // Where somebody has set another handler meanwhile, it stays.
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == note) {
        sigaction(number, &usual[number], nullptr);
    }
    return has_come[number] != 0;
}

void end_deferrals() {
    for (int number = 1; number < kSignals; ++number) end_deferral(number);
}

void give_way() {
#ifdef __linux__
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 5);  // of this thread alone; elsewhere of all of them
#endif
}

bool call_at_forks(void (*before)(), void (*in_child)()) { return pthread_atfork(before, nullptr, in_child) == 0; }

namespace {

// Whether another process traces this one, as Linux tells; elsewhere nobody knows.
bool is_debugged() {
    std::ifstream status("/proc/self/status");
    for (std::string row; std::getline(status, row);) {
        if (row.rfind("TracerPid:", 0) == 0) return std::atoll(row.c_str() + 10) != 0;
    }
    return false;
}

}  // namespace

void stop_in_debugger() {
    if (is_debugged()) std::raise(SIGTRAP);
}

}  // namespace wl

#endif
