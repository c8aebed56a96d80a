#include "replay.h"

#include <memory>
#include <new>
#include <vector>

#include "dispatch.h"
#include "given.h"

namespace wl {

namespace {

// A launch with its arguments packed and its code chosen, or a Python callable.
struct Node {
    Ref dispatcher;
    Ref code;  // keeps the variant's entry
    Variant variant;
    Grid grid;
    std::unique_ptr<Given> given;  // keeps what the arguments point to
    std::unique_ptr<Arguments> arguments;
    Ref call;
};

struct Replay {
    PyObject_HEAD std::vector<Node>* nodes;
    int running;
};

Replay* as_replay(PyObject* object) { return reinterpret_cast<Replay*>(object); }

bool require_idle(const Replay* self) {
    if (!self->running) return true;
    PyErr_SetString(PyExc_RuntimeError, "a graph that is running can't be added to");
    return false;
}

PyObject* add_launch(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 3 || Py_TYPE(args[0]) != &DispatcherType) {
        PyErr_SetString(PyExc_TypeError, "add_launch(dispatcher, dim, args)");
        return nullptr;
    }
    if (!require_idle(as_replay(object))) return nullptr;
    Dispatcher* dispatcher = as_dispatcher(args[0]);
    Node node{};
    Refusal refusal;
    node.given.reset(new (std::nothrow) Given);
    node.arguments.reset(new (std::nothrow) Arguments(*dispatcher->signature));
    if (!node.given || !node.arguments) return PyErr_NoMemory();
    refusal.reason = node.given->take_flat(args[2]);
    if (!read_grid(args[1], &node.grid, &refusal.reason) || refusal.reason ||
        !node.arguments->pack(*node.given, dispatcher->device, &refusal)) {
        Py_RETURN_FALSE;
    }
    const Variant* variant = variant_for(dispatcher, node.grid, *node.arguments);
    if (!variant->entry) Py_RETURN_FALSE;
    node.variant = *variant;
    node.code = Ref::borrow(variant->keepalive);
    node.dispatcher = Ref::borrow(args[0]);
    as_replay(object)->nodes->push_back(std::move(node));
    Py_RETURN_TRUE;
}

PyObject* add_call(PyObject* object, PyObject* callable) {
    if (!require_idle(as_replay(object))) return nullptr;
    Node node{};
    node.call = Ref::borrow(callable);
    as_replay(object)->nodes->push_back(std::move(node));
    Py_RETURN_NONE;
}

bool run_node(Node* node) {
    if (node->call) return static_cast<bool>(Ref(PyObject_CallNoArgs(node->call.get())));
    if (node->grid.count == 0) return true;
    return execute(as_dispatcher(node->dispatcher.get()), &node->variant, node->grid, node->arguments.get());
}

PyObject* replay_run(PyObject* object, PyObject*) {
    Replay* self = as_replay(object);
    const Ref held = Ref::borrow(object);
    ++self->running;
    bool fine = true;
    for (Node& node : *self->nodes) {
        if (!(fine = run_node(&node))) break;
    }
    --self->running;
    if (!fine) return nullptr;
    Py_RETURN_NONE;
}

Py_ssize_t replay_len(PyObject* object) { return static_cast<Py_ssize_t>(as_replay(object)->nodes->size()); }

PyObject* replay_new(PyTypeObject* type, PyObject*, PyObject*) {
    Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    as_replay(object.get())->nodes = new (std::nothrow) std::vector<Node>;
    return as_replay(object.get())->nodes ? object.release() : PyErr_NoMemory();
}

void replay_dealloc(PyObject* object) {
    delete as_replay(object)->nodes;
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef methods[] = {
    {"add_launch", method(add_launch), METH_FASTCALL,
     "add_launch(dispatcher, dim, args)\n--\n\nAdd a launch; returns False when the dispatcher would decline it."},
    {"add_call", add_call, METH_O, "add_call(callable)\n--\n\nAdd a call without arguments."},
    {"run", replay_run, METH_NOARGS, "run()\n--\n\nRun all that was added, in order, up to the first exception."},
    {nullptr, nullptr, 0, nullptr},
};

PySequenceMethods sequence = {};
PyTypeObject ReplayType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool register_replay(PyObject* module) {
    sequence.sq_length = replay_len;
    ReplayType.tp_name = "warp_like._native.Replay";
    ReplayType.tp_basicsize = sizeof(Replay);
    ReplayType.tp_flags = Py_TPFLAGS_DEFAULT;
    ReplayType.tp_doc = "Replay()\n--\n\nA list of launches and calls that runs again and again.";
    ReplayType.tp_new = replay_new;
    ReplayType.tp_dealloc = replay_dealloc;
    ReplayType.tp_methods = methods;
    ReplayType.tp_as_sequence = &sequence;
    return add_type(module, "Replay", &ReplayType);
}

}  // namespace wl
