#include "args.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "alloc.h"
#include "array.h"
#include "numpy_abi.h"
#include "objects.h"
#include "tensor_memory.h"
#include "value.h"

namespace wl {

namespace {

int64_t slots(int64_t size) { return (size + kSlot - 1) / kSlot * kSlot; }

// ---- scalars

template <typename T>
bool store(uint8_t* out, T value) {
    std::memcpy(out, &value, sizeof value);
    return true;
}

bool refuse(const char** why, const char* reason) {
    *why = reason;
    return false;
}

constexpr const char* kRange = "the number does not fit the parameter's type";

bool pack_int(Scalar scalar, PyObject* object, uint8_t* out, const char** why) {
    if (!PyLong_Check(object) || PyBool_Check(object)) return refuse(why, "needs an int");
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) {
        if (overflow < 0 || scalar != Scalar::Uint64) return refuse(why, kRange);
        const unsigned long long large = PyLong_AsUnsignedLongLong(object);
        if (PyErr_Occurred()) {
            forget_error();
            return refuse(why, kRange);
        }
        return store<uint64_t>(out, large);
    }
    const int64_t v = value;
    switch (scalar) {
        case Scalar::Int8:
            return v == static_cast<int8_t>(v) ? store<int8_t>(out, v) : refuse(why, kRange);
        case Scalar::Uint8:
            return v == static_cast<uint8_t>(v) ? store<uint8_t>(out, v) : refuse(why, kRange);
        case Scalar::Int16:
            return v == static_cast<int16_t>(v) ? store<int16_t>(out, v) : refuse(why, kRange);
        case Scalar::Uint16:
            return v == static_cast<uint16_t>(v) ? store<uint16_t>(out, v) : refuse(why, kRange);
        case Scalar::Int32:
            return v == static_cast<int32_t>(v) ? store<int32_t>(out, v) : refuse(why, kRange);
        case Scalar::Uint32:
            return v == static_cast<uint32_t>(v) ? store<uint32_t>(out, v) : refuse(why, kRange);
        case Scalar::Int64:
            return store<int64_t>(out, v);
        default:
            return v >= 0 ? store<uint64_t>(out, static_cast<uint64_t>(v)) : refuse(why, kRange);
    }
}

bool pack_float(Scalar scalar, PyObject* object, uint8_t* out, const char** why) {
    double value;
    if (PyFloat_Check(object)) {
        value = PyFloat_AS_DOUBLE(object);
    } else if (PyLong_Check(object) && !PyBool_Check(object)) {
        value = PyLong_AsDouble(object);
        if (value == -1.0 && PyErr_Occurred()) {
            forget_error();
            return refuse(why, kRange);
        }
    } else {
        return refuse(why, "needs a float");
    }
    const bool finite = std::isfinite(value);
    switch (scalar) {
        case Scalar::Float64:
            return store(out, value);
        case Scalar::Float32: {
            const float narrow = static_cast<float>(value);
            return finite && std::isinf(narrow) ? refuse(why, kRange) : store(out, narrow);
        }
        case Scalar::Float16: {
            const uint16_t bits = to_float16(value);
            return finite && (bits & 0x7fff) == 0x7c00 ? refuse(why, kRange) : store(out, bits);
        }
        default: {
            const uint16_t bits = to_bfloat16(value);
            return finite && (bits & 0x7fff) == 0x7f80 ? refuse(why, kRange) : store(out, bits);
        }
    }
}

bool pack_scalar(const Param& param, PyObject* object, uint8_t* out, const char** why) {
    const Scalar scalar = param.element.scalar;
    Ref number;
    if (is_numpy_scalar(object)) {
        number = python_number(object);
        if (!number) return refuse(why, "the NumPy scalar is no number");
        object = number.get();
    }
    if (scalar == Scalar::Bool) {
        if (object == Py_True) return store<uint8_t>(out, 1);
        if (object == Py_False) return store<uint8_t>(out, 0);
        if (!PyLong_Check(object)) return refuse(why, "needs a bool");
        int overflow = 0;
        const bool some = PyLong_AsLongLongAndOverflow(object, &overflow) != 0;  // -1 where it overflows
        return store<uint8_t>(out, some);
    }
    return scalar >= Scalar::Float16 ? pack_float(scalar, object, out, why) : pack_int(scalar, object, out, why);
}

bool pack_value(const Param& param, PyObject* object, uint8_t* out, const char** why) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != param.value_class.get()) {
        return refuse(why, "needs a value of the parameter's class");
    }
    if (Py_SIZE(object) < param.value_size) return refuse(why, "the value is smaller than its type");
    std::memcpy(out, reinterpret_cast<Value*>(object)->bytes, static_cast<size_t>(param.value_size));
    return true;
}

}  // namespace

