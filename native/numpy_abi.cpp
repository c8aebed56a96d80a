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
    PyErr_Clear();
    return text && (text[0] == '1' || text[0] == '2') && text[1] == '.';
}

bool agrees(PyObject* object, const Py_buffer& view) {
    const NdArray array = read_ndarray(object);
    if (array.data != view.buf || array.ndim != view.ndim || array.writeable == (view.readonly != 0))
        return false;
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
        PyErr_Clear();
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
    if (!found) PyErr_Clear();
    return Ref(found);
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
        PyErr_Clear();  // a dtype without a format
        return;
    }
    adopt_ndarray(object, view);
    PyBuffer_Release(&view);
}

}  // namespace wl
