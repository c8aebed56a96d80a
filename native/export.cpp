#include "export.h"

#include <atomic>
#include <cstdlib>

#include "alloc.h"
#include "array.h"
#include "dlpack.h"
#include "make.h"
#include "numpy_abi.h"
#include "tensor_memory.h"
#include "torch_abi.h"

namespace wl {

namespace {

constexpr const char* kLegacy = "dltensor";
constexpr const char* kVersioned = "dltensor_versioned";

// ---- DLPack

// ---- export

// One allocation holds the tensor, its shape and its strides.
template <typename Managed>
struct Exported {
    Managed managed;
    int64_t shape[kMaxFullDims];
    int64_t strides[kMaxFullDims];
};

// A framework may call a deleter from any thread, with the GIL or without, and with locks of its own held: Paddle holds
// one that freeing another of its tensors takes as well. So a deleter neither waits for the GIL nor frees what may
// belong to a framework. Such objects wait here for the main thread, or for the next export.
struct Dropped {
    PyObject* object;
    Dropped* next;
};

std::atomic<Dropped*> dropped{nullptr};
std::atomic<bool> drain_is_due{false};

void drain_dropped() {
    Dropped* list = dropped.exchange(nullptr);
    while (list) {
        Dropped* next = list->next;
        Py_DECREF(list->object);
        std::free(list);
        list = next;
    }
}

int drain_when_due(void*) {
    drain_is_due = false;
    drain_dropped();
    return 0;
}

void drop_later(PyObject* object) {
    auto* node = static_cast<Dropped*>(std::malloc(sizeof(Dropped)));
    if (!node) return;  // better a leak than a crash
    *node = {object, dropped.load()};
    while (!dropped.compare_exchange_weak(node->next, node)) {
    }
    if (!drain_is_due.exchange(true) && Py_AddPendingCall(drain_when_due, nullptr) != 0) drain_is_due = false;
}

// What holds the memory of an array in the end, or null if that might refer back to the array. What looks at the memory
// and keeps this alive, not the array, may be kept by the array.
PyObject* root_of(const Array* array) {
    if (is_plain_memory(array->owner)) return array->owner;
    return array->owner && owns_its_memory(array->owner) ? array->owner : nullptr;
}

// What an exported tensor keeps alive.
PyObject* keeper_of(Array* array) {
    PyObject* root = root_of(array);
    return root ? root : reinterpret_cast<PyObject*>(array);
}

// Frees an exported tensor. Once the interpreter has begun to shut down nothing of Python may be touched, and the
// reference is left to the process's end.
template <typename Managed>
void drop_exported(Managed* self) {
    if (Py_IsInitialized()) {
        auto* object = static_cast<PyObject*>(self->manager_ctx);
        if (PyGILState_Check() && (Py_REFCNT(object) > 1 || is_plain_memory(object))) {
            Py_DECREF(object);
        } else {
            drop_later(object);
        }
    }
    std::free(reinterpret_cast<Exported<Managed>*>(self));
}

template <typename Managed>
void drop_capsule(PyObject* capsule, const char* name) {
    if (!PyCapsule_IsValid(capsule, name)) return;  // taken: the deleter is the taker's to call
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    if (managed->deleter) managed->deleter(managed);
}

void drop_legacy(PyObject* capsule) { drop_capsule<DLManagedTensor>(capsule, kLegacy); }

void drop_versioned(PyObject* capsule) { drop_capsule<DLManagedTensorVersioned>(capsule, kVersioned); }

void stamp(DLManagedTensor*, bool, bool) {}

void stamp(DLManagedTensorVersioned* managed, bool readonly, bool copied) {
    managed->version = {kDLPackMajor, kDLPackMinor};
    managed->flags = (readonly ? kDLReadOnly : 0) | (copied ? kDLIsCopied : 0);
}

// Describes `array` as DLPack does; the result holds a reference to what keeps the memory alive. Null if out of memory.
template <typename Managed>
Managed* describe_array(Array* array, const Element& element, bool copied) {
    auto* exported = static_cast<Exported<Managed>*>(std::calloc(1, sizeof(Exported<Managed>)));
    if (!exported) return nullptr;
    const int ndim = array->ndim + array->components;
    for (int i = 0; i < ndim; ++i) {
        exported->shape[i] = array->shape[i];
        exported->strides[i] = array->strides[i] / element.scalar_size;
    }
    Managed* managed = &exported->managed;
    stamp(managed, array->readonly, copied);
    managed->deleter = drop_exported<Managed>;
    managed->manager_ctx = Ref::borrow(keeper_of(array)).release();
    managed->dl_tensor = {array->data,
                          {array->device_type, array->device_id},
                          ndim,
                          dlpack_dtype(element.scalar),
                          exported->shape,
                          exported->strides,
                          0};
    return managed;
}

template <typename Managed>
PyObject* export_array(Array* array, const Element& element, bool copied, const char* name,
                       PyCapsule_Destructor destructor) {
    Managed* managed = describe_array<Managed>(array, element, copied);
    if (!managed) return PyErr_NoMemory();
    PyObject* capsule = PyCapsule_New(managed, name, destructor);
    if (!capsule) managed->deleter(managed);
    return capsule;
}

bool has_whole_strides(const Array* array, const Element& element) {
    for (int i = 0; i < array->ndim; ++i) {
        if (array->strides[i] % element.scalar_size) return false;
    }
    return true;
}

PyObject* dlpack_capsule(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs < 2 || nargs > 3 || !is_array(args[0])) {
        PyErr_SetString(PyExc_TypeError, "dlpack_capsule(array, versioned, copied=False) needs a native Array");
        return nullptr;
    }
    if (dropped.load(std::memory_order_relaxed)) drain_dropped();
    const int versioned = PyObject_IsTrue(args[1]);
    const int copied = nargs > 2 ? PyObject_IsTrue(args[2]) : 0;
    if (versioned < 0 || copied < 0) return nullptr;
    Array* array = reinterpret_cast<Array*>(args[0]);
    if (!require_elements(array)) return nullptr;
    Element element{};
    if (!Element::decode(array->type_code, &element)) {
        PyErr_SetString(PyExc_BufferError, "DLPack has no dtype for the array's elements");
        return nullptr;
    }
    if (!has_whole_strides(array, element)) {
        PyErr_SetString(PyExc_BufferError, "DLPack needs strides that are whole numbers of elements");
        return nullptr;
    }
    if (versioned) {
        return export_array<DLManagedTensorVersioned>(array, element, copied, kVersioned, drop_versioned);
    }
    if (array->readonly) {
        PyErr_SetString(PyExc_BufferError,
                        "a read-only array needs a versioned DLPack capsule: ask with max_version=(1, 0)");
        return nullptr;
    }
    return export_array<DLManagedTensor>(array, element, copied, kLegacy, drop_legacy);
}

// ---- tensors, through the C exchange API

PyObject* is_inference_name = nullptr;

// Whether every library with the exchange API has tensors of such scalars.
bool is_common(Scalar scalar) {
    return scalar != Scalar::Uint16 && scalar != Scalar::Uint32 && scalar != Scalar::Uint64;
}

// Whether a library can look at the memory of `array`. What is said no to here, the library itself may still take:
// interop/export.py knows.
bool is_shareable(const Array* array, const Element& element) {
    if (!is_common(element.scalar) || array->readonly || !array->size || array->device_type != kDLCPU) return false;
    for (int i = 0; i < array->ndim; ++i) {
        if (array->strides[i] < 0) return false;
    }
    return has_whole_strides(array, element);
}

// Whether `tensor` is still what an export of `array` would give.
bool shows(const TensorType* type, PyObject* tensor, const Array* array, const Element& element) {
    TensorView view;
    if (!read_tensor(tensor, *type, &view)) {
        forget_error();
        return false;
    }
    const DLTensor& seen = view.tensor;
    const DLDataType dtype = dlpack_dtype(element.scalar);
    if (first_element(seen) != array->data || seen.dtype.code != dtype.code || seen.dtype.bits != dtype.bits ||
        seen.ndim != array->ndim + array->components || !seen.strides) {
        return false;
    }
    for (int i = 0; i < seen.ndim; ++i) {
        if (seen.shape[i] != array->shape[i]) return false;
        if (seen.shape[i] > 1 && seen.strides[i] * element.scalar_size != array->strides[i]) return false;
    }
    return true;
}

// Whether the attribute `name` of `object` is `value`, one of Python's two truth values.
bool has_attribute(PyObject* object, PyObject* name, PyObject* value) {
    const Ref found(PyObject_GetAttr(object, name));
    if (!found) forget_error();
    return found.get() == value;
}

// The view of `array` that tensors of `cls` have got before, if it lives.
Ref kept_view(const Array* array, PyObject* cls) {
    PyObject* kept = array->exports ? PyDict_GetItemWithError(array->exports, cls) : nullptr;
    if (!kept) return Ref();
    return PyWeakref_Check(kept) ? Ref(dereferenced(kept)) : Ref::borrow(kept);
}

// Keeps a view for as long as the array lives if it can't refer back to it, else for as long as somebody uses it.
bool keep_view(Array* array, PyObject* cls, PyObject* tensor) {
    const Ref kept = root_of(array) ? Ref::borrow(tensor) : Ref(PyWeakref_NewRef(tensor, nullptr));
    if (!array->exports) array->exports = PyDict_New();
    return kept && array->exports && PyDict_SetItem(array->exports, cls, kept.get()) == 0;
}

// PyTorch's tensors of inference mode have no version, and are good in that mode only.
bool is_inference(const TensorType& type, PyObject* tensor) {
    if (type.torch && reads_torch(tensor)) return torch_is_inference(tensor);
    return _PyType_Lookup(Py_TYPE(tensor), is_inference_name) &&
           Ref(PyObject_CallMethodNoArgs(tensor, is_inference_name)).get() != Py_False;
}

Ref new_view(const TensorType* type, Array* array, const Element& element) {
    if (type->reader) {
        const Ref capsule(export_array<DLManagedTensor>(array, element, false, kLegacy, drop_legacy));
        return capsule ? tensor_of_capsule(capsule.get()) : Ref();
    }
    auto* managed = describe_array<DLManagedTensorVersioned>(array, element, false);
    void* made = nullptr;
    if (!managed) PyErr_NoMemory();
    if (!managed || type->api->managed_tensor_to_py_object_no_sync(managed, &made) != 0) return Ref();
    return Ref(static_cast<PyObject*>(made));
}

PyObject* tensor_over(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 4 || !is_array(args[0]) || !PyType_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "tensor_over(array, cls, attribute, value)");
        return nullptr;
    }
    Array* array = reinterpret_cast<Array*>(args[0]);
    PyObject *cls = args[1], *attribute = args[2], *value = args[3];
    Element element{};
    if (!require_elements(array)) return nullptr;
    if (!Element::decode(array->type_code, &element) || !is_shareable(array, element)) Py_RETURN_NONE;
    const TensorType* found = find_tensor_type(reinterpret_cast<PyTypeObject*>(cls));
    if (!found || (!found->reader && !found->api->managed_tensor_to_py_object_no_sync)) Py_RETURN_NONE;
    const TensorType type = *found;  // the table may change while Python code runs below
    Ref kept = kept_view(array, cls);
    if (kept && has_attribute(kept.get(), attribute, value) && shows(&type, kept.get(), array, element)) {
        return kept.release();
    }
    if (dropped.load(std::memory_order_relaxed)) drain_dropped();
    Ref made = new_view(&type, array, element);
    if (!made) return nullptr;
    if (!has_attribute(made.get(), attribute, value) && PyObject_SetAttr(made.get(), attribute, value) < 0)
        return nullptr;
    if (!is_inference(type, made.get())) {
        if (is_buffer(array->owner) && !add_watcher(array->owner, made.get())) return nullptr;
        if (reinterpret_cast<PyObject*>(Py_TYPE(made.get())) == cls && !keep_view(array, cls, made.get()))
            return nullptr;
    }
    if (PyErr_Occurred()) return nullptr;
    return made.release();
}

