#include "cuda_launch.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "array.h"
#include "cuda.h"
#include "extent.h"
#include "stack_bound.h"
#include "structmember.h"
#include "sums.h"

namespace wl {

namespace {

DriverContext* context_of(const Dispatcher* self) { return reinterpret_cast<DriverContext*>(self->cuda); }

Extent extent_of_param(const Param& param, const uint8_t* block) {
    const auto* slot = reinterpret_cast<const int64_t*>(block + param.offset);
    return extent_of(slot, param.ndim, param.element.size);
}

// A variant of several lanes is run by as many threads, a block for each place of the grid. One of several rows has as
// many neighbouring places for each thread.
int64_t block_of(const Dispatcher* self, const Variant& variant, const Grid& grid) {
    if (variant.lanes > 1) return variant.lanes;
    return grid.block_dim ? grid.block_dim : std::min(self->block_dim, variant.max_threads);
}

int64_t blocks_of(const Grid& grid, const Variant& variant, int64_t block, int64_t limit) {
    const int64_t places = variant.lanes > 1 ? 1 : block * variant.rows;
    int64_t blocks = std::min((grid.count - 1) / places + 1, kMostBlocks);
    if (variant.resident) blocks = std::min(blocks, std::max(variant.resident / block, int64_t{1}));
    if (grid.max_blocks) blocks = std::min(blocks, grid.max_blocks);
    return limit ? std::min(blocks, limit) : blocks;
}

}  // namespace

bool written_overlaps(const Arguments& arguments) {
    const auto& params = arguments.signature().params;
    const uint8_t* block = arguments.block();
    for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].kind != ParamKind::Array) continue;
        const Extent one = extent_of_param(params[i], block);
        for (size_t k = 0; k < i; ++k) {
            if (params[k].kind != ParamKind::Array || !(params[i].writes || params[k].writes)) continue;
            if (one.overlaps(extent_of_param(params[k], block))) return true;
        }
    }
    return false;
}

bool are_apart(const Arguments& arguments) {
    for (const Param& param : arguments.signature().params) {
        if (param.kind != ParamKind::Array) continue;
        if (!param.known || extent_of_param(param, arguments.block()).begin % kVectorAlignment) return false;
    }
    return !written_overlaps(arguments);
}

CudaGrid cuda_grid(const int64_t* dims) {
    CudaGrid grid{};
    for (int k = 0; k < kMaxDims; ++k) {
        grid.dims[k] = dims[k];
        if (dims[k] < 1 || dims[k] > kMaxNarrow) continue;
        const auto extent = static_cast<uint64_t>(dims[k]);
        const int shift = extent == 1 ? 0 : 64 - __builtin_clzll(extent - 1);
        grid.shifts[k] = static_cast<uint32_t>(shift);
        grid.multipliers[k] = static_cast<uint32_t>(((uint64_t{1} << (31 + shift)) - 1) / extent + 1);
    }
    return grid;
}

bool is_narrow(const Arguments& arguments, int64_t count) {
    if (count > kMaxNarrow) return false;
    for (const Param& param : arguments.signature().params) {
        if (param.kind != ParamKind::Array) continue;
        const auto* extents = reinterpret_cast<const int64_t*>(arguments.block() + param.offset) + 1;
        int64_t elements = 1;
        for (int k = 0; k < param.ndim; ++k) {
            if (extents[k] > kMaxNarrow) return false;  // of an array without elements, too
            if (__builtin_mul_overflow(elements, extents[k], &elements)) return false;
        }
        if (elements > kMaxNarrow) return false;
    }
    return true;
}

bool fits(const Variant& variant, const Dispatcher* dispatcher, const Grid& grid) {
    if (grid.block_dim > variant.max_threads) return false;
    return !grid.stream || reinterpret_cast<CudaStream*>(grid.stream)->context == dispatcher->cuda;
}

