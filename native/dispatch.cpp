#include "dispatch.h"

#include <cstdio>
#include <memory>
#include <new>
#include <utility>

#include "adjoint.h"
#include "batch.h"
#include "cuda.h"
#include "cuda_launch.h"
#include "current_device.h"
#include "record.h"
#include "spec.h"
#include "structmember.h"
#include "sums.h"
#include "thread_pool.h"
#include "watch.h"
#include "watchdog.h"
#include "zeroing.h"

namespace wl {

namespace {

constexpr double kSlowThreadNs = 5e3;  // kernels with longer threads let go of the GIL at once
constexpr double kQuickNs = 2e3;       // launches that surely take less run without a look at the clock
constexpr int64_t kQuickCount = 1024;

Variant* first_variant(Dispatcher* self) { return &self->variants[0][0][0]; }

// ---- the grid

bool read_extent(PyObject* object, int64_t* out, const char** why) {
    if (!PyLong_CheckExact(object)) {
        *why = "a grid dimension is no int";
        return false;
    }
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow || value < 0) {
        *why = "a grid dimension is negative or too large";
        return false;
    }
    *out = value;
    return true;
}

}  // namespace

bool read_grid(PyObject* dim, Grid* grid, const char** why) {
    for (int64_t& extent : grid->dims) extent = 1;
    if (PyLong_CheckExact(dim)) {
        if (!read_extent(dim, &grid->dims[0], why)) return false;
    } else if (PyTuple_Check(dim) || PyList_Check(dim)) {
        const Py_ssize_t n = Py_SIZE(dim);
        if (n < 1 || n > kMaxDims) {
            *why = "a grid has one to eight dimensions";
            return false;
        }
        for (Py_ssize_t i = 0; i < n; ++i) {
            PyObject* item = PyTuple_Check(dim) ? PyTuple_GET_ITEM(dim, i) : PyList_GET_ITEM(dim, i);
            if (!read_extent(item, &grid->dims[i], why)) return false;
        }
    } else {
        *why = "the grid is neither an int nor a tuple or list of ints";
        return false;
    }
    bool empty = false;
    for (const int64_t extent : grid->dims) empty |= extent == 0;
    grid->inner[kMaxDims] = 1;
    for (int i = kMaxDims; i-- > 0;) {
        const int64_t extent = empty ? 0 : grid->dims[i];
        if (__builtin_mul_overflow(grid->inner[i + 1], extent, &grid->inner[i])) {
            *why = "the grid has more threads than 64 bits count";
            return false;
        }
    }
    grid->count = grid->inner[0];
    return true;
}

namespace {

// Whether an extent for which the kernel asks an index is so large that tid() is an int64.
bool is_wide(const Grid& grid, const Dispatcher* self) {
    if (grid.count <= self->most_narrow) return false;
    for (int i = 0; i < self->tid_ndim; ++i) {
        if (grid.dims[i] > self->most_narrow) return true;
    }
    return false;
}

// Whether the rows of the grid are short, and many enough to have code of their own; as `is_of_short_rows` in Python.
bool has_short_rows(const Dispatcher* self, const Grid& grid) {
    const int64_t row = grid.dims[self->tid_ndim - 1];
    return self->tid_ndim > 1 && row > 1 && row <= kShortGridRow && grid.count >= kFewestInShortRows &&
           grid.count <= self->most_narrow;
}

// Whether the dispatcher's code is for the grid. Where threads share their indices, no element is a thread's own.
bool suits(const Dispatcher* self, const Grid& grid) {
    if (self->short_rows && !has_short_rows(self, grid)) return false;
    return (grid.inner[self->tid_ndim] > 1) == (self->shares_indices != 0);
}

// ---- launching

Variant* select_variant(Dispatcher* self, const Grid& grid, const Arguments& arguments) {
    const bool contiguous = arguments.contiguous();
    bool sums = false;
    if (contiguous && self->cuda) {
        sums = !grid.max_blocks && is_narrow(arguments, grid.count) && are_apart(arguments);
    } else if (contiguous && !self->signature->apart.empty()) {
        sums = plan_sums(*self->signature, arguments.block(), grid.dims, grid.count, self->deterministic).fits;
    }
    return &self->variants[contiguous][is_wide(grid, self)][sums];
}

bool reaches_too_far(const Variant* variant, const Grid& grid, const Arguments& arguments) {
    return variant->reaches && grid.count && !all_fit(*variant->reaches, arguments.block(), grid.dims);
}

Variant refused{};

}  // namespace