// ---- signature

namespace {

constexpr long kAnySpan = -1;  // ends the spans of the first axes: along those that follow, threads may be far apart

bool read_spans(PyObject* spans, Param* param) {
    Ref items(PySequence_Fast(spans, "a parameter's spans are a sequence of ints"));
    if (!items) return false;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
    const long last = count ? PyLong_AsLong(PySequence_Fast_GET_ITEM(items.get(), count - 1)) : 0;
    if (last == -1 && PyErr_Occurred()) return false;
    param->shares_rows = last == kAnySpan;
    param->span_count = static_cast<int32_t>(count) - param->shares_rows;
    if (param->shares_rows ? !param->span_count || count > kMaxDims : count != param->ndim) {
        PyErr_SetString(PyExc_ValueError, "a parameter has a span for each of its dimensions, or for the first axes");
        return false;
    }
    for (int i = 0; i < param->span_count; ++i) {
        const long span = PyLong_AsLong(PySequence_Fast_GET_ITEM(items.get(), i));
        if (span == -1 && PyErr_Occurred()) return false;
        if (span < 0 || span > INT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "a span is not negative and fits 32 bits");
            return false;
        }
        param->spans[i] = static_cast<int32_t>(span);
    }
    param->has_halo = true;
    return true;
}

bool read_param(PyObject* item, Param* param) {
    PyObject *name, *value_class = Py_None, *spans = Py_None;
    int kind, ndim, flags, ahead = 0;
    unsigned int type_code;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError,
                        "a parameter is (name, kind, type_code, ndim, flags, value_class, spans, ahead)");
        return false;
    }
    if (!PyArg_ParseTuple(item, "UiIii|OOi:Dispatcher parameter", &name, &kind, &type_code, &ndim, &flags, &value_class,
                          &spans, &ahead)) {
        return false;
    }
    if (kind < 0 || kind > static_cast<int>(ParamKind::Value) || ndim < 0 || ndim > kMaxDims) {
        PyErr_Format(PyExc_ValueError, "parameter %R: no such kind (%d) or too many dimensions (%d)", name, kind, ndim);
        return false;
    }
    param->kind = static_cast<ParamKind>(kind);
    param->writes = flags & ParamFlag::Writes;
    param->sums = flags & ParamFlag::Sums;
    param->thread_private = flags & ParamFlag::ThreadPrivate;
    param->stores = flags & ParamFlag::Stores;
    param->reads = flags & ParamFlag::Reads;
    param->gradient = flags & ParamFlag::Gradient;
    param->optional = flags & ParamFlag::Optional;
    param->takes = flags & ParamFlag::Takes;
    param->own = flags & ParamFlag::Own;
    param->apart = flags & ParamFlag::Apart;
    param->object_kind = flags >> kObjectKindBit;
    param->ahead = ahead;
    param->ndim = ndim;
    param->type_code = type_code;
    param->known = Element::decode(type_code, &param->element);
    if (param->known) param->dtype = dlpack_dtype(param->element.scalar);
    const bool addable = param->known && param->element.scalar != Scalar::Bool && param->element.scalar_size >= 4;
    if (param->sums && (param->kind != ParamKind::Array || !addable)) {
        PyErr_Format(PyExc_ValueError, "parameter %R: no array of numbers with 32 or 64 bits to sum into", name);
        return false;
    }
    if (param->sums && spans != Py_None && !read_spans(spans, param)) return false;
    param->name = Ref::borrow(name);
    if (param->kind == ParamKind::Scalar && (!param->known || param->element.components)) {
        PyErr_Format(PyExc_ValueError, "parameter %R: type code %u is no scalar's", name, type_code);
        return false;
    }
    if (param->kind == ParamKind::Value) {
        if (!PyType_Check(value_class) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(value_class), &ValueType)) {
            PyErr_Format(PyExc_TypeError, "parameter %R: needs a subclass of Value, got %R", name, value_class);
            return false;
        }
        param->value_class = Ref::borrow(value_class);
        param->value_size = param->element.size;
        if (!param->known) {  // a struct says its size itself
            Ref size(PyObject_GetAttrString(value_class, "_nbytes_"));
            param->value_size = size ? PyLong_AsLongLong(size.get()) : -1;
            if (PyErr_Occurred()) return false;
        }
    }
    return true;
}

}  // namespace

