// The common cases of `wp.zeros`, `wp.from_numpy` and `wp.from_torch` in one call. What is unusual, or wrong, is
// declined by returning None: runtime/arrays/binding.py and interop/view.py then do it by the same rules, or say what
// is wrong.
#include "make.h"

#include <cstring>

#include "alloc.h"
#include "array.h"
#include "current_device.h"
#include "dlpack.h"
#include "numpy_abi.h"
#include "recorder.h"
#include "scalar.h"
#include "tensor_memory.h"

namespace wl {

namespace {

PyObject* array_class = nullptr;  // wp.array
PyObject* host_device = nullptr;  // the device of the CPU
PyObject* elements = nullptr;     // dict: what names an element type -> (host class, type code)
PyObject* scalar_classes[kScalarCount] = {};
PyObject* detach_name = nullptr;
PyObject* storage_name = nullptr;
PyObject* requires_grad_name = nullptr;

struct ElementType {
    PyObject* host = nullptr;  // borrowed; null when it is not known
    uint32_t code = 0;
    Element element{};
};

ElementType scalar_type(Scalar scalar) {
    ElementType type;
    type.code = static_cast<uint32_t>(scalar);
    if (Element::decode(type.code, &type.element)) type.host = scalar_classes[type.code];
    return type;
}

ElementType named_type(PyObject* name) {
    ElementType type;
    PyObject* known = PyDict_GetItemWithError(elements, name);
    if (!known) {
        forget_error();  // nothing that can be a key
        return type;
    }
    type.code = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(known, 1)));
    if (Element::decode(type.code, &type.element)) type.host = PyTuple_GET_ITEM(known, 0);
    return type;
}

// ---- memory of others

struct Memory {
    char* data;
    int ndim;
    const int64_t* shape;
    const int64_t* strides;
    int64_t unit;  // bytes that strides count in
    DLDataType dtype;
    bool readonly;
};

bool read_foreign(PyObject* object, const TensorType& type, TensorView* view, Memory* out) {
    if (!read_tensor(object, type, view)) {
        forget_error();
        return false;
    }
    const DLTensor* tensor = &view->tensor;
    if (tensor->device.device_type != kDLCPU || tensor->dtype.lanes != 1 || (!tensor->strides && tensor->ndim))
        return false;
    *out = {first_element(*tensor), tensor->ndim,  tensor->shape, tensor->strides,
            tensor->dtype.bits / 8, tensor->dtype, false};
    return !type.is_neg || !is_negated(object, type);  // PyTorch's alone negates lazily
}

bool read_view(PyObject* object, Memory* out) {
    const Py_buffer* view = PyMemoryView_GET_BUFFER(object);
    if (view->suboffsets || !view->shape || !view->strides) return false;
    *out = {static_cast<char*>(view->buf),
            view->ndim,
            reinterpret_cast<const int64_t*>(view->shape),
            reinterpret_cast<const int64_t*>(view->strides),
            1,
            {0, 0, 0},
            view->readonly != 0};
    for (int code = 0; code < kScalarCount; ++code) {
        const auto scalar = static_cast<Scalar>(code);
        if (matches_format(scalar, view->format, view->itemsize)) {
            out->dtype = dlpack_dtype(scalar);
            return true;
        }
    }
    return false;
}

bool read_memory(PyObject* object, TensorView* view, Memory* out) {
    if (is_plain_ndarray(object)) {
        const NdArray a = read_ndarray(object);
        *out = {a.data, a.ndim, a.shape, a.strides, 1, a.dtype, !a.writeable};
        return true;
    }
    if (PyMemoryView_Check(object)) return read_view(object, out);
    const TensorType* type = find_tensor_type(Py_TYPE(object));
    if (!type) return false;
    const TensorType copy = *type;  // the table may change while Python code runs
    return read_foreign(object, copy, view, out);
}

ElementType type_of(DLDataType dtype) {
    for (int code = 0; code < kScalarCount; ++code) {
        const DLDataType known = dlpack_dtype(static_cast<Scalar>(code));
        if (known.code == dtype.code && known.bits == dtype.bits) return scalar_type(static_cast<Scalar>(code));
    }
    return {};
}

