#include "replay.h"

#include <new>
#include <vector>

#include "bound_launch.h"

namespace wl {

namespace {

struct Replay {
    PyObject_HEAD std::vector<Ref>* nodes;  // BoundLaunches and callables
    int running;
};

Replay* as_replay(PyObject* object) { return reinterpret_cast<Replay*>(object); }

PyObject* add(PyObject* object, PyObject* node) {
    if (as_replay(object)->running) {
        PyErr_SetString(PyExc_RuntimeError, "a graph that is running can't be added to");
        return nullptr;
    }
    if (!is_bound_launch(node) && !PyCallable_Check(node)) {
        return PyErr_Format(PyExc_TypeError, "add() needs a BoundLaunch or a callable, got %R", node);
    }
    as_replay(object)->nodes->push_back(Ref::borrow(node));
    Py_RETURN_NONE;
}

bool run_node(PyObject* node) {
    return is_bound_launch(node) ? run_bound_launch(node) : static_cast<bool>(Ref(PyObject_CallNoArgs(node)));
}

PyObject* replay_run(PyObject* object, PyObject*) {
    Replay* self = as_replay(object);
    const Ref held = Ref::borrow(object);
    ++self->running;
    bool fine = true;
    for (const Ref& node : *self->nodes) {
        if (!(fine = run_node(node.get()))) break;
    }
    --self->running;
    if (!fine) return nullptr;
    Py_RETURN_NONE;
}

Py_ssize_t replay_len(PyObject* object) { return static_cast<Py_ssize_t>(as_replay(object)->nodes->size()); }

PyObject* replay_new(PyTypeObject* type, PyObject*, PyObject*) {
    Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    as_replay(object.get())->nodes = new (std::nothrow) std::vector<Ref>;
    return as_replay(object.get())->nodes ? object.release() : PyErr_NoMemory();
}

int replay_traverse(PyObject* object, visitproc visit, void* arg) {
    if (!as_replay(object)->nodes) return 0;
    for (const Ref& node : *as_replay(object)->nodes) Py_VISIT(node.get());
    return 0;
}

int replay_clear(PyObject* object) {
    std::vector<Ref> old;
    if (as_replay(object)->nodes) old.swap(*as_replay(object)->nodes);
    return 0;
}

void replay_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    delete as_replay(object)->nodes;
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef methods[] = {
    {"add", add, METH_O, "add($self, node, /)\n--\n\nAdd a BoundLaunch, or a call without arguments."},
    {"run", replay_run, METH_NOARGS,
     "run($self, /)\n--\n\nRun all that was added, in order, up to the first exception."},
    {nullptr, nullptr, 0, nullptr},
};

PySequenceMethods sequence = {};
PyTypeObject ReplayType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool register_replay(PyObject* module) {
    sequence.sq_length = replay_len;
    ReplayType.tp_name = "warp_like._native.Replay";
    ReplayType.tp_basicsize = sizeof(Replay);
    ReplayType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    ReplayType.tp_doc = "Replay()\n--\n\nA list of launches and calls that runs again and again.";
    ReplayType.tp_new = replay_new;
    ReplayType.tp_dealloc = replay_dealloc;
    ReplayType.tp_traverse = replay_traverse;
    ReplayType.tp_clear = replay_clear;
    ReplayType.tp_methods = methods;
    ReplayType.tp_as_sequence = &sequence;
    return add_type(module, "Replay", &ReplayType);
}

}  // namespace wl
