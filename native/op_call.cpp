#include "op_call.h"

#include <vector>

#include "dispatch.h"
#include "recorder.h"
#include "watch.h"

namespace wl {

namespace {

// A tensor or value that a call makes of one of its arguments.
struct Make {
    Ref callable;
    Py_ssize_t at;
};

// Nothing in it changes once it is made. Numbers of places count what the caller gives, and then what was made.
struct Plan {
    Ref dispatcher;
    Ref classes;                      // a tuple of the classes of tensors
    Py_ssize_t given = 0;             // how many arguments a call has
    std::vector<Make> makes;          // what it makes, in this order
    std::vector<Py_ssize_t> tensors;  // arguments that are of one of these classes, and not of a subclass
    std::vector<Py_ssize_t> numbers;  // arguments that are Python's own numbers
    std::vector<Py_ssize_t> params;   // the place of each argument of the launch
    Ref grid;                         // of every launch; null where it is the shape of the tensor at `shaped`
    Py_ssize_t shaped = 0;
    Py_ssize_t ndim = 0;  // of which these are the first extents
};

struct OpCall {
    PyObject_HEAD Plan* plan;
};

PyObject* shape_name = nullptr;
PyObject* nothing = nullptr;

Plan* plan_of(PyObject* object) { return reinterpret_cast<OpCall*>(object)->plan; }

// ---- a call

bool has_class(const Plan& plan, PyObject* object) {
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(plan.classes.get()); ++i) {
        if (PyTuple_GET_ITEM(plan.classes.get(), i) == type) return true;
    }
    return false;
}

bool is_number(PyObject* object) {
    return PyFloat_CheckExact(object) || PyLong_CheckExact(object) || PyBool_Check(object);
}

bool suits(const Plan& plan, PyObject* args) {
    if (!PyTuple_CheckExact(args) || PyTuple_GET_SIZE(args) != plan.given) return false;
    for (const Py_ssize_t at : plan.tensors) {
        if (!has_class(plan, PyTuple_GET_ITEM(args, at))) return false;
    }
    for (const Py_ssize_t at : plan.numbers) {
        if (!is_number(PyTuple_GET_ITEM(args, at))) return false;
    }
    return true;
}

// A tuple of what the call makes; null with an exception set.
Ref make_all(const Plan& plan, PyObject* args) {
    Ref made(PyTuple_New(static_cast<Py_ssize_t>(plan.makes.size())));
    for (size_t i = 0; made && i < plan.makes.size(); ++i) {
        PyObject* one = PyObject_CallOneArg(plan.makes[i].callable.get(), PyTuple_GET_ITEM(args, plan.makes[i].at));
        if (!one) return Ref();
        PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), one);
    }
    return made;
}

PyObject* at_place(const Plan& plan, PyObject* args, PyObject* made, Py_ssize_t place) {
    return place < plan.given ? PyTuple_GET_ITEM(args, place) : PyTuple_GET_ITEM(made, place - plan.given);
}

Ref grid_of(const Plan& plan, PyObject* args, PyObject* made) {
    if (plan.grid) return Ref::borrow(plan.grid.get());
    const Ref shape(PyObject_GetAttr(at_place(plan, args, made, plan.shaped), shape_name));
    return shape ? Ref(PySequence_GetSlice(shape.get(), 0, plan.ndim)) : Ref();
}

PyObject* run(PyObject* object, PyObject* args) {
    const Ref held = Ref::borrow(object);
    const Plan& plan = *plan_of(object);
    Dispatcher* dispatcher = as_dispatcher(plan.dispatcher.get());
    if (launches_are_held() || active_recorder() || !suits(plan, args) || !is_current(dispatcher->watch)) {
        Py_RETURN_NONE;
    }
    Ref made = make_all(plan, args);
    if (!made) return nullptr;
    const Ref grid = grid_of(plan, args, made.get());
    const Ref operands(PyTuple_New(static_cast<Py_ssize_t>(plan.params.size())));
    if (!grid || !operands) return nullptr;
    for (size_t i = 0; i < plan.params.size(); ++i) {
        PyObject* operand = at_place(plan, args, made.get(), plan.params[i]);
        PyTuple_SET_ITEM(operands.get(), static_cast<Py_ssize_t>(i), Py_NewRef(operand));
    }
    const Ref done(try_launch(plan.dispatcher.get(), {grid.get(), operands.get(), nothing, dispatcher->device}));
    if (!done) return nullptr;
    if (done.get() != Py_True) Py_RETURN_NONE;
    return made.release();
}

// ---- making one

