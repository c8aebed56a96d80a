// Array: the native part of warp_like.array. Everything that a launch reads from an array is a C field here.
#pragma once

#include "python.h"
#include "scalar.h"

namespace wl {

constexpr uint32_t kUnbound = 0xffffffffu;  // the type code of an array before `_bind`

// An array is bound once. Its address, shape and memory then never change, so that a launch, a buffer view
// and a DLPack consumer can rely on them as long as they hold a reference.
struct Array {
    PyObject_HEAD char* data;
    int64_t shape[kMaxFullDims];    // the array's dimensions, then the components of its elements
    int64_t strides[kMaxFullDims];  // in bytes
    int64_t size;                   // elements
    int64_t itemsize;               // bytes of an element, its components included
    uint32_t type_code;
    int32_t ndim;  // without the components
    int32_t components;
    int32_t device_type;  // as DLPack names it
    int32_t device_id;
    bool readonly;
    bool contiguous;
    bool aligned;  // every element starts at a multiple of its scalar's size
    bool hooked;   // `owner` is a tensor whose framework wants to know of writes
    PyObject* dtype;
    PyObject* device;
    PyObject* owner;
    PyObject* storage;        // holds the memory of a tensor, which may be given other memory, for `owner`; or null
    const void* tensor_data;  // where `owner`, a tensor that may lose its memory, had it when this was made; or null
    PyObject* grad_array;
    PyObject* grad_links;  // a list of what ties the gradient to tensors, shared by all views; null or None: none
    PyObject* exports;     // a dict: class of tensors -> the view that it got last, or a weak reference to it; or null
    char retain_grad;      // what a backward pass consumes of the gradient is shown again at its end
    PyObject* weakrefs;
};

extern PyTypeObject ArrayType;

inline bool is_array(PyObject* object) { return PyObject_TypeCheck(object, &ArrayType); }

// C-contiguous as NumPy means it: the stride of a dimension of extent 1 does not matter, nor any of an empty
// array's.
bool is_contiguous(int ndim, const int64_t* shape, const int64_t* strides, int64_t itemsize);

// Derives the flags and the component dimensions from the fields that are set.
void complete(Array* array);

bool register_array(PyObject* module);

}  // namespace wl
