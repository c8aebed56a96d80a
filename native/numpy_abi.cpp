#include "numpy_abi.h"

#include <cstring>

namespace wl {

PyTypeObject* ndarray_type = nullptr;

namespace {

// The leading fields of NumPy's PyArrayObject_fields and PyArray_Descr: the same since 1.7, and in 2.x.
struct NumpyArray {
    PyObject_HEAD char* data;
    int ndim;
    Py_ssize_t* dimensions;
    Py_ssize_t* strides;
    PyObject* base;
    PyObject* descr;
    int flags;
};

struct NumpyDescr {
    PyObject_HEAD PyTypeObject* scalar_type;
    char kind;
    char type;
    char byteorder;
    char former_flags;
    int type_num;
};

constexpr int kWriteable = 0x400;
constexpr uint8_t kLong = sizeof(long) * 8;

// By NumPy's type number, up to double; half is 23.
constexpr DLDataType kDtypes[] = {
    {kDLBool, 8, 1},  {kDLInt, 8, 1},    {kDLUInt, 8, 1},    {kDLInt, 16, 1},     {kDLUInt, 16, 1},
    {kDLInt, 32, 1},  {kDLUInt, 32, 1},  {kDLInt, kLong, 1}, {kDLUInt, kLong, 1}, {kDLInt, 64, 1},
    {kDLUInt, 64, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1},
};

DLDataType dtype_of(const NumpyDescr* descr) {
    if (descr->byteorder != '=' && descr->byteorder != '|') return {0, 0, 0};
    if (descr->type_num >= 0 && descr->type_num < 13) return kDtypes[descr->type_num];
    return descr->type_num == 23 ? DLDataType{kDLFloat, 16, 1} : DLDataType{0, 0, 0};
}

bool known_version() {
    PyObject* module = PyImport_GetModule(Ref(PyUnicode_FromString("numpy")).get());
    Ref numpy(module);
    Ref version(numpy ? PyObject_GetAttrString(numpy.get(), "__version__") : nullptr);
    const char* text = version ? PyUnicode_AsUTF8(version.get()) : nullptr;
    forget_error();
    return text && (text[0] == '1' || text[0] == '2') && text[1] == '.';
}

bool agrees(PyObject* object, const Py_buffer& view) {
    const NdArray array = read_ndarray(object);
    if (array.data != view.buf || array.ndim != view.ndim || array.writeable == (view.readonly != 0)) return false;
    for (int i = 0; i < view.ndim; ++i) {
        if (array.shape[i] != view.shape[i] || array.strides[i] != view.strides[i]) return false;
    }
    return array.dtype.bits == view.itemsize * 8;
}

}  // namespace

bool is_numpy_scalar(PyObject* object) {
    // The scalar types are static, named so, and made to be no buffers of other things: only they and arrays are.
    const PyTypeObject* type = Py_TYPE(object);
    return std::strncmp(type->tp_name, "numpy.", 6) == 0 && !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) &&
           std::strcmp(type->tp_name, "numpy.ndarray") != 0 && !PyFloat_Check(object);
}

Ref python_number(PyObject* scalar) {
    Py_buffer view;
    if (PyObject_GetBuffer(scalar, &view, PyBUF_FORMAT) != 0) {
        forget_error();
        return Ref();
    }
    const char format = view.format && view.ndim == 0 && view.format[0] && !view.format[1] ? view.format[0] : 0;
    PyBuffer_Release(&view);
    if (!format || !std::strchr("?bBhHiIlLqQefd", format)) return Ref();
    PyNumberMethods* number = Py_TYPE(scalar)->tp_as_number;
    PyObject* found;
    if (format == '?') {
        found = PyBool_FromLong(PyObject_IsTrue(scalar));
    } else if (std::strchr("efd", format)) {
        found = PyNumber_Float(scalar);
    } else {
        found = number && number->nb_index ? number->nb_index(scalar) : nullptr;
    }
    if (!found) forget_error();
    return Ref(found);
}