bool Signature::read(PyObject* object) {
    Ref items(PySequence_Fast(object, "a Dispatcher needs a sequence of parameters"));
    if (!items) return false;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
    params.clear();
    sums.clear();
    non_atomic.clear();
    apart.clear();
    taken.clear();
    params.reserve(static_cast<size_t>(n));
    args_size = 0;
    for (Py_ssize_t i = 0; i < n; ++i) {
        Param param{};
        if (!read_param(PySequence_Fast_GET_ITEM(items.get(), i), &param)) return false;
        param.offset = args_size;
        const int64_t size = param.kind == ParamKind::Array    ? kArrayShape + 2 * kSlot * param.ndim
                             : param.kind == ParamKind::Scalar ? param.element.size
                                                               : param.value_size;
        args_size += slots(size);
        if (param.sums) sums.push_back(static_cast<int>(i));
        if (param.sums || param.thread_private) non_atomic.push_back(static_cast<int>(i));
        if (param.sums || param.thread_private || param.apart) apart.push_back(static_cast<int>(i));
        if (param.takes) taken.push_back(static_cast<int>(i));
        params.push_back(std::move(param));
    }
    return true;
}

bool Signature::read_declared(PyObject* object) {
    Ref items(PySequence_Fast(object, "needs a sequence of (struct class or None, number of parameters)"));
    if (!items) return false;
    declared.clear();
    size_t total = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        PyObject* cls;
        Py_ssize_t leaves;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items.get(), i), "On:declared", &cls, &leaves)) return false;
        total += static_cast<size_t>(leaves);
        declared.push_back({cls == Py_None ? Ref() : Ref::borrow(cls), static_cast<size_t>(leaves)});
    }
    if (total == params.size()) return true;
    PyErr_Format(PyExc_ValueError, "%zu declared leaves for %zu parameters", total, params.size());
    return false;
}

// ---- arguments

Arguments::Arguments(const Signature& signature) : signature_(signature) {
    const size_t n = signature.params.size();
    const size_t block = static_cast<size_t>(signature.args_size);
    const size_t total = block + n * (2 * sizeof(PyObject*) + sizeof(Py_buffer));
    block_ = total <= sizeof inline_ ? inline_ : static_cast<uint8_t*>(PyMem_Malloc(total));
    written_ = reinterpret_cast<PyObject**>(block_ + block);
    owners_ = written_ + n;
    buffers_ = reinterpret_cast<Py_buffer*>(owners_ + n);
}

Arguments::~Arguments() {
    for (int i = 0; i < buffer_count_; ++i) PyBuffer_Release(&buffers_[i]);
    if (block_ != inline_) PyMem_Free(block_);
}

bool Arguments::pack(const Operands& operands, PyObject* device, Refusal* refusal) {
    if (!block_) return refuse(&refusal->reason, "out of memory");
    const size_t n = signature_.params.size();
    for (size_t i = 0; i < operands.size(); ++i) {
        if (i == n) return refuse(&refusal->reason, "too many arguments");
        refusal->argument = static_cast<int>(i);
        if (!pack_one(signature_.params[i], operands[i], device, &refusal->reason)) return false;
    }
    refusal->argument = -1;
    return operands.size() == n || refuse(&refusal->reason, "too few arguments");
}

