#include "alloc.h"

#include "free_blocks.h"
#include "structmember.h"

namespace wl {

namespace {

PyObject* make_untold_memory(int64_t nbytes, bool zero);

PyObject* alloc(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs < 1 || nargs > 3) {
        PyErr_SetString(PyExc_TypeError, "alloc(nbytes, zero=False, builtin=False) takes one to three arguments");
        return nullptr;
    }
    const Py_ssize_t nbytes = PyLong_AsSsize_t(args[0]);
    if (nbytes == -1 && PyErr_Occurred()) return nullptr;
    const int zero = nargs > 1 ? PyObject_IsTrue(args[1]) : 0;
    if (zero < 0) return nullptr;
    if (nbytes < 0) {
        PyErr_SetString(PyExc_ValueError, "alloc() needs a size of at least 0 bytes");
        return nullptr;
    }
    const int builtin = nargs > 2 ? PyObject_IsTrue(args[2]) : 0;
    if (builtin < 0) return nullptr;
    return builtin ? make_untold_memory(nbytes, zero) : make_memory(nbytes, zero);
}

PyObject* buffer_wrap(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs < 2 || nargs > 4) {
        PyErr_SetString(PyExc_TypeError, "Buffer.wrap(ptr, nbytes, deleter=None, owner=None)");
        return nullptr;
    }
    const unsigned long long address = PyLong_AsUnsignedLongLong(args[0]);
    if (address == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return nullptr;
    const Py_ssize_t nbytes = PyLong_AsSsize_t(args[1]);
    if (nbytes == -1 && PyErr_Occurred()) return nullptr;
    PyObject* deleter = nargs > 2 && args[2] != Py_None ? args[2] : nullptr;
    PyObject* owner = nargs > 3 && args[3] != Py_None ? args[3] : nullptr;
    if (deleter && !PyCallable_Check(deleter)) {
        PyErr_SetString(PyExc_TypeError, "Buffer.wrap() needs a callable or None as deleter");
        return nullptr;
    }
    PyObject* self = make_buffer(reinterpret_cast<void*>(address), nbytes, nullptr, nullptr);
    if (!self) return nullptr;
    Buffer* buffer = reinterpret_cast<Buffer*>(self);
    Py_XINCREF(deleter);
    buffer->deleter = deleter;
    Py_XINCREF(owner);
    buffer->owner = owner;
    return self;
}

void call_deleter(Buffer* self) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Ref address(PyLong_FromVoidPtr(self->ptr));
    Ref result(address ? PyObject_CallOneArg(self->deleter, address.get()) : nullptr);
    if (!result) PyErr_WriteUnraisable(self->deleter);
    PyErr_Restore(type, value, traceback);
}

void buffer_dealloc(PyObject* object) {
    Buffer* self = reinterpret_cast<Buffer*>(object);
    PyObject_GC_UnTrack(object);
    if (self->weakrefs) PyObject_ClearWeakRefs(object);
    if (self->release) self->release(self->context);
    if (self->deleter) call_deleter(self);
    if (self->pinned) Py_DECREF(self->deleter);
    Py_CLEAR(self->deleter);
    Py_CLEAR(self->owner);
    Py_CLEAR(self->watchers);
    PyObject_GC_Del(object);
}

// The garbage collector calls this before it clears anything. A deleter that is garbage like the buffer, a function
// with its variables, would be cleared before it is called. The second reference keeps it and all that it reaches alive
// until the buffer is gone; a deleter that reaches the buffer itself then stays for ever.
void buffer_finalize(PyObject* object) {
    Buffer* self = reinterpret_cast<Buffer*>(object);
    if (self->pinned || !self->deleter) return;
    self->pinned = true;
    Py_INCREF(self->deleter);
}

// There is no tp_clear: the deleter must still be there when the memory is given back.
int buffer_traverse(PyObject* object, visitproc visit, void* arg) {
    Buffer* self = reinterpret_cast<Buffer*>(object);
    Py_VISIT(self->deleter);
    Py_VISIT(self->owner);
    Py_VISIT(self->watchers);
    return 0;
}

