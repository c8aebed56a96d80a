#include "context.h"

#include <algorithm>
#include <cstring>

#include "alloc.h"
#include "chunks.h"
#include "objects.h"
#include "platform.h"
#include "print.h"
#include "watchdog.h"
#include "wide_bvh.h"

namespace wl {

namespace {

constexpr int64_t kFirstStack = 64 << 10;
constexpr int64_t kMostLocals = 1 << 30;

std::atomic<int64_t> stack_cap{256 << 20};

thread_local Spare spare;         // for stacks
thread_local Spare spare_locals;  // for local arrays

Worker* worker_of(Context* context) { return static_cast<Worker*>(context); }

void record_error(RunRecord* record, int32_t code, int32_t where, int64_t thread, const char* text, int32_t count,
                  const int64_t* values) {
    int32_t unclaimed = 0;
    if (record->claimed.compare_exchange_strong(unclaimed, 1)) {
        record->where = where;
        record->thread = thread;
        record->text = text;
        record->count = count < kErrorValues ? count : kErrorValues;
        std::copy_n(values, record->count, record->values);
        record->code.store(code, std::memory_order_release);
    }
    record->cancel.store(1, std::memory_order_relaxed);
}

}  // namespace

__attribute__((noinline)) void Worker::call(Entry entry, const uint8_t* args, const int64_t* dims, int64_t begin,
                                            int64_t end) {
    if (WL_SETJMP(exit_) == 0) entry(args, dims, begin, end, this);
    top = 0;
}

bool Worker::poll() {
    if (watchdog_) watchdog_->poll(now_ns());
    return !cancel->load(std::memory_order_relaxed);
}

void RunRecord::expire() { record_error(this, RunError::Timeout, 0, -1, nullptr, 0, nullptr); }

void Worker::give_up() { std::longjmp(exit_, 1); }

bool Worker::grow(int64_t nbytes) {
    const int64_t cap = stack_cap.load(std::memory_order_relaxed) * lanes_;  // of at most 2**46 bytes and 64 lanes
    if (nbytes < 0 || nbytes > cap || top > cap - nbytes) return false;
    const int64_t needed = top + nbytes;
    if (needed <= capacity) return true;
    if (!stack && spare.capacity >= needed && spare.capacity <= cap) {
        stack = std::exchange(spare.memory, nullptr);
        capacity = std::exchange(spare.capacity, 0);
        return true;
    }
    int64_t room = capacity ? capacity * 2 : kFirstStack;
    while (room < needed) room *= 2;
    if (room > cap) room = cap;
    char* memory = allocate_block(room);
    if (!memory) return false;
    if (top) std::memcpy(memory, stack, static_cast<size_t>(top));
    free_aligned(stack);
    stack = memory;
    capacity = room;
    return true;
}

void Worker::give_back_stack() {
    give_back(&spare, {stack, capacity});
    stack = nullptr;
    capacity = 0;
}

// A kernel may run on any thread, of which some have small stacks, so the larger arrays are not there. A launch that
// begins inside of another one, by a signal's handler, finds no spare block and gets one of its own.
char* Worker::local_memory(int64_t nbytes) {
    if (locals_.capacity >= nbytes) return locals_.memory;
    if (spare_locals.capacity >= nbytes) {
        free_aligned(locals_.memory);
        locals_ = std::exchange(static_cast<Block&>(spare_locals), Block{});
        return locals_.memory;
    }
    char* memory = nbytes <= kMostLocals ? allocate_block(nbytes) : nullptr;
    if (!memory) return nullptr;
    free_aligned(locals_.memory);
    locals_ = {memory, nbytes};
    return memory;
}

void Worker::give_back_locals() { give_back(&spare_locals, std::exchange(locals_, Block{})); }

// ---- called by generated code

extern "C" {

// Records an error of the kernel's thread `thread` and asks the other threads to stop; the caller goes on.
static void wl_error(Context* context, int32_t code, int32_t where, int64_t thread) {
    record_error(context->record, code, where, thread, nullptr, 0, nullptr);
}

// As wl_error, with a text that outlives the launch and the numbers that belong into it.
static void wl_fail(Context* context, int32_t code, const char* text, int64_t thread, int32_t count,
                    const int64_t* values) {
    record_error(context->record, code, 0, thread, text, count, values);
}

// Stops in the debugger that the process runs under, if it does.
static void wl_breakpoint(Context*) { stop_in_debugger(); }

// As wl_error, but does not return: the rest of the entry's threads are skipped.
[[noreturn]] static void wl_abort(Context* context, int32_t code, int32_t where, int64_t thread) {
    wl_error(context, code, where, thread);
    worker_of(context)->give_up();
}

// Returns with `capacity - top >= nbytes`, or not at all: over the cap the launch ends with RunError::StackLimit.
static void wl_stack_grow(Context* context, int64_t nbytes) {
    if (!worker_of(context)->grow(nbytes)) wl_abort(context, RunError::StackLimit, 0, -1);
}

// Returns memory of `nbytes` bytes that no other thread has until the entry returns; or leaves the entry.
static char* wl_local_memory(Context* context, int64_t nbytes) {
    char* memory = worker_of(context)->local_memory(nbytes);
    if (!memory) wl_abort(context, RunError::LocalMemory, 0, -1);
    return memory;
}

// Returns a vector of `lanes` partial sums for each of `count` floats at `target`, which have `bits` bits; or null.
static char* wl_lane_partials(Context* context, char* target, int64_t count, int32_t bits, int32_t lanes) {
    return worker_of(context)->partials.find({target, count, bits, lanes});
}

// Called by loops now and then: returns, or leaves the entry where the launch is cancelled. What it reads and writes,
// generated code does not.
static void wl_poll(Context* context) {
    if (!worker_of(context)->poll()) worker_of(context)->give_up();
}

}  // extern "C"

// ---- Python

PyObject* RunRecord::explained(PyObject* explain) const {
    const auto number = static_cast<long long>(thread);
    const int32_t what = code.load(std::memory_order_acquire);
    if (!text) return PyObject_CallFunction(explain, "iiL", what, where, number);
    Ref numbers(PyTuple_New(count));
    for (int32_t i = 0; numbers && i < count; ++i) {
        PyObject* x = PyLong_FromLongLong(values[i]);
        if (!x) return nullptr;
        PyTuple_SET_ITEM(numbers.get(), i, x);
    }
    return numbers ? PyObject_CallFunction(explain, "iiLsO", what, where, number, text, numbers.get()) : nullptr;
}

namespace {

PyObject* set_stack_cap(PyObject*, PyObject* arg) {
    const long long bytes = PyLong_AsLongLong(arg);
    if (bytes == -1 && PyErr_Occurred()) return nullptr;
    if (bytes < 0 || bytes > (int64_t{1} << 46)) {
        PyErr_SetString(PyExc_ValueError, "set_stack_cap() needs a size from 0 to 2**46 bytes");
        return nullptr;
    }
    return PyLong_FromLongLong(stack_cap.exchange(bytes));
}

bool put(PyObject* dict, const char* name, Ref value) {
    return value && PyDict_SetItemString(dict, name, value.get()) == 0;
}

template <typename F>
bool put_address(PyObject* dict, const char* name, F* function) {
    return put(dict, name, Ref(PyLong_FromVoidPtr(reinterpret_cast<void*>(function))));
}

PyObject* symbols(PyObject*, PyObject*) {
    Ref dict(PyDict_New());
    if (!dict) return nullptr;
    PyObject* d = dict.get();
    const bool done = put_address(d, "wl_error", wl_error) && put_address(d, "wl_abort", wl_abort) &&
                      put_address(d, "wl_stack_grow", wl_stack_grow) && put_address(d, "wl_poll", wl_poll) &&
                      put_address(d, "wl_local_memory", wl_local_memory) && put_address(d, "wl_is_live", wl_is_live) &&
                      put_address(d, "wl_lane_partials", wl_lane_partials) &&
                      put_address(d, "wl_print_begin", wl_print_begin) && put_address(d, "wl_fail", wl_fail) &&
                      put_address(d, "wl_breakpoint", wl_breakpoint) &&
                      put_address(d, "wl_print_format_i64", wl_print_format_i64) &&
                      put_address(d, "wl_print_format_f64", wl_print_format_f64) &&
                      put_address(d, "wl_print_bool", wl_print_bool) && put_address(d, "wl_print_i64", wl_print_i64) &&
                      put_address(d, "wl_print_u64", wl_print_u64) && put_address(d, "wl_print_f64", wl_print_f64) &&
                      put_address(d, "wl_print_str", wl_print_str) && put_address(d, "wl_print_end", wl_print_end)
#ifdef WL_WIDE_SEARCH
                      && put_address(d, "wl_tree_ray", wl_tree_ray) && put_address(d, "wl_tree_rays", wl_tree_rays) &&
                      put_address(d, "wl_tree_point", wl_tree_point) && put_address(d, "wl_next_in_box", wl_next_in_box)
#endif
        ;
    return done ? dict.release() : nullptr;
}

PyMethodDef functions[] = {
    {"symbols", symbols, METH_NOARGS,
     "symbols($module, /)\n--\n\nReturn the addresses of the functions that generated code calls, by name."},
    {"set_stack_cap", set_stack_cap, METH_O,
     "set_stack_cap($module, nbytes, /)\n--\n\nLimit the adjoint stack of each kernel thread; returns the old limit."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int64_t stack_limit() { return stack_cap.load(std::memory_order_relaxed); }

bool register_context(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