// Whether `array`, which has its element type, can lie over `memory`; sets its address, shape and strides if so.
bool lay_over(Array* array, const Element& element, const Memory& memory) {
    const int ndim = memory.ndim - element.components;
    if (ndim < 1 || ndim > kMaxDims) return false;
    array->data = memory.data;
    array->ndim = ndim;
    array->size = 1;
    for (int i = 0; i < ndim; ++i) {
        array->shape[i] = memory.shape[i];
        if (memory.shape[i] < 0 || __builtin_mul_overflow(memory.strides[i], memory.unit, &array->strides[i]) ||
            __builtin_mul_overflow(array->size, memory.shape[i], &array->size)) {
            return false;
        }
    }
    if (array->size && !memory.data) return false;
    for (int i = 0; i < element.components; ++i) {
        const int64_t extent = memory.shape[ndim + i];
        if (extent != element.extents[i]) return false;
        if (array->size && extent > 1 && memory.strides[ndim + i] * memory.unit != element.strides[i]) return false;
    }
    return true;
}

// Returns a new, unbound array of `type`; its memory is the caller's to set.
Array* raw_array(const ElementType& type) {
    auto* cls = reinterpret_cast<PyTypeObject*>(array_class);
    Array* array = reinterpret_cast<Array*>(cls->tp_alloc(cls, 0));
    if (!array) return nullptr;
    array->type_code = type.code;
    array->itemsize = type.element.size;
    array->device_type = kDLCPU;
    Py_INCREF(type.host);
    array->dtype = type.host;
    Py_INCREF(host_device);
    array->device = host_device;
    return array;
}

// Returns an array over the memory of `object` that nothing keeps alive yet; null, with or without an exception, if
// not.
Ref over_memory(PyObject* object, PyObject* dtype) {
    if (!ndarray_type) meet_ndarray(object);
    TensorView view;
    Memory memory;
    if (!array_class || !read_memory(object, &view, &memory)) return Ref();
    const ElementType type = dtype == Py_None ? type_of(memory.dtype) : named_type(dtype);
    if (!type.host) return Ref();
    const DLDataType wanted = dlpack_dtype(type.element.scalar);
    if (wanted.code != memory.dtype.code || wanted.bits != memory.dtype.bits) return Ref();
    Ref result(reinterpret_cast<PyObject*>(raw_array(type)));
    if (!result) return Ref();
    Array* array = reinterpret_cast<Array*>(result.get());
    if (!lay_over(array, type.element, memory)) return Ref();
    array->readonly = memory.readonly;
    complete(array);
    return array->aligned ? std::move(result) : Ref();
}

// Lets an array keep the memory of a tensor, also when the tensor is given other memory: the tensor with its storage,
// or an alias of a tensor that would keep alive what it was computed from. Paddle's alias is emptied with the tensor,
// what DLPack gives out is not. False with an exception set.
bool hold_tensor(Array* array, PyObject* tensor, bool leaf) {
    const TensorType* type = find_tensor_type(Py_TYPE(tensor));
    if (type && !type->is_neg) {
        array->owner = PyObject_CallMethodNoArgs(tensor, detach_name);
        array->storage = array->owner ? memory_of_tensor(array->owner) : nullptr;
        return array->storage;
    }
    if (leaf || Ref(PyObject_GetAttr(tensor, requires_grad_name)).get() == Py_False) {
        Ref storage(PyObject_CallMethodNoArgs(tensor, storage_name));
        if (!storage) return false;
        array->owner = Ref::borrow(tensor).release();
        array->storage = storage.release();
        return true;
    }
    forget_error();
    array->owner = PyObject_CallMethodNoArgs(tensor, detach_name);
    return array->owner;
}

}  // namespace

Ref shared_array(PyObject* object, PyObject* dtype, bool leaf) {
    Ref result(over_memory(object, dtype));
    if (!result) return Ref();
    Array* array = reinterpret_cast<Array*>(result.get());
    const bool tensor = !is_plain_ndarray(object) && !PyMemoryView_Check(object);
    if (!tensor) {
        array->owner = Ref::borrow(object).release();
        return result;
    }
    if (!hold_tensor(array, object, leaf)) {
        forget_error();  // a tensor that only looks like one, under a transformation; Python says so
        return Ref();
    }
    const TensorType* kind = find_tensor_type(Py_TYPE(array->owner));
    array->hooked = kind && kind->write_hook;
    note_tensor_memory(array);
    return result;
}

