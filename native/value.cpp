#include "value.h"

#include <cstring>

#include "scalar.h"

namespace wl {

namespace {

PyObject* nbytes_name = nullptr;
PyObject* type_code_name = nullptr;

// The int in class attribute `name`; -1 without an exception when there is none.
Py_ssize_t class_int(PyTypeObject* type, PyObject* name) {
    PyObject* found = _PyType_Lookup(type, name);
    return found && PyLong_CheckExact(found) ? PyLong_AsSsize_t(found) : -1;
}

// The size is the class's `_nbytes_`, and the arguments are then those of __init__; else it is the argument.
PyObject* value_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    Py_ssize_t nbytes = class_int(type, nbytes_name);
    if (nbytes < 0) {
        if (PyErr_Occurred()) return nullptr;
        if (kwargs && PyDict_GET_SIZE(kwargs)) {
            PyErr_SetString(PyExc_TypeError, "Value(nbytes) takes no keyword arguments");
            return nullptr;
        }
        if (!PyArg_ParseTuple(args, "n:Value", &nbytes)) return nullptr;
        if (nbytes < 0) {
            PyErr_SetString(PyExc_ValueError, "Value() needs a size of at least 0 bytes");
            return nullptr;
        }
    }
    return type->tp_alloc(type, nbytes);  // zeroed
}

int value_init(PyObject*, PyObject*, PyObject*) { return 0; }

int value_getbuffer(PyObject* object, Py_buffer* view, int flags) {
    Value* self = reinterpret_cast<Value*>(object);
    Element element{};
    const Py_ssize_t code = class_int(Py_TYPE(object), type_code_name);
    const bool typed = code >= 0 && Element::decode(static_cast<uint32_t>(code), &element) &&
                       element.size <= Py_SIZE(self) && buffer_format(element.scalar);
    if (!typed) {
        forget_error();
        if (code >= 0 && (flags & PyBUF_FORMAT) && element.scalar == Scalar::Bfloat16) {
            PyErr_SetString(PyExc_BufferError, "the buffer protocol has no format for bfloat16");
            view->obj = nullptr;
            return -1;
        }
        return PyBuffer_FillInfo(view, object, self->bytes, Py_SIZE(self), 0, flags);
    }
    auto* dims = static_cast<Py_ssize_t*>(PyMem_Malloc(2 * kMaxComponents * sizeof(Py_ssize_t)));
    if (!dims) {
        view->obj = nullptr;
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < kMaxComponents; ++i) {
        dims[i] = element.extents[i];
        dims[kMaxComponents + i] = element.strides[i];
    }
    Py_INCREF(object);
    view->obj = object;
    view->buf = self->bytes;
    view->len = element.size;
    view->readonly = 0;
    view->itemsize = element.scalar_size;
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(buffer_format(element.scalar)) : nullptr;
    view->ndim = element.components;
    view->shape = flags & PyBUF_ND ? dims : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims + kMaxComponents : nullptr;
    view->suboffsets = nullptr;
    view->internal = dims;
    return 0;
}

void value_releasebuffer(PyObject*, Py_buffer* view) { PyMem_Free(view->internal); }

PyBufferProcs value_buffer = {value_getbuffer, value_releasebuffer};

}  // namespace

PyTypeObject ValueType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool register_value(PyObject* module) {
    nbytes_name = PyUnicode_InternFromString("_nbytes_");
    type_code_name = PyUnicode_InternFromString("_type_code_");
    if (!nbytes_name || !type_code_name) return false;
    ValueType.tp_name = "warp_like._native.Value";
    ValueType.tp_basicsize = offsetof(Value, bytes);
    ValueType.tp_itemsize = 1;
    ValueType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    ValueType.tp_doc =
        "Value(nbytes)\n--\n\nZeroed bytes of one host value, seen through the buffer protocol as what the class "
        "attribute `_type_code_` says. A class with `_nbytes_` takes its size from there.";
    ValueType.tp_new = value_new;
    ValueType.tp_init = value_init;
    ValueType.tp_as_buffer = &value_buffer;
    return add_type(module, "Value", &ValueType);
}

}  // namespace wl
