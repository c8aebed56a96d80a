#include "fast_path.h"

namespace wl {

namespace {

struct FastPath {
    PyObject_HEAD vectorcallfunc call;
    Shortcut shortcut;
    PyObject* checked;
    PyObject* dict;
};

FastPath* as_fast_path(PyObject* object) { return reinterpret_cast<FastPath*>(object); }

PyObject* fast_path_call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject* result = as_fast_path(object)->shortcut(args, PyVectorcall_NARGS(nargsf), kwnames);
    if (result || PyErr_Occurred()) return result;
    return PyObject_Vectorcall(as_fast_path(object)->checked, args, nargsf, kwnames);
}

// As a function does: found in a class, it becomes a method.
PyObject* fast_path_get(PyObject* self, PyObject* instance, PyObject*) {
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Ref::borrow(self).release();
}

int fast_path_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(as_fast_path(object)->checked);
    Py_VISIT(as_fast_path(object)->dict);
    return 0;
}

int fast_path_clear(PyObject* object) {
    Py_CLEAR(as_fast_path(object)->checked);
    Py_CLEAR(as_fast_path(object)->dict);
    return 0;
}

void fast_path_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    fast_path_clear(object);
    Py_TYPE(object)->tp_free(object);
}

// By name, as functions are pickled.
PyObject* fast_path_reduce(PyObject* object, PyObject*) { return PyObject_GetAttrString(object, "__qualname__"); }

PyMethodDef methods[] = {
    {"__reduce__", fast_path_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject FastPathType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

PyObject* make_fast_path(Shortcut shortcut, PyObject* checked) {
    PyObject* object = FastPathType.tp_alloc(&FastPathType, 0);
    if (!object) return nullptr;
    as_fast_path(object)->call = fast_path_call;
    as_fast_path(object)->shortcut = shortcut;
    as_fast_path(object)->checked = Ref::borrow(checked).release();
    return object;
}

bool register_fast_path(PyObject* module) {
    FastPathType.tp_name = "warp_like._native.FastPath";
    FastPathType.tp_basicsize = sizeof(FastPath);
    FastPathType.tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    FastPathType.tp_doc = "A native function in front of a Python function that has the same parameters.";
    FastPathType.tp_dealloc = fast_path_dealloc;
    FastPathType.tp_traverse = fast_path_traverse;
    FastPathType.tp_clear = fast_path_clear;
    FastPathType.tp_call = PyVectorcall_Call;
    FastPathType.tp_vectorcall_offset = offsetof(FastPath, call);
    FastPathType.tp_dictoffset = offsetof(FastPath, dict);
    FastPathType.tp_descr_get = fast_path_get;
    FastPathType.tp_methods = methods;
    FastPathType.tp_getset = getset;
    return add_type(module, "FastPath", &FastPathType);
}

}  // namespace wl