bool require_elements(Array* array) {
    if (!require_memory(array)) return false;
    PyTypeObject* cls = Py_TYPE(array);
    if (reinterpret_cast<PyObject*>(cls) == array_class) return true;
    static PyObject* const name = PyUnicode_InternFromString("_no_elements");
    if (!PyObject_HasAttr(reinterpret_cast<PyObject*>(cls), name)) return true;
    return static_cast<bool>(Ref(PyObject_CallMethodNoArgs(reinterpret_cast<PyObject*>(array), name)));
}

namespace {

PyObject* declined() {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

// Of a NumPy array; null, with or without an exception, where Python has to see to it: a graph writes the elements
// again.
Ref copied_array(PyObject* object, PyObject* dtype) {
    if (!is_plain_ndarray(object) || captured_graph()) return Ref();
    Ref result(over_memory(object, dtype));
    Array* array = reinterpret_cast<Array*>(result.get());
    if (!array || !array->contiguous) return Ref();
    array->owner = make_memory(array->size * array->itemsize, false);
    if (!array->owner) return Ref();
    char* fresh = static_cast<char*>(reinterpret_cast<Buffer*>(array->owner)->ptr);
    if (array->size) std::memcpy(fresh, array->data, static_cast<size_t>(array->size * array->itemsize));
    array->data = fresh;
    array->readonly = false;
    int64_t stride = array->itemsize;  // NumPy's may be anything where an extent is 1
    for (int i = array->ndim - 1; i >= 0; --i) {
        array->strides[i] = stride;
        if (array->size) stride *= array->shape[i];
    }
    complete(array);
    return result;
}

PyObject* copied(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "copied(arr, dtype)");
        return nullptr;
    }
    Ref result = copied_array(args[0], args[1]);
    return result ? result.release() : declined();
}

PyObject* share(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "share(obj, dtype)");
        return nullptr;
    }
    Ref result = shared_array(args[0], args[1], false);
    return result ? result.release() : declined();
}

// ---- memory of our own

// Reads a shape into `array`; false where it is none, without an exception.
bool read_shape(Array* array, PyObject* shape) {
    PyObject* const* items = &shape;
    Py_ssize_t n = 1;
    if (PyTuple_CheckExact(shape)) {
        items = &PyTuple_GET_ITEM(shape, 0);
        n = PyTuple_GET_SIZE(shape);
    }
    if (n < 1 || n > kMaxDims) return false;
    int64_t bytes = array->itemsize;
    array->ndim = static_cast<int>(n);
    array->size = 1;
    for (Py_ssize_t i = 0; i < n; ++i) {
        if (!PyLong_CheckExact(items[i])) return false;
        int overflow = 0;
        const int64_t extent = PyLong_AsLongLongAndOverflow(items[i], &overflow);
        if (overflow || extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return false;
        array->shape[i] = extent;
        array->size *= extent;
    }
    int64_t stride = array->itemsize;
    for (Py_ssize_t i = n - 1; i >= 0; --i) {
        array->strides[i] = stride;
        if (array->size) stride *= array->shape[i];
    }
    return true;
}

PyObject* make_array(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "make_array(shape, dtype, device, zero)");
        return nullptr;
    }
    if (args[2] != host_device) Py_RETURN_NONE;
    const ElementType type = named_type(args[1]);
    if (!type.host) Py_RETURN_NONE;
    Ref result(reinterpret_cast<PyObject*>(raw_array(type)));
    if (!result) return nullptr;
    Array* array = reinterpret_cast<Array*>(result.get());
    if (!read_shape(array, args[0])) Py_RETURN_NONE;
    array->owner = make_memory(array->size * array->itemsize, args[3] == Py_True);
    if (!array->owner) return nullptr;
    array->data = static_cast<char*>(reinterpret_cast<Buffer*>(array->owner)->ptr);
    complete(array);
    return result.release();
}

// ---- wp.array(ndarray, dtype, copy=)

// What a call says beside the data; false where it says more than these two.
struct ArrayCall {
    PyObject* dtype = Py_None;
    bool copy = true;

