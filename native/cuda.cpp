#include "cuda.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <vector>

#include "alloc.h"
#include "array.h"
#include "contract.h"
#include "dlpack.h"
#include "structmember.h"
#include "tensor_memory.h"

namespace wl {

CudaApi cuda_api = {};

namespace {

constexpr unsigned kEventDisableTiming = 2;

PyObject* on_error = nullptr;  // on_error(call, code) makes the exception

DriverContext* as_context(PyObject* object) { return reinterpret_cast<DriverContext*>(object); }

}  // namespace

bool raise_cuda_error(const char* call, CudaCode code) {
    Ref error(on_error ? PyObject_CallFunction(on_error, "si", call, code) : nullptr);
    if (error) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_RuntimeError, "%s: CUDA error %d", call, code);
    }
    return false;
}

CudaGuard::CudaGuard(const DriverContext* context) {
    void* current = nullptr;
    code_ = cuda_api.ctx_get_current(&current);
    if (code_ || current == context->handle) return;
    code_ = cuda_api.ctx_push(context->handle);
    pushed_ = code_ == 0;
}

CudaGuard::~CudaGuard() {
    if (!pushed_) return;
    PyObject *type, *value, *traceback;  // a driver that is written in Python, for tests, would clear an exception
    PyErr_Fetch(&type, &value, &traceback);
    void* popped = nullptr;
    cuda_api.ctx_pop(&popped);
    PyErr_Restore(type, value, traceback);
}

namespace {

PyObject* stream_hooks = nullptr;  // by class, what gives the handle of a device's current stream; null: none are known

// What a library says that has no C interface for it.
bool hooked_stream(PyTypeObject* type, int32_t ordinal, void** stream) {
    PyObject* hook = stream_hooks ? PyDict_GetItem(stream_hooks, reinterpret_cast<PyObject*>(type)) : nullptr;
    if (!hook) return false;
    const Ref number(PyObject_CallFunction(hook, "i", static_cast<int>(ordinal)));
    *stream = number ? PyLong_AsVoidPtr(number.get()) : nullptr;
    if (!PyErr_Occurred()) return true;
    PyErr_WriteUnraisable(hook);
    return false;
}

PyObject* set_stream_hook(PyObject*, PyObject* args) {
    PyObject *cls, *hook;
    if (!PyArg_ParseTuple(args, "O!O:set_stream_hook", &PyType_Type, &cls, &hook)) return nullptr;
    if (!stream_hooks && !(stream_hooks = PyDict_New())) return nullptr;
    if (PyDict_SetItem(stream_hooks, cls, hook) < 0) return nullptr;
    Py_RETURN_NONE;
}

}  // namespace

bool framework_stream(PyTypeObject* type, int32_t ordinal, void** stream) {
    const TensorType* found = find_tensor_type(type);
    if (!found || !found->api->current_work_stream) return hooked_stream(type, ordinal, stream);
    if (found->api->current_work_stream(kDLCUDA, ordinal, stream) == 0) return true;
    forget_error();  // a build of the framework without CUDA
    return false;
}

// ---- memory

