// Buffer: the owner of memory. Arrays keep one alive as long as they look at its bytes.
#pragma once

#include "platform.h"
#include "python.h"

namespace wl {

struct Buffer {
    PyObject_HEAD void* ptr;
    int64_t nbytes;
    void (*release)(void* context);  // frees foreign or own memory without Python; may be null
    void* context;
    PyObject* deleter;   // a Python callable that gets `ptr`, or null
    PyObject* owner;     // anything that has to live as long, or null
    PyObject* watchers;  // a list of weak references to tensors that were made over the memory, or null
    PyObject* weakrefs;
    bool pinned;  // there is a second reference to the deleter, which the garbage collector does not see
};

extern PyTypeObject BufferType;

// Returns a new Buffer over memory that `release(context)` gives back; null with an exception set on failure,
// and `release` is then not called.
PyObject* make_buffer(void* ptr, int64_t nbytes, void (*release)(void*), void* context);

// Returns a new Buffer over fresh memory, aligned to kAlignment; null with an exception set on failure.
PyObject* make_builtin_memory(int64_t nbytes, bool zero);

// The same for the memory of an array, which comes from the user's allocator where there is one.
PyObject* make_memory(int64_t nbytes, bool zero);

// Tells whoever follows allocations of one that was not made by make_memory.
void note_allocation(PyObject* buffer);

// Whether `object` holds memory that is given back without Python and without any framework.
bool is_plain_memory(PyObject* object);

inline bool is_buffer(PyObject* object) { return object && Py_TYPE(object) == &BufferType; }

// Whether somebody wants to know of writes to the memory that `owner` holds.
inline bool is_watched(PyObject* owner) { return is_buffer(owner) && reinterpret_cast<Buffer*>(owner)->watchers; }

// Appends the tensors that live over the memory of `buffer` to `list`; false with an exception set.
bool append_watchers(PyObject* buffer, PyObject* list);

// Notes that a tensor lives over the memory of `buffer`; false with an exception set.
bool add_watcher(PyObject* buffer, PyObject* tensor);

// What a weak reference refers to, a new reference; null, without an exception, when it is gone.
PyObject* dereferenced(PyObject* weak);

bool register_alloc(PyObject* module);

}  // namespace wl
