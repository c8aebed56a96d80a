#include "prepared.h"

#include <new>

#include "cuda_launch.h"
#include "dispatch.h"
#include "watch.h"

namespace wl {

namespace {

// All that a launch needs. Arrays are bound once and kept alive here, so their addresses stay what they are.
struct Work {
    explicit Work(PyObject* object) : dispatcher(Ref::borrow(object)), arguments(*as_dispatcher(object)->signature) {}

    Ref dispatcher;
    Ref code;  // keeps the variant's entry
    Ref stream;
    Variant variant;
    Grid grid;
    Given given;
    Arguments arguments;
};

struct Prepared {
    PyObject_HEAD Work* work;
};

Work* work_of(PyObject* object) { return reinterpret_cast<Prepared*>(object)->work; }

// Packs the arguments; false, with no exception set, when the dispatcher declines them or lacks the variant.
bool pack(Work* work, PyObject* const* given) {
    PyObject *dim = given[0], *args = given[1];
    if (!read_blocks(given[2], given[3], given[4], &work->grid)) return false;
    work->stream = Ref::borrow(work->grid.stream);
    Dispatcher* dispatcher = as_dispatcher(work->dispatcher.get());
    Refusal refusal;
    if (work->given.take_flat(args) || !read_grid(dim, &work->grid, &refusal.reason) ||
        !work->arguments.pack(work->given, dispatcher->device, &refusal)) {
        return false;
    }
    const Variant* variant = variant_for(dispatcher, work->grid, work->arguments);
    if (!variant->entry || (dispatcher->cuda && !fits(*variant, dispatcher, work->grid))) return false;
    work->variant = *variant;
    work->code = Ref::borrow(variant->keepalive);
    return true;
}

PyObject* prepare(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if ((nargs != 3 && nargs != 6) || Py_TYPE(args[0]) != &DispatcherType) {
        PyErr_SetString(PyExc_TypeError, "prepare(dispatcher, dim, args, stream=None, max_blocks=0, block_dim=None)");
        return nullptr;
    }
    Ref object(PreparedType.tp_alloc(&PreparedType, 0));
    if (!object) return nullptr;
    Work* work = new (std::nothrow) Work(args[0]);
    if (!work) return PyErr_NoMemory();
    reinterpret_cast<Prepared*>(object.get())->work = work;
    PyObject* none = Py_None;
    PyObject* const given[] = {args[1], args[2], nargs > 3 ? args[3] : none, nargs > 3 ? args[4] : none,
                               nargs > 3 ? args[5] : none};
    if (!pack(work, given)) Py_RETURN_NONE;
    return object.release();
}

int traverse(PyObject* object, visitproc visit, void* arg) {
    Work* work = work_of(object);
    if (!work) return 0;
    Py_VISIT(work->dispatcher.get());
    Py_VISIT(work->code.get());
    Py_VISIT(work->stream.get());
    for (size_t i = 0; i < work->given.size(); ++i) Py_VISIT(work->given[i]);
    return 0;
}

void dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    delete work_of(object);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef functions[] = {
    {"prepare", method(prepare), METH_FASTCALL,
     "prepare(dispatcher, dim, args, stream=None, max_blocks=0, block_dim=None)\n--\n\nReturn a Prepared launch, with "
     "one argument for each parameter: of a struct, "
     "its fields; None where the dispatcher would decline it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject PreparedType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool is_stale(PyObject* object) {
    const Dispatcher* dispatcher = as_dispatcher(work_of(object)->dispatcher.get());
    return dispatcher->stale || !is_current(dispatcher->watch);
}

void refresh_values(PyObject* object) {
    Work* work = work_of(object);
    work->arguments.refresh_values(work->given);
}

bool run_prepared(PyObject* object) {
    Work* work = work_of(object);
    if (work->grid.count == 0) return true;
    const Ref held = Ref::borrow(object);
    ++as_dispatcher(work->dispatcher.get())->unrecorded;
    return execute(as_dispatcher(work->dispatcher.get()), &work->variant, work->grid, &work->arguments);
}

bool register_prepared(PyObject* module) {
    PreparedType.tp_name = "warp_like._native.Prepared";
    PreparedType.tp_basicsize = sizeof(Prepared);
    PreparedType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    PreparedType.tp_doc = "A launch with its arguments packed, made by `prepare`.";
    PreparedType.tp_dealloc = dealloc;
    PreparedType.tp_traverse = traverse;
    return add_type(module, "Prepared", &PreparedType) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
