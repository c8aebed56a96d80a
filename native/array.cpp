#include "array.h"

#include <cstddef>

#include "bulk.h"
#include "dlpack.h"
#include "export.h"
#include "make.h"
#include "structmember.h"
#include "tensor_memory.h"

namespace wl {

bool is_contiguous(int ndim, const int64_t* shape, const int64_t* strides, int64_t itemsize) {
    bool packed = true;
    int64_t expected = itemsize;
    for (int i = ndim - 1; i >= 0; --i) {
        if (shape[i] == 0) return true;
        if (shape[i] != 1) {
            if (strides[i] != expected) packed = false;
            expected *= shape[i];
        }
    }
    return packed;
}

void complete(Array* self) {
    Element element{};
    self->components = 0;
    int64_t alignment = self->itemsize & -self->itemsize;  // of what is no element: what its size implies, up to 8
    if (alignment > 8) alignment = 8;
    if ((self->type_code & 0xff) == kStructCode) alignment = int64_t{1} << (self->type_code >> kAlignBit & 3);
    if (Element::decode(self->type_code, &element)) {
        self->components = element.components;
        alignment = element.scalar_size;
        for (int i = 0; i < element.components; ++i) {
            self->shape[self->ndim + i] = element.extents[i];
            self->strides[self->ndim + i] = element.strides[i];
        }
    }
    self->contiguous = is_contiguous(self->ndim, self->shape, self->strides, self->itemsize);
    uint64_t bits = self->size ? reinterpret_cast<uintptr_t>(self->data) : 0;
    for (int i = 0; i < self->ndim; ++i) {
        if (self->size && self->shape[i] > 1) bits |= static_cast<uint64_t>(self->strides[i]);
    }
    self->aligned = (bits & static_cast<uint64_t>(alignment - 1)) == 0;
}

namespace {

// Reads a tuple or list of ints into `out` and returns how many there are; -1 with an exception set.
int read_ints(PyObject* object, const char* what, int64_t* out) {
    Ref sequence(PySequence_Fast(object, "_bind() needs tuples of ints"));
    if (!sequence) return -1;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence.get());
    if (n > kMaxDims) {
        PyErr_Format(PyExc_ValueError, "an array has at most %d dimensions, %s has %zd", kMaxDims, what, n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
        out[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(sequence.get(), i));
        if (out[i] == -1 && PyErr_Occurred()) return -1;
    }
    return static_cast<int>(n);
}

bool read_geometry(Array* self, PyObject* shape, PyObject* strides) {
    const int ndim = read_ints(shape, "shape", self->shape);
    if (ndim < 0) return false;
    self->ndim = ndim;
    int64_t bytes = self->itemsize;
    self->size = 1;
    for (int i = 0; i < ndim; ++i) {
        if (self->shape[i] < 0) {
            PyErr_Format(PyExc_ValueError, "an array's dimensions cannot be negative, shape is %R", shape);
            return false;
        }
        if (self->shape[i] == 0) self->size = 0;
    }
    for (int i = ndim - 1; i >= 0 && self->size; --i) {
        if (__builtin_mul_overflow(bytes, self->shape[i], &bytes)) {
            PyErr_Format(PyExc_ValueError, "an array of shape %R does not fit in 64-bit addresses", shape);
            return false;
        }
        self->size *= self->shape[i];
    }
    if (strides != Py_None) {
        const int n = read_ints(strides, "strides", self->strides);
        if (n < 0) return false;
        if (n != ndim) {
            PyErr_Format(PyExc_ValueError, "shape %R and strides %R differ in length", shape, strides);
            return false;
        }
        return true;
    }
    int64_t stride = self->itemsize;
    for (int i = ndim - 1; i >= 0; --i) {
        self->strides[i] = stride;
        if (self->size) stride *= self->shape[i];
    }
    return true;
}

bool wants_writes(PyObject* owner) {
    const TensorType* type = find_tensor_type(Py_TYPE(owner));
    return type && type->write_hook;
}

void hold(PyObject** slot, PyObject* object) {
    Py_INCREF(object);
    Py_XSETREF(*slot, object);
}

PyObject* array_bind(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    Array* self = reinterpret_cast<Array*>(object);
    if (nargs < 9 || nargs > 11) {
        PyErr_SetString(PyExc_TypeError,
                        "_bind(ptr, shape, strides, type_code, itemsize, readonly, dtype, device, owner, "
                        "device_type=1, device_id=0)");
        return nullptr;
    }
    if (self->type_code != kUnbound) {
        PyErr_SetString(PyExc_RuntimeError, "this array is bound already: its memory cannot be exchanged");
        return nullptr;
    }
    const unsigned long long address = PyLong_AsUnsignedLongLong(args[0]);
    if (PyErr_Occurred()) return nullptr;
    const unsigned long type_code = PyLong_AsUnsignedLong(args[3]);
    if (PyErr_Occurred()) return nullptr;
    const int64_t itemsize = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred()) return nullptr;
    const int readonly = PyObject_IsTrue(args[5]);
    if (readonly < 0) return nullptr;
    const long device_type = nargs > 9 ? PyLong_AsLong(args[9]) : kDLCPU;
    const long device_id = nargs > 10 ? PyLong_AsLong(args[10]) : 0;
    if (PyErr_Occurred()) return nullptr;
    Element element{};
    const bool known = Element::decode(static_cast<uint32_t>(type_code), &element);
    if (type_code >= kUnbound || itemsize <= 0 || (known && itemsize != element.size)) {
        PyErr_Format(PyExc_ValueError, "type code %lu does not go with elements of %lld bytes", type_code,
                     static_cast<long long>(itemsize));
        return nullptr;
    }
    self->itemsize = itemsize;
    if (!read_geometry(self, args[1], args[2])) {
        self->ndim = 0;
        self->size = 0;
        return nullptr;
    }
    self->data = reinterpret_cast<char*>(address);
    self->type_code = static_cast<uint32_t>(type_code);
    self->readonly = readonly != 0;
    self->device_type = static_cast<int32_t>(device_type);
    self->device_id = static_cast<int32_t>(device_id);
    complete(self);
    hold(&self->dtype, args[6]);
    hold(&self->device, args[7]);
    // The memory's own holder, not another array that looks at it, so that what it is can be seen here.
    PyObject* owner = args[8];
    const bool shared = is_array(owner);
    while (is_array(owner)) {
        self->tensor_data = reinterpret_cast<Array*>(owner)->tensor_data;
        PyObject* beyond = reinterpret_cast<Array*>(owner)->owner;
        if (!beyond || beyond == Py_None) break;
        if (PyObject* storage = reinterpret_cast<Array*>(owner)->storage) hold(&self->storage, storage);
        owner = beyond;
    }
    hold(&self->owner, owner);
    self->hooked = wants_writes(self->owner);
    if (!shared) note_tensor_memory(self);
    Py_RETURN_NONE;
}

PyObject* array_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* object = type->tp_alloc(type, 0);  // zeroed
    if (object) {
        Array* self = reinterpret_cast<Array*>(object);
        self->type_code = kUnbound;
        self->itemsize = 1;
    }
    return object;
}

