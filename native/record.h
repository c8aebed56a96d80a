// Record: one launch on a tape, enough to run its adjoint.
#pragma once

#include <vector>

#include "dispatch.h"

namespace wl {

// What an argument that the adjoint reads held when the launch had run.
struct Seen {
    Py_ssize_t position;
    uint64_t fingerprint;
};

struct Record {
    PyObject_HEAD PyObject* kernel;
    PyObject* dims;              // a tuple of ints
    PyObject* types;             // of the kernel's parameters
    PyObject* args;              // a list
    PyObject* same;              // pairs of arguments that are one array, later one first
    PyObject* saved;             // dict: copies of arguments that have been overwritten since, by position
    PyObject* prelaunch_copies;  // dict: copies of arguments from before the launch, by position
    PyObject* refusal;           // None, or why there is no gradient
    PyObject* dispatcher;        // the kernel's, or None
    long long block_dim;         // on CUDA, the threads of a block; 0: the usual
    std::vector<Seen> seen;
    long long unrecorded;  // of its kernel, before this launch: see Dispatcher
    char torn;             // something unseen changed its arguments while the tape was recording
};

extern PyTypeObject RecordType;

inline bool is_record(PyObject* object) { return Py_TYPE(object) == &RecordType; }
inline Record* as_record(PyObject* object) { return reinterpret_cast<Record*>(object); }

// Whether an Array has a gradient.
bool has_gradient(PyObject* array);

// Dispatcher.try_record: runs a launch and returns its Record, or True where the kernel is None, so that a launch that
// is not recorded is seen all the same; None, and nothing has run, where Python has to see to it.
PyObject* try_record(PyObject* dispatcher, const LaunchCall& call, PyObject* history, PyObject* kernel);

// Notes what arrays hold, when a launch has run, so that `is_outdated` can tell.
void note_seen(Record* record);

// Whether somebody has written to an array that the adjoint reads, as far as fingerprints show it, with no launch of
// the kernel since, which a program does that runs a tape again on other numbers.
bool is_outdated(const Record* record, const Dispatcher* adjoint);

bool register_record(PyObject* module);

}  // namespace wl
