#include "current_device.h"

namespace wl {

namespace {

// Devices live as long as the process, so what a thread leaves here at its end is no loss.
thread_local PyObject* of_thread = nullptr;
PyObject* of_process = nullptr;

PyObject* shown(PyObject* device) { return Ref::borrow(device ? device : Py_None).release(); }

// Puts `device` into a slot, and returns what was there: a new reference.
PyObject* exchange(PyObject** slot, PyObject* device) {
    PyObject* old = *slot;
    *slot = device == Py_None ? nullptr : Ref::borrow(device).release();
    return old ? old : Ref::borrow(Py_None).release();
}

PyObject* get(PyObject*, PyObject*) { return shown(current_device()); }

PyObject* exchange_of_thread(PyObject*, PyObject* device) { return exchange(&of_thread, device); }

PyObject* set(PyObject*, PyObject* device) {
    const Ref old_own(exchange(&of_thread, device)), old_common(exchange(&of_process, device));
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"current_device", get, METH_NOARGS,
     "current_device($module, /)\n--\n\nReturn the device that a launch means which names none: this thread's own, "
     "else "
     "that of the process; None where neither was named."},
    {"set_current_device", set, METH_O,
     "set_current_device($module, device, /)\n--\n\nMake a device that of this thread and of the threads that name "
     "none; None is the CPU."},
    {"exchange_thread_device", exchange_of_thread, METH_O,
     "exchange_thread_device($module, device, /)\n--\n\nMake a device this thread's own, or None for no device of its "
     "own, and return what it was before."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* current_device() { return of_thread ? of_thread : of_process; }

bool register_current_device(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace wl