namespace {

struct CudaMemory {
    DriverContext* context;  // a reference
    uint64_t ptr;
    MemoryOwner kind;
    CudaUse last;                 // its holder is a reference, as those of the following are
    std::vector<CudaUse> others;  // earlier uses on other streams, for which the last one has not waited
    CudaMemory* next = nullptr;   // of those that wait for the end of a capture
};

// The context whose stream a use is on; another library's is taken for one of `otherwise`.
DriverContext* context_of(const CudaUse& use, DriverContext* otherwise) {
    return use.holder ? as_context(reinterpret_cast<CudaStream*>(use.holder)->context) : otherwise;
}

// Lets `after`, a stream of `later`, wait for all that `before`, one of `earlier`, holds now; the driver's code, and
// its function in `call`.
CudaCode wait_across(DriverContext* earlier, void* before, DriverContext* later, void* after, const char** call) {
    {
        const CudaGuard guard(earlier);
        *call = "cuCtxPushCurrent";
        CudaCode code = guard.code();
        if (code == 0 && !earlier->event) {
            *call = "cuEventCreate";
            code = cuda_api.event_create(&earlier->event, kEventDisableTiming);
        }
        if (code == 0) {
            *call = "cuEventRecord";
            code = cuda_api.event_record(earlier->event, before);
        }
        if (code) return code;
    }
    const CudaGuard guard(later);
    *call = "cuCtxPushCurrent";
    if (guard.code()) return guard.code();
    *call = "cuStreamWaitEvent";
    return cuda_api.stream_wait_event(after, earlier->event, 0);
}

void forget_others(CudaMemory* memory) {
    for (const CudaUse& other : memory->others) Py_XDECREF(other.holder);
    memory->others.clear();
}

// Whether an error says that all memory of the context is gone: the driver has shut down, the context was destroyed, or
// a kernel has failed, which somebody was told already (`GONE` in runtime/cuda/errors.py).
bool is_gone(CudaCode code) {
    constexpr CudaCode kGone[] = {4, 201, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719};
    return std::find(std::begin(kGone), std::end(kGone), code) != std::end(kGone);
}

void give_back(CudaMemory* memory) {
    DriverContext* home = memory->context;
    const CudaGuard guard(home);
    CudaCode code = guard.code();
    const char* call = "cuCtxPushCurrent";
    void* stream = memory->last.stream;
    if (context_of(memory->last, home) != home) {  // it goes back on a stream of its own device
        memory->others.push_back(memory->last);
        Py_XINCREF(memory->last.holder);
        stream = reinterpret_cast<CudaStream*>(home->stream)->handle;
    }
    for (const CudaUse& other : memory->others) {  // whoever gets the memory next must not meet these
        if (code == 0) code = wait_across(context_of(other, home), other.stream, home, stream, &call);
    }
    if (code == 0) {
        switch (memory->kind) {
            case MemoryOwner::Pool:
                call = "cuMemFreeAsync";
                code = cuda_api.mem_free_async(memory->ptr, stream);
                break;
            case MemoryOwner::Plain:
                call = "cuMemFree";
                code = cuda_api.mem_free(memory->ptr);
                break;
            case MemoryOwner::Pinned:  // a copy may still read it
                call = "cuMemFreeHost";
                code = cuda_api.stream_synchronize(stream);
                if (code == 0) code = cuda_api.mem_free_host(reinterpret_cast<void*>(memory->ptr));
                break;
            case MemoryOwner::Other:
                break;
        }
    }
    if (code == 0 || is_gone(code)) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    raise_cuda_error(call, code);
    PyErr_WriteUnraisable(nullptr);
    PyErr_Restore(type, value, traceback);
}

void finish(CudaMemory* memory) {
    if (memory->ptr) give_back(memory);
    forget_others(memory);
    Py_XDECREF(memory->last.holder);
    Py_DECREF(reinterpret_cast<PyObject*>(memory->context));
    delete memory;
}

void release_memory(void* held) {
    auto* memory = static_cast<CudaMemory*>(held);
    DriverContext* context = memory->context;
    if (!context->captured) return finish(memory);
    // Freeing would become a part of the graph, or break the capture.
    memory->next = static_cast<CudaMemory*>(context->released);
    context->released = memory;
}

CudaMemory* memory_of(PyObject* owner) { return static_cast<CudaMemory*>(reinterpret_cast<Buffer*>(owner)->context); }

PyObject* cuda_memory(PyObject*, PyObject* args) {
    PyObject *context, *stream, *owner = Py_None;
    unsigned long long ptr;
    Py_ssize_t nbytes;
    int kind;
    if (!PyArg_ParseTuple(args, "O!KniO!|O:cuda_memory", &DriverContextType, &context, &ptr, &nbytes, &kind,
                          &CudaStreamType, &stream, &owner)) {
        return nullptr;
    }
    if (kind < 0 || kind > static_cast<int>(MemoryOwner::Other)) {
        PyErr_Format(PyExc_ValueError, "cuda_memory(): there is no kind %d", kind);
        return nullptr;
    }
    auto* memory = new (std::nothrow) CudaMemory{as_context(context),
                                                 ptr,
                                                 static_cast<MemoryOwner>(kind),
                                                 CudaUse::of(reinterpret_cast<CudaStream*>(stream)),
                                                 {}};
    if (!memory) return PyErr_NoMemory();
    PyObject* made = make_buffer(reinterpret_cast<void*>(ptr), nbytes, release_memory, memory);
    if (!made) {
        delete memory;
        return nullptr;
    }
    Py_INCREF(context);
    Py_INCREF(stream);
    if (owner != Py_None) {
        Py_INCREF(owner);
        reinterpret_cast<Buffer*>(made)->owner = owner;
    }
    if (ptr) note_allocation(made);
    return made;
}

// Whether the driver itself orders work on the two streams: one is the legacy default stream, and the other waits for
// it.
bool ordered_by_driver(const CudaUse& a, const CudaUse& b) {
    const bool legacy = reinterpret_cast<uintptr_t>(a.stream) <= 1 || reinterpret_cast<uintptr_t>(b.stream) <= 1;
    return legacy && a.blocking && b.blocking;
}

}  // namespace

