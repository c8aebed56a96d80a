#include "bound_launch.h"

#include <new>

#include "cuda_launch.h"
#include "dispatch.h"
#include "tensor_memory.h"
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
    Operands operands;
    Arguments arguments;
    std::vector<const Array*> over_tensors;  // arrays among the operands that may lose their memory
    bool has_values = false;                 // vectors, matrices and the like are among them
    int running = 0;                         // how many threads read the arguments now; guarded by the GIL
};

struct BoundLaunch {
    PyObject_HEAD Work* work;
};

Work* work_of(PyObject* object) { return reinterpret_cast<BoundLaunch*>(object)->work; }

// Packs the arguments; false, with no exception set, when the dispatcher declines them or lacks the variant.
bool pack(Work* work, PyObject* const* given) {
    PyObject *dim = given[0], *args = given[1];
    if (!read_blocks(given[2], given[3], given[4], &work->grid)) return false;
    work->stream = Ref::borrow(work->grid.stream);
    Dispatcher* dispatcher = as_dispatcher(work->dispatcher.get());
    Refusal refusal;
    if (work->operands.take_flat(args) || !read_grid(dim, &work->grid, &refusal.reason) ||
        !work->arguments.pack(work->operands, dispatcher->device, &refusal)) {
        return false;
    }
    const Variant* variant = variant_for(dispatcher, work->grid, work->arguments);
    if (!variant->entry || (dispatcher->cuda && !fits(*variant, dispatcher, work->grid))) return false;
    work->variant = *variant;
    work->code = Ref::borrow(variant->keepalive);
    for (size_t i = 0; i < work->operands.size(); ++i) {
        if (dispatcher->signature->params[i].kind == ParamKind::Value) work->has_values = true;
        if (!is_array(work->operands[i])) continue;
        const Array* array = reinterpret_cast<const Array*>(work->operands[i]);
        if (array->tensor_data) work->over_tensors.push_back(array);
    }
    return true;
}

PyObject* bind_launch(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if ((nargs != 3 && nargs != 6) || Py_TYPE(args[0]) != &DispatcherType) {
        PyErr_SetString(PyExc_TypeError,
                        "bind_launch(dispatcher, dim, args, stream=None, max_blocks=0, block_dim=None)");
        return nullptr;
    }
    Ref object(BoundLaunchType.tp_alloc(&BoundLaunchType, 0));
    if (!object) return nullptr;
    Work* work = new (std::nothrow) Work(args[0]);
    if (!work) return PyErr_NoMemory();
    reinterpret_cast<BoundLaunch*>(object.get())->work = work;
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
    for (size_t i = 0; i < work->operands.size(); ++i) Py_VISIT(work->operands[i]);
    return 0;
}

void dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    delete work_of(object);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef functions[] = {
    {"bind_launch", method(bind_launch), METH_FASTCALL,
     "bind_launch($module, dispatcher, dim, args, stream=None, max_blocks=0, block_dim=None, /)\n--\n\nReturn a "
     "BoundLaunch, with one argument for each parameter: of a struct, its fields; None where the dispatcher would "
     "decline it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject BoundLaunchType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool is_stale(PyObject* object) {
    const Dispatcher* dispatcher = as_dispatcher(work_of(object)->dispatcher.get());
    return dispatcher->stale || !is_current(dispatcher->watch);
}

bool refresh_values(PyObject* object) {
    Work* work = work_of(object);
    if (!work->has_values) return true;
    if (work->running) return false;
    work->arguments.refresh_values(work->operands);
    return true;
}

namespace {

bool require_tensors(const Work* work) {
    for (const Array* array : work->over_tensors) {
        if (!require_memory(array)) return false;
    }
    return true;
}

}  // namespace

bool begin_bound_launch(PyObject* object) {
    Work* work = work_of(object);
    ++as_dispatcher(work->dispatcher.get())->unrecorded;
    return require_tensors(work) && work->arguments.run_write_hooks();
}

BoundWork work_of_bound_launch(PyObject* object) {
    Work* work = work_of(object);
    Dispatcher* dispatcher = as_dispatcher(work->dispatcher.get());
    const uint8_t* block = work->arguments.block();
    return {dispatcher,      &work->variant, &work->grid,
            &work->operands, block,          {dispatcher->signature, block, work->variant.sums}};
}

bool run_bound_launch(PyObject* object) {
    Work* work = work_of(object);
    if (work->grid.count == 0) return true;
    const Ref held = Ref::borrow(object);
    if (!require_tensors(work)) return false;
    ++as_dispatcher(work->dispatcher.get())->unrecorded;
    ++work->running;
    const bool fine = execute(as_dispatcher(work->dispatcher.get()), &work->variant, work->grid, &work->arguments);
    --work->running;
    return fine;
}

bool register_bound_launch(PyObject* module) {
    BoundLaunchType.tp_name = "warp_like._native.BoundLaunch";
    BoundLaunchType.tp_basicsize = sizeof(BoundLaunch);
    BoundLaunchType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    BoundLaunchType.tp_doc = "A launch with its arguments packed, made by `bind_launch`.";
    BoundLaunchType.tp_dealloc = dealloc;
    BoundLaunchType.tp_traverse = traverse;
    return add_type(module, "BoundLaunch", &BoundLaunchType) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
