#include "dispatch.h"

#include <cstdio>
#include <new>

#include "args.h"
#include "structmember.h"
#include "sums.h"
#include "thread_pool.h"

namespace wl {

namespace {

constexpr double kSlowThreadNs = 5e3;  // kernels with longer threads let go of the GIL at once

struct Variant {
    Entry entry;
    PyObject* keepalive;
    double first_ns;  // what the first thread of the last launch took
    bool sums;        // adds to arrays without atomics
};

struct Dispatcher {
    PyObject_HEAD Signature* signature;
    PyObject* name;
    PyObject* on_error;
    PyObject* device;
    Variant variants[2][2][2];  // [contiguous][wide][sums]
    int tid_ndim;           // the fewest dimensions that the kernel folds the grid into
    char prints;             // Python's stdout is flushed before a launch, so that lines keep their order
};

struct Grid {
    int64_t dims[kMaxDims];
    int64_t count;
};

Dispatcher* as_dispatcher(PyObject* object) { return reinterpret_cast<Dispatcher*>(object); }

constexpr int kVariants = 8;
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

bool read_grid(PyObject* dim, Grid* grid, const char** why) {
    for (int64_t& extent : grid->dims) extent = 1;
    if (PyLong_CheckExact(dim)) {
        if (!read_extent(dim, &grid->dims[0], why)) return false;
    } else if (PyTuple_Check(dim) || PyList_Check(dim)) {
        const Py_ssize_t n = Py_SIZE(dim);
        if (n < 1 || n > kMaxDims) {
            *why = "a grid has one to four dimensions";
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
    grid->count = 1;
    for (const int64_t extent : grid->dims) empty |= extent == 0;
    for (const int64_t extent : grid->dims) {
        if (!empty && __builtin_mul_overflow(grid->count, extent, &grid->count)) {
            *why = "the grid has more threads than 64 bits count";
            return false;
        }
    }
    if (empty) grid->count = 0;
    return true;
}

// Whether an index of the grid, seen with `ndim` dimensions, exceeds 32 bits.
bool is_wide(const Grid& grid, int ndim) {
    int64_t folded = 1;
    for (int i = 0; i < kMaxDims; ++i) {
        const int64_t extent = grid.dims[i];
        if (i < ndim - 1 && extent > INT32_MAX) return true;
        if (i >= ndim - 1 && __builtin_mul_overflow(folded, extent, &folded)) return true;
    }
    return folded > INT32_MAX;
}

// ---- launching

Variant* variant_for(Dispatcher* self, const Grid& grid, const Arguments& arguments) {
    const bool contiguous = arguments.contiguous();
    const bool sums = contiguous && !self->signature->exclusive.empty() &&
                      sums_fit(*self->signature, arguments.block(), grid.count);
    return &self->variants[contiguous][is_wide(grid, self->tid_ndim)][sums];
}

bool same_device(const Dispatcher* self, PyObject* device, const char** why) {
    if (device == Py_None || device == self->device) return true;
    *why = "the launch is for another device";
    return false;
}

// Raises what `on_error` makes of the kernel's error.
void raise_error(Dispatcher* self, const RunRecord& record) {
    Ref error(PyObject_CallFunction(self->on_error, "iiL", record.code.load(), record.where,
                                    static_cast<long long>(record.thread)));
    if (!error) return;
    if (!PyExceptionInstance_Check(error.get())) {
        PyErr_Format(PyExc_TypeError, "on_error of kernel %R returned %R, which is no exception", self->name,
                     error.get());
        return;
    }
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

bool flush_python_stdout() {
    PyObject* out = PySys_GetObject("stdout");  // borrowed
    if (!out || out == Py_None) return true;
    Ref held = Ref::borrow(out);
    return static_cast<bool>(Ref(PyObject_CallMethod(out, "flush", nullptr)));
}

// Runs the variant; false with an exception set.
bool execute(Dispatcher* self, Variant* variant, const Grid& grid, Arguments* arguments) {
    // Python code that runs below, or another thread while this one is without the GIL, may clear the table.
    const Entry entry = variant->entry;
    const Ref code = Ref::borrow(variant->keepalive);
    if (!arguments->run_write_hooks() || (self->prints && !flush_python_stdout())) return false;
    RunRecord record;
    Outcome outcome;
    {
        Gil gil(&record);
        if (variant->first_ns > kSlowThreadNs) gil.release();
        const Signature* sums = variant->sums && !self->signature->sums.empty() ? self->signature : nullptr;
        outcome = run({entry, arguments->block(), grid.dims, grid.count, sums}, &record, &gil);
        if (record.printed.load(std::memory_order_relaxed)) std::fflush(stdout);
    }
    variant->first_ns = outcome.first_ns;
    if (outcome.interrupted) return false;
    if (record.closing.load(std::memory_order_relaxed)) {
        PyErr_Format(PyExc_RuntimeError, "the launch of %R was cut short: the interpreter exits", self->name);
        return false;
    }
    if (record.claimed.load() == 0) return true;
    raise_error(self, record);
    return false;
}

PyObject* try_launch(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "try_launch(dim, inputs, outputs, device)");
        return nullptr;
    }
    Dispatcher* self = as_dispatcher(object);
    Refusal refusal;
    Grid grid;
    if (!same_device(self, args[3], &refusal.reason) || !read_grid(args[0], &grid, &refusal.reason)) {
        Py_RETURN_FALSE;
    }
    Arguments arguments(*self->signature);
    if (!arguments.pack(args[1], args[2], self->device, &refusal)) Py_RETURN_FALSE;
    if (grid.count == 0) Py_RETURN_TRUE;
    Variant* variant = variant_for(self, grid, arguments);
    if (!variant->entry) Py_RETURN_FALSE;
    if (!execute(self, variant, grid, &arguments)) return nullptr;
    Py_RETURN_TRUE;
}

PyObject* required_variant(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs < 3 || nargs > 4) {
        PyErr_SetString(PyExc_TypeError, "required_variant(dim, inputs, outputs, device=None)");
        return nullptr;
    }
    Dispatcher* self = as_dispatcher(object);
    Refusal refusal;
    Grid grid;
    if (!same_device(self, nargs > 3 ? args[3] : Py_None, &refusal.reason) ||
        !read_grid(args[0], &grid, &refusal.reason)) {
        Py_RETURN_NONE;
    }
    Arguments arguments(*self->signature);
    if (!arguments.pack(args[1], args[2], self->device, &refusal)) Py_RETURN_NONE;
    const Py_ssize_t index = variant_for(self, grid, arguments) - first_variant(self);
    return Py_BuildValue("(NNN)", PyBool_FromLong(index & 4), PyBool_FromLong(index & 2),
                         PyBool_FromLong(index & 1));
}

PyObject* explain(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs < 3 || nargs > 4) {
        PyErr_SetString(PyExc_TypeError, "explain(dim, inputs, outputs, device=None)");
        return nullptr;
    }
    Dispatcher* self = as_dispatcher(object);
    Refusal refusal;
    Grid grid;
    if (!same_device(self, nargs > 3 ? args[3] : Py_None, &refusal.reason) ||
        !read_grid(args[0], &grid, &refusal.reason)) {
        return Py_BuildValue("(sO)", refusal.reason, Py_None);
    }
    Arguments arguments(*self->signature);
    if (!arguments.pack(args[1], args[2], self->device, &refusal)) {
        const auto at = static_cast<size_t>(refusal.argument);
        const bool named = refusal.argument >= 0 && at < self->signature->params.size();
        return Py_BuildValue("(sO)", refusal.reason,
                             named ? self->signature->params[at].name.get() : Py_None);
    }
    if (grid.count && !variant_for(self, grid, arguments)->entry) {
        return Py_BuildValue("(sO)", "the variant is not installed", Py_None);
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
    Arguments arguments(*self->signature);
    if (!arguments.pack(args[0], args[1], self->device, &refusal)) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(arguments.block()),
                                     self->signature->args_size);
}

// ---- the table of variants

PyObject* install(PyObject* object, PyObject* args) {
    int contiguous, wide, sums;
    unsigned long long address;
    PyObject* keepalive;
    if (!PyArg_ParseTuple(args, "pppKO:install", &contiguous, &wide, &sums, &address, &keepalive)) return nullptr;
    if (!address) {
        PyErr_SetString(PyExc_ValueError, "install() needs the address of an entry point");
        return nullptr;
    }
    Variant* variant = &as_dispatcher(object)->variants[contiguous][wide][sums];
    PyObject* old = variant->keepalive;
    Py_INCREF(keepalive);
    *variant = {reinterpret_cast<Entry>(address), keepalive, 1e30, sums != 0};
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

void clear_variants(Dispatcher* self) {
    for (Variant* variant = first_variant(self); variant != first_variant(self) + kVariants; ++variant) {
        variant->entry = nullptr;
        Py_CLEAR(variant->keepalive);
    }
}

PyObject* clear(PyObject* object, PyObject*) {
    clear_variants(as_dispatcher(object));
    Py_RETURN_NONE;
}

// ---- the type

PyObject* dispatcher_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"name", "params", "on_error", "device", nullptr};
    PyObject *name, *params, *on_error, *device;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOOO:Dispatcher", const_cast<char**>(names), &name,
                                     &params, &on_error, &device)) {
        return nullptr;
    }
    if (!PyCallable_Check(on_error)) {
        PyErr_SetString(PyExc_TypeError, "Dispatcher() needs a callable on_error(code, where, thread)");
        return nullptr;
    }
    Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    Dispatcher* self = as_dispatcher(object.get());
    self->signature = new (std::nothrow) Signature;
    if (!self->signature) return PyErr_NoMemory();
    if (!self->signature->read(params)) return nullptr;
    self->name = Ref::borrow(name).release();
    self->on_error = Ref::borrow(on_error).release();
    self->device = Ref::borrow(device).release();
    self->tid_ndim = kMaxDims;
    return object.release();
}