PyObject* get_ptr(PyObject* self, void*) { return PyLong_FromVoidPtr(reinterpret_cast<Buffer*>(self)->ptr); }

PyMethodDef buffer_methods[] = {
    {"wrap", method(buffer_wrap), METH_FASTCALL | METH_STATIC,
     "wrap(ptr, nbytes, deleter=None, owner=None, /)\n--\n\nOwn foreign memory; `deleter(ptr)` gives it back."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef buffer_members[] = {
    {"nbytes", T_LONGLONG, offsetof(Buffer, nbytes), READONLY, "Size in bytes."},
    {"owner", T_OBJECT, offsetof(Buffer, owner), READONLY, "What is kept alive with the memory, or None."},
    {"watchers", T_OBJECT, offsetof(Buffer, watchers), 0,
     "Weak references to tensors over the memory, whose libraries are told of writes, or None."},
    {"deleter", T_OBJECT, offsetof(Buffer, deleter), READONLY, "What gives the memory back, or None."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef buffer_getset[] = {
    {"ptr", get_ptr, nullptr, "Address of the first byte.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef functions[] = {
    {"alloc", method(alloc), METH_FASTCALL,
     "alloc($module, nbytes, zero=False, builtin=False, /)\n--\n\nReturn a Buffer of `nbytes` bytes, aligned to 64 "
     "where they do not come from an allocator of the user's; with `builtin` they do not."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject BufferType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

PyObject* tracker = nullptr;  // called with each new Buffer of our own memory

void tell_tracker(PyObject* buffer) {
    const Ref held = Ref::borrow(tracker);
    if (!Ref(PyObject_CallOneArg(tracker, buffer))) PyErr_WriteUnraisable(held.get());
}

PyObject* track_allocations(PyObject*, PyObject* callable) {
    PyObject* old = tracker;
    tracker = callable == Py_None ? nullptr : Ref::borrow(callable).release();
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

// The memory that an allocator of the user's hands on: it is told of as the array's.
PyObject* make_untold_memory(int64_t nbytes, bool zero) {
    PyObject* const told = tracker;
    tracker = nullptr;
    PyObject* made = make_builtin_memory(nbytes, zero);
    tracker = told;
    return made;
}

PyObject* allocator = nullptr;  // makes the memory of new arrays in place of take_block

PyObject* set_allocator(PyObject*, PyObject* callable) {
    PyObject* old = allocator;
    allocator = callable == Py_None ? nullptr : Ref::borrow(callable).release();
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

PyObject* make_memory_of_user(int64_t nbytes, bool zero) {
    const Ref held = Ref::borrow(allocator);
    Ref made(PyObject_CallFunction(held.get(), "LO", static_cast<long long>(nbytes), zero ? Py_True : Py_False));
    if (made && !is_buffer(made.get())) {
        PyErr_Format(PyExc_TypeError, "an allocator has to make a Buffer, got %R", made.get());
        return nullptr;
    }
    if (made) note_allocation(made.get());
    return made.release();
}

PyMethodDef tracking[] = {
    {"set_allocator", set_allocator, METH_O,
     "set_allocator($module, callable, /)\n--\n\nLet `callable(nbytes, zero)` make the Buffers of new arrays; None "
     "ends it."},
    {"track_allocations", track_allocations, METH_O,
     "track_allocations($module, callable, /)\n--\n\nCall `callable(buffer)` for each allocation from now on; None "
     "ends it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* make_memory(int64_t nbytes, bool zero) {
    return allocator && nbytes ? make_memory_of_user(nbytes, zero) : make_builtin_memory(nbytes, zero);
}

PyObject* make_builtin_memory(int64_t nbytes, bool zero) {
    if (nbytes > PY_SSIZE_T_MAX - 4 * kAlignment) return PyErr_NoMemory();
    void* block = take_block(static_cast<size_t>(nbytes), zero);
    if (!block) return PyErr_NoMemory();
    PyObject* buffer = make_buffer(block, nbytes, give_back_block, block);
    if (!buffer) give_back_block(block);
    return buffer;
}

PyObject* make_buffer(void* ptr, int64_t nbytes, void (*release)(void*), void* context) {
    Buffer* self = PyObject_GC_New(Buffer, &BufferType);
    if (!self) return nullptr;
    self->ptr = ptr;
    self->nbytes = nbytes;
    self->release = release;
    self->context = context;
    self->deleter = self->owner = self->watchers = self->weakrefs = nullptr;
    self->pinned = false;
    PyObject_GC_Track(reinterpret_cast<PyObject*>(self));
    if (tracker && release == give_back_block) tell_tracker(reinterpret_cast<PyObject*>(self));
    return reinterpret_cast<PyObject*>(self);
}

PyObject* dereferenced(PyObject* weak) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* found = nullptr;
    PyWeakref_GetRef(weak, &found);
    return found;
#else
    PyObject* found = PyWeakref_GetObject(weak);
    if (found == Py_None) return nullptr;
    Py_INCREF(found);
    return found;
#endif
}

void note_allocation(PyObject* buffer) {
    if (tracker) tell_tracker(buffer);
}

bool is_plain_memory(PyObject* object) {
    if (!object || Py_TYPE(object) != &BufferType) return false;
    const Buffer* buffer = reinterpret_cast<Buffer*>(object);
    return buffer->release == give_back_block && !buffer->deleter && !buffer->owner;
}

bool append_watchers(PyObject* buffer, PyObject* list) {
    Ref watchers = Ref::borrow(reinterpret_cast<Buffer*>(buffer)->watchers);
    if (!watchers || !PyList_CheckExact(watchers.get())) return true;
    bool alive = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(watchers.get()); ++i) {
        PyObject* weak = PyList_GET_ITEM(watchers.get(), i);
        Ref tensor(PyWeakref_Check(weak) ? dereferenced(weak) : nullptr);
        if (!tensor) continue;
        alive = true;
        if (PyList_Append(list, tensor.get()) < 0) return false;
    }
    if (!alive) Py_CLEAR(reinterpret_cast<Buffer*>(buffer)->watchers);
    return true;
}

bool add_watcher(PyObject* object, PyObject* tensor) {
    Buffer* buffer = reinterpret_cast<Buffer*>(object);
    const Ref old = Ref::borrow(buffer->watchers);
    const Ref fresh(PyList_New(0));
    if (!fresh) return false;
    for (Py_ssize_t i = 0; old && PyList_CheckExact(old.get()) && i < PyList_GET_SIZE(old.get()); ++i) {
        PyObject* weak = PyList_GET_ITEM(old.get(), i);
        const bool alive = PyWeakref_Check(weak) && Ref(dereferenced(weak));
        if (alive && PyList_Append(fresh.get(), weak) < 0) return false;
    }
    const Ref weak(PyWeakref_NewRef(tensor, nullptr));
    if (!weak || PyList_Append(fresh.get(), weak.get()) < 0) return false;
    Py_INCREF(fresh.get());
    Py_XSETREF(buffer->watchers, fresh.get());
    return true;
}

bool register_alloc(PyObject* module) {
    if (PyModule_AddFunctions(module, tracking) != 0) return false;
    BufferType.tp_name = "warp_like._native.Buffer";
    BufferType.tp_basicsize = sizeof(Buffer);
    BufferType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    BufferType.tp_doc = "The owner of a piece of memory, given back when the last reference goes.";
    BufferType.tp_dealloc = buffer_dealloc;
    BufferType.tp_traverse = buffer_traverse;
    BufferType.tp_finalize = buffer_finalize;
    BufferType.tp_methods = buffer_methods;
    BufferType.tp_members = buffer_members;
    BufferType.tp_getset = buffer_getset;
    BufferType.tp_weaklistoffset = offsetof(Buffer, weakrefs);
    return add_type(module, "Buffer", &BufferType) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
