#include "front.h"

namespace wl {

namespace {

struct Front {
    PyObject_HEAD vectorcallfunc call;
    Shortcut shortcut;
    PyObject* checked;
    PyObject* dict;
};

Front* as_front(PyObject* object) { return reinterpret_cast<Front*>(object); }

PyObject* front_call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject* result = as_front(object)->shortcut(args, PyVectorcall_NARGS(nargsf), kwnames);
    if (result || PyErr_Occurred()) return result;
    return PyObject_Vectorcall(as_front(object)->checked, args, nargsf, kwnames);
}

// As a function does: found in a class, it becomes a method.
PyObject* front_get(PyObject* self, PyObject* instance, PyObject*) {
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Ref::borrow(self).release();
}

int front_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(as_front(object)->checked);
    Py_VISIT(as_front(object)->dict);
    return 0;
}

int front_clear(PyObject* object) {
    Py_CLEAR(as_front(object)->checked);
    Py_CLEAR(as_front(object)->dict);
    return 0;
}

void front_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    front_clear(object);
    Py_TYPE(object)->tp_free(object);
}

// By name, as functions are pickled.
PyObject* front_reduce(PyObject* object, PyObject*) { return PyObject_GetAttrString(object, "__qualname__"); }

PyMethodDef methods[] = {
    {"__reduce__", front_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject FrontType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

PyObject* make_front(Shortcut shortcut, PyObject* checked) {
    PyObject* object = FrontType.tp_alloc(&FrontType, 0);
    if (!object) return nullptr;
    as_front(object)->call = front_call;
    as_front(object)->shortcut = shortcut;
    as_front(object)->checked = Ref::borrow(checked).release();
    return object;
}

bool register_front(PyObject* module) {
    FrontType.tp_name = "warp_like._native.Front";
    FrontType.tp_basicsize = sizeof(Front);
    FrontType.tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    FrontType.tp_doc = "A native function in front of a Python function that has the same parameters.";
    FrontType.tp_dealloc = front_dealloc;
    FrontType.tp_traverse = front_traverse;
    FrontType.tp_clear = front_clear;
    FrontType.tp_call = PyVectorcall_Call;
    FrontType.tp_vectorcall_offset = offsetof(Front, call);
    FrontType.tp_dictoffset = offsetof(Front, dict);
    FrontType.tp_descr_get = front_get;
    FrontType.tp_methods = methods;
    FrontType.tp_getset = getset;
    return add_type(module, "Front", &FrontType);
}

}  // namespace wl
