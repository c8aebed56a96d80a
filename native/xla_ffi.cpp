#include "xla_ffi.h"

#include <atomic>
#include <cfenv>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "scalar.h"
#include "xla_ffi_abi.h"
#include "xla_run.h"

namespace wl {

namespace {

// ---- plans: compiled entry points by key

struct Plan {
    int64_t key;
    Plan* next;
    Entry entry;
    int lanes;  // how many threads it runs at once
    bool ordered;  // what it computes depends on the order in which its threads run
    PyObject* keepalive;
    PyObject* explain;
};

// Calls look plans up without a lock: plans are only ever added, by threads that hold the GIL, and stay, since
// XLA does not say when the last executable that refers to one is gone.
constexpr size_t kBuckets = 1024;
std::atomic<Plan*> buckets[kBuckets];

std::atomic<Plan*>& bucket_of(int64_t key) { return buckets[static_cast<uint64_t>(key) % kBuckets]; }

const Plan* find_plan(int64_t key) {
    const Plan* plan = bucket_of(key).load(std::memory_order_acquire);
    while (plan && plan->key != key) plan = plan->next;
    return plan;
}

// ---- what a call site says

// One hole of the argument block. `init` says what a result holds before the kernel runs: an operand's
// contents (its index), zeros or nothing in particular.
enum Kind : int64_t { kPointer = 0, kValue = 1 };
enum Source : int64_t { kOperand = 0, kResult = 1 };
enum Init : int64_t { kUninitialised = -1, kZeroed = -2 };

struct Binding {
    int64_t offset;  // in the block
    int64_t kind;
    int64_t source;
    int64_t index;
    int64_t rank;   // the buffer's dimensions without those of a batch
    int64_t bytes;  // of one element of the batch
    int64_t init;
    int64_t shift;  // bytes from the buffer's start to what a pointer points to
    int64_t sum;    // for an array that the code only adds to, and not atomically: its scalar type, from 1; else 0
};
constexpr size_t kBindWords = sizeof(Binding) / sizeof(int64_t);

struct Site {
    int64_t plan = 0;
    const int64_t* dims = nullptr;
    const uint8_t* block = nullptr;
    size_t block_size = 0;
    const Binding* binds = nullptr;
    size_t bind_count = 0;
};

bool named(const xla::Span* name, const char* text) {
    return name->length == std::strlen(text) && std::memcmp(name->text, text, name->length) == 0;
}

bool read_words(const xla::Attributes& attrs, int64_t i, const int64_t** words, size_t* count) {
    const auto* array = static_cast<const xla::ArrayAttribute*>(attrs.values[i]);
    if (attrs.types[i] != xla::kArrayAttribute || array->dtype != xla::kTypeS64) return false;
    *words = static_cast<const int64_t*>(array->data);
    *count = array->size;
    return true;
}

bool read_site(const xla::Attributes& attrs, Site* site) {
    const int64_t* words = nullptr;
    size_t count = 0;
    int found = 0;
    for (int64_t i = 0; i < attrs.size; ++i) {
        if (named(attrs.names[i], "plan")) {
            const auto* scalar = static_cast<const xla::ScalarAttribute*>(attrs.values[i]);
            if (attrs.types[i] != xla::kScalarAttribute || scalar->dtype != xla::kTypeS64) return false;
            std::memcpy(&site->plan, scalar->value, sizeof site->plan);
        } else if (named(attrs.names[i], "dims")) {
            if (!read_words(attrs, i, &site->dims, &count) || count != kMaxDims) return false;
        } else if (named(attrs.names[i], "block")) {
            if (!read_words(attrs, i, &words, &count)) return false;
            site->block = reinterpret_cast<const uint8_t*>(words);
            site->block_size = count * sizeof(int64_t);
        } else if (named(attrs.names[i], "binds")) {
            if (!read_words(attrs, i, &words, &count) || count % kBindWords) return false;
            site->binds = reinterpret_cast<const Binding*>(words);
            site->bind_count = count / kBindWords;
        } else {
            continue;
        }
        ++found;
    }
    return found == 4;
}

// ---- errors

xla::Error* fail(const xla::CallFrame* frame, int code, const char* message) {
    xla::ErrorCreateArgs args{sizeof args, nullptr, message, code};
    return frame->api->error_create(&args);
}

xla::Error* misfit(const xla::CallFrame* frame) {
    return fail(frame, xla::kErrorInternal,
                "warp_like: the buffers of a kernel's call are not those it was traced with");
}

// Reports what went wrong in a kernel. Only here does a call ask for the GIL, for the words.
xla::Error* report(const xla::CallFrame* frame, const Plan* plan, const RunRecord& record) {
    const int32_t code = record.code.load(std::memory_order_acquire);
    std::string text = "warp_like: error " + std::to_string(code) + " in a kernel's thread " +
                       std::to_string(static_cast<long long>(record.thread));
    if (Py_IsInitialized()) {
        const PyGILState_STATE state = PyGILState_Ensure();
        {
            Ref error(record.explained(plan->explain));
            Ref words(error ? PyObject_Str(error.get()) : nullptr);
            const char* utf8 = words ? PyUnicode_AsUTF8(words.get()) : nullptr;
            if (utf8) text = std::string(Py_TYPE(error.get())->tp_name) + ": " + utf8;
            PyErr_Clear();
        }
        PyGILState_Release(state);
    }
    return fail(frame, code == kErrorStackLimit ? xla::kErrorResourceExhausted : xla::kErrorInvalidArgument,
                text.c_str());
}

// ---- the call

const xla::Buffer* buffer_of(const xla::Values& values, int64_t index) {
    if (index < 0 || index >= values.size || values.types[index] != xla::kBufferArgument) return nullptr;
    return static_cast<const xla::Buffer*>(values.values[index]);
}

// How far `buffer` moves with each dimension of the batch; false when it does not fit the batch. Operands
// without some of the batch's dimensions stay where they are along them.
bool batch_steps(const xla::Buffer* buffer, int64_t rank, int64_t bytes, const std::vector<int64_t>& batch,
                 int64_t* steps) {
    const auto n = static_cast<int64_t>(batch.size());
    if (buffer->rank != rank + n) return false;
    int64_t step = bytes;
    for (int64_t d = n - 1; d >= 0; --d) {
        const int64_t extent = buffer->dims[d];
        if (extent != 1 && extent != batch[static_cast<size_t>(d)]) return false;
        steps[d] = extent == 1 ? 0 : step;
        step *= extent;
    }
    return true;
}

int64_t offset_of(int64_t item, const std::vector<int64_t>& batch, const int64_t* steps) {
    int64_t offset = 0;
    for (size_t d = batch.size(); d-- > 0; item /= batch[d]) offset += item % batch[d] * steps[d];
    return offset;
}

// Gives a result the contents of an operand, which XLA has let it share memory with where it could.
bool copy_operand(const xla::CallFrame* frame, const Binding& bind, const xla::Buffer* result, int64_t items,
                  const std::vector<int64_t>& batch) {
    const xla::Buffer* operand = buffer_of(frame->args, bind.init);
    std::vector<int64_t> steps(batch.size());
    if (!operand || !batch_steps(operand, bind.rank, bind.bytes, batch, steps.data())) return false;
    if (operand->data == result->data) return true;
    for (int64_t item = 0; item < items; ++item) {
        std::memcpy(static_cast<char*>(result->data) + item * bind.bytes,
                    static_cast<const char*>(operand->data) + offset_of(item, batch, steps.data()),
                    static_cast<size_t>(bind.bytes));
    }
    return true;
}

// Reads the batch's extents off the first result that is bound.
bool read_batch(const xla::CallFrame* frame, const Site& site, std::vector<int64_t>* batch, int64_t* items) {
    *items = 1;
    for (size_t i = 0; i < site.bind_count; ++i) {
        const Binding& bind = site.binds[i];
        if (bind.source != kResult) continue;
        const xla::Buffer* buffer = buffer_of(frame->rets, bind.index);
        if (!buffer || buffer->rank < bind.rank) return false;
        batch->assign(buffer->dims, buffer->dims + (buffer->rank - bind.rank));
        for (const int64_t extent : *batch) {
            if (__builtin_mul_overflow(*items, extent, items)) return false;
        }
        return true;
    }
    return false;
}

// Fills the holes for one call: initialises results, and notes where each buffer starts and how it moves.
bool bind_buffers(const xla::CallFrame* frame, const Site& site, BatchedCall* call) {
    call->holes.resize(site.bind_count);
    call->steps.resize(site.bind_count * call->batch.size());
    for (size_t i = 0; i < site.bind_count; ++i) {
        const Binding& bind = site.binds[i];
        const xla::Buffer* buffer = buffer_of(bind.source == kResult ? frame->rets : frame->args, bind.index);
        const int64_t needed = bind.kind == kValue ? bind.bytes : int64_t{sizeof(void*)};
        if (!buffer || bind.bytes < 0 || bind.offset < 0 || bind.shift < 0 || bind.shift > bind.bytes ||
            static_cast<size_t>(bind.offset + needed) > site.block_size || bind.sum < 0 || bind.sum > kScalarCount) {
            return false;
        }
        int64_t* steps = call->steps.data() + i * call->batch.size();
        if (!batch_steps(buffer, bind.rank, bind.bytes, call->batch, steps)) return false;
        const Scalar scalar = bind.sum ? static_cast<Scalar>(bind.sum - 1) : Scalar::Bool;
        char* data = static_cast<char*>(buffer->data) + bind.shift;
        call->holes[i] = {bind.offset, bind.kind == kValue ? bind.bytes : 0, data, bind.sum ? bind.bytes : 0, scalar};
        if (bind.source != kResult) continue;
        if (bind.init == kZeroed) {
            std::memset(buffer->data, 0, static_cast<size_t>(bind.bytes * call->items));
        } else if (bind.init >= 0 && !copy_operand(frame, bind, buffer, call->items, call->batch)) {
            return false;
        }
    }
    return true;
}

xla::Error* execute(const xla::CallFrame* frame) {
    Site site;
    if (!read_site(frame->attrs, &site)) {
        return fail(frame, xla::kErrorInvalidArgument, "warp_like: the attributes of a kernel's call are damaged");
    }
    const Plan* plan = find_plan(site.plan);
    if (!plan) {
        return fail(frame, xla::kErrorInvalidArgument,
                    "warp_like: this program calls a kernel that this process has not compiled; trace the "
                    "function once in this process, so that its kernels are known, before running an exported one");
    }
    BatchedCall call;
    if (!read_batch(frame, site, &call.batch, &call.items)) return misfit(frame);
    call.entry = plan->entry;
    call.lanes = plan->lanes;
    call.ordered = plan->ordered;
    call.dims = site.dims;
    call.count = 1;
    for (int i = 0; i < kMaxDims; ++i) call.count *= site.dims[i];
    call.block = site.block;
    call.block_size = site.block_size;
    if (!bind_buffers(frame, site, &call)) return misfit(frame);
    RunRecord record;
    run_batched(call, frame->api, frame->context, &record);
    if (record.printed.load(std::memory_order_relaxed)) std::fflush(stdout);
    return record.claimed.load() ? report(frame, plan, record) : nullptr;
}

// Older XLA takes only handlers of its own minor version; what is used here has not changed since 0.1.
std::atomic<int> answered_minor{xla::kApiMinor};

void answer_metadata(xla::Extension* extension) {
    xla::Metadata* metadata = reinterpret_cast<xla::MetadataExtension*>(extension)->metadata;
    metadata->api_version.major_version = xla::kApiMajor;
    metadata->api_version.minor_version = answered_minor.load(std::memory_order_relaxed);
}

// The handler: what XLA calls, on any of its threads, several at once.
xla::Error* handle(xla::CallFrame* frame) {
    for (xla::Extension* e = frame->extension_start; e; e = e->next) {
        if (e->type == xla::kMetadataExtension) {
            answer_metadata(e);
            return nullptr;
        }
    }
    if (frame->stage != xla::kStageExecute) return nullptr;
    try {
        return execute(frame);
    } catch (const std::bad_alloc&) {
        return fail(frame, xla::kErrorResourceExhausted, "warp_like: out of memory");
    }
}

// ---- Python

PyObject* add_plan(PyObject*, PyObject* args) {
    long long key;
    unsigned long long address;
    PyObject *keepalive, *explain;
    int lanes = 1, ordered = 0;
    if (!PyArg_ParseTuple(args, "LKOO|ip:xla_add_plan", &key, &address, &keepalive, &explain, &lanes, &ordered)) return nullptr;
    if (!address || !PyCallable_Check(explain)) {
        PyErr_SetString(PyExc_ValueError, "xla_add_plan() needs an address and a callable explain");
        return nullptr;
    }
    if (find_plan(key)) Py_RETURN_NONE;
    Plan* plan = new (std::nothrow) Plan{key, nullptr, reinterpret_cast<Entry>(address), lanes, ordered != 0, keepalive, explain};
    if (!plan) return PyErr_NoMemory();
    Py_INCREF(keepalive);
    Py_INCREF(explain);
    std::atomic<Plan*>& head = bucket_of(key);
    plan->next = head.load(std::memory_order_relaxed);
    head.store(plan, std::memory_order_release);
    Py_RETURN_NONE;
}

PyObject* has_plan(PyObject*, PyObject* arg) {
    const long long key = PyLong_AsLongLong(arg);
    if (key == -1 && PyErr_Occurred()) return nullptr;
    return PyBool_FromLong(find_plan(key) != nullptr);
}

PyObject* handler(PyObject*, PyObject* args) {
    int major, minor;
    if (!PyArg_ParseTuple(args, "ii:xla_handler", &major, &minor)) return nullptr;
    if (major != xla::kApiMajor || minor < 1) {
        PyErr_Format(PyExc_ImportError, "XLA's foreign function interface has version %d.%d, 0.1 to 0.%d is needed",
                     major, minor, xla::kApiMinor);
        return nullptr;
    }
    answered_minor.store(minor < xla::kApiMinor ? minor : xla::kApiMinor);
    return PyCapsule_New(reinterpret_cast<void*>(handle), nullptr, nullptr);
}

bool put(PyObject* dict, const char* name, size_t offset) {
    Ref value(PyLong_FromSize_t(offset));
    return value && PyDict_SetItemString(dict, name, value.get()) == 0;
}

PyObject* layout(PyObject*, PyObject*) {
    using namespace xla;
    Ref dict(PyDict_New());
    if (!dict) return nullptr;
    PyObject* d = dict.get();
    const bool done =
        put(d, "XLA_FFI_Extension_Base.type", offsetof(Extension, type)) &&
        put(d, "XLA_FFI_Extension_Base.next", offsetof(Extension, next)) &&
        put(d, "XLA_FFI_Metadata_Extension.metadata", offsetof(MetadataExtension, metadata)) &&
        put(d, "XLA_FFI_Metadata.api_version", offsetof(Metadata, api_version)) &&
        put(d, "XLA_FFI_Api_Version.major_version", offsetof(ApiVersion, major_version)) &&
        put(d, "XLA_FFI_Api_Version.minor_version", offsetof(ApiVersion, minor_version)) &&
        put(d, "XLA_FFI_Error_Create_Args.message", offsetof(ErrorCreateArgs, message)) &&
        put(d, "XLA_FFI_Error_Create_Args.errc", offsetof(ErrorCreateArgs, code)) &&
        put(d, "XLA_FFI_Error_Destroy_Args.error", offsetof(ErrorDestroyArgs, error)) &&
        put(d, "XLA_FFI_ThreadPool_Schedule_Args.ctx", offsetof(ScheduleArgs, context)) &&
        put(d, "XLA_FFI_ThreadPool_Schedule_Args.task", offsetof(ScheduleArgs, task)) &&
        put(d, "XLA_FFI_ThreadPool_Schedule_Args.data", offsetof(ScheduleArgs, data)) &&
        put(d, "XLA_FFI_ThreadPool_NumThreads_Args.num_threads", offsetof(NumThreadsArgs, num_threads)) &&
        put(d, "XLA_FFI_Api.XLA_FFI_Error_Create", offsetof(Api, error_create)) &&
        put(d, "XLA_FFI_Api.XLA_FFI_Error_Destroy", offsetof(Api, error_destroy)) &&
        put(d, "XLA_FFI_Api.XLA_FFI_ThreadPool_Schedule", offsetof(Api, schedule)) &&
        put(d, "XLA_FFI_Api.XLA_FFI_ThreadPool_NumThreads", offsetof(Api, num_threads)) &&
        put(d, "XLA_FFI_Buffer.dtype", offsetof(Buffer, dtype)) &&
        put(d, "XLA_FFI_Buffer.data", offsetof(Buffer, data)) &&
        put(d, "XLA_FFI_Buffer.rank", offsetof(Buffer, rank)) &&
        put(d, "XLA_FFI_Buffer.dims", offsetof(Buffer, dims)) &&
        put(d, "XLA_FFI_ByteSpan.ptr", offsetof(Span, text)) &&
        put(d, "XLA_FFI_ByteSpan.len", offsetof(Span, length)) &&
        put(d, "XLA_FFI_Scalar.value", offsetof(ScalarAttribute, value)) &&
        put(d, "XLA_FFI_Array.size", offsetof(ArrayAttribute, size)) &&
        put(d, "XLA_FFI_Array.data", offsetof(ArrayAttribute, data)) &&
        put(d, "XLA_FFI_Args.types", offsetof(Values, types)) &&
        put(d, "XLA_FFI_Args.args", offsetof(Values, values)) &&
        put(d, "XLA_FFI_Rets.types", offsetof(Values, types)) &&
        put(d, "XLA_FFI_Rets.rets", offsetof(Values, values)) &&
        put(d, "XLA_FFI_Attrs.types", offsetof(Attributes, types)) &&
        put(d, "XLA_FFI_Attrs.names", offsetof(Attributes, names)) &&
        put(d, "XLA_FFI_Attrs.attrs", offsetof(Attributes, values)) &&
        put(d, "XLA_FFI_CallFrame.api", offsetof(CallFrame, api)) &&
        put(d, "XLA_FFI_CallFrame.ctx", offsetof(CallFrame, context)) &&
        put(d, "XLA_FFI_CallFrame.stage", offsetof(CallFrame, stage)) &&
        put(d, "XLA_FFI_CallFrame.args", offsetof(CallFrame, args)) &&
        put(d, "XLA_FFI_CallFrame.rets", offsetof(CallFrame, rets)) &&
        put(d, "XLA_FFI_CallFrame.attrs", offsetof(CallFrame, attrs));
    return done ? dict.release() : nullptr;
}

PyMethodDef functions[] = {
    {"xla_add_plan", add_plan, METH_VARARGS,
     "xla_add_plan(key, address, keepalive, explain, lanes=1, ordered=False)\n--\n\nMake an entry point known to XLA's calls, for good. "
     "`explain(code, where, thread[, text, values])` gives the exception for a kernel's error."},
    {"xla_has_plan", has_plan, METH_O, "xla_has_plan(key)\n--\n\nReturn whether the key is taken."},
    {"xla_handler", handler, METH_VARARGS,
     "xla_handler(major, minor)\n--\n\nReturn the handler as a capsule for a JAX with this version of XLA's API."},
    {"xla_layout", layout, METH_NOARGS,
     "xla_layout()\n--\n\nReturn the byte offsets that the handler takes for XLA's, by struct and field."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_xla_ffi(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