void Arguments::refresh_values(const Operands& operands) {
    const char* why = nullptr;
    for (size_t i = 0; i < operands.size(); ++i) {
        const Param& param = signature_.params[i];
        if (param.kind == ParamKind::Value) pack_value(param, operands[i], block_ + param.offset, &why);
    }
}

bool Arguments::pack_one(const Param& param, PyObject* object, PyObject* device, const char** why) {
    uint8_t* out = block_ + param.offset;
    switch (param.kind) {
        case ParamKind::Array:
            break;
        case ParamKind::Scalar:
            return pack_scalar(param, object, out, why) && (!param.object_kind || refers(param, out, why));
        case ParamKind::Value:
            return pack_value(param, object, out, why);
    }
    if (is_array(object)) return pack_array(param, object, device, why);
    if (object == unset_array || (object == Py_None && param.optional)) {
        std::memset(out, 0, static_cast<size_t>(kSlot + 2 * kSlot * param.ndim));
        return true;
    }
    return pack_shared(param, object, why);
}

// A function of its own, so that the frame of `pack_one` stays small: most arrays are ours.
[[gnu::noinline]] bool Arguments::pack_shared(const Param& param, PyObject* object, const char** why) {
    if (!param.known) return refuse(why, "needs an array of structs");
    const bool host = signature_.place == -1;
    if (host && is_plain_ndarray(object)) return pack_numpy(param, object, why);
    if (const TensorType* type = find_tensor_type(Py_TYPE(object))) return pack_tensor(param, object, type, why);
    if (host && PyObject_CheckBuffer(object) && !PyObject_TypeCheck(object, &ValueType)) {
        return pack_buffer(param, object, why);
    }
    if (host && speaks_dlpack(object)) return pack_capsule(param, object, why);
    return refuse(why, "needs an array");
}

// Whether an id refers to a live object, or is 0, which stands for none.
bool Arguments::refers(const Param& param, const uint8_t* packed, const char** why) const {
    uint64_t id;
    std::memcpy(&id, packed, sizeof id);
    if (!id || is_live(id, param.object_kind, signature_.place)) return true;
    return refuse(why, "the id refers to no live object");
}

bool Arguments::pack_array(const Param& param, PyObject* object, PyObject* device, const char** why) {
    const Array* array = reinterpret_cast<const Array*>(object);
    if (array->type_code != param.type_code) return refuse(why, "the array's dtype is another");
    if (array->ndim != param.ndim) return refuse(why, "the array's number of dimensions is another");
    if (array->device != device) return refuse(why, "the array is on another device");
    if (param.writes && array->readonly) return refuse(why, "the kernel writes to the array, which is read-only");
    if (!array->aligned) return refuse(why, "the array's elements are not aligned");
    if (!has_memory(array)) return refuse(why, "the array's memory is gone");
    contiguous_ &= array->contiguous;
    if (param.writes && (array->hooked || is_buffer(array->owner))) written_[written_count_++] = array->owner;
    if (signature_.place >= 0 && array->owner) {
        owners_[owner_count_++] = array->tensor_data ? object : array->owner;
    }
    auto* out = reinterpret_cast<int64_t*>(block_ + param.offset);
    *out++ = reinterpret_cast<int64_t>(array->data);
    for (int i = 0; i < param.ndim; ++i) {
        out[i] = array->shape[i];
        out[param.ndim + i] = array->strides[i];
    }
    return true;
}

bool Arguments::pack_tensor(const Param& param, PyObject* object, const TensorType* found, const char** why) {
    const TensorType type = *found;  // the table may change while Python code runs below
    TensorView view;
    if (!read_tensor(object, type, &view)) {
        forget_error();
        return refuse(why, "the tensor cannot be read through DLPack");
    }
    const DLTensor& tensor = view.tensor;
    const DLDataType dtype = tensor.dtype;
    if (dtype.code != param.dtype.code || dtype.bits != param.dtype.bits || dtype.lanes != 1) {
        return refuse(why, "the tensor's dtype is another");
    }
    if (!signature_.is_place(tensor.device.device_type, tensor.device.device_id)) {
        return refuse(why, "the tensor is on another device");
    }
    if (!tensor.strides && tensor.ndim) return refuse(why, "the tensor has no strides");
    if (!pack_foreign(param, first_element(tensor), tensor.ndim, tensor.shape, tensor.strides,
                      param.element.scalar_size, why)) {
        return false;
    }
    // The API does not tell. Such a tensor is mostly strided, a part of a complex one, but need not be (as_strided).
    if (type.is_neg && is_negated(object, type)) return refuse(why, "the tensor's negation is pending");
    if (param.writes && type.write_hook) written_[written_count_++] = object;
    if (signature_.place >= 0) owners_[owner_count_++] = object;
    return true;
}