// Returns a new array of the class of `object`, with all of it but address, shape and strides.
Array* new_view(PyObject* object) {
    Array* base = reinterpret_cast<Array*>(object);
    Array* view = reinterpret_cast<Array*>(array_new(Py_TYPE(object), nullptr, nullptr));
    if (!view) return nullptr;
    view->itemsize = base->itemsize;
    view->type_code = base->type_code;
    view->readonly = base->readonly;
    view->device_type = base->device_type;
    view->device_id = base->device_id;
    view->hooked = base->hooked;
    view->tensor_data = base->tensor_data;
    hold(&view->dtype, base->dtype);
    hold(&view->device, base->device);
    hold(&view->owner, base->owner && base->owner != Py_None ? base->owner : object);
    if (base->storage) hold(&view->storage, base->storage);
    return view;
}

PyObject* array_subview(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    Array* base = reinterpret_cast<Array*>(object);
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "_subview(offset, shape, strides)");
        return nullptr;
    }
    if (base->type_code == kUnbound) {
        PyErr_SetString(PyExc_RuntimeError, "this array is not bound to memory yet");
        return nullptr;
    }
    const long long offset = PyLong_AsLongLong(args[0]);
    if (offset == -1 && PyErr_Occurred()) return nullptr;
    Ref result(reinterpret_cast<PyObject*>(new_view(object)));
    if (!result) return nullptr;
    Array* view = reinterpret_cast<Array*>(result.get());
    if (!read_geometry(view, args[1], args[2])) return nullptr;
    view->data = base->data + offset;
    complete(view);
    return result.release();
}

