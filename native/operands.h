// Operands: the arguments of one launch as Python objects, one for each parameter of the compiled kernel: a struct
// gives its fields. References are held, since reading an argument may run Python code that changes the lists.
#pragma once

#include <vector>

#include "python.h"

namespace wl {

// What stands in for an array field of a struct that is None: an array without elements.
extern PyObject* unset_array;

// A parameter as the user wrote it.
struct Declared {
    Ref struct_class;  // null for anything but a struct
    size_t leaves;     // how many parameters of the compiled kernel it makes
};

class Operands {
  public:
    Operands() = default;
    ~Operands();
    Operands(const Operands&) = delete;
    Operands& operator=(const Operands&) = delete;

    // Takes the objects of `inputs`, then those of `outputs` (lists or tuples). Where `declared` is empty, each
    // object is one parameter's already. Null, or why not.
    const char* take(const std::vector<Declared>& declared, PyObject* inputs, PyObject* outputs);

    // Takes a list of one object for each parameter.
    const char* take_flat(PyObject* list);

    // Takes the adjoints for `declared` likewise: None for each missing one, and for a field that is no array. `at`
    // gets the number of objects that belong to `inputs`.
    const char* take_adjoints(const std::vector<Declared>& declared, size_t params, PyObject* inputs, PyObject* outputs,
                              PyObject* adj_inputs, PyObject* adj_outputs);

    const char* add(PyObject* object);

    size_t size() const { return size_; }
    PyObject* operator[](size_t i) const { return items_[i]; }

  private:
    const char* add_fields(PyObject* object, bool arrays_only);
    const char* take_one(const Declared& declared, PyObject* object);
    const char* take_group_adjoints(const std::vector<Declared>& declared, size_t* at, PyObject* group,
                                    PyObject* adjoints);

    static constexpr size_t kInline = 48;
    PyObject* inline_[kInline];
    PyObject** items_ = inline_;
    size_t size_ = 0;
    size_t room_ = kInline;
};

bool register_operands();

}  // namespace wl
