#include "replay.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "array.h"
#include "bound_launch.h"
#include "chunks.h"
#include "fused.h"
#include "host_write.h"
#include "signals.h"
#include "tensor_memory.h"

namespace wl {

namespace {

constexpr double kBreathNs = 2e6;  // after this long, other Python threads get a chance

struct Nodes {
    std::vector<Ref> list;           // BoundLaunches, HostWrites, Replays, Conditions and callables
    std::vector<Stretch> stretches;  // of the first nodes, as far as they have been looked at
};

struct Replay {
    PyObject_HEAD Nodes* nodes;
    int running;
};

// A choice or a loop, as the first element of an array says.
struct Condition {
    PyObject_HEAD PyObject* flag;
    PyObject* then;    // a Replay
    PyObject* orelse;  // a Replay; null: `then` is repeated
};

PyTypeObject ReplayType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject ConditionType = {PyVarObject_HEAD_INIT(nullptr, 0)};

Replay* as_replay(PyObject* object) { return reinterpret_cast<Replay*>(object); }
Condition* as_condition(PyObject* object) { return reinterpret_cast<Condition*>(object); }
bool is_replay(PyObject* object) { return Py_TYPE(object) == &ReplayType; }
bool is_condition(PyObject* object) { return Py_TYPE(object) == &ConditionType; }

PyObject* add(PyObject* object, PyObject* node) {
    if (as_replay(object)->running) {
        PyErr_SetString(PyExc_RuntimeError, "a graph that is running can't be added to");
        return nullptr;
    }
    if (!is_bound_launch(node) && !is_host_write(node) && !is_replay(node) && !is_condition(node) &&
        !PyCallable_Check(node)) {
        return PyErr_Format(PyExc_TypeError,
                            "add() needs a BoundLaunch, a HostWrite, a Replay, a Condition or a callable, got %R",
                            node);
    }
    as_replay(object)->nodes->list.push_back(Ref::borrow(node));
    Py_RETURN_NONE;
}

// ---- running

// How a replay runs: together where that is allowed, and now and then with a look at signals.
class Run {
  public:
    explicit Run(bool fuses) : fuses_(fuses), last_(now_ns()) {}

    bool all(PyObject* object) {
        Replay* self = as_replay(object);
        const Ref held = Ref::borrow(object);
        if (Py_EnterRecursiveCall(" while a graph runs")) return false;
        ++self->running;
        const bool fine = fuses_ ? stretches(self->nodes) : between(self->nodes, 0, self->nodes->list.size());
        --self->running;
        Py_LeaveRecursiveCall();
        return fine;
    }

  private:
    bool stretches(Nodes* nodes) {
        if (nodes->stretches.empty() || nodes->stretches.back().last != nodes->list.size()) plan(nodes);
        for (const Stretch& stretch : nodes->stretches) {
            if (!(stretch.fused ? run_fused(stretch.fused.get()) : between(nodes, stretch.first, stretch.last))) {
                return false;
            }
            if (!breathe()) return false;
        }
        return true;
    }

    static void plan(Nodes* nodes) {
        std::vector<PyObject*> list;
        for (const Ref& node : nodes->list) list.push_back(node.get());
        nodes->stretches = find_stretches(list);
    }

    bool between(Nodes* nodes, size_t first, size_t last) {
        for (size_t i = first; i < last; ++i) {
            if (!one(nodes->list[i].get()) || (i % 64 == 63 && !breathe())) return false;
        }
        return true;
    }

    bool one(PyObject* node) {
        if (is_bound_launch(node)) return run_bound_launch(node);
        if (is_host_write(node)) return run_host_write(node);
        if (is_replay(node)) return all(node);
        if (is_condition(node)) return condition(as_condition(node));
        return static_cast<bool>(Ref(PyObject_CallNoArgs(node)));
    }

    bool condition(const Condition* self) {
        bool holds = false;
        if (!test(self, &holds)) return false;
        if (self->orelse) return all(holds ? self->then : self->orelse);
        for (; holds;) {
            if (!all(self->then) || !breathe() || !test(self, &holds)) return false;
        }
        return true;
    }

    static bool test(const Condition* self, bool* holds) {
        const Array* flag = reinterpret_cast<const Array*>(self->flag);
        if (!require_memory(flag)) return false;
        *holds = std::any_of(flag->data, flag->data + flag->itemsize, [](char c) { return c != 0; });
        return true;
    }

    // Many short operations, and loops of them, are interrupted by signals and let other Python threads run.
    bool breathe() {
        const double now = now_ns();
        if (now - last_ < kBreathNs) return true;
        Py_BEGIN_ALLOW_THREADS;
        Py_END_ALLOW_THREADS;
        last_ = now_ns();
        return run_signal_handlers();
    }

