// A driver with no device behind it: each function succeeds and leaves its results as they are. What it proves is
// that the calls have the arguments that cuda-python takes.
#include <stdint.h>
#include <string.h>

static int succeed(void) { return 0; }

static int write_version(int* out) {
    *out = 13000;
    return 0;
}

static int write_no_access(int* out) {
    *out = 0;
    return 0;
}

int cuGetProcAddress_v2(const char* name, void** out, int wanted, uint64_t flags, int* status) {
    (void)wanted, (void)flags;
    *out = !strncmp(name, "cuGetProcAddress", 16)     ? (void*)cuGetProcAddress_v2
           : !strncmp(name, "cuDriverGetVersion", 18) ? (void*)write_version
           : !strncmp(name, "cuMemPoolGetAccess", 18) ? (void*)write_no_access
                                                      : (void*)succeed;
    if (status) *status = 0;
    return 0;
}
