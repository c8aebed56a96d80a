#include "tensor_memory.h"

#include "dlpack.h"
#include "extent.h"
#include "torch_abi.h"

namespace wl {

namespace {

PyObject* storage_name = nullptr;
PyObject* data_name = nullptr;
PyObject* size_name = nullptr;

// What a method without arguments returns, as an address or a number of bytes; 0 with an exception where it fails.
uintptr_t number_of(PyObject* object, PyObject* name) {
    const Ref number(PyObject_CallMethodNoArgs(object, name));
    return number ? static_cast<uintptr_t>(PyLong_AsUnsignedLongLong(number.get())) : 0;
}

// Where a tensor has its first element now; null without an exception where it has none.
const void* data_of(PyObject* tensor, const TensorType& type) {
    const void* known = type.torch && reads_torch(tensor) ? torch_data(tensor) : nullptr;
    if (known) return known;
    if (type.reader) {  // which would describe all of it
        const uintptr_t address = number_of(tensor, data_name);
        forget_error();
        return reinterpret_cast<const void*>(address);
    }
    TensorView view;
    if (!read_tensor(tensor, type, &view)) {
        forget_error();
        return nullptr;
    }
    return first_element(view.tensor);
}

// Whether the storage holds the elements of `array`: the owner may have been given another one.
bool is_in_storage(const Array* array) {
    const Ref storage =
        array->storage ? Ref::borrow(array->storage) : Ref(PyObject_CallMethodNoArgs(array->owner, storage_name));
    if (!storage) return false;
    const uintptr_t begin = number_of(storage.get(), data_name);
    const uintptr_t size = PyErr_Occurred() ? 0 : number_of(storage.get(), size_name);
    if (PyErr_Occurred()) return false;
    const Extent whole{begin, begin + size};
    return begin && whole.holds(extent_of(reinterpret_cast<PyObject*>(const_cast<Array*>(array))));
}

}  // namespace

void note_tensor_memory(Array* array) {
    const TensorType* type = array->hooked && array->size ? find_tensor_type(Py_TYPE(array->owner)) : nullptr;
    if (type && type->is_neg) array->tensor_data = data_of(array->owner, *type);
}

bool has_tensor_memory(const Array* array) {
    const TensorType* type = find_tensor_type(Py_TYPE(array->owner));
    if (type && data_of(array->owner, *type) == array->tensor_data) return true;
    const bool found = is_in_storage(array);
    forget_error();
    return found;
}

bool require_tensor_memory(const Array* array) {
    if (has_tensor_memory(array)) return true;
    const Ref shape(tuple_of(array->shape, array->ndim));
    if (shape) {
        PyErr_Format(PyExc_RuntimeError,
                     "the memory of an array of shape %R is gone: the tensor that it was made from has been freed or "
                     "resized since; make a new array of the tensor",
                     shape.get());
    }
    return false;
}

Ref tensor_keeper(PyObject* owner) {
    const TensorType* type = find_tensor_type(Py_TYPE(owner));
    DLTensor seen{};
    if (!type || !type->is_neg) return Ref::borrow(owner);
    const Ref storage(PyObject_CallMethodNoArgs(owner, storage_name));
    if (!storage || type->api->dltensor_from_py_object_no_sync(owner, &seen) != 0 || seen.ndim > kMaxFullDims ||
        (!seen.strides && seen.ndim)) {
        forget_error();  // nothing that a capture could have used
        return Ref::borrow(owner);
    }
    Ref made(ArrayType.tp_new(&ArrayType, nullptr, nullptr));
    Array* array = reinterpret_cast<Array*>(made.get());
    if (!array) return made;
    array->data = first_element(seen);
    array->itemsize = seen.dtype.bits / 8 * seen.dtype.lanes;
    array->ndim = seen.ndim;
    array->size = seen.data ? 1 : 0;
    for (int i = 0; i < seen.ndim; ++i) {
        array->shape[i] = seen.shape[i];
        array->strides[i] = seen.strides[i] * array->itemsize;
        array->size *= seen.shape[i];
    }
    array->owner = Ref::borrow(owner).release();
    array->storage = Ref::borrow(storage.get()).release();
    if (array->size) array->tensor_data = array->data;
    return made;
}

bool register_tensor_memory() {
    storage_name = PyUnicode_InternFromString("untyped_storage");
    data_name = PyUnicode_InternFromString("data_ptr");
    size_name = PyUnicode_InternFromString("nbytes");
    return storage_name && data_name && size_name;
}

}  // namespace wl