struct Geometry {
    int ndim = 0;
    int64_t offset = 0;
    int64_t shape[kMaxDims];
    int64_t strides[kMaxDims];
};

// Selects in dimension `axis` what `part`, a slice or an integer, does; false where it is something else, or outside.
bool select(const Array* base, int axis, PyObject* part, Geometry* out) {
    const int64_t extent = base->shape[axis], stride = base->strides[axis];
    if (PySlice_Check(part)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(part, &start, &stop, &step) < 0) {
            forget_error();
            return false;
        }
        const Py_ssize_t count = PySlice_AdjustIndices(extent, &start, &stop, step);
        if (count) out->offset += start * stride;
        out->shape[out->ndim] = count;
        out->strides[out->ndim++] = step * stride;
        return true;
    }
    if (!PyLong_CheckExact(part)) return false;
    int overflow = 0;
    const int64_t i = PyLong_AsLongLongAndOverflow(part, &overflow);
    if (overflow || i < -extent || i >= extent) return false;
    out->offset += (i < 0 ? i + extent : i) * stride;
    return true;
}

bool select_all(const Array* base, PyObject* key, Geometry* out) {
    const bool several = PyTuple_CheckExact(key);
    const Py_ssize_t given = several ? PyTuple_GET_SIZE(key) : 1;
    if (given > base->ndim) return false;
    for (int axis = 0; axis < base->ndim; ++axis) {
        if (axis < given) {
            if (!select(base, axis, several ? PyTuple_GET_ITEM(key, axis) : key, out)) return false;
        } else {
            out->shape[out->ndim] = base->shape[axis];
            out->strides[out->ndim++] = base->strides[axis];
        }
    }
    return out->ndim > 0;
}

// The fast form of runtime/arrays/indexing.py for views: None where the key is unusual or wrong, or means one element.
PyObject* array_slice(PyObject* object, PyObject* key) {
    Array* base = reinterpret_cast<Array*>(object);
    Geometry found;
    if (base->type_code == kUnbound || !select_all(base, key, &found)) Py_RETURN_NONE;
    Ref result(reinterpret_cast<PyObject*>(new_view(object)));
    if (!result) return nullptr;
    Array* view = reinterpret_cast<Array*>(result.get());
    view->ndim = found.ndim;
    view->size = 1;
    for (int i = 0; i < found.ndim; ++i) {
        view->shape[i] = found.shape[i];
        view->strides[i] = found.strides[i];
        view->size *= found.shape[i];
    }
    view->data = base->data + found.offset;
    complete(view);
    if (base->grad_array && base->grad_array != Py_None) {
        if (!is_array(base->grad_array)) Py_RETURN_NONE;
        view->grad_array = array_slice(base->grad_array, key);
        if (!view->grad_array) return nullptr;
        if (base->grad_links) hold(&view->grad_links, base->grad_links);
        view->retain_grad = base->retain_grad;
    }
    return result.release();
}

int array_init(PyObject*, PyObject*, PyObject*) { return 0; }

int array_traverse(PyObject* object, visitproc visit, void* arg) {
    Array* self = reinterpret_cast<Array*>(object);
    Py_VISIT(self->dtype);
    Py_VISIT(self->device);
    Py_VISIT(self->owner);
    Py_VISIT(self->storage);
    Py_VISIT(self->grad_array);
    Py_VISIT(self->grad_links);
    Py_VISIT(self->exports);
    return 0;
}