bool leaves(const Dispatcher* self, const Grid& grid) { return self->leaves_short_rows && has_short_rows(self, grid); }

Variant* variant_for(Dispatcher* self, const Grid& grid, const Arguments& arguments) {
    if (!suits(self, grid)) return &refused;
    Variant* variant = select_variant(self, grid, arguments);
    return reaches_too_far(variant, grid, arguments) ? &refused : variant;
}

bool same_device(const Dispatcher* self, PyObject* device, const char** why) {
    if (device == Py_None) {
        const PyObject* current = current_device();
        if (current ? self->device == current : !self->cuda) return true;
    }
    if (device == self->device) return true;
    if (PyUnicode_CheckExact(device)) {
        if (PyUnicode_Compare(device, self->device_name) == 0) return true;
        const bool only = self->cuda && reinterpret_cast<DriverContext*>(self->cuda)->only;
        if (only && PyUnicode_CompareWithASCIIString(device, "cuda") == 0) return true;
    }
    *why = "the launch is for another device";
    return false;
}

namespace {

// Raises what `on_error` makes of the kernel's error.
void raise_error(Dispatcher* self, const RunRecord& record) {
    Ref error(record.explained(self->on_error));
    if (!error) return;
    if (!PyExceptionInstance_Check(error.get())) {
        PyErr_Format(PyExc_TypeError, "on_error of kernel %R returned %R, which is no exception", self->name,
                     error.get());
        return;
    }
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

}  // namespace

bool flush_python_stdout() {
    PyObject* out = PySys_GetObject("stdout");  // borrowed
    if (!out || out == Py_None) return true;
    Ref held = Ref::borrow(out);
    return static_cast<bool>(Ref(PyObject_CallMethod(out, "flush", nullptr)));
}

bool execute(Dispatcher* self, Variant* variant, const Grid& grid, Arguments* arguments, const Zeroing* zeroing) {
    if (self->cuda) return execute_on_cuda(self, variant, grid, arguments);
    if (runs_elsewhere(self)) return execute_by_runner(self, variant, grid, arguments);
    // Python code that runs below, and other threads while this one is without the GIL, may install other code, clear
    // the table, or set options: from here on, the launch reads its own copies.
    const Variant code = *variant;
    const Ref held = Ref::borrow(code.keepalive);
    const bool deterministic = self->deterministic != 0;
    if (!code.entry) {
        PyErr_Format(PyExc_RuntimeError, "kernel %R was changed while it was being launched", self->name);
        return false;
    }
    if (!arguments->run_write_hooks() || (self->prints && !flush_python_stdout())) return false;
    RunRecord record;
    Outcome outcome;
    const Footprint footprint{self->signature, arguments->block(), code.sums};
    const bool quick = self->bounded && grid.count <= kQuickCount && !zeroing &&
                       code.first_ns * static_cast<double>(grid.count) < kQuickNs && !deterministic &&
                       !Gil::clashes(footprint);
    if (quick) {
        Worker worker(&record, code.lanes);
        worker.alone = code.takes;
        worker.call(code.entry, arguments->block(), grid.dims, 0, grid.count);
        if (record.printed.load(std::memory_order_relaxed)) std::fflush(stdout);
        outcome.first_ns = code.first_ns;
    } else {
        start_clock(&record);
        Gil gil(&record, footprint);
        if (!gil.wait_for_turn()) return false;
        if (code.first_ns > kSlowThreadNs) gil.release();
        const Signature* sums = code.sums && !self->signature->sums.empty() ? self->signature : nullptr;
        SumPlan plan{true, false, 0};
        if (sums) plan = plan_sums(*sums, arguments->block(), grid.dims, grid.count, deterministic);
        const bool shares = deterministic && shares_private_elements(*self->signature, arguments->block());
        // Pieces would divide what lanes sum, and without halos, threads might add before others set to zero.
        if (zeroing && (deterministic || (zeroing->has_neighbours() && !plan.halo))) {
            zeroing->clear_all();
            zeroing = nullptr;
        }
        const Job job{code.entry,
                      arguments->block(),
                      grid.dims,
                      grid.count,
                      plan.copies ? sums : nullptr,
                      code.lanes,
                      code.rows,
                      self->order_dependent != 0 || shares,
                      self->non_associative != 0,
                      plan.halo,
                      deterministic,
                      code.takes,
                      code.first_ns < kUnknownNs ? code.first_ns : 0,
                      zeroing};
        outcome = run(job, &record, &gil);
        if (record.printed.load(std::memory_order_relaxed)) std::fflush(stdout);
    }
    if (variant->entry == code.entry) variant->first_ns = outcome.first_ns;
    return !outcome.interrupted && finished(self, record);
}

bool finished(Dispatcher* self, const RunRecord& record) {
    if (record.closing.load(std::memory_order_relaxed)) {
        PyErr_Format(PyExc_RuntimeError, "the launch of %R was cut short: the interpreter exits", self->name);
        return false;
    }
    if (record.claimed.load() == 0) return true;
    raise_error(self, record);
    return false;
}

namespace {

// A launch as far as it is checked: grid and arguments.
struct LaunchRequest {
    explicit LaunchRequest(PyObject* object) : self(as_dispatcher(object)), arguments(*self->signature) {}

