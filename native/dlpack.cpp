#include "dlpack.h"

#include "alloc.h"
#include "array.h"
#include "torch_abi.h"

namespace wl {

namespace {

constexpr const char* kLegacy = "dltensor";
constexpr const char* kLegacyUsed = "used_dltensor";
constexpr const char* kVersioned = "dltensor_versioned";
constexpr const char* kVersionedUsed = "used_dltensor_versioned";

// ---- import

// Whether no arithmetic on the extents and strides of `tensor` overflows: its elements, how far apart they lie, and
// the addresses of the first and the last byte.
bool is_sound(const DLTensor& tensor) {
    const int64_t size = int64_t{tensor.dtype.bits} * tensor.dtype.lanes / 8;
    int64_t bytes = size, span = 0;
    uint64_t below = 0, end = static_cast<uint64_t>(size);
    bool empty = false;
    for (int i = tensor.ndim - 1; i >= 0; --i) {
        const int64_t extent = tensor.shape[i];
        int64_t stride = bytes, step;
        if (extent < 0 || (tensor.strides && __builtin_mul_overflow(tensor.strides[i], size, &stride))) return false;
        if (extent == 0) {
            empty = true;
            continue;
        }
        if (__builtin_mul_overflow(bytes, extent, &bytes) || stride == INT64_MIN) return false;
        if (__builtin_mul_overflow(stride < 0 ? -stride : stride, extent - 1, &step) ||
            __builtin_add_overflow(span, step, &span)) {
            return false;
        }
        (stride < 0 ? below : end) += static_cast<uint64_t>(step);
    }
    const uint64_t first = reinterpret_cast<uintptr_t>(first_element(tensor));
    return empty || !tensor.data || (first && below <= first && first + end <= INT64_MAX);
}

bool is_empty(const DLTensor& tensor) {
    for (int i = 0; i < tensor.ndim; ++i) {
        if (tensor.shape[i] == 0) return true;
    }
    return false;
}

// False with an exception set where nothing can lie over what `tensor` describes.
bool require_sound(const DLTensor& tensor) {
    const int bits = tensor.dtype.bits * tensor.dtype.lanes;
    if (bits % 8) {
        PyErr_Format(PyExc_BufferError, "cannot import a DLPack tensor with elements of %d bits", bits);
    } else if (tensor.ndim < 0 || tensor.ndim > kMaxFullDims) {  // before any extent is read
        PyErr_Format(PyExc_BufferError, "it has %d dimensions, and arrays have at most %d", tensor.ndim, kMaxDims);
    } else if (tensor.ndim && !tensor.shape) {
        PyErr_Format(PyExc_BufferError, "it has %d dimensions and does not say how large they are", tensor.ndim);
    } else if (!is_sound(tensor)) {
        PyErr_SetString(PyExc_BufferError, "its extents and strides describe more memory than there can be");
    } else if (!tensor.data && !is_empty(tensor)) {
        PyErr_SetString(PyExc_BufferError,
                        "it has elements but no memory: it is a fake tensor, a wrapper around others, or its storage "
                        "has been freed");
    }
    return !PyErr_Occurred();
}

// The tuple (ptr, shape, byte strides, dtype, device, readonly, owner) that describes `tensor`.
PyObject* describe(const DLTensor& tensor, bool readonly, PyObject* owner) {
    const int64_t bits = int64_t{tensor.dtype.bits} * tensor.dtype.lanes;
    if (!require_sound(tensor)) return nullptr;
    Ref shape(tuple_of(tensor.shape, tensor.ndim));
    Ref strides(PyTuple_New(tensor.ndim));
    if (!shape || !strides) return nullptr;
    int64_t packed = bits / 8;  // `require_sound` has seen that no product overflows
    for (int i = tensor.ndim - 1; i >= 0; --i) {
        PyObject* stride = PyLong_FromLongLong(tensor.strides ? tensor.strides[i] * (bits / 8) : packed);
        if (!stride) return nullptr;
        PyTuple_SET_ITEM(strides.get(), i, stride);
        packed *= tensor.shape[i];
    }
    return Py_BuildValue("(KOO(iii)(ii)OO)",
                         static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(first_element(tensor))),
                         shape.get(), strides.get(), tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes,
                         tensor.device.device_type, tensor.device.device_id, readonly ? Py_True : Py_False, owner);
}

template <typename Managed>
void release_imported(void* context) {
    auto* managed = static_cast<Managed*>(context);
    if (managed->deleter) managed->deleter(managed);
}

template <typename Managed>
PyObject* take(PyObject* capsule, const char* name, const char* used, bool readonly) {
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    const DLTensor& tensor = managed->dl_tensor;
    if (!require_sound(tensor)) return nullptr;  // the capsule stays the caller's
    int64_t bytes = (int64_t{tensor.dtype.bits} * tensor.dtype.lanes + 7) / 8;
    for (int i = 0; i < tensor.ndim; ++i) bytes *= tensor.shape[i];
    void* start = first_element(tensor);
    // From here on the tensor is ours: the buffer gives it back, also when describing it fails.
    Ref owner(make_buffer(start, bytes, release_imported<Managed>, managed));
    if (!owner) return nullptr;
    if (PyCapsule_SetName(capsule, used) < 0) return nullptr;
    return describe(tensor, readonly, owner.get());
}

PyObject* dlpack_import(PyObject*, PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, kVersioned)) {
        auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersioned));
        if (managed->version.major != kDLPackMajor) {
            PyErr_Format(PyExc_BufferError, "cannot import a DLPack tensor of version %u.%u", managed->version.major,
                         managed->version.minor);
            return nullptr;
        }
        return take<DLManagedTensorVersioned>(capsule, kVersioned, kVersionedUsed, managed->flags & kDLReadOnly);
    }
    if (PyCapsule_IsValid(capsule, kLegacy)) return take<DLManagedTensor>(capsule, kLegacy, kLegacyUsed, false);
    if (PyCapsule_IsValid(capsule, kLegacyUsed) || PyCapsule_IsValid(capsule, kVersionedUsed)) {
        PyErr_SetString(PyExc_ValueError, "this DLPack capsule was consumed already: it can be used once only");
        return nullptr;
    }
    PyErr_Format(PyExc_TypeError, "dlpack_import() needs a DLPack capsule, got %R", capsule);
    return nullptr;
}

