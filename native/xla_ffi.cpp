#include "xla_ffi.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "thread_pool.h"
#include "watchdog.h"
#include "xla_cuda.h"
#include "xla_ffi_abi.h"
#include "xla_run.h"
#include "xla_site.h"

namespace wl {

namespace {

// Reports what went wrong in a kernel. Only here does a call ask for the GIL, for the words.
xla::Error* report(const xla::CallFrame* frame, const Plan* plan, const RunRecord& record) {
    const int32_t code = record.code.load(std::memory_order_acquire);
    std::string text = "warp_like: error " + std::to_string(code) + " in a kernel's thread " +
                       std::to_string(static_cast<long long>(record.thread));
    if (Py_IsInitialized()) {
        const PyGILState_STATE state = PyGILState_Ensure();
        {
            Ref error(record.explained(plan->explain));
            if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
            text = take_exception();
        }
        PyGILState_Release(state);
    }
    const int kind = code == RunError::StackLimit ? xla::kErrorResourceExhausted
                     : code == RunError::Timeout  ? xla::kErrorDeadlineExceeded
                                                  : xla::kErrorInvalidArgument;
    return fail(frame, kind, text.c_str());
}

class HostMemory final : public XlaMemory {
  public:
    bool clear(void* at, int64_t nbytes) override {
        std::memset(at, 0, static_cast<size_t>(nbytes));
        return true;
    }
    bool copy(void* to, const void* from, int64_t nbytes) override {
        std::memcpy(to, from, static_cast<size_t>(nbytes));
        return true;
    }
};

xla::Error* execute(const xla::CallFrame* frame) {
    Site site;
    Plan* plan = nullptr;
    if (xla::Error* error = open_call(frame, &site, &plan)) return error;
    BatchedCall call;
    call.entry = plan->entry;
    call.lanes = plan->lanes;
    call.rows = plan->rows;
    call.order_dependent = plan->order_dependent;
    call.non_associative = plan->non_associative;
    call.deterministic = plan->deterministic || is_deterministic();
    HostMemory memory;
    if (!describe_call(frame, site, &memory, &call)) return misfit(frame);
    RunRecord record;
    start_clock(&record);
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

// The handler of a platform: what XLA calls, on any of its threads, several at once.
template <xla::Error* (*execute_call)(const xla::CallFrame*)>
xla::Error* handle(xla::CallFrame* frame) {
    for (xla::Extension* e = frame->extension_start; e; e = e->next) {
        if (e->type == xla::kMetadataExtension) {
            answer_metadata(e);
            return nullptr;
        }
    }
    if (frame->stage != xla::kStageExecute) return nullptr;
    try {
        return execute_call(frame);
    } catch (const std::bad_alloc&) {
        return fail(frame, xla::kErrorResourceExhausted, "warp_like: out of memory");
    }
}

// ---- Python

PyObject* add_plan(PyObject*, PyObject* args) {
    long long key;
    unsigned long long address;
    PyObject *keepalive, *explain, *load;
    int lanes = 1, order_dependent = 0, non_associative = 0, deterministic = 0, rows = 1, can_be_apart = 0;
    if (!PyArg_ParseTuple(args, "LKOOO|ipppip:xla_add_plan", &key, &address, &keepalive, &explain, &load, &lanes,
                          &order_dependent, &non_associative, &deterministic, &rows, &can_be_apart)) {
        return nullptr;
    }
    if (!address || !PyCallable_Check(explain) || !PyCallable_Check(load)) {
        PyErr_SetString(PyExc_ValueError, "xla_add_plan() needs an address, and a callable explain and load");
        return nullptr;
    }
    if (find_plan(key)) Py_RETURN_NONE;
    Plan* plan = new (std::nothrow) Plan{key,
                                         nullptr,
                                         reinterpret_cast<Entry>(address),
                                         lanes,
                                         rows,
                                         order_dependent != 0,
                                         non_associative != 0,
                                         deterministic != 0,
                                         keepalive,
                                         explain,
                                         load,
                                         can_be_apart != 0,
                                         {nullptr}};
    if (!plan) return PyErr_NoMemory();
    for (PyObject* kept : {keepalive, explain, load}) Py_INCREF(kept);
    insert_plan(plan);
    Py_RETURN_NONE;
}

PyObject* has_plan(PyObject*, PyObject* arg) {
    const long long key = PyLong_AsLongLong(arg);
    if (key == -1 && PyErr_Occurred()) return nullptr;
    return PyBool_FromLong(find_plan(key) != nullptr);
}

PyObject* handler(PyObject*, PyObject* args) {
    int major, minor, cuda = 0;
    if (!PyArg_ParseTuple(args, "ii|p:xla_handler", &major, &minor, &cuda)) return nullptr;
    if (major != xla::kApiMajor || minor < 1) {
        PyErr_Format(PyExc_ImportError, "XLA's foreign function interface has version %d.%d, 0.1 to 0.%d is needed",
                     major, minor, xla::kApiMinor);
        return nullptr;
    }
    answered_minor.store(minor < xla::kApiMinor ? minor : xla::kApiMinor);
    auto* chosen = cuda ? handle<execute_on_cuda_stream> : handle<execute>;
    return PyCapsule_New(reinterpret_cast<void*>(chosen), nullptr, nullptr);
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
    const bool done = put(d, "XLA_FFI_Extension_Base.type", offsetof(Extension, type)) &&
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
                      put(d, "XLA_FFI_Stream_Get_Args.ctx", offsetof(StreamGetArgs, context)) &&
                      put(d, "XLA_FFI_Stream_Get_Args.stream", offsetof(StreamGetArgs, stream)) &&
                      put(d, "XLA_FFI_Api.XLA_FFI_Stream_Get", offsetof(Api, stream_get)) &&
                      put(d, "XLA_FFI_DeviceMemory_Allocate_Args.ctx", offsetof(AllocateArgs, context)) &&
                      put(d, "XLA_FFI_DeviceMemory_Allocate_Args.size", offsetof(AllocateArgs, size)) &&
                      put(d, "XLA_FFI_DeviceMemory_Allocate_Args.alignment", offsetof(AllocateArgs, alignment)) &&
                      put(d, "XLA_FFI_DeviceMemory_Allocate_Args.data", offsetof(AllocateArgs, data)) &&
                      put(d, "XLA_FFI_Api.XLA_FFI_DeviceMemory_Allocate", offsetof(Api, device_memory_allocate)) &&
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
     "xla_add_plan($module, key, address, keepalive, explain, load, lanes=1, order_dependent=False, "
     "non_associative=False, deterministic=False, rows=1, can_be_apart=False, /)\n--\n\nMake an entry point known to "
     "XLA's calls, for "
     "good. `explain(code, where, thread[, text, values])` gives the exception for a kernel's error; `load(context, "
     "apart)` gives function, usual and most threads of a block, address of the fault record, owner, check, what "
     "bounds the stack, the most threads, threads of a team and places of a thread for CUDA."},
    {"xla_has_plan", has_plan, METH_O, "xla_has_plan($module, key, /)\n--\n\nReturn whether the key is taken."},
    {"xla_handler", handler, METH_VARARGS,
     "xla_handler($module, major, minor, cuda=False, /)\n--\n\nReturn the handler of a platform as a capsule, for a "
     "JAX with this version of XLA's API."},
    {"xla_layout", layout, METH_NOARGS,
     "xla_layout($module, /)\n--\n\nReturn the byte offsets that the handler takes for XLA's, by struct and field."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_xla_ffi(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