    bool read(PyObject* dim, PyObject* inputs, PyObject* outputs, PyObject* device) {
        if (!same_device(self, device, &refusal.reason)) return false;
        refusal.reason = operands.take(self->signature->declared, inputs, outputs);
        return check(dim);
    }

    // With one object for each parameter: of a struct, its fields.
    bool read_flat(PyObject* dim, PyObject* list) {
        refusal.reason = operands.take_flat(list);
        return check(dim);
    }

    bool check(PyObject* dim) {
        if (!read_grid(dim, &grid, &refusal.reason)) return false;
        return !refusal.reason && arguments.pack(operands, self->device, &refusal);
    }

    Dispatcher* self;
    Refusal refusal;
    Grid grid;
    Operands operands;
    Arguments arguments;
};

PyObject* launch(LaunchRequest* request) {
    ++request->self->unrecorded;
    if (request->grid.count == 0) Py_RETURN_TRUE;
    Variant* variant = variant_for(request->self, request->grid, request->arguments);
    if (!variant->entry || (request->self->cuda && !fits(*variant, request->self, request->grid))) Py_RETURN_FALSE;
    if (!execute(request->self, variant, request->grid, &request->arguments)) return nullptr;
    Py_RETURN_TRUE;
}

}  // namespace

PyObject* try_launch(PyObject* object, const LaunchCall& call) {
    LaunchRequest request(object);
    if (!call.plain && !read_blocks(call.stream, call.max_blocks, call.block_dim, &request.grid)) Py_RETURN_FALSE;
    PyObject* device = call.device;
    if (request.grid.stream && device == Py_None) {  // the stream names the device
        if (reinterpret_cast<CudaStream*>(request.grid.stream)->context != request.self->cuda) Py_RETURN_FALSE;
        device = request.self->device;
    }
    if (!request.read(call.dim, call.inputs, call.outputs, device)) Py_RETURN_FALSE;
    if (leaves(request.self, request.grid)) Py_RETURN_FALSE;
    return launch(&request);
}

namespace {

PyObject* launch_method(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs == 4) return try_launch(self, {args[0], args[1], args[2], args[3]});
    if (nargs == 7) return try_launch(self, {args[0], args[1], args[2], args[3], false, args[4], args[5], args[6]});
    PyErr_SetString(PyExc_TypeError,
                    "try_launch(dim, inputs, outputs, device, stream=None, max_blocks=0, block_dim=None)");
    return nullptr;
}

PyObject* adjoint_method(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs == 6) return try_adjoint(self, {args[0], args[1], args[2], args[5]}, args[3], args[4]);
    PyErr_SetString(PyExc_TypeError, "try_adjoint(dim, inputs, outputs, adj_inputs, adj_outputs, device)");
    return nullptr;
}

PyObject* record_method(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs == 6) return try_record(self, {args[2], args[3], args[4], args[5]}, args[0], args[1]);
    PyErr_SetString(PyExc_TypeError, "try_record(history, kernel, dim, inputs, outputs, device)");
    return nullptr;
}

bool read_count(PyObject* object, int64_t* out) {
    if (object == Py_None) return true;
    int overflow = 0;
    *out = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : -1;
    return *out >= 0 && !overflow;
}

}  // namespace