// ---- the C exchange API

PyObject* dlpack_name = nullptr;
PyObject* dlpack_device_name = nullptr;
PyObject* max_version_names = nullptr;  // the tuple of this keyword
PyObject* newest_version = nullptr;     // and the value
PyObject* api_name = nullptr;
PyObject* is_neg_name = nullptr;
PyObject* write_hooks = nullptr;   // dict: class -> callable
PyObject* version_hook = nullptr;  // the one of them that counts writes as PyTorch's library does
PyObject* class_hook = nullptr;    // called with each class of tensors that is met for the first time

PyObject* read_class = nullptr;  // tensors of this class without the API are described by `reader`
PyObject* reader = nullptr;
PyObject* maker = nullptr;  // makes such a tensor of a capsule

constexpr DLPackExchangeAPI kNoApi{};
constexpr int kCached = 16;
TensorType cache[kCached];
int cached = 0;
int victim = 0;

// The newest table of the major version that this file was written for; null when there is none.
const DLPackExchangeAPI* usable(const DLPackExchangeAPIHeader* header) {
    while (header && header->version.major != kDLPackMajor) header = header->prev_api;
    return reinterpret_cast<const DLPackExchangeAPI*>(header);
}

// The hook of the nearest class that has one; borrowed.
PyObject* hook_of(PyTypeObject* type) {
    PyObject* mro = type->tp_mro;
    for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i) {
        PyObject* hook = PyDict_GetItemWithError(write_hooks, PyTuple_GET_ITEM(mro, i));
        if (hook) return hook;
        forget_error();
    }
    return nullptr;
}