namespace {

// The functions of NumPy's C interface that are used here, at the places in its table where they are since 1.7.
struct NumpyFunctions {
    PyTypeObject* array_type;
    PyObject* (*descr_from_type)(int type_num);
    PyObject* (*new_from_descr)(PyTypeObject* type, PyObject* descr, int ndim, const Py_ssize_t* shape,
                                const Py_ssize_t* strides, void* data, int flags, PyObject* like);
    int (*set_base_object)(PyObject* array, PyObject* base);
};

constexpr int kAligned = 0x100;
constexpr int kHalf = 23;

template <typename F>
void take(F* function, void* const* table, int at) {
    *function = reinterpret_cast<F>(table[at]);
}

bool load_functions(NumpyFunctions* out) {
    Ref table;
    for (const char* name : {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}) {
        if (table) break;
        const Ref module(PyImport_ImportModule(name));
        if (module) table = Ref(PyObject_GetAttrString(module.get(), "_ARRAY_API"));
        forget_error();
    }
    if (!table || !PyCapsule_CheckExact(table.get())) return false;
    auto* functions = static_cast<void**>(PyCapsule_GetPointer(table.get(), nullptr));
    if (!functions) {
        forget_error();
        return false;
    }
    take(&out->array_type, functions, 2);
    take(&out->descr_from_type, functions, 45);
    take(&out->new_from_descr, functions, 94);
    take(&out->set_base_object, functions, 282);
    return out->array_type == ndarray_type;  // which is set for versions that this file knows
}

// Null where NumPy is of a version that this file does not know, or has not been met yet.
const NumpyFunctions* numpy_functions() {
    static NumpyFunctions functions;
    static const bool loaded = ndarray_type && load_functions(&functions);
    return loaded ? &functions : nullptr;
}

}  // namespace

Ref numpy_dtype(Scalar scalar) {
    const NumpyFunctions* numpy = numpy_functions();
    if (!numpy) return Ref();
    const DLDataType wanted = dlpack_dtype(scalar == Scalar::Bfloat16 ? Scalar::Uint16 : scalar);
    int type_num = kHalf;
    for (int i = 12; i >= 0; --i) {
        if (kDtypes[i].code == wanted.code && kDtypes[i].bits == wanted.bits) type_num = i;
    }
    return Ref(numpy->descr_from_type(type_num));
}

PyObject* new_ndarray(const NewNdArray& wanted) {
    const NumpyFunctions* numpy = numpy_functions();
    if (!numpy) Py_RETURN_NONE;
    Py_INCREF(wanted.dtype);  // which the call takes
    Ref made(numpy->new_from_descr(numpy->array_type, wanted.dtype, wanted.ndim,
                                   reinterpret_cast<const Py_ssize_t*>(wanted.shape),
                                   reinterpret_cast<const Py_ssize_t*>(wanted.strides), wanted.data,
                                   kAligned | (wanted.writeable ? kWriteable : 0), nullptr));
    if (!made) return nullptr;
    Py_INCREF(wanted.base);
    return numpy->set_base_object(made.get(), wanted.base) == 0 ? made.release() : nullptr;
}

bool owns_its_memory(PyObject* object) {
    while (object && is_plain_ndarray(object)) {
        object = reinterpret_cast<NumpyArray*>(object)->base;
        if (!object) return true;
    }
    return false;
}

NdArray read_ndarray(PyObject* object) {
    const auto* array = reinterpret_cast<const NumpyArray*>(object);
    return {array->data,
            array->ndim,
            reinterpret_cast<const int64_t*>(array->dimensions),
            reinterpret_cast<const int64_t*>(array->strides),
            dtype_of(reinterpret_cast<const NumpyDescr*>(array->descr)),
            (array->flags & kWriteable) != 0};
}

void adopt_ndarray(PyObject* object, const Py_buffer& view) {
    static bool tried = false;
    if (tried || std::strcmp(Py_TYPE(object)->tp_name, "numpy.ndarray") != 0) return;
    if (view.ndim < 1 || (view.shape[0] <= 1)) return;  // too little to compare by
    tried = true;
    if (known_version() && agrees(object, view)) {
        Py_INCREF(Py_TYPE(object));
        ndarray_type = Py_TYPE(object);
    }
}

void meet_ndarray(PyObject* object) {
    Py_buffer view;
    if (std::strcmp(Py_TYPE(object)->tp_name, "numpy.ndarray") != 0) return;
    if (PyObject_GetBuffer(object, &view, PyBUF_RECORDS_RO) != 0) {
        forget_error();  // a dtype without a format
        return;
    }
    adopt_ndarray(object, view);
    PyBuffer_Release(&view);
}

}  // namespace wl
