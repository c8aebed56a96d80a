#include "recorder.h"

namespace wl {

namespace {

// Owned references. Both are null again before a thread ends, as what sets them does so in a `with` block; what a
// thread leaves here nevertheless is leaked, since its end is no place for Python code.
struct Taking {
    PyObject* active = nullptr;
    PyObject* graph = nullptr;
};
thread_local Taking taking;

bool held = false;  // guarded by the GIL

PyObject* get(PyObject* value) { return Ref::borrow(value ? value : Py_None).release(); }

int set(PyObject** slot, PyObject* value) {
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "a recorder's attributes can't be deleted");
        return -1;
    }
    PyObject* old = *slot;
    *slot = value == Py_None ? nullptr : Ref::borrow(value).release();
    Py_XDECREF(old);
    return 0;
}

PyObject* get_active(PyObject*, void*) { return get(taking.active); }
PyObject* get_graph(PyObject*, void*) { return get(taking.graph); }
int set_active(PyObject*, PyObject* value, void*) { return set(&taking.active, value); }
int set_graph(PyObject*, PyObject* value, void*) { return set(&taking.graph, value); }

PyObject* hold_launches(PyObject*, PyObject* on) {
    const int wanted = PyObject_IsTrue(on);
    if (wanted < 0) return nullptr;
    held = wanted != 0;
    Py_RETURN_NONE;
}

PyGetSetDef getset[] = {
    {"active", get_active, set_active, "This thread's Tape or Capture, or None.", nullptr},
    {"graph", get_graph, set_graph, "The Graph that this thread captures, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef functions[] = {
    {"hold_launches", hold_launches, METH_O,
     "hold_launches($module, on, /)\n--\n\nSay whether something has to see every launch: none then begins without "
     "Python."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject RecorderType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

PyObject* active_recorder() { return taking.active; }

PyObject* captured_graph() { return taking.graph; }

bool launches_are_held() { return held; }

bool register_recorder(PyObject* module) {
    RecorderType.tp_name = "warp_like._native.Recorder";
    RecorderType.tp_basicsize = sizeof(PyObject);
    RecorderType.tp_flags = Py_TPFLAGS_DEFAULT;
    RecorderType.tp_doc = "Recorder()\n--\n\nWhat takes part in the operations of the thread that asks.";
    RecorderType.tp_new = PyType_GenericNew;
    RecorderType.tp_getset = getset;
    return add_type(module, "Recorder", &RecorderType) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