// Lets Python set a write hook for a class before its first tensor is used.
void announce(PyTypeObject* type) {
    if (!class_hook) return;
    Ref hook = Ref::borrow(class_hook);
    Ref done(PyObject_CallOneArg(hook.get(), reinterpret_cast<PyObject*>(type)));
    if (!done) PyErr_WriteUnraisable(hook.get());
}

// Remembers a type whose tensors `api` reads; where that is null, the reader does.
const TensorType* remember(PyTypeObject* type, const DLPackExchangeAPI* api) {
    announce(type);
    TensorType* entry = &cache[cached < kCached ? cached++ : victim++ % kCached];
    TensorType old = *entry;
    Py_INCREF(type);
    PyObject* is_neg = _PyType_Lookup(type, is_neg_name);
    PyObject* hook = hook_of(type);
    Py_XINCREF(is_neg);
    Py_XINCREF(hook);
    PyObject* read_by = api ? nullptr : reader;
    Py_XINCREF(read_by);
    *entry = {
        type, api ? api : &kNoApi, is_neg, hook, read_by, is_neg && api && is_torch(api), hook && hook == version_hook};
    Py_XDECREF(reinterpret_cast<PyObject*>(old.type));
    Py_XDECREF(old.reader);
    Py_XDECREF(old.is_neg);
    Py_XDECREF(old.write_hook);
    return entry;
}

PyObject* set_write_hook(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs < 2 || nargs > 3 || !PyType_Check(args[0]) || !PyCallable_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "set_write_hook(cls, hook, versions=False) needs a class and a callable");
        return nullptr;
    }
    if (PyDict_SetItem(write_hooks, args[0], args[1]) < 0) return nullptr;
    if (nargs == 3 && args[2] == Py_True) {
        Py_INCREF(args[1]);
        Py_XSETREF(version_hook, args[1]);
    }
    for (int i = 0; i < cached; ++i) {
        PyObject* hook = hook_of(cache[i].type);
        Py_XINCREF(hook);
        cache[i].counts_writes = hook && hook == version_hook;
        Py_XSETREF(cache[i].write_hook, hook);
    }
    Py_RETURN_NONE;
}

PyObject* set_class_hook(PyObject*, PyObject* hook) {
    if (!PyCallable_Check(hook)) {
        PyErr_SetString(PyExc_TypeError, "set_class_hook(hook) needs a callable");
        return nullptr;
    }
    Py_INCREF(hook);
    Py_XSETREF(class_hook, hook);
    Py_RETURN_NONE;
}

PyObject* set_tensor_reader(PyObject*, PyObject* args) {
    PyObject *cls, *read, *make;
    if (!PyArg_ParseTuple(args, "O!OO:set_tensor_reader", &PyType_Type, &cls, &read, &make)) return nullptr;
    Py_INCREF(cls);
    Py_XSETREF(read_class, cls);
    Py_INCREF(read);
    Py_XSETREF(reader, read);
    Py_INCREF(make);
    Py_XSETREF(maker, make);
    Py_RETURN_NONE;
}

bool copy_numbers(PyObject* tuple, int64_t* out) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    return !PyErr_Occurred();
}