bool read_blocks(PyObject* stream, PyObject* max_blocks, PyObject* block_dim, Grid* grid) {
    if (stream != Py_None) {
        if (!PyObject_TypeCheck(stream, &CudaStreamType)) return false;
        grid->stream = stream;
    }
    return read_count(max_blocks, &grid->max_blocks) && read_count(block_dim, &grid->block_dim);
}

namespace {

PyObject* try_run(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2 && nargs != 5) {
        PyErr_SetString(PyExc_TypeError, "try_run(dim, args, stream=None, max_blocks=0, block_dim=None)");
        return nullptr;
    }
    LaunchRequest request(object);
    if (nargs > 2 && !read_blocks(args[2], args[3], args[4], &request.grid)) Py_RETURN_FALSE;
    if (!request.read_flat(args[0], args[1])) Py_RETURN_FALSE;
    return launch(&request);
}

PyObject* required_variant(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs < 2 || nargs > 3) {
        PyErr_SetString(PyExc_TypeError, "required_variant(dim, args, max_blocks=0)");
        return nullptr;
    }
    LaunchRequest request(object);
    if (nargs > 2 && !read_count(args[2], &request.grid.max_blocks)) Py_RETURN_NONE;
    if (!request.read_flat(args[0], args[1])) Py_RETURN_NONE;
    const Variant* variant = select_variant(request.self, request.grid, request.arguments);
    const Py_ssize_t index = variant - first_variant(request.self);
    return Py_BuildValue("(NNN)", PyBool_FromLong(index & 4), PyBool_FromLong(index & 2), PyBool_FromLong(index & 1));
}

PyObject* explain(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs < 3 || nargs > 4) {
        PyErr_SetString(PyExc_TypeError, "explain(dim, inputs, outputs, device=None)");
        return nullptr;
    }
    LaunchRequest request(object);
    if (!request.read(args[0], args[1], args[2], nargs > 3 ? args[3] : Py_None)) {
        const auto at = static_cast<size_t>(request.refusal.argument);
        const auto& params = request.self->signature->params;
        const bool named = request.refusal.argument >= 0 && at < params.size();
        return Py_BuildValue("(sO)", request.refusal.reason, named ? params[at].name.get() : Py_None);
    }
    if (!suits(request.self, request.grid)) {
        return Py_BuildValue("(sO)", "the code is for other grids", Py_None);
    }
    const Variant* variant = select_variant(request.self, request.grid, request.arguments);
    if (request.grid.count && !variant->entry) return Py_BuildValue("(sO)", "the variant is not installed", Py_None);
    if (reaches_too_far(variant, request.grid, request.arguments)) {
        return Py_BuildValue("(sO)", "an array is too small for the grid", Py_None);
    }
    Py_RETURN_NONE;
}

PyObject* args_block(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "pack(inputs, outputs)");
        return nullptr;
    }
    Dispatcher* self = as_dispatcher(object);
    Refusal refusal;
    Operands operands;
    Arguments arguments(*self->signature);
    refusal.reason = operands.take(self->signature->declared, args[0], args[1]);
    if (refusal.reason || !arguments.pack(operands, self->device, &refusal)) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(arguments.block()), self->signature->args_size);
}

// ---- the table of variants