bool is_cuda_memory(PyObject* owner) {
    return owner && Py_TYPE(owner) == &BufferType && reinterpret_cast<Buffer*>(owner)->release == release_memory;
}

bool keep_for_capture(const DriverContext* context, PyObject* object) {
    if (!context->captured || !object) return true;
    const Ref keeper = is_array(object) ? Ref::borrow(object) : tensor_keeper(object);
    return keeper && PyList_Append(context->captured, keeper.get()) == 0;
}

namespace {

// The same where the memory's last uses are concerned. A capture can't depend on work outside of it: that is waited for
// here and now. The capture of a branch does not even depend on the one around it, whose graph orders the two.
CudaCode wait_for_last(DriverContext* context, const CudaUse& last, const CudaUse& use, const char** call) {
    void *before = last.stream, *stream = use.stream;
    if (context->captured) {
        int inside = 0, captured = 0;
        *call = "cuStreamIsCapturing";
        CudaCode code = cuda_api.stream_is_capturing(stream, &inside);
        if (code == 0) code = cuda_api.stream_is_capturing(before, &captured);
        if (code) return code;
        *call = "cuStreamSynchronize";
        if (inside && !captured) return cuda_api.stream_synchronize(before);
        if (inside && use.holder && reinterpret_cast<CudaStream*>(use.holder)->branch) return 0;
    }
    return wait_across(context_of(last, context), before, context_of(use, context), stream, call);
}

}  // namespace

bool use_cuda_memory(DriverContext* context, PyObject* owner, const CudaUse& use) {
    CudaMemory* memory = memory_of(owner);
    CudaUse& last = memory->last;
    if (last.stream == use.stream && last.holder == use.holder) return true;
    std::vector<CudaUse>& others = memory->others;
    if (last.stream != use.stream) {
        others.push_back(last);
        Py_XINCREF(last.holder);
    }
    for (size_t i = others.size(); i-- > 0;) {
        const CudaUse other = others[i];
        const bool ordered = other.stream == use.stream || ordered_by_driver(other, use);
        const char* call = nullptr;
        if (!ordered) {
            if (!other.foreign && !use.foreign) continue;  // the user orders these
            const CudaCode code = wait_for_last(context, other, use, &call);
            if (code) return raise_cuda_error(call, code);
        }
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        Py_XDECREF(other.holder);
    }
    PyObject* old = last.holder;
    Py_XINCREF(use.holder);
    last = use;
    Py_XDECREF(old);
    return true;
}

bool is_peer_memory(const DriverContext* context, PyObject* owner) {
    return is_cuda_memory(owner) && memory_of(owner)->context != context;
}

bool wait_for_peer_memory(DriverContext* context, PyObject* owner, const CudaUse& use) {
    CudaMemory* memory = memory_of(owner);
    const char* call = "cuStreamSynchronize";
    CudaCode code;
    if (context->captured) {
        const CudaGuard guard(memory->context);
        code = guard.code() ? guard.code() : cuda_api.stream_synchronize(memory->last.stream);
    } else {
        code = wait_across(memory->context, memory->last.stream, context, use.stream, &call);
    }
    return code == 0 || raise_cuda_error(call, code);
}

bool wait_for_use_of_peer(DriverContext* context, PyObject* owner, const CudaUse& use) {
    if (context->captured) return true;
    CudaMemory* memory = memory_of(owner);
    const char* call = nullptr;
    const CudaCode code = wait_across(context, use.stream, memory->context, memory->last.stream, &call);
    return code == 0 || raise_cuda_error(call, code);
}