// Fills `out` with what the reader says of a tensor; all code in Python has run when it is written to.
bool read_in_python(PyObject* tensor, PyObject* function, TensorView* out) {
    const Ref held = Ref::borrow(function);
    const Ref found(PyObject_CallOneArg(function, tensor));
    if (!found) return false;
    if (!PyTuple_Check(found.get())) {
        PyErr_SetString(PyExc_TypeError, "a reader returns (ptr, shape, strides, (code, bits), (device type, id))");
        return false;
    }
    unsigned long long address;
    PyObject *shape, *strides;
    int code, bits;
    DLTensor seen{};
    if (!PyArg_ParseTuple(found.get(), "KO!O!(ii)(ii):reader", &address, &PyTuple_Type, &shape, &PyTuple_Type, &strides,
                          &code, &bits, &seen.device.device_type, &seen.device.device_id)) {
        return false;
    }
    const Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
    if (ndim > kMaxFullDims || PyTuple_GET_SIZE(strides) != ndim) {
        PyErr_Format(PyExc_ValueError, "it has %zd dimensions, and arrays have at most %d", ndim, kMaxFullDims);
        return false;
    }
    seen.data = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
    seen.ndim = static_cast<int32_t>(ndim);
    seen.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    seen.shape = out->numbers;
    seen.strides = out->numbers + kMaxFullDims;
    out->tensor = seen;
    return copy_numbers(shape, seen.shape) && copy_numbers(strides, seen.strides);
}

PyObject* tensor_info(PyObject*, PyObject* object) {
    const TensorType* found = find_tensor_type(Py_TYPE(object));
    if (!found) Py_RETURN_NONE;
    TensorView view;
    return read_tensor(object, *found, &view) ? describe(view.tensor, false, object) : nullptr;
}

PyObject* tensor_memory(PyObject*, PyObject* object) { return memory_of_tensor(object); }

PyMethodDef functions[] = {
    {"dlpack_import", dlpack_import, METH_O,
     "dlpack_import($module, capsule, /)\n--\n\nConsume a DLPack capsule: (ptr, shape, byte strides, (code, bits, "
     "lanes), (device type, id), readonly, owner)."},
    {"tensor_info", tensor_info, METH_O,
     "tensor_info($module, obj, /)\n--\n\nDescribe a tensor, as dlpack_import does, through its type's C exchange API "
     "or "
     "its reader; None when the type has none."},
    {"tensor_memory", tensor_memory, METH_O,
     "tensor_memory($module, obj, /)\n--\n\nReturn what keeps the memory of a tensor alive, through its type's C "
     "exchange API; None when the type has none."},
    {"set_write_hook", method(set_write_hook), METH_FASTCALL,
     "set_write_hook($module, cls, hook, versions=False, /)\n--\n\nCall `hook(tensors)` before each launch with the "
     "tuple of the tensors of `cls` or its subclasses that the kernel writes. With `versions`, the hook is PyTorch's "
     "own counter of writes in place, which may be reached without the call."},
    {"set_tensor_reader", set_tensor_reader, METH_VARARGS,
     "set_tensor_reader($module, cls, reader, maker, /)\n--\n\nRead tensors of `cls`, which has no C exchange API, and "
     "of "
     "its subclasses by `reader(tensor)`, which returns (ptr, shape, strides in elements, (code, bits), (device type, "
     "id)), and make them by `maker(capsule)`."},
    {"set_class_hook", set_class_hook, METH_O,
     "set_class_hook($module, hook, /)\n--\n\nCall `hook(cls)` for each class of tensors before its first tensor is "
     "used."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* memory_of_tensor(PyObject* object) {
    const TensorType* found = find_tensor_type(Py_TYPE(object));
    if (!found || !found->api->managed_tensor_from_py_object_no_sync) Py_RETURN_NONE;
    DLManagedTensorVersioned* managed = nullptr;
    if (found->api->managed_tensor_from_py_object_no_sync(object, &managed) != 0) return nullptr;
    PyObject* owner = make_buffer(managed->dl_tensor.data, 0, release_imported<DLManagedTensorVersioned>, managed);
    if (!owner && managed->deleter) managed->deleter(managed);
    return owner;
}

bool speaks_dlpack(PyObject* object) {
    return _PyType_Lookup(Py_TYPE(object), dlpack_name) && _PyType_Lookup(Py_TYPE(object), dlpack_device_name);
}

Ref host_capsule(PyObject* object) {
    const Ref device(PyObject_CallMethodNoArgs(object, dlpack_device_name));
    if (!device || !PyTuple_Check(device.get()) || PyTuple_GET_SIZE(device.get()) != 2) return Ref();
    const Ref kind(PyNumber_Long(PyTuple_GET_ITEM(device.get(), 0)));  // mostly an enum's member
    if (!kind || PyLong_AsLong(kind.get()) != kDLCPU) return Ref();
    PyObject* const given[] = {object, newest_version};
    Ref capsule(PyObject_VectorcallMethod(dlpack_name, given, 1, max_version_names));
    if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError)) return capsule;
    forget_error();  // it knows the first version of the protocol alone
    return Ref(PyObject_CallMethodNoArgs(object, dlpack_name));
}