int dispatcher_traverse(PyObject* object, visitproc visit, void* arg) {
    Dispatcher* self = as_dispatcher(object);
    Py_VISIT(self->on_error);
    Py_VISIT(self->device);
    for (Variant* variant = first_variant(self); variant != first_variant(self) + kVariants; ++variant) {
        Py_VISIT(variant->keepalive);
    }
    if (self->signature) {
        for (Param& param : self->signature->params) Py_VISIT(param.value_class.get());
    }
    return 0;
}

int dispatcher_clear(PyObject* object) {
    Dispatcher* self = as_dispatcher(object);
    clear_variants(self);
    Py_CLEAR(self->on_error);
    Py_CLEAR(self->device);
    return 0;
}

void dispatcher_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    dispatcher_clear(object);
    Py_CLEAR(as_dispatcher(object)->name);
    delete as_dispatcher(object)->signature;
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
    {"try_launch", method(try_launch), METH_FASTCALL,
     "try_launch(dim, inputs, outputs, device)\n--\n\nLaunch, and return True; or return False, with nothing "
     "done, "
     "when something is not plainly right or the variant is not installed."},
    {"required_variant", method(required_variant), METH_FASTCALL,
     "required_variant(dim, inputs, outputs, device=None)\n--\n\nReturn the (contiguous, wide, sums) that "
     "try_launch "
     "would run, or None when it would refuse the grid or an argument."},
    {"explain", method(explain), METH_FASTCALL,
     "explain(dim, inputs, outputs, device=None)\n--\n\nReturn None when try_launch would launch, else (why "
     "not, "
     "the parameter's name or None)."},
    {"pack", method(args_block), METH_FASTCALL,
     "pack(inputs, outputs)\n--\n\nReturn the bytes of the argument block, or None when an argument is "
     "refused."},
    {"install", install, METH_VARARGS,
     "install(contiguous, wide, sums, address, keepalive)\n--\n\nSet the entry point of a variant."},
    {"clear", clear, METH_NOARGS, "clear()\n--\n\nForget all variants."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"name", T_OBJECT, offsetof(Dispatcher, name), READONLY, "The kernel's name."},
    {"device", T_OBJECT, offsetof(Dispatcher, device), READONLY, "The device that it launches on."},
    {"tid_ndim", T_INT, offsetof(Dispatcher, tid_ndim), 0, "The fewest dimensions that the kernel folds the grid into."},
    {"prints", T_BOOL, offsetof(Dispatcher, prints), 0, "Whether the kernel prints."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef getset[] = {
    {"param_offsets", get_offsets, nullptr, "Each parameter's offset in the argument block.", nullptr},
    {"args_size", get_args_size, nullptr, "The size of the argument block in bytes.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject DispatcherType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool register_dispatch(PyObject* module) {
    DispatcherType.tp_name = "warp_like._native.Dispatcher";
    DispatcherType.tp_basicsize = sizeof(Dispatcher);
    DispatcherType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    DispatcherType.tp_doc =
        "Dispatcher(name, params, on_error, device)\n--\n\nLaunches one kernel. `params` lists (name, kind, "
        "type_code, ndim, writes, value_class) with kind 0 = array, 1 = scalar, 2 = value, and writes 1 for an array "
        "that is written, 3 for one that is only added to, 5 for one of which each kernel thread updates its own "
        "element.";
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