namespace {

// The stream that the user named or chose, else that of the library whose tensors are among the arguments, else the
// device's current one.
CudaUse choose_stream(const DriverContext* context, const Grid& grid, const Arguments& arguments) {
    if (grid.stream) return CudaUse::of(reinterpret_cast<CudaStream*>(grid.stream));
    for (int i = 0; i < arguments.owner_count() && !context->stream_chosen; ++i) {
        PyObject* owner = arguments.owners()[i];
        if (is_array(owner)) owner = reinterpret_cast<Array*>(owner)->owner;
        void* stream = nullptr;
        if (!is_cuda_memory(owner) && framework_stream(Py_TYPE(owner), context->ordinal, &stream)) {
            return CudaUse::of_handle(stream);
        }
    }
    return CudaUse::of(reinterpret_cast<CudaStream*>(context->stream));
}

// One launch, whose stream is chosen and ordered. Lives as long as the call that makes it.
struct Work {
    Dispatcher* self;
    const Variant* variant;
    const Grid* grid;
    Arguments* arguments;
    CudaUse use;
};

// The memory for the stacks of a launch's threads: `capacity` bytes for each.
struct Arena {
    uint64_t memory = 0;
    int64_t capacity = 0;
};

bool call_driver(const Work& work, void* context, int64_t limit, Arena arena = {}) {
    const int64_t block = block_of(work.self, *work.variant, *work.grid);
    const auto blocks = static_cast<unsigned>(blocks_of(*work.grid, *work.variant, block, limit));
    CudaGrid dims = cuda_grid(work.grid->dims);
    int64_t end = work.grid->count;
    void* params[] = {const_cast<uint8_t*>(work.arguments->block()),
                      &dims,
                      &end,
                      &context,
                      &arena.memory,
                      &arena.capacity};  // code without a stack takes the first four
    void* function = reinterpret_cast<void*>(work.variant->entry);
    const CudaCode code = cuda_api.launch_kernel(function, blocks, 1, 1, static_cast<unsigned>(block), 1, 1, 0,
                                                 work.use.stream, params, nullptr);
    return code == 0 || raise_cuda_error("cuLaunchKernel", code);
}

// ---- what a runner gets

struct CudaLaunchRequest {
    PyObject_HEAD const Work* work;  // null when the launch is over
};

const Work* work_of(PyObject* object) {
    const Work* work = reinterpret_cast<CudaLaunchRequest*>(object)->work;
    if (!work) PyErr_SetString(PyExc_RuntimeError, "the launch of this request is over");
    return work;
}

PyObject* request_launch(PyObject* object, PyObject* args) {
    unsigned long long context, memory = 0;
    long long limit = 0, capacity = 0;
    if (!PyArg_ParseTuple(args, "K|LKL:launch", &context, &limit, &memory, &capacity)) return nullptr;
    const Work* work = work_of(object);
    if (!work) return nullptr;
    if (!work->self->cuda) {
        PyErr_SetString(PyExc_RuntimeError, "the request's device has no CUDA driver");
        return nullptr;
    }
    const CudaGuard guard(context_of(work->self));
    if (guard.code() && !raise_cuda_error("cuCtxPushCurrent", guard.code())) return nullptr;
    if (!call_driver(*work, reinterpret_cast<void*>(context), limit, {memory, capacity})) return nullptr;
    Py_RETURN_NONE;
}

// (address, bytes) of the memory of each array that the kernel writes, gaps included.
PyObject* request_written(PyObject* object, void*) {
    const Work* work = work_of(object);
    Ref found(work ? PyList_New(0) : nullptr);
    if (!found) return nullptr;
    for (const Param& param : work->arguments->signature().params) {
        if (param.kind != ParamKind::Array || !param.writes) continue;
        const Extent extent = extent_of_param(param, work->arguments->block());
        if (extent.begin == extent.end) continue;
        Ref pair(Py_BuildValue("(Kn)", static_cast<unsigned long long>(extent.begin),
                               static_cast<Py_ssize_t>(extent.end - extent.begin)));
        if (!pair || PyList_Append(found.get(), pair.get()) < 0) return nullptr;
    }
    return found.release();
}

PyObject* request_arguments(PyObject* object, void*) {
    const Work* work = work_of(object);
    if (!work) return nullptr;
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(work->arguments->block()),
                                     static_cast<Py_ssize_t>(work->arguments->signature().args_size));
}