// Of an object that nothing is known of but its methods. The capsule is read, not consumed: it gives the memory back.
[[gnu::noinline, gnu::cold]] bool Arguments::pack_capsule(const Param& param, PyObject* object, const char** why) {
    Ref capsule = host_capsule(object);
    bool readonly = false;
    const DLTensor* tensor = capsule ? tensor_in(capsule.get(), &readonly) : nullptr;
    if (!tensor) {
        forget_error();
        return refuse(why, "the object gives no DLPack tensor of the CPU");
    }
    const DLDataType dtype = tensor->dtype;
    if (dtype.code != param.dtype.code || dtype.bits != param.dtype.bits || dtype.lanes != 1) {
        return refuse(why, "the DLPack tensor's dtype is another");
    }
    if (param.writes && readonly) return refuse(why, "the kernel writes to the DLPack tensor, which is read-only");
    int64_t packed[kMaxFullDims];
    int64_t stride = 1;  // of elements, whose bytes fit an address
    for (int i = tensor->ndim; i-- > 0; stride *= tensor->shape[i]) packed[i] = stride;
    capsules_.push_back(std::move(capsule));
    return pack_foreign(param, first_element(*tensor), tensor->ndim, tensor->shape,
                        tensor->strides ? tensor->strides : packed, param.element.scalar_size, why);
}

bool Arguments::pack_buffer(const Param& param, PyObject* object, const char** why) {
    Py_buffer* view = &buffers_[buffer_count_];
    if (PyObject_GetBuffer(object, view, PyBUF_RECORDS_RO) != 0) {
        forget_error();
        return refuse(why, "the object gives no strided buffer");
    }
    ++buffer_count_;
    adopt_ndarray(object, *view);
    if (!matches_format(param.element.scalar, view->format, view->itemsize)) {
        return refuse(why, "the buffer's format is another");
    }
    if (param.writes && view->readonly) return refuse(why, "the kernel writes to the buffer, which is read-only");
    if (view->ndim && (!view->strides || !view->shape)) return refuse(why, "the buffer has no strides");
    return pack_foreign(param, static_cast<char*>(view->buf), view->ndim, reinterpret_cast<const int64_t*>(view->shape),
                        reinterpret_cast<const int64_t*>(view->strides), 1, why);
}

bool Arguments::pack_numpy(const Param& param, PyObject* object, const char** why) {
    const NdArray array = read_ndarray(object);
    if (array.dtype.code != param.dtype.code || array.dtype.bits != param.dtype.bits) {
        return refuse(why, "the NumPy array's dtype is another");
    }
    if (param.writes && !array.writeable) return refuse(why, "the kernel writes to the array, which is read-only");
    if (!pack_foreign(param, array.data, array.ndim, array.shape, array.strides, 1, why)) return false;
    return true;
}

