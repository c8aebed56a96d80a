#include "operands.h"

#include <cstring>

#include "array.h"
#include "value.h"

namespace wl {

PyObject* unset_array = nullptr;

namespace {

constexpr const char* kNoList = "needs lists or tuples of arguments";
constexpr const char* kTooMany = "too many arguments";
constexpr const char* kNoMemory = "out of memory";

PyObject* values_name = nullptr;

bool is_sequence(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }

PyObject* item(PyObject* group, Py_ssize_t i) {
    return PyList_Check(group) ? PyList_GET_ITEM(group, i) : PyTuple_GET_ITEM(group, i);
}

// The dict of a struct's fields, in order; null without an exception when there is none.
Ref fields_of(PyObject* object) {
    Ref found(PyObject_GetAttr(object, values_name));
    if (!found) forget_error();
    return found && PyDict_CheckExact(found.get()) ? std::move(found) : Ref();
}

}  // namespace

Operands::~Operands() {
    for (size_t i = 0; i < size_; ++i) Py_DECREF(items_[i]);
    if (items_ != inline_) PyMem_Free(items_);
}

const char* Operands::add(PyObject* object) {
    if (size_ == room_) {
        auto* more = static_cast<PyObject**>(PyMem_Malloc(2 * room_ * sizeof(PyObject*)));
        if (!more) return kNoMemory;
        std::memcpy(more, items_, size_ * sizeof(PyObject*));
        if (items_ != inline_) PyMem_Free(items_);
        items_ = more;
        room_ *= 2;
    }
    Py_INCREF(object);
    items_[size_++] = object;
    return nullptr;
}

// Fields that are structs give their own fields in their place. Their classes were checked when they were assigned.
const char* Operands::add_fields(PyObject* object, bool arrays_only) {
    const Ref fields = fields_of(object);
    if (!fields) return "needs a struct of the parameter's class";
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(fields.get(), &position, &name, &value)) {
        const char* why = nullptr;
        if (is_array(value)) {
            why = add(value);
        } else if (PyFloat_Check(value) || PyLong_Check(value) || PyObject_TypeCheck(value, &ValueType)) {
            why = add(arrays_only ? Py_None : value);
        } else if (value == Py_None) {
            why = add(arrays_only ? Py_None : unset_array);
        } else {
            why = add_fields(value, arrays_only);
        }
        if (why) return why;
    }
    return nullptr;
}

const char* Operands::take_one(const Declared& declared, PyObject* object) {
    if (!declared.struct_class) return add(object);
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != declared.struct_class.get()) {
        return "needs a struct of the parameter's class";
    }
    const size_t before = size_;
    if (const char* why = add_fields(object, false)) return why;
    return size_ - before == declared.leaves ? nullptr : "the struct has another number of fields";
}

const char* Operands::take(const std::vector<Declared>& declared, PyObject* inputs, PyObject* outputs) {
    size_t at = 0;
    for (PyObject* group : {inputs, outputs}) {
        if (!is_sequence(group)) return kNoList;
        for (Py_ssize_t i = 0; i < Py_SIZE(group); ++i, ++at) {
            if (!declared.empty() && at == declared.size()) return kTooMany;
            PyObject* object = item(group, i);
            if (const char* why = declared.empty() ? add(object) : take_one(declared[at], object)) return why;
        }
    }
    return nullptr;
}

const char* Operands::take_flat(PyObject* list) {
    if (!is_sequence(list)) return kNoList;
    for (Py_ssize_t i = 0; i < Py_SIZE(list); ++i) {
        if (const char* why = add(item(list, i))) return why;
    }
    return nullptr;
}

const char* Operands::take_group_adjoints(const std::vector<Declared>& declared, size_t* at, PyObject* group,
                                          PyObject* adjoints) {
    if (!is_sequence(group) || !is_sequence(adjoints)) return kNoList;
    if (Py_SIZE(adjoints) > Py_SIZE(group)) return "more adjoints than arguments";
    for (Py_ssize_t i = 0; i < Py_SIZE(group); ++i, ++*at) {
        if (!declared.empty() && *at == declared.size()) return kTooMany;
        PyObject* adjoint = i < Py_SIZE(adjoints) ? item(adjoints, i) : Py_None;
        const Declared* parameter = declared.empty() ? nullptr : &declared[*at];
        const char* why = nullptr;
        if (!parameter || !parameter->struct_class) {
            why = add(adjoint);
        } else if (adjoint == Py_None) {
            for (size_t k = 0; k < parameter->leaves && !why; ++k) why = add(Py_None);
        } else if (reinterpret_cast<PyObject*>(Py_TYPE(adjoint)) != parameter->struct_class.get()) {
            why = "the adjoint of a struct is such a struct";
        } else {
            why = add_fields(adjoint, true);
        }
        if (why) return why;
    }
    return nullptr;
}

const char* Operands::take_adjoints(const std::vector<Declared>& declared, size_t params, PyObject* inputs,
                                    PyObject* outputs, PyObject* adj_inputs, PyObject* adj_outputs) {
    size_t at = 0;
    if (const char* why = take_group_adjoints(declared, &at, inputs, adj_inputs)) return why;
    if (const char* why = take_group_adjoints(declared, &at, outputs, adj_outputs)) return why;
    return size_ == params ? nullptr : "another number of adjoints than of arguments";
}

bool register_operands() {
    values_name = PyUnicode_InternFromString("_values");
    unset_array = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
    return values_name && unset_array;
}

}  // namespace wl