namespace {

PyObject* use_memory(PyObject*, PyObject* args) {
    PyObject *context, *owner, *stream;
    if (!PyArg_ParseTuple(args, "O!OO!:use_memory", &DriverContextType, &context, &owner, &CudaStreamType, &stream)) {
        return nullptr;
    }
    const CudaUse use = CudaUse::of(reinterpret_cast<CudaStream*>(stream));
    if (!keep_for_capture(as_context(context), owner)) return nullptr;
    if (is_cuda_memory(owner) && !use_cuda_memory(as_context(context), owner, use)) return nullptr;
    Py_RETURN_NONE;
}

PyObject* launch_graph(PyObject*, PyObject* args) {
    PyObject *context, *used, *stream;
    unsigned long long graph;
    if (!PyArg_ParseTuple(args, "O!KO!O!:launch_graph", &DriverContextType, &context, &graph, &PyTuple_Type, &used,
                          &CudaStreamType, &stream)) {
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(used); ++i) {
        PyObject* one = PyTuple_GET_ITEM(used, i);
        if (is_array(one) && !require_memory(reinterpret_cast<Array*>(one))) return nullptr;
    }
    const CudaUse use = CudaUse::of(reinterpret_cast<CudaStream*>(stream));
    const CudaGuard guard(as_context(context));
    if (guard.code() && !raise_cuda_error("cuCtxPushCurrent", guard.code())) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(used); ++i) {
        PyObject* owner = PyTuple_GET_ITEM(used, i);
        if (is_cuda_memory(owner) && !use_cuda_memory(as_context(context), owner, use)) return nullptr;
    }
    const CudaCode code = cuda_api.graph_launch(reinterpret_cast<void*>(graph), use.stream);
    if (code && !raise_cuda_error("cuGraphLaunch", code)) return nullptr;
    Py_RETURN_NONE;
}

PyObject* is_pinned(PyObject*, PyObject* owner) {
    return PyBool_FromLong(is_cuda_memory(owner) && memory_of(owner)->kind == MemoryOwner::Pinned);
}

PyObject* clear_memory(PyObject*, PyObject* owner) {
    if (!is_cuda_memory(owner) || memory_of(owner)->kind != MemoryOwner::Pinned) {
        PyErr_SetString(PyExc_TypeError, "clear_memory() needs a Buffer of page-locked memory");
        return nullptr;
    }
    const Buffer* buffer = reinterpret_cast<Buffer*>(owner);
    std::memset(buffer->ptr, 0, static_cast<size_t>(buffer->nbytes));
    Py_RETURN_NONE;
}

PyObject* work_stream(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "work_stream(owner, ordinal)");
        return nullptr;
    }
    const long ordinal = PyLong_AsLong(args[1]);
    if (ordinal == -1 && PyErr_Occurred()) return nullptr;
    void* stream = nullptr;
    if (!framework_stream(Py_TYPE(args[0]), static_cast<int32_t>(ordinal), &stream)) Py_RETURN_NONE;
    return PyLong_FromVoidPtr(stream);
}

PyObject* last_stream(PyObject*, PyObject* owner) {
    if (!is_cuda_memory(owner)) Py_RETURN_NONE;
    return PyLong_FromVoidPtr(memory_of(owner)->last.stream);
}

// ---- the driver's functions

struct Entry {
    const char* name;
    void** slot;
};

PyObject* set_cuda(PyObject*, PyObject* args) {
    PyObject *addresses, *callable;
    if (!PyArg_ParseTuple(args, "O!O:set_cuda", &PyDict_Type, &addresses, &callable)) return nullptr;
    CudaApi api{};
    const auto slot = [](auto* function) { return reinterpret_cast<void**>(function); };
    const Entry entries[] = {
        {"cuCtxGetCurrent", slot(&api.ctx_get_current)},
        {"cuCtxPushCurrent", slot(&api.ctx_push)},
        {"cuCtxPopCurrent", slot(&api.ctx_pop)},
        {"cuLaunchKernel", slot(&api.launch_kernel)},
        {"cuMemFreeAsync", slot(&api.mem_free_async)},
        {"cuMemFree", slot(&api.mem_free)},
        {"cuMemFreeHost", slot(&api.mem_free_host)},
        {"cuStreamSynchronize", slot(&api.stream_synchronize)},
        {"cuEventCreate", slot(&api.event_create)},
        {"cuEventRecord", slot(&api.event_record)},
        {"cuStreamWaitEvent", slot(&api.stream_wait_event)},
        {"cuStreamGetCtx", slot(&api.stream_get_ctx)},
        {"cuMemsetD8Async", slot(&api.memset_d8)},
        {"cuMemcpyDtoDAsync", slot(&api.copy_on_device)},
        {"cuMemcpyDtoHAsync", slot(&api.copy_to_host)},
        {"cuStreamIsCapturing", slot(&api.stream_is_capturing)},
        {"cuGraphLaunch", slot(&api.graph_launch)},
    };
    for (const Entry& entry : entries) {
        PyObject* address = PyDict_GetItemString(addresses, entry.name);
        void* found = address ? PyLong_AsVoidPtr(address) : nullptr;
        if (!found) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_KeyError, "set_cuda(): no address of %s", entry.name);
            return nullptr;
        }
        *entry.slot = found;
    }
    cuda_api = api;
    Py_INCREF(callable);
    Py_XSETREF(on_error, callable);
    Py_RETURN_NONE;
}