// `strides` count in `unit` bytes. The trailing dimensions must be those of the parameter's elements, packed.
bool Arguments::pack_foreign(const Param& param, char* data, int ndim, const int64_t* shape, const int64_t* strides,
                             int64_t unit, const char** why) {
    const Element& element = param.element;
    if (ndim != param.ndim + element.components) return refuse(why, "the number of dimensions is another");
    auto* out = reinterpret_cast<int64_t*>(block_ + param.offset);
    int64_t* out_strides = out + 1 + param.ndim;
    out[0] = reinterpret_cast<int64_t>(data);
    bool packed = true, empty = false, sound = true;
    uint64_t bits = reinterpret_cast<uintptr_t>(data);
    for (int i = 0; i < element.components; ++i) {
        const int64_t extent = shape[param.ndim + i];
        if (extent != element.extents[i]) return refuse(why, "the last dimensions are not those of an element");
        int64_t stride;
        if (__builtin_mul_overflow(strides[param.ndim + i], unit, &stride)) packed = false;
        if (extent != 1 && stride != element.strides[i]) packed = false;
    }
    const bool packed_element = packed;
    int64_t expected = element.size;
    for (int i = param.ndim - 1; i >= 0; --i) {
        int64_t stride;
        sound &= !__builtin_mul_overflow(strides[i], unit, &stride) && shape[i] >= 0;
        out[1 + i] = shape[i];
        out_strides[i] = stride;
        if (shape[i] == 0) empty = true;
        if (shape[i] != 1) {
            if (stride != expected) packed = false;
            bits |= static_cast<uint64_t>(stride);
            packed &= !__builtin_mul_overflow(expected, shape[i], &expected);
        }
    }
    if (!sound) return refuse(why, "an extent is negative, or a stride is larger than memory");
    if (empty) return true;
    if (!data) return refuse(why, "the array has no memory");
    if (!packed_element) return refuse(why, "the elements' components are not packed");
    if (bits & static_cast<uint64_t>(element.scalar_size - 1)) return refuse(why, "the elements are not aligned");
    contiguous_ &= packed;
    return true;
}

namespace {

// Tells a tensor's library of a write to it, or adds the tensor to those for which a hook has to be called; false with
// an exception set.
bool tell(PyObject* tensor, Ref* unsaid) {
    const TensorType* type = find_tensor_type(Py_TYPE(tensor));
    if (!type || !type->write_hook || count_write(tensor, *type)) return true;
    if (!*unsaid) *unsaid = Ref(PyList_New(0));
    return *unsaid && PyList_Append(unsaid->get(), tensor) == 0;
}

bool tell_watchers(PyObject* buffer, Ref* unsaid) {
    const Ref tensors(PyList_New(0));
    if (!tensors || !append_watchers(buffer, tensors.get())) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tensors.get()); ++i) {
        if (!tell(PyList_GET_ITEM(tensors.get(), i), unsaid)) return false;
    }
    return true;
}

Ref write_hook_of(PyObject* tensor) {
    const TensorType* type = find_tensor_type(Py_TYPE(tensor));
    return type ? Ref::borrow(type->write_hook) : Ref();
}

bool call_hook(const Ref& hook, Ref tensors) { return tensors && Ref(PyObject_CallOneArg(hook.get(), tensors.get())); }

// Calls each library's hook once, with all of its tensors.
bool call_each_hook(PyObject* all) {
    const Py_ssize_t n = PyList_GET_SIZE(all);
    for (Py_ssize_t i = 0; i < n; ++i) {
        const Ref hook = write_hook_of(PyList_GET_ITEM(all, i));
        if (hook && n == 1) return call_hook(hook, Ref(PyList_AsTuple(all)));
        bool called = !hook;
        for (Py_ssize_t j = 0; j < i && !called; ++j)
            called = write_hook_of(PyList_GET_ITEM(all, j)).get() == hook.get();
        if (called) continue;
        const Ref tensors(PyList_New(0));
        if (!tensors) return false;
        for (Py_ssize_t j = i; j < n; ++j) {
            PyObject* tensor = PyList_GET_ITEM(all, j);
            if (write_hook_of(tensor).get() == hook.get() && PyList_Append(tensors.get(), tensor) < 0) return false;
        }
        if (!call_hook(hook, Ref(PyList_AsTuple(tensors.get())))) return false;
    }
    return true;
}

}  // namespace

bool Arguments::run_write_hooks() const {
    Ref unsaid;
    for (int i = 0; i < written_count_; ++i) {
        PyObject* written = written_[i];
        if (!is_buffer(written)) {
            if (!tell(written, &unsaid)) return false;
        } else if (is_watched(written) && !tell_watchers(written, &unsaid)) {
            return false;
        }
    }
    return !unsaid || call_each_hook(unsaid.get());
}

}  // namespace wl