int array_clear(PyObject* object) {
    Array* self = reinterpret_cast<Array*>(object);
    Py_CLEAR(self->exports);
    Py_CLEAR(self->grad_links);
    Py_CLEAR(self->grad_array);
    Py_CLEAR(self->owner);
    Py_CLEAR(self->storage);
    Py_CLEAR(self->device);
    Py_CLEAR(self->dtype);
    return 0;
}

void array_dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    if (reinterpret_cast<Array*>(object)->weakrefs) PyObject_ClearWeakRefs(object);
    array_clear(object);
    Py_TYPE(object)->tp_free(object);
}

// ---- buffer protocol

int refuse_buffer(Py_buffer* view, const char* why) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, why);
    return -1;
}

int array_getbuffer(PyObject* object, Py_buffer* view, int flags) {
    Array* self = reinterpret_cast<Array*>(object);
    Element element{};
    if (self->type_code == kUnbound) return refuse_buffer(view, "this array is not bound to memory yet");
    if (self->device_type != kDLCPU) return refuse_buffer(view, "the array's memory is not the host's");
    if (!Element::decode(self->type_code, &element)) {
        return refuse_buffer(view, "the buffer protocol has no format for an array of structs");
    }
    if (!buffer_format(element.scalar)) {
        return refuse_buffer(view, "the buffer protocol has no format for bfloat16");
    }
    if (self->readonly && (flags & PyBUF_WRITABLE)) return refuse_buffer(view, "the array is read-only");
    if (!require_elements(self)) {
        view->obj = nullptr;
        return -1;
    }
    view->obj = object;
    view->buf = self->data;
    view->itemsize = element.scalar_size;
    view->len = self->size * self->itemsize;
    view->readonly = self->readonly;
    view->ndim = self->ndim + self->components;
    view->format = const_cast<char*>(buffer_format(element.scalar));
    view->shape = reinterpret_cast<Py_ssize_t*>(self->shape);
    view->strides = reinterpret_cast<Py_ssize_t*>(self->strides);
    view->suboffsets = nullptr;
    view->internal = nullptr;
    const bool strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    const bool needs_c = !strides || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
    const bool needs_f = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
    const bool needs_any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
    if ((needs_c && !PyBuffer_IsContiguous(view, 'C')) || (needs_f && !PyBuffer_IsContiguous(view, 'F')) ||
        (needs_any && !PyBuffer_IsContiguous(view, 'A'))) {
        return refuse_buffer(view, "the array is not contiguous as asked for");
    }
    if (!(flags & PyBUF_FORMAT)) view->format = nullptr;
    if (!(flags & PyBUF_ND)) view->shape = nullptr;
    if (!strides) view->strides = nullptr;
    Py_INCREF(object);
    return 0;
}

PyBufferProcs array_buffer = {array_getbuffer, nullptr};

// ---- properties

Array* as_array(PyObject* object) { return reinterpret_cast<Array*>(object); }

PyObject* get_ptr(PyObject* self, void*) {
    return require_memory(as_array(self)) ? PyLong_FromVoidPtr(as_array(self)->data) : nullptr;
}

PyObject* get_has_memory(PyObject* self, void*) { return PyBool_FromLong(has_memory(as_array(self))); }

PyObject* get_shape(PyObject* self, void*) { return tuple_of(as_array(self)->shape, as_array(self)->ndim); }

PyObject* get_strides(PyObject* self, void*) { return tuple_of(as_array(self)->strides, as_array(self)->ndim); }