// ---- the types

PyObject* context_new(PyTypeObject* type, PyObject* args, PyObject*) {
    unsigned long long handle;
    int ordinal;
    if (!PyArg_ParseTuple(args, "Ki:DriverContext", &handle, &ordinal)) return nullptr;
    PyObject* object = type->tp_alloc(type, 0);
    if (object) {
        as_context(object)->handle = reinterpret_cast<void*>(handle);
        as_context(object)->ordinal = ordinal;
    }
    return object;
}

int context_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(as_context(object)->stream);
    Py_VISIT(as_context(object)->captured);
    return 0;
}

int context_clear(PyObject* object) {
    Py_CLEAR(as_context(object)->stream);
    Py_CLEAR(as_context(object)->captured);
    return 0;
}

void context_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    context_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyObject* get_stream(PyObject* object, void*) {
    PyObject* stream = as_context(object)->stream;
    return Ref::borrow(stream ? stream : Py_None).release();
}

int set_stream(PyObject* object, PyObject* stream, void*) {
    if (!stream || !PyObject_TypeCheck(stream, &CudaStreamType)) {
        PyErr_SetString(PyExc_TypeError, "a context's stream is a CudaStream");
        return -1;
    }
    Py_INCREF(stream);
    Py_XSETREF(as_context(object)->stream, stream);
    return 0;
}

PyObject* get_captured(PyObject* object, void*) {
    PyObject* captured = as_context(object)->captured;
    return Ref::borrow(captured ? captured : Py_None).release();
}

int set_captured(PyObject* object, PyObject* value, void*) {
    DriverContext* context = as_context(object);
    if (!value || (value != Py_None && !PyList_Check(value))) {
        PyErr_SetString(PyExc_TypeError, "what a capture uses is noted in a list, or None");
        return -1;
    }
    PyObject* old = context->captured;
    context->captured = value == Py_None ? nullptr : Ref::borrow(value).release();
    Py_XDECREF(old);
    while (!context->captured && context->released) {
        auto* memory = static_cast<CudaMemory*>(context->released);
        context->released = memory->next;
        finish(memory);
    }
    return 0;
}

PyObject* get_handle(PyObject* object, void*) { return PyLong_FromVoidPtr(as_context(object)->handle); }