PyObject* request_dims(PyObject* object, void*) {
    const Work* work = work_of(object);
    return work ? tuple_of(work->grid->dims, kMaxDims) : nullptr;
}

PyObject* request_stream(PyObject* object, void*) {
    const Work* work = work_of(object);
    return work ? PyLong_FromVoidPtr(work->use.stream) : nullptr;
}

PyObject* request_block(PyObject* object, void*) {
    const Work* work = work_of(object);
    return work ? PyLong_FromLongLong(block_of(work->self, *work->variant, *work->grid)) : nullptr;
}

PyObject* request_blocks(PyObject* object, void*) {
    const Work* work = work_of(object);
    if (!work) return nullptr;
    const int64_t block = block_of(work->self, *work->variant, *work->grid);
    return PyLong_FromLongLong(blocks_of(*work->grid, *work->variant, block, 0));
}

PyObject* request_code(PyObject* object, void*) {
    const Work* work = work_of(object);
    return work ? Ref::borrow(work->variant->keepalive).release() : nullptr;
}

PyMethodDef request_methods[] = {
    {"launch", request_launch, METH_VARARGS,
     "launch($self, context, max_blocks=0, arena=0, capacity=0, /)\n--\n\nHand the launch to the driver, with the "
     "address of its CudaContext, and of the stacks with `capacity` bytes for each thread."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef request_getset[] = {
    {"written", request_written, nullptr, "Address and bytes of each array that the kernel writes.", nullptr},
    {"stream", request_stream, nullptr, "The handle of the stream.", nullptr},
    {"block_dim", request_block, nullptr, "The threads of a block.", nullptr},
    {"blocks", request_blocks, nullptr, "The blocks, unless `launch` limits them.", nullptr},
    {"arguments", request_arguments, nullptr, "The argument block.", nullptr},
    {"dims", request_dims, nullptr, "The four extents of the grid.", nullptr},
    {"code", request_code, nullptr, "What keeps the variant's code.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject CudaLaunchRequestType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool hand_to_runner(const Work& work) {
    Ref request(CudaLaunchRequestType.tp_alloc(&CudaLaunchRequestType, 0));
    if (!request) return false;
    reinterpret_cast<CudaLaunchRequest*>(request.get())->work = &work;
    const Ref runner = Ref::borrow(work.self->runner);
    const Ref done(PyObject_CallOneArg(runner.get(), request.get()));
    reinterpret_cast<CudaLaunchRequest*>(request.get())->work = nullptr;
    return static_cast<bool>(done);
}

PyObject* stack_bound_of(PyObject*, PyObject* args) {
    const char *program, *block;
    Py_ssize_t size, block_size;
    PyObject* dims;
    if (!PyArg_ParseTuple(args, "y#y#O!:stack_bound", &program, &size, &block, &block_size, &PyTuple_Type, &dims)) {
        return nullptr;
    }
    int64_t extents[kMaxDims];
    std::fill_n(extents, kMaxDims, 1);
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(PyTuple_GET_SIZE(dims), kMaxDims); ++i) {
        extents[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(dims, i));
    }
    if (PyErr_Occurred()) return nullptr;
    if (size == 0) return PyLong_FromLong(-1);
    std::vector<BoundStep> steps(static_cast<size_t>(size) / sizeof(BoundStep));
    std::memcpy(steps.data(), program, steps.size() * sizeof(BoundStep));
    if (!is_bound_program(steps.data(), steps.size(), static_cast<size_t>(block_size))) {
        PyErr_SetString(PyExc_ValueError, "not a program for the bound of a stack, or for another argument block");
        return nullptr;
    }
    return PyLong_FromLongLong(
        stack_bound(steps.data(), steps.size(), reinterpret_cast<const uint8_t*>(block), extents));
}

PyMethodDef functions[] = {
    {"stack_bound", stack_bound_of, METH_VARARGS,
     "stack_bound($module, program, arguments, dims, /)\n--\n\nReturn the bytes of stack that a thread of a launch "
     "needs at most, -1 if nobody knows; the program is an artifact's `stack_bound`."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

namespace {

// What uses other devices' memory next waits for the launch.
bool let_peers_wait(const Work& work) {
    DriverContext* context = context_of(work.self);
    const CudaGuard guard(context);
    if (guard.code()) return raise_cuda_error("cuCtxPushCurrent", guard.code());
    for (int i = 0; i < work.arguments->owner_count(); ++i) {
        PyObject* owner = work.arguments->owners()[i];
        if (is_peer_memory(context, owner) && !wait_for_use_of_peer(context, owner, work.use)) return false;
    }
    return true;
}

}  // namespace

namespace {

// Raises the error `code` in place of a launch.
bool refuse_launch(Dispatcher* self, int32_t code) {
    RunRecord record;
    record.code.store(code);
    record.claimed.store(1);
    return finished(self, record);
}

// Whether what a launch computes depends on the order of its threads.
bool is_unordered(const Dispatcher& self, const Arguments& arguments) {
    return self.order_dependent || self.non_associative || shares_private_elements(*self.signature, arguments.block());
}

}  // namespace

bool execute_on_cuda(Dispatcher* self, Variant* variant, const Grid& grid, Arguments* arguments) {
    if (self->deterministic && is_unordered(*self, *arguments)) return refuse_launch(self, RunError::Unordered);
    if (self->no_overlap && written_overlaps(*arguments)) return refuse_launch(self, RunError::Overlap);
    DriverContext* context = context_of(self);
    // Python code that runs below may clear the table, or set another stream.
    const Variant kept = *variant;
    const Ref code = Ref::borrow(kept.keepalive);
    const CudaUse use = choose_stream(context, grid, *arguments);
    const Ref holder = Ref::borrow(use.holder);
    const Work work{self, &kept, &grid, arguments, use};
    bool peers = false;
    if (!arguments->run_write_hooks() || (self->prints && !flush_python_stdout())) return false;
    {
        const CudaGuard guard(context);
        if (guard.code()) return raise_cuda_error("cuCtxPushCurrent", guard.code());
        for (int i = 0; i < arguments->owner_count(); ++i) {
            PyObject* owner = arguments->owners()[i];
            if (!keep_for_capture(context, owner)) return false;
            if (is_peer_memory(context, owner)) {
                peers = true;
                if (!wait_for_peer_memory(context, owner, use)) return false;
            } else if (is_cuda_memory(owner) && !use_cuda_memory(context, owner, use)) {
                return false;
            }
        }
        if (!keep_for_capture(context, code.get())) return false;
        if (!self->runner || self->runner == Py_None) {
            return call_driver(work, kept.context, 0) && (!peers || let_peers_wait(work));
        }
    }
    return hand_to_runner(work) && (!peers || let_peers_wait(work));
}

bool execute_by_runner(Dispatcher* self, const Variant* variant, const Grid& grid, Arguments* arguments) {
    if (self->deterministic && is_unordered(*self, *arguments)) return refuse_launch(self, RunError::Unordered);
    if (self->no_overlap && written_overlaps(*arguments)) return refuse_launch(self, RunError::Overlap);
    const Variant kept = *variant;  // Python code that runs below may clear the table
    const Ref code = Ref::borrow(kept.keepalive);
    const Work work{self, &kept, &grid, arguments, CudaUse{}};
    return arguments->run_write_hooks() && hand_to_runner(work);
}

bool register_cuda_launch(PyObject* module) {
    CudaLaunchRequestType.tp_name = "warp_like._native.CudaLaunchRequest";
    CudaLaunchRequestType.tp_basicsize = sizeof(CudaLaunchRequest);
    CudaLaunchRequestType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    CudaLaunchRequestType.tp_doc = "A launch that is about to be handed to the driver.";
    CudaLaunchRequestType.tp_methods = request_methods;
    CudaLaunchRequestType.tp_getset = request_getset;
    return add_type(module, "CudaLaunchRequest", &CudaLaunchRequestType) &&
           PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
