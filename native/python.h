// The CPython API, and the few helpers that every file of the extension needs.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <utility>

static_assert(sizeof(void*) == 8 && sizeof(Py_ssize_t) == 8, "the kernel ABI is 64-bit");

namespace wl {

// An owned reference.
class Ref {
  public:
    Ref() = default;
    explicit Ref(PyObject* owned) : object_(owned) {}
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    ~Ref() { Py_XDECREF(object_); }

    static Ref borrow(PyObject* object) {
        Py_XINCREF(object);
        return Ref(object);
    }
    PyObject* get() const { return object_; }
    PyObject* release() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

  private:
    PyObject* object_ = nullptr;
};

// Casts a function of any of CPython's calling conventions to the type that its tables want.
template <typename F>
PyCFunction method(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Forgets an exception of code that Python calls again, where the exception then comes from. A Ctrl-C would not come
// again: it is noted once more, and raised as soon as Python runs.
inline void forget_error() {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    PyErr_Clear();
}

inline PyObject* tuple_of(const int64_t* values, Py_ssize_t n) {
    PyObject* tuple = PyTuple_New(n);
    if (!tuple) return nullptr;
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* item = PyLong_FromLongLong(values[i]);
        if (!item) {
            Py_DECREF(tuple);
            return nullptr;
        }
        PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

// Makes `type` ready and adds it to `module` under `name`; false with an exception set on failure.
inline bool add_type(PyObject* module, const char* name, PyTypeObject* type) {
    if (PyType_Ready(type) < 0) return false;
    Py_INCREF(type);
    if (PyModule_AddObject(module, name, reinterpret_cast<PyObject*>(type)) < 0) {
        Py_DECREF(type);
        return false;
    }
    return true;
}

}  // namespace wl