    bool read(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
        if (nargs < 1 || nargs > 2) return false;
        if (nargs == 2) dtype = args[1];
        for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); ++i) {
            PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[nargs + i];
            if (PyUnicode_CompareWithASCIIString(name, "dtype") == 0 && nargs == 1) {
                dtype = value;
            } else if (PyUnicode_CompareWithASCIIString(name, "copy") == 0 && PyBool_Check(value)) {
                copy = value == Py_True;
            } else {
                return false;
            }
        }
        return true;
    }
};

PyObject* call_type(PyObject* cls, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    const Ref positional(PyTuple_New(nargs)), named(kwnames ? PyDict_New() : nullptr);
    if (!positional || (kwnames && !named)) return nullptr;
    for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(positional.get(), i, Ref::borrow(args[i]).release());
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); ++i) {
        if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0) return nullptr;
    }
    return PyType_Type.tp_call(cls, positional.get(), named.get());
}

// The class itself when it is called: makes an array of a NumPy array at once; all else is for `array.__new__`.
PyObject* call_array_class(PyObject* cls, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    ArrayCall call;
    if (nargs && is_plain_ndarray(args[0]) && call.read(args, nargs, kwnames)) {
        const PyObject* current = current_device();
        Ref made;
        if (!call.copy) {
            made = shared_array(args[0], call.dtype, false);
        } else if (!current || current == host_device) {
            made = copied_array(args[0], call.dtype);
        }
        if (made || PyErr_Occurred()) return made.release();
    }
    return call_type(cls, args, nargs, kwnames);
}

// ---- what Python tells

PyObject* set_array_class(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 2 || !PyType_Check(args[0]) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(args[0]), &ArrayType)) {
        PyErr_SetString(PyExc_TypeError, "set_array_class(cls, device) needs a subclass of Array");
        return nullptr;
    }
    Py_INCREF(args[0]);
    Py_XSETREF(array_class, args[0]);
    reinterpret_cast<PyTypeObject*>(args[0])->tp_vectorcall = call_array_class;
    Py_INCREF(args[1]);
    Py_XSETREF(host_device, args[1]);
    Py_RETURN_NONE;
}

PyObject* learn_element(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    Element element{};
    if (nargs != 3 || !PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "learn_element(name, host, type_code)");
        return nullptr;
    }
    const unsigned long code = PyLong_AsUnsignedLong(args[2]);
    if (PyErr_Occurred()) return nullptr;
    if (code >= kUnbound || !Element::decode(static_cast<uint32_t>(code), &element)) Py_RETURN_NONE;
    Ref known(PyTuple_Pack(2, args[1], args[2]));
    if (!known || PyDict_SetItem(elements, args[0], known.get()) < 0) return nullptr;
    if (!element.components) {
        Py_INCREF(args[1]);
        Py_XSETREF(scalar_classes[static_cast<int>(element.scalar)], args[1]);
    }
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"share", method(share), METH_FASTCALL,
     "share($module, obj, dtype, /)\n--\n\nReturn an array over the memory of a NumPy array, memoryview or PyTorch "
     "tensor, with elements of `dtype`, or of its own scalars if that is None; None where Python has to see to it."},
    {"copied", method(copied), METH_FASTCALL,
     "copied($module, arr, dtype, /)\n--\n\nReturn an array with a copy of the elements of a contiguous NumPy array; "
     "else as `share`."},
    {"make_array", method(make_array), METH_FASTCALL,
     "make_array($module, shape, dtype, device, zero, /)\n--\n\nReturn an array in fresh memory; None where Python has "
     "to see to it."},
    {"set_array_class", method(set_array_class), METH_FASTCALL,
     "set_array_class($module, cls, device, /)\n--\n\nSay which class arrays are of, and which device the CPU is."},
    {"learn_element", method(learn_element), METH_FASTCALL,
     "learn_element($module, name, host, type_code, /)\n--\n\nSay what class and type code elements have that `name` "
     "stands for."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_make(PyObject* module) {
    elements = PyDict_New();
    detach_name = PyUnicode_InternFromString("detach");
    storage_name = PyUnicode_InternFromString("untyped_storage");
    requires_grad_name = PyUnicode_InternFromString("requires_grad");
    return elements && detach_name && storage_name && requires_grad_name &&
           PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