PyGetSetDef context_getset[] = {
    {"stream", get_stream, set_stream, "The current stream, or None.", nullptr},
    {"captured", get_captured, set_captured,
     "While a capture runs, the list of what its launches use; None ends that, and gives back what waited for it.",
     nullptr},
    {"handle", get_handle, nullptr, "The driver's handle.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef context_members[] = {
    {"ordinal", T_INT, offsetof(DriverContext, ordinal), READONLY, "The device's number."},
    {"stream_chosen", T_BOOL, offsetof(DriverContext, stream_chosen), 0,
     "Whether the user chose the current stream, so that it goes before those of other libraries."},
    {"only", T_BOOL, offsetof(DriverContext, only), 0, "Whether there is no other CUDA device."},
    {nullptr, 0, 0, 0, nullptr},
};

PyObject* stream_handle(PyObject* object, void*) {
    return PyLong_FromVoidPtr(reinterpret_cast<CudaStream*>(object)->handle);
}

int set_stream_handle(PyObject* object, PyObject* value, void*) {
    void* handle = value ? PyLong_AsVoidPtr(value) : nullptr;
    if (PyErr_Occurred()) return -1;
    reinterpret_cast<CudaStream*>(object)->handle = handle;
    return 0;
}

PyGetSetDef stream_getset[] = {
    {"cuda_stream", stream_handle, set_stream_handle, "The driver's handle.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

int stream_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(reinterpret_cast<CudaStream*>(object)->context);
    return 0;
}

int stream_clear(PyObject* object) {
    Py_CLEAR(reinterpret_cast<CudaStream*>(object)->context);
    return 0;
}

void stream_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    stream_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyMemberDef stream_members[] = {
    {"_context", T_OBJECT, offsetof(CudaStream, context), 0, "The DriverContext that it belongs to."},
    {"_foreign", T_BOOL, offsetof(CudaStream, foreign), 0,
     "Whether it is another library's, so that memory used on it and elsewhere is waited for."},
    {"_blocking", T_BOOL, offsetof(CudaStream, blocking), 0,
     "Whether the driver orders it with the legacy default stream."},
    {"_branch", T_BOOL, offsetof(CudaStream, branch), 0,
     "Whether it captures what a node of a graph runs, which comes after what the graph has so far."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef functions[] = {
    {"set_cuda", set_cuda, METH_VARARGS,
     "set_cuda($module, addresses, on_error, /)\n--\n\nSay where the driver's functions are; `on_error(call, code)` "
     "makes the exception for an error."},
    {"cuda_memory", cuda_memory, METH_VARARGS,
     "cuda_memory($module, context, ptr, nbytes, kind, stream, owner=None, /)\n--\n\nReturn the Buffer of memory that "
     "is given back by kind: 0 to its pool, 1 to the driver, 2 as page-locked memory, 3 by somebody else."},
    {"use_memory", use_memory, METH_VARARGS,
     "use_memory($module, context, owner, stream, /)\n--\n\nNote that the memory of `owner`, if it is ours, is used on "
     "`stream`, which waits for its last use where that was on another library's stream. The context is current."},
    {"launch_graph", launch_graph, METH_VARARGS,
     "launch_graph($module, context, graph, used, stream, /)\n--\n\nHand an instantiated graph to a stream; the memory "
     "in `used`, a tuple, is used there. RuntimeError where an array in `used` has lost its memory."},
    {"is_pinned", is_pinned, METH_O,
     "is_pinned($module, owner, /)\n--\n\nReturn whether `owner` holds page-locked memory of ours."},
    {"clear_memory", clear_memory, METH_O, "clear_memory($module, buffer, /)\n--\n\nSet page-locked memory to zero."},
    {"work_stream", method(work_stream), METH_FASTCALL,
     "work_stream($module, owner, ordinal, /)\n--\n\nReturn the handle of the stream on which the library of a tensor "
     "works now, else None."},
    {"set_stream_hook", set_stream_hook, METH_VARARGS,
     "set_stream_hook($module, cls, hook, /)\n--\n\nLet `hook(ordinal)` give the handle of the stream on which the "
     "library of a class of arrays works now on a device."},
    {"last_stream", last_stream, METH_O,
     "last_stream($module, owner, /)\n--\n\nReturn the handle of the stream that used memory of ours last, else None."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject CudaStreamType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject DriverContextType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool register_cuda(PyObject* module) {
    CudaStreamType.tp_name = "warp_like._native.CudaStream";
    CudaStreamType.tp_basicsize = sizeof(CudaStream);
    CudaStreamType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    CudaStreamType.tp_doc = "The native part of a stream: what a launch reads.";
    CudaStreamType.tp_new = PyType_GenericNew;
    CudaStreamType.tp_dealloc = stream_dealloc;
    CudaStreamType.tp_traverse = stream_traverse;
    CudaStreamType.tp_clear = stream_clear;
    CudaStreamType.tp_getset = stream_getset;
    CudaStreamType.tp_members = stream_members;
    DriverContextType.tp_name = "warp_like._native.DriverContext";
    DriverContextType.tp_basicsize = sizeof(DriverContext);
    DriverContextType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    DriverContextType.tp_doc = "DriverContext(handle, ordinal)\n--\n\nA CUDA device's context, as launches see it.";
    DriverContextType.tp_new = context_new;
    DriverContextType.tp_dealloc = context_dealloc;
    DriverContextType.tp_traverse = context_traverse;
    DriverContextType.tp_clear = context_clear;
    DriverContextType.tp_getset = context_getset;
    DriverContextType.tp_members = context_members;
    return add_type(module, "CudaStream", &CudaStreamType) && add_type(module, "DriverContext", &DriverContextType) &&
           PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
