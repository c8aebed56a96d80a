// HostWrite: what the host does to a whole array in a graph. It fills, copies or adds, without Python.
#pragma once

#include "array.h"
#include "context.h"
#include "python.h"

namespace wl {

extern PyTypeObject HostWriteType;

inline bool is_host_write(PyObject* object) { return Py_TYPE(object) == &HostWriteType; }

// Runs it; false with an exception set.
bool run_host_write(PyObject* write);

// A write as a kernel whose threads are the elements of `dest`.
struct ElementWrite {
    Entry entry;
    const uint8_t* args;
    const Array* dest;
    const Array* source;  // null: numbers that the write holds
    bool adds;
};

// Whether the memory that it uses is there; false with an exception set.
bool require_memory_of_write(PyObject* write);

// False where its elements depend on each other, or Python has to do it, for now.
bool as_element_write(PyObject* write, ElementWrite* out);

bool register_host_write(PyObject* module);

}  // namespace wl