const DLTensor* tensor_in(PyObject* capsule, bool* readonly) {
    const DLTensor* tensor = nullptr;
    *readonly = false;
    if (PyCapsule_IsValid(capsule, kVersioned)) {
        const auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersioned));
        if (managed->version.major != kDLPackMajor) return nullptr;
        *readonly = managed->flags & kDLReadOnly;
        tensor = &managed->dl_tensor;
    } else if (PyCapsule_IsValid(capsule, kLegacy)) {
        tensor = &static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kLegacy))->dl_tensor;
    }
    if (!tensor || tensor->device.device_type != kDLCPU) return nullptr;
    const bool readable = tensor->ndim >= 0 && tensor->ndim <= kMaxFullDims && (!tensor->ndim || tensor->shape);
    return readable && is_sound(*tensor) ? tensor : nullptr;
}

const TensorType* find_tensor_type(PyTypeObject* type) {
    for (int i = 0; i < cached; ++i) {
        if (cache[i].type == type) return &cache[i];
    }
    // A plain look-up along the bases: the capsule is no descriptor, and a miss makes no exception object.
    PyObject* capsule = _PyType_Lookup(type, api_name);
    if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
        const DLPackExchangeAPI* api =
            usable(static_cast<const DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api")));
        if (api && api->dltensor_from_py_object_no_sync) return remember(type, api);
    }
    const bool read = read_class && PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(read_class));
    return read ? remember(type, nullptr) : nullptr;
}

bool read_tensor(PyObject* tensor, const TensorType& type, TensorView* out) {
    if (type.reader) return read_in_python(tensor, type.reader, out);
    out->tensor = DLTensor{};
    if (type.api->dltensor_from_py_object_no_sync(tensor, &out->tensor) != 0) return false;
    if (!out->tensor.ndim || out->tensor.shape) return true;
    PyErr_SetString(PyExc_BufferError, "it has dimensions and does not say how large they are");
    return false;
}

Ref tensor_of_capsule(PyObject* capsule) {
    const Ref held = Ref::borrow(maker);
    return Ref(PyObject_CallOneArg(held.get(), capsule));
}

bool is_negated(PyObject* tensor, const TensorType& type) {
    const Ref is_neg = Ref::borrow(type.is_neg);
    if (type.torch && reads_torch(tensor)) return torch_is_negated(tensor);
    const Ref answer(PyObject_CallOneArg(is_neg.get(), tensor));
    if (!answer) forget_error();
    return answer.get() != Py_False;
}

bool count_write(PyObject* tensor, const TensorType& type) {
    return type.counts_writes && type.torch && reads_torch(tensor) && torch_count_write(tensor);
}

bool register_dlpack(PyObject* module) {
    api_name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    is_neg_name = PyUnicode_InternFromString("is_neg");
    dlpack_name = PyUnicode_InternFromString("__dlpack__");
    dlpack_device_name = PyUnicode_InternFromString("__dlpack_device__");
    max_version_names = Py_BuildValue("(s)", "max_version");
    newest_version = Py_BuildValue("(ii)", kDLPackMajor, 0);
    write_hooks = PyDict_New();
    return api_name && is_neg_name && dlpack_name && dlpack_device_name && max_version_names && newest_version &&
           write_hooks && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