PyObject* install(PyObject* object, PyObject* args) {
    int contiguous, wide, sums, lanes = 1, max_threads = 0, rows = 1, takes = 0;
    unsigned long long address, context = 0;
    long long resident = 0;
    PyObject* keepalive;
    const char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (!PyArg_ParseTuple(args, "pppKO|iiKiy#pL:install", &contiguous, &wide, &sums, &address, &keepalive, &lanes,
                          &max_threads, &context, &rows, &bytes, &size, &takes, &resident)) {
        return nullptr;
    }
    if (!address) {
        PyErr_SetString(PyExc_ValueError, "install() needs the address of an entry point");
        return nullptr;
    }
    auto reaches = size ? std::make_unique<std::vector<Reach>>() : nullptr;
    const Signature& signature = *as_dispatcher(object)->signature;
    if (reaches && !read_reaches(bytes, static_cast<size_t>(size), signature, reaches.get())) return nullptr;
    Variant* variant = &as_dispatcher(object)->variants[contiguous][wide][sums];
    PyObject* old = variant->keepalive;
    delete variant->reaches;
    Py_INCREF(keepalive);
    *variant = {reinterpret_cast<Entry>(address), keepalive,         kUnknownNs, sums != 0, lanes, rows, max_threads,
                reinterpret_cast<void*>(context), reaches.release(), resident,   takes != 0};
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

void clear_variants(Dispatcher* self) {
    for (Variant* variant = first_variant(self); variant != first_variant(self) + kVariants; ++variant) {
        variant->entry = nullptr;
        delete std::exchange(variant->reaches, nullptr);
        Py_CLEAR(variant->keepalive);
    }
}

PyObject* clear(PyObject* object, PyObject*) {
    clear_variants(as_dispatcher(object));
    Py_RETURN_NONE;
}

// ---- adjoints, and parameters as declared

void clear_adjoints(Dispatcher* self) {
    if (!self->adjoints) return;
    std::vector<Adjoint> old;
    old.swap(*self->adjoints);
    for (Adjoint& adjoint : old) Py_DECREF(adjoint.dispatcher);
}

PyObject* forget_adjoints(PyObject* object, PyObject*) {
    clear_adjoints(as_dispatcher(object));
    Py_RETURN_NONE;
}

PyObject* install_adjoint(PyObject* object, PyObject* args) {
    PyObject *wrt, *dispatcher;
    if (!PyArg_ParseTuple(args, "O!O:install_adjoint", &PyTuple_Type, &wrt, &dispatcher)) return nullptr;
    if (dispatcher != Py_None && !PyObject_TypeCheck(dispatcher, &DispatcherType)) {
        PyErr_SetString(PyExc_TypeError, "install_adjoint() needs a Dispatcher or None");
        return nullptr;
    }
    uint64_t bits = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wrt); ++i) {
        const long at = PyLong_AsLong(PyTuple_GET_ITEM(wrt, i));
        if (at == -1 && PyErr_Occurred()) return nullptr;
        if (at < 0 || at >= kMaxGradients) Py_RETURN_NONE;  // such launches take the checked path
        bits |= uint64_t{1} << at;
    }
    Dispatcher* self = as_dispatcher(object);
    Py_INCREF(dispatcher);
    for (Adjoint& adjoint : *self->adjoints) {
        if (adjoint.wrt != bits) continue;
        Py_SETREF(adjoint.dispatcher, dispatcher);
        Py_RETURN_NONE;
    }
    self->adjoints->push_back({bits, dispatcher});
    Py_RETURN_NONE;
}

// ---- the type

PyObject* dispatcher_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"spec", nullptr};
    PyObject* object;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Dispatcher", const_cast<char**>(names), &object)) return nullptr;
    Ref made(type->tp_alloc(type, 0));
    if (!made) return nullptr;
    Dispatcher* self = as_dispatcher(made.get());
    self->signature = new (std::nothrow) Signature;
    self->adjoints = new (std::nothrow) std::vector<Adjoint>;
    if (!self->signature || !self->adjoints) return PyErr_NoMemory();
    return read_spec(object, self) ? made.release() : nullptr;
}

int dispatcher_traverse(PyObject* object, visitproc visit, void* arg) {
    Dispatcher* self = as_dispatcher(object);
    Py_VISIT(self->on_error);
    Py_VISIT(self->device);
    Py_VISIT(self->cuda);
    Py_VISIT(self->runner);
    Py_VISIT(self->watch);
    for (Variant* variant = first_variant(self); variant != first_variant(self) + kVariants; ++variant) {
        Py_VISIT(variant->keepalive);
    }
    if (self->adjoints) {
        for (Adjoint& adjoint : *self->adjoints) Py_VISIT(adjoint.dispatcher);
    }
    if (self->signature) {
        for (Param& param : self->signature->params) Py_VISIT(param.value_class.get());
        for (Declared& declared : self->signature->declared) Py_VISIT(declared.struct_class.get());
    }
    return 0;
}

int dispatcher_clear(PyObject* object) {
    Dispatcher* self = as_dispatcher(object);
    clear_variants(self);
    clear_adjoints(self);
    Py_CLEAR(self->types);
    Py_CLEAR(self->on_error);
    Py_CLEAR(self->device);
    Py_CLEAR(self->runner);
    Py_CLEAR(self->watch);
    return 0;
}