bool read_places(PyObject* object, Py_ssize_t end, std::vector<Py_ssize_t>* places) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
        const Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(object, i));
        if (at == -1 && PyErr_Occurred()) return false;
        if (at < 0 || at >= end) {
            PyErr_Format(PyExc_ValueError, "OpCall: there is no place %zd", at);
            return false;
        }
        places->push_back(at);
    }
    return true;
}

bool read_makes(PyObject* object, Py_ssize_t given, std::vector<Make>* makes) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
        PyObject* callable;
        Py_ssize_t at;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(object, i), "On:OpCall", &callable, &at)) return false;
        if (!PyCallable_Check(callable) || at < 0 || at >= given) {
            PyErr_SetString(PyExc_ValueError, "OpCall: needs a callable and the place of an argument");
            return false;
        }
        makes->push_back({Ref::borrow(callable), at});
    }
    return true;
}

bool read_grid_rule(PyObject* object, Py_ssize_t end, Plan* plan) {
    if (!PyTuple_Check(object)) {
        plan->grid = Ref::borrow(object);
        return true;
    }
    if (!PyArg_ParseTuple(object, "nn:OpCall", &plan->shaped, &plan->ndim)) return false;
    if (plan->shaped >= 0 && plan->shaped < end && plan->ndim >= 0) return true;
    PyErr_SetString(PyExc_ValueError, "OpCall: the grid is that of no tensor");
    return false;
}

PyObject* op_call_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    PyObject *dispatcher, *classes, *makes, *tensors, *numbers, *params, *grid;
    Py_ssize_t given;
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "OpCall takes no keywords");
        return nullptr;
    }
    if (!PyArg_ParseTuple(args, "O!O!nO!O!O!O!O:OpCall", &DispatcherType, &dispatcher, &PyTuple_Type, &classes, &given,
                          &PyTuple_Type, &makes, &PyTuple_Type, &tensors, &PyTuple_Type, &numbers, &PyTuple_Type,
                          &params, &grid)) {
        return nullptr;
    }
    Ref object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    Plan* plan = new Plan;
    reinterpret_cast<OpCall*>(object.get())->plan = plan;
    plan->dispatcher = Ref::borrow(dispatcher);
    plan->classes = Ref::borrow(classes);
    plan->given = given;
    const Py_ssize_t end = given + PyTuple_GET_SIZE(makes);
    const bool sound = read_makes(makes, given, &plan->makes) && read_places(tensors, given, &plan->tensors) &&
                       read_places(numbers, given, &plan->numbers) && read_places(params, end, &plan->params) &&
                       read_grid_rule(grid, end, plan);
    return sound ? object.release() : nullptr;
}

int op_call_traverse(PyObject* object, visitproc visit, void* arg) {
    const Plan* plan = plan_of(object);
    if (!plan) return 0;
    Py_VISIT(plan->dispatcher.get());
    Py_VISIT(plan->classes.get());
    Py_VISIT(plan->grid.get());
    for (const Make& make : plan->makes) Py_VISIT(make.callable.get());
    return 0;
}

// A plan never changes, and a call may be under way: cycles are broken by those whom it refers to.
void op_call_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    delete plan_of(object);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef methods[] = {
    {"run", run, METH_O,
     "run($self, args, /)\n--\n\nMake what is to be made of a tuple of arguments, launch, and return a tuple of what "
     "was made; or return None, and nothing has run, where something is not plainly right or launches are watched."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject OpCallType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool register_op_call(PyObject* module) {
    shape_name = PyUnicode_InternFromString("shape");
    nothing = PyTuple_New(0);
    OpCallType.tp_name = "warp_like._native.OpCall";
    OpCallType.tp_basicsize = sizeof(OpCall);
    OpCallType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    OpCallType.tp_doc =
        "OpCall(dispatcher, classes, given, makes, tensors, numbers, params, grid)\n--\n\nLaunches a kernel on the "
        "tensors of a call with `given` arguments. Places count these, and then what was made of them: `makes` has "
        "callables, each with the place of its argument. `tensors` and `numbers` are places of arguments that have "
        "one of `classes`, or are Python's numbers. `params` has the place of each argument of the launch. `grid` is "
        "an int or a list, or a tuple (place, ndim): the first extents of a tensor.";
    OpCallType.tp_new = op_call_new;
    OpCallType.tp_dealloc = op_call_dealloc;
    OpCallType.tp_traverse = op_call_traverse;
    OpCallType.tp_methods = methods;
    return shape_name && nothing && add_type(module, "OpCall", &OpCallType);
}

}  // namespace wl