PyMethodDef functions[] = {
    {"dlpack_capsule", method(dlpack_capsule), METH_FASTCALL,
     "dlpack_capsule($module, array, versioned, copied=False, /)\n--\n\nReturn a DLPack capsule that keeps the memory "
     "of `array` alive."},
    {"tensor_over", method(tensor_over), METH_FASTCALL,
     "tensor_over($module, array, cls, attribute, value, /)\n--\n\nReturn a tensor of `cls` over the memory of "
     "`array`, whose `attribute`, one of the library's truth values, is `value`: the one that was given out before if "
     "it lives and is unchanged. None where Python has to see to it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

// ---- NumPy

PyObject* numpy_of(PyObject* object, PyObject* const* args, Py_ssize_t nargs) {
    Array* array = reinterpret_cast<Array*>(object);
    if (nargs > 1) return PyErr_Format(PyExc_TypeError, "_numpy(dtype=None)");
    Element element{};
    const bool scalars = nargs == 0 && Element::decode(array->type_code, &element);
    if (array->type_code == kUnbound || array->device_type != kDLCPU || !array->data || (!nargs && !scalars))
        Py_RETURN_NONE;
    if (!require_elements(array)) return nullptr;
    const Ref dtype = scalars ? numpy_dtype(element.scalar) : nargs ? Ref::borrow(args[0]) : Ref();
    if (!dtype) Py_RETURN_NONE;
    const NewNdArray wanted{
        dtype.get(),     array->ndim + array->components, array->shape, array->strides, array->data, !array->readonly,
        keeper_of(array)};
    return new_ndarray(wanted);
}

bool register_export(PyObject* module) {
    is_inference_name = PyUnicode_InternFromString("is_inference");
    return is_inference_name && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
