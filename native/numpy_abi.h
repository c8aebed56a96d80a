// NumPy arrays read through their C struct. The buffer protocol gives the same and costs ten times as much,
// since NumPy composes a format string on each request.
#pragma once

#include "dlpack_abi.h"
#include "python.h"
#include "scalar.h"

namespace wl {

struct NdArray {
    char* data;
    int ndim;
    const int64_t* shape;
    const int64_t* strides;  // in bytes
    DLDataType dtype;        // of zero bits where there is none, or where the byte order is not the machine's
    bool writeable;
};

extern PyTypeObject* ndarray_type;  // null until adopt_ndarray

// Whether `object` is a plain ndarray (no subclass) that read_ndarray may read.
inline bool is_plain_ndarray(PyObject* object) { return Py_TYPE(object) == ndarray_type; }

NdArray read_ndarray(PyObject* array);

// Looks at an object that gave the buffer `view`: when it is a plain ndarray of a NumPy whose structs are
// those that this file knows, and reading it through them gives what the buffer said, later ones are read so.
void adopt_ndarray(PyObject* object, const Py_buffer& view);

// Does so with `object`, if that is a NumPy array.
void meet_ndarray(PyObject* object);

// A NumPy array to be made over memory that `base` keeps alive. Strides count in bytes.
struct NewNdArray {
    PyObject* dtype;
    int ndim;
    const int64_t* shape;
    const int64_t* strides;
    char* data;
    bool writeable;
    PyObject* base;
};

// NumPy's dtype of a scalar: for bfloat16, which it has not, uint16. Null, without an exception, when NumPy's functions
// are not known.
Ref numpy_dtype(Scalar scalar);

// Returns it; None when NumPy's functions are not known.
PyObject* new_ndarray(const NewNdArray& wanted);

// Whether `object` is a plain ndarray whose memory is its own, or that of such an array.
bool owns_its_memory(PyObject* object);

// Whether `object` is a NumPy scalar, such as numpy.float32(1), and not one of Python's own kinds as well.
bool is_numpy_scalar(PyObject* object);

// The Python number that a NumPy scalar stands for; null without an exception when it is none.
Ref python_number(PyObject* scalar);

}  // namespace wl