void dispatcher_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    dispatcher_clear(object);
    Py_CLEAR(as_dispatcher(object)->name);
    Py_CLEAR(as_dispatcher(object)->device_name);
    Py_CLEAR(as_dispatcher(object)->cuda);
    delete as_dispatcher(object)->signature;
    delete as_dispatcher(object)->adjoints;
    Py_TYPE(object)->tp_free(object);
}

PyObject* get_offsets(PyObject* object, void*) {
    const Signature& signature = *as_dispatcher(object)->signature;
    Ref offsets(PyTuple_New(static_cast<Py_ssize_t>(signature.params.size())));
    if (!offsets) return nullptr;
    for (size_t i = 0; i < signature.params.size(); ++i) {
        PyObject* offset = PyLong_FromLongLong(signature.params[i].offset);
        if (!offset) return nullptr;
        PyTuple_SET_ITEM(offsets.get(), static_cast<Py_ssize_t>(i), offset);
    }
    return offsets.release();
}

PyObject* get_args_size(PyObject* object, void*) {
    return PyLong_FromLongLong(as_dispatcher(object)->signature->args_size);
}

PyMethodDef methods[] = {
    {"try_launch", method(launch_method), METH_FASTCALL,
     "try_launch($self, dim, inputs, outputs, device, stream=None, max_blocks=0, block_dim=None, /)\n--\n\nLaunch, and "
     "return True; or return False, with nothing done, when something is not plainly right or the variant is not "
     "installed."},
    {"try_run", method(try_run), METH_FASTCALL,
     "try_run($self, dim, args, stream=None, max_blocks=0, block_dim=None, /)\n--\n\nAs try_launch, with one argument "
     "for each parameter: of a struct, its fields."},
    {"try_batch", method(try_batch), METH_FASTCALL,
     "try_batch($self, dim, args, size, steps, /)\n--\n\nAs try_run, for each of `size` elements of a batch: `args` "
     "are those of the first element, and `steps` says by how many bytes each array moves from one to the next."},
    {"required_variant", method(required_variant), METH_FASTCALL,
     "required_variant($self, dim, args, max_blocks=0, /)\n--\n\nReturn the (contiguous, wide, sums) that try_run "
     "would "
     "run, or None when it would refuse the grid or an argument."},
    {"explain", method(explain), METH_FASTCALL,
     "explain($self, dim, inputs, outputs, device=None, /)\n--\n\nReturn None when try_launch would launch, else (why "
     "not, the parameter's name or None)."},
    {"pack", method(args_block), METH_FASTCALL,
     "pack($self, inputs, outputs, /)\n--\n\nReturn the bytes of the argument block, or None when an argument is "
     "refused."},
    {"install", install, METH_VARARGS,
     "install($self, contiguous, wide, sums, address, keepalive, lanes=1, max_threads=0, context=0, rows=1, "
     "reaches=b'', takes=False, resident=0, /)\n--\n\nSet the entry point of a variant, which runs `lanes` threads of "
     "each of "
     "`rows` rows at once. On CUDA, the driver's function, whose blocks of `lanes` threads run one thread each if "
     "these "
     "are several; the most threads of its blocks and the address of its "
     "CudaContext. A launch that `reaches`, as `base.reach` packs them, out of an array is declined. Code that `takes` "
     "elements, of arrays that are flagged so and of no others, is told while no other thread can touch these. "
     "On CUDA no more than `resident` threads are launched, unless it is 0."},
    {"clear", clear, METH_NOARGS, "clear($self, /)\n--\n\nForget all variants."},
    {"try_adjoint", method(adjoint_method), METH_FASTCALL,
     "try_adjoint($self, dim, inputs, outputs, adj_inputs, adj_outputs, device, /)\n--\n\nRun the adjoint, and return "
     "True; or return False, with nothing done."},
    {"try_record", method(record_method), METH_FASTCALL,
     "try_record($self, history, kernel, dim, inputs, outputs, device, /)\n--\n\nLaunch, and return a Record that "
     "`history` knows, or True where `kernel` is None and nothing is recorded; or return None, with nothing done."},
    {"install_adjoint", install_adjoint, METH_VARARGS,
     "install_adjoint($self, wrt, dispatcher, /)\n--\n\nSet the adjoint for a tuple of parameters with gradients; None "
     "where no gradient passes."},
    {"forget_adjoints", forget_adjoints, METH_NOARGS, "forget_adjoints($self, /)\n--\n\nForget all adjoints."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"name", T_OBJECT, offsetof(Dispatcher, name), READONLY, "The kernel's name."},
    {"device", T_OBJECT, offsetof(Dispatcher, device), READONLY, "The device that it launches on."},
    {"unrecorded", T_LONGLONG, offsetof(Dispatcher, unrecorded), 0, "How many launches no tape has seen."},
    {"tid_ndim", T_INT, offsetof(Dispatcher, tid_ndim), READONLY,
     "How many indices the kernel asks for; the most dimensions of a grid where it does not ask."},
    {"shares_indices", T_BOOL, offsetof(Dispatcher, shares_indices), READONLY,
     "Whether it takes grids of more dimensions than that, and no others."},
    {"short_rows", T_BOOL, offsetof(Dispatcher, short_rows), READONLY,
     "Whether it takes grids of short rows, and no others."},
    {"block_dim", T_INT, offsetof(Dispatcher, block_dim), 0,
     "On CUDA, the threads of a block where a launch does not say."},
    {"runner", T_OBJECT, offsetof(Dispatcher, runner), 0,
     "On CUDA, what gets each launch as a LaunchRequest in place of the driver, or None."},
    {"order_dependent", T_BOOL, offsetof(Dispatcher, order_dependent), READONLY,
     "Whether what the kernel computes depends on the order in which its threads run, other than by rounding its "
     "sums."},
    {"non_associative", T_BOOL, offsetof(Dispatcher, non_associative), READONLY,
     "Whether arrays that the kernel only adds to are of floats."},
    {"deterministic", T_BOOL, offsetof(Dispatcher, deterministic), 0,
     "Whether launches give the same bits whatever the number of threads."},
    {"stale", T_BOOL, offsetof(Dispatcher, stale), 0,
     "Whether options have changed since it was made, so that recorded launches have to look for another one."},
    {"prints", T_BOOL, offsetof(Dispatcher, prints), READONLY, "Whether the kernel prints."},
    {"bounded", T_BOOL, offsetof(Dispatcher, bounded), READONLY,
     "Whether what a thread costs does not depend on data, so that a launch may be trusted to be short."},
    {"types", T_OBJECT, offsetof(Dispatcher, types), READONLY, "The types of the parameters, which records get."},
    {"recordable", T_BOOL, offsetof(Dispatcher, recordable), READONLY,
     "Whether a tape needs no more of a launch than its arguments, so that try_record may take it."},
    {nullptr, 0, 0, 0, nullptr},
};

