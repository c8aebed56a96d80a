// DLPack in: capsules that other frameworks give, and the C exchange API, through which a launch reads a foreign tensor
// without making a Python object. The way out is export.h.
#pragma once

#include "dlpack_abi.h"
#include "python.h"
#include "scalar.h"

namespace wl {

// What is known of a type that has the exchange API, or whose tensors a function in Python reads.
struct TensorType {
    PyTypeObject* type;            // a strong reference
    const DLPackExchangeAPI* api;  // without functions where there is a reader
    PyObject* is_neg;              // PyTorch's lazy negation, which the API does not tell; null where there is none
    PyObject* write_hook;          // called with the tensors that a launch wrote; null where there is none
    PyObject* reader;              // describes a tensor in place of the API; null where there is an API
    bool torch;                    // what torch_abi.h offers is there for it
    bool counts_writes;            // the hook is PyTorch's counter of writes
};

// A tensor, with room for the extents and strides of those that a reader describes.
struct TensorView {
    DLTensor tensor;
    int64_t numbers[2 * kMaxFullDims];
};

// The address of the first element; null where there is none. Memory of processes and of devices lies in the lower half
// of all addresses.
inline char* first_element(const DLTensor& tensor) {
    const uint64_t data = reinterpret_cast<uintptr_t>(tensor.data), first = data + tensor.byte_offset;
    return data && !((data | tensor.byte_offset | first) >> 63) ? reinterpret_cast<char*>(first) : nullptr;
}

// Looks `type` up; null without an exception when nothing can read its tensors.
const TensorType* find_tensor_type(PyTypeObject* type);

// Describes a tensor of `type`; false with an exception set where that is impossible. `out` must outlive what it says.
bool read_tensor(PyObject* tensor, const TensorType& type, TensorView* out);

// Whether the class of `object` has the methods of DLPack.
bool speaks_dlpack(PyObject* object);

// Asks an object that speaks DLPack for a capsule over memory of the CPU; null, with or without an exception, where it
// lies elsewhere or gives none.
Ref host_capsule(PyObject* object);

// The tensor in a capsule that nobody has consumed, which lives as long as the capsule; null where there is none, it
// does not lie on the CPU, or there can be no such memory.
const DLTensor* tensor_in(PyObject* capsule, bool* readonly);

// Makes a tensor of a capsule, for types that have a reader; null with an exception where it fails.
Ref tensor_of_capsule(PyObject* capsule);

// Whether PyTorch's lazy negation, which the exchange API does not tell, is on for `tensor`, which that API has read.
bool is_negated(PyObject* tensor, const TensorType& type);

// Tells the library of a write to `tensor` where that needs no Python; false where its hook has to be called.
bool count_write(PyObject* tensor, const TensorType& type);

// What keeps the memory of a tensor alive, also when the tensor is emptied: a new reference to a Buffer, None where the
// type has no exchange API for it, null with an exception.
PyObject* memory_of_tensor(PyObject* tensor);

bool register_dlpack(PyObject* module);

}  // namespace wl
