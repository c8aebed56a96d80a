#include "bulk.h"

#include <algorithm>
#include <cstring>

#include "alloc.h"
#include "array.h"
#include "context.h"
#include "thread_pool.h"

namespace wl {

namespace {

constexpr int64_t kBlock = 1 << 16;  // bytes that one "kernel thread" sets

struct Bulk {
    char* to;
    const char* from;  // null for zeros
    int64_t bytes;
};

void set_bytes(char* to, const char* from, int64_t bytes) {
    if (from) {
        std::memmove(to, from, static_cast<size_t>(bytes));
    } else {
        std::memset(to, 0, static_cast<size_t>(bytes));
    }
}

// An entry point, as compiled kernels have it, with a thread for each block.
void set_blocks(const uint8_t* args, const int64_t*, int64_t begin, int64_t end, Context*) {
    const Bulk& bulk = *reinterpret_cast<const Bulk*>(args);
    const int64_t first = begin * kBlock, last = std::min(end * kBlock, bulk.bytes);
    if (first < last) set_bytes(bulk.to + first, bulk.from ? bulk.from + first : nullptr, last - first);
}

bool set(const Bulk& bulk) {
    if (bulk.bytes <= kBlock) {
        if (bulk.bytes) set_bytes(bulk.to, bulk.from, bulk.bytes);
        return true;
    }
    const auto dims = line_of((bulk.bytes + kBlock - 1) / kBlock);
    RunRecord record;
    Gil gil(&record);
    const Job job{set_blocks, reinterpret_cast<const uint8_t*>(&bulk), dims.data(), dims[0], nullptr, 1};
    return !run(job, &record, &gil).interrupted;
}

}  // namespace

bool set_zero(void* data, int64_t bytes) { return set({static_cast<char*>(data), nullptr, bytes}); }

bool copy_bytes(void* to, const void* from, int64_t bytes) {
    const Bulk bulk{static_cast<char*>(to), static_cast<const char*>(from), bytes};
    if (bulk.to < bulk.from + bytes && bulk.from < bulk.to + bytes) {  // blocks would overwrite each other's source
        set_bytes(bulk.to, bulk.from, bytes);
        return true;
    }
    return set(bulk);
}

bool is_zeroable(PyObject* object) {
    const Array* array = reinterpret_cast<const Array*>(object);
    const bool told = array->hooked || is_watched(array->owner);  // a library wants to know of writes
    return array->type_code != kUnbound && array->contiguous && !array->readonly && !told &&
           array->device_type == kDLCPU;
}

bool set_array_zero(PyObject* object) {
    const Array* array = reinterpret_cast<const Array*>(object);
    return set_zero(array->data, array->size * array->itemsize);
}

PyObject* try_zero_array(PyObject* object, PyObject*) {
    if (!is_zeroable(object)) Py_RETURN_FALSE;
    if (!set_array_zero(object)) return nullptr;
    Py_RETURN_TRUE;
}

}  // namespace wl
