#ifdef _WIN32

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
// after it
#include <malloc.h>

#include <cstring>
#include <string>
#include <utility>

#include "platform.h"

// Of the runtime library that each compiler links; their true types do not matter here.
extern "C" {
void ___chkstk_ms();
void __extendhfsf2();
void __truncdfhf2();
void __truncsfhf2();
}

namespace wl {

namespace {

// What LLVM lets code call that the C library lacks. Frames beyond a page call the first one, which touches their pages
// in order and changes no register; the others convert from and to 16 bits where the processor can't.
constexpr std::pair<const char*, void (*)()> kCompilerFunctions[] = {
    {"__chkstk", ___chkstk_ms},
    {"__extendhfsf2", __extendhfsf2},
    {"__truncdfhf2", __truncdfhf2},
    {"__truncsfhf2", __truncsfhf2},
};

}  // namespace

void* allocate_aligned(size_t nbytes, size_t alignment) { return _aligned_malloc(nbytes, alignment); }

void free_aligned(void* memory) { _aligned_free(memory); }

void prefer_large_pages(void*, size_t) {}  // they need a privilege that users do not have

size_t page_size() {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

void* map_pages(size_t nbytes) { return VirtualAlloc(nullptr, nbytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

bool make_executable(void* pages, size_t nbytes) {
    DWORD old;
    return VirtualProtect(pages, nbytes, PAGE_EXECUTE_READ, &old) &&
           FlushInstructionCache(GetCurrentProcess(), pages, nbytes);
}

void unmap_pages(void* pages, size_t) { VirtualFree(pages, 0, MEM_RELEASE); }

HostMemory host_memory() {
    MEMORYSTATUSEX status = {};
    status.dwLength = sizeof status;
    GlobalMemoryStatusEx(&status);
    return {status.ullTotalPhys, status.ullAvailPhys};
}

namespace {

std::wstring wide(const char* text) {
    const int length = MultiByteToWideChar(CP_UTF8, 0, text, -1, nullptr, 0);
    std::wstring out(length > 0 ? static_cast<size_t>(length) : 1, L'\0');
    MultiByteToWideChar(CP_UTF8, 0, text, -1, out.data(), length);
    return out;
}

void* address_in(HMODULE library, const char* name) {
    return library ? reinterpret_cast<void*>(GetProcAddress(library, name)) : nullptr;
}

}  // namespace

void* load_library(const char* path) {
    constexpr DWORD kFolders = LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
    return LoadLibraryExW(wide(path).c_str(), nullptr, kFolders);
}

void* find_in(void* library, const char* name) { return address_in(static_cast<HMODULE>(library), name); }

void* find_function(const char* name) {
    for (const auto& [known, function] : kCompilerFunctions) {
        if (std::strcmp(name, known) == 0) return reinterpret_cast<void*>(function);
    }
    static const HMODULE c_library = LoadLibraryW(L"ucrtbase.dll");
    return address_in(c_library, name);
}

void* find_beside(void* address, const char* name) {
    HMODULE library = nullptr;
    constexpr DWORD kBorrowed = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    if (!GetModuleHandleExW(kBorrowed, static_cast<LPCWSTR>(address), &library)) return nullptr;
    return address_in(library, name);
}

SignalsBlocked::SignalsBlocked() {}  // Windows runs handlers in a thread of its own

SignalsBlocked::~SignalsBlocked() {}

bool may_defer(int) { return false; }

bool defer(int) { return false; }

bool end_deferral(int) { return false; }

void end_deferrals() {}

void give_way() { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL); }

bool call_at_forks(void (*)(), void (*)()) { return true; }  // there are none

void stop_in_debugger() {
    if (IsDebuggerPresent()) DebugBreak();
}

}  // namespace wl

#endif