    bool fuses_;
    double last_;
};

PyObject* replay_run(PyObject* object, PyObject* fuses) {
    const int on = PyObject_IsTrue(fuses);
    if (on < 0 || !Run(on != 0).all(object)) return nullptr;
    Py_RETURN_NONE;
}

// ---- looking at what was found

PyObject* fused_counts(PyObject* object, PyObject*) {
    Ref list(PyList_New(0));
    std::vector<PyObject*> nodes;
    for (const Ref& node : as_replay(object)->nodes->list) nodes.push_back(node.get());
    for (const Stretch& stretch : find_stretches(nodes)) {
        if (!stretch.fused) continue;
        const Ref pair(Py_BuildValue("(nn)", stretch.first, stretch.last));
        if (!list || !pair || PyList_Append(list.get(), pair.get()) != 0) return nullptr;
    }
    return list.release();
}

PyObject* take_over(PyObject* object, PyObject* other) {
    if (!is_replay(other) || as_replay(object)->running) {
        PyErr_SetString(is_replay(other) ? PyExc_RuntimeError : PyExc_TypeError,
                        is_replay(other) ? "a graph that is running can't be changed" : "take_over() needs a Replay");
        return nullptr;
    }
    if (object == other) Py_RETURN_NONE;
    Nodes nodes;
    for (const Ref& node : as_replay(other)->nodes->list) nodes.list.push_back(Ref::borrow(node.get()));
    std::swap(*as_replay(object)->nodes, nodes);
    Py_RETURN_NONE;
}

Py_ssize_t replay_len(PyObject* object) { return static_cast<Py_ssize_t>(as_replay(object)->nodes->list.size()); }

PyObject* replay_new(PyTypeObject* type, PyObject*, PyObject*) {
    Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    as_replay(object.get())->nodes = new (std::nothrow) Nodes;
    return as_replay(object.get())->nodes ? object.release() : PyErr_NoMemory();
}

int replay_traverse(PyObject* object, visitproc visit, void* arg) {
    if (!as_replay(object)->nodes) return 0;
    for (const Ref& node : as_replay(object)->nodes->list) Py_VISIT(node.get());
    return 0;
}

int replay_clear(PyObject* object) {
    Nodes old;
    if (as_replay(object)->nodes) std::swap(old, *as_replay(object)->nodes);
    return 0;
}

void replay_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    delete as_replay(object)->nodes;
    Py_TYPE(object)->tp_free(object);
}

// ---- conditions

PyObject* condition_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *flag, *then, *orelse;
    if (!PyArg_ParseTuple(args, "OO!O:Condition", &flag, &ReplayType, &then, &orelse)) return nullptr;
    const bool on_host = is_array(flag) && reinterpret_cast<Array*>(flag)->device_type == kDLCPU;
    if (!on_host || !reinterpret_cast<Array*>(flag)->size || (orelse != Py_None && !is_replay(orelse))) {
        PyErr_SetString(PyExc_TypeError,
                        "Condition(flag, then, orelse) needs an array of the CPU, a Replay, and another "
                        "one or None");
        return nullptr;
    }
    Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    Condition* self = as_condition(object.get());
    self->flag = Ref::borrow(flag).release();
    self->then = Ref::borrow(then).release();
    self->orelse = orelse == Py_None ? nullptr : Ref::borrow(orelse).release();
    return object.release();
}

int condition_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(as_condition(object)->flag);
    Py_VISIT(as_condition(object)->then);
    Py_VISIT(as_condition(object)->orelse);
    return 0;
}

int condition_clear(PyObject* object) {
    Py_CLEAR(as_condition(object)->flag);
    Py_CLEAR(as_condition(object)->then);
    Py_CLEAR(as_condition(object)->orelse);
    return 0;
}

void condition_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    condition_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef methods[] = {
    {"add", add, METH_O,
     "add($self, node, /)\n--\n\nAdd a BoundLaunch, a HostWrite, a Replay, a Condition, or a call without "
     "arguments."},
    {"run", replay_run, METH_O,
     "run($self, fuses, /)\n--\n\nRun all that was added, in order, up to the first exception. Launches may run piece "
     "by piece of their grid where `fuses` is true and that gives the same."},
    {"fused", fused_counts, METH_NOARGS,
     "fused($self, /)\n--\n\nReturn which nodes run together: for each group the first, and the one behind the last."},
    {"take_over", take_over, METH_O, "take_over($self, other, /)\n--\n\nDo what `other` does, from now on."},
    {nullptr, nullptr, 0, nullptr},
};

PySequenceMethods sequence = {};

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
    ConditionType.tp_name = "warp_like._native.Condition";
    ConditionType.tp_basicsize = sizeof(Condition);
    ConditionType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    ConditionType.tp_doc =
        "Condition(flag, then, orelse, /)\n--\n\nRuns one of two Replays, as the first element of `flag` says; without "
        "`orelse`, repeats one while it is not 0.";
    ConditionType.tp_new = condition_new;
    ConditionType.tp_dealloc = condition_dealloc;
    ConditionType.tp_traverse = condition_traverse;
    ConditionType.tp_clear = condition_clear;
    return add_type(module, "Replay", &ReplayType) && add_type(module, "Condition", &ConditionType);
}

}  // namespace wl