PyGetSetDef array_getset[] = {
    {"ptr", get_ptr, nullptr, "Address of the first element; RuntimeError where the memory is gone.", nullptr},
    {"has_memory", get_has_memory, nullptr, "Whether the tensor that the array was made from still has its memory.",
     nullptr},
    {"shape", get_shape, nullptr, "Extent of each dimension, in elements.", nullptr},
    {"strides", get_strides, nullptr, "Distance between neighbours in each dimension, in bytes.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef array_members[] = {
    {"ndim", T_INT, offsetof(Array, ndim), READONLY, "Number of dimensions."},
    {"size", T_LONGLONG, offsetof(Array, size), READONLY, "Number of elements."},
    {"itemsize", T_LONGLONG, offsetof(Array, itemsize), READONLY, "Bytes of an element."},
    {"type_code", T_UINT, offsetof(Array, type_code), READONLY, "The element type, as layout.type_code says."},
    {"is_contiguous", T_BOOL, offsetof(Array, contiguous), READONLY, "Whether the array is C-contiguous."},
    {"is_aligned", T_BOOL, offsetof(Array, aligned), READONLY,
     "Whether every element starts at a multiple of its scalar's size."},
    {"readonly", T_BOOL, offsetof(Array, readonly), READONLY, "Whether kernels may not write to the array."},
    {"device_type", T_INT, offsetof(Array, device_type), READONLY, "The device's DLPack type."},
    {"device_id", T_INT, offsetof(Array, device_id), READONLY, "The device's DLPack number."},
    {"dtype", T_OBJECT, offsetof(Array, dtype), READONLY, "The element type."},
    {"device", T_OBJECT, offsetof(Array, device), READONLY, "The device that the memory belongs to."},
    {"owner", T_OBJECT, offsetof(Array, owner), READONLY, "What keeps the memory alive, or None."},
    {"storage", T_OBJECT, offsetof(Array, storage), READONLY,
     "What holds the memory of a tensor for `owner`, which may be given other memory; or None."},
    {"grad_array", T_OBJECT, offsetof(Array, grad_array), 0, "The gradient's array, or None."},
    {"_grad_links", T_OBJECT, offsetof(Array, grad_links), 0,
     "A list of what ties the gradient to tensors of other libraries, or None."},
    {"retain_grad", T_BOOL, offsetof(Array, retain_grad), 0,
     "Whether what a backward pass consumes of the gradient is shown again at its end."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef array_methods[] = {
    {"_bind", method(array_bind), METH_FASTCALL,
     "_bind($self, ptr, shape, strides, type_code, itemsize, readonly, dtype, device, owner, device_type=1, "
     "device_id=0, /)\n--\n\nPoint the array at memory, once. `strides` None means C-contiguous."},
    {"_try_zero", try_zero_array, METH_NOARGS,
     "_try_zero($self, /)\n--\n\nSet every element to zero, and return True; False where the array is strided, "
     "read-only, or memory of a tensor whose framework wants to know."},
    {"_subview", method(array_subview), METH_FASTCALL,
     "_subview($self, offset, shape, strides, /)\n--\n\nReturn a view of the same class, `offset` bytes into this "
     "array; its __init__ is not called and nothing is checked against the bounds."},
    {"_numpy", method(numpy_of), METH_FASTCALL,
     "_numpy($self, dtype=None, /)\n--\n\nReturn a NumPy array over the memory, of the array's scalars or of records; "
     "None where Python has to see to it."},
    {"_slice", array_slice, METH_O,
     "_slice($self, key, /)\n--\n\nReturn the view, and that of the gradient, that integers and slices select; None "
     "where Python has to see to it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject ArrayType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool register_array(PyObject* module) {
    ArrayType.tp_name = "warp_like._native.Array";
    ArrayType.tp_basicsize = sizeof(Array);
    ArrayType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    ArrayType.tp_doc = "The native part of an array: what a launch reads. Made usable by `_bind`.";
    ArrayType.tp_new = array_new;
    ArrayType.tp_init = array_init;
    ArrayType.tp_dealloc = array_dealloc;
    ArrayType.tp_traverse = array_traverse;
    ArrayType.tp_clear = array_clear;
    ArrayType.tp_methods = array_methods;
    ArrayType.tp_members = array_members;
    ArrayType.tp_getset = array_getset;
    ArrayType.tp_as_buffer = &array_buffer;
    ArrayType.tp_weaklistoffset = offsetof(Array, weakrefs);
    return add_type(module, "Array", &ArrayType);
}

}  // namespace wl