PyObject* get_watch(PyObject* object, void*) {
    PyObject* watch = as_dispatcher(object)->watch;
    return Ref::borrow(watch ? watch : Py_None).release();
}

int set_watch(PyObject* object, PyObject* watch, void*) {
    if (!watch || (watch != Py_None && !is_watch(watch))) {
        PyErr_SetString(PyExc_TypeError, "`watch` is a Watch or None");
        return -1;
    }
    PyObject* old = as_dispatcher(object)->watch;
    as_dispatcher(object)->watch = watch == Py_None ? nullptr : Ref::borrow(watch).release();
    Py_XDECREF(old);
    return 0;
}

PyGetSetDef getset[] = {
    {"watch", get_watch, set_watch,
     "The Watch over the Python values that the code was made from: launches that find it changed are Python's. None "
     "where there are none.",
     nullptr},
    {"param_offsets", get_offsets, nullptr, "Each parameter's offset in the argument block.", nullptr},
    {"args_size", get_args_size, nullptr, "The size of the argument block in bytes.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

PyTypeObject DispatcherType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool register_dispatch(PyObject* module) {
    DispatcherType.tp_name = "warp_like._native.Dispatcher";
    DispatcherType.tp_basicsize = sizeof(Dispatcher);
    DispatcherType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    DispatcherType.tp_doc =
        "Dispatcher(spec)\n--\n\nLaunches one kernel, which a `DispatcherSpec` (runtime/kernels/program.py) describes.";
    DispatcherType.tp_new = dispatcher_new;
    DispatcherType.tp_dealloc = dispatcher_dealloc;
    DispatcherType.tp_traverse = dispatcher_traverse;
    DispatcherType.tp_clear = dispatcher_clear;
    DispatcherType.tp_methods = methods;
    DispatcherType.tp_members = members;
    DispatcherType.tp_getset = getset;
    return add_type(module, "Dispatcher", &DispatcherType);
}

}  // namespace wl
