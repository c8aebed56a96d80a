// Record: one launch on a tape, enough to run its adjoint; and History, which knows what recorded launches read, so
// that a later one that overwrites none of it is recorded with no help of Python's (warp_like/runtime/history.py).
#pragma once

#include <vector>

#include "dispatch.h"

namespace wl {

struct Record {
    PyObject_HEAD PyObject* kernel;
    PyObject* dims;        // a tuple of ints
    PyObject* types;       // of the kernel's parameters
    PyObject* args;        // a list
    PyObject* same;        // pairs of arguments that are one array, later one first
    PyObject* kept;        // dict: copies of arguments that have been overwritten since, by position
    PyObject* scratch;     // dict: copies of arguments from before the launch, by position
    PyObject* refusal;     // None, or why there is no gradient
    PyObject* dispatcher;  // the kernel's, or None
    long long block_dim;   // on CUDA, the threads of a block; 0: the usual
};

extern PyTypeObject RecordType;

inline bool is_record(PyObject* object) { return Py_TYPE(object) == &RecordType; }
inline Record* as_record(PyObject* object) { return reinterpret_cast<Record*>(object); }

// Where an array's elements lie: the first byte, and the one behind the last.
struct Extent {
    uintptr_t begin;
    uintptr_t end;
    bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
    bool holds(const Extent& other) const { return begin <= other.begin && other.end <= end; }
};

// Of the array that is packed at `slot` with elements of `itemsize` bytes.
Extent extent_of(const int64_t* slot, int ndim, int64_t itemsize);

// Of an Array.
Extent extent_of(PyObject* array);

// Whether an Array has a gradient.
bool has_gradient(PyObject* array);

// Dispatcher.try_record
PyObject* try_record(PyObject* dispatcher, PyObject* const* args, Py_ssize_t nargs);

bool register_record(PyObject* module);

}  // namespace wl
