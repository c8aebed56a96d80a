#include "spec.h"

#include "cuda.h"
#include "watch.h"

namespace wl {

namespace {

constexpr int kMostDevices = 1 << 16;  // of a kind

class Spec {
  public:
    explicit Spec(PyObject* object) : object_(object) {}

    // A new reference; null with an exception set where there is no such field.
    Ref get(const char* name) const;

    // The same, null where the field is None: then no exception is set.
    Ref optional(const char* name) const;

    // A bool, or an int in a range; false with an exception set.
    bool read_flag(const char* name, char* out) const;
    bool read_int(const char* name, int least, int most, int* out) const;

  private:
    PyObject* object_;
};

Ref Spec::get(const char* name) const { return Ref(PyObject_GetAttrString(object_, name)); }

Ref Spec::optional(const char* name) const {
    Ref value = get(name);
    return value.get() == Py_None ? Ref() : std::move(value);
}

bool Spec::read_flag(const char* name, char* out) const {
    const Ref value = get(name);
    if (!value) return false;
    if (!PyBool_Check(value.get())) {
        PyErr_Format(PyExc_TypeError, "`%s` is a bool, got %R", name, value.get());
        return false;
    }
    *out = value.get() == Py_True;
    return true;
}

bool Spec::read_int(const char* name, int least, int most, int* out) const {
    const Ref value = get(name);
    if (!value) return false;
    long number = PyLong_Check(value.get()) ? PyLong_AsLong(value.get()) : least - 1L;
    if (number == -1 && PyErr_Occurred()) {  // too large
        forget_error();
        number = least - 1L;
    }
    if (number < least || number > most) {
        PyErr_Format(PyExc_ValueError, "`%s` is an int from %d to %d, got %R", name, least, most, value.get());
        return false;
    }
    *out = static_cast<int>(number);
    return true;
}

// Reads what a kernel is to its launches; false with an exception set.
bool read_facts(Dispatcher* self, const Spec& spec) {
    return spec.read_int("tid_ndim", 1, kMaxDims, &self->tid_ndim) &&
           spec.read_int("most_narrow", 1, kMaxNarrow, &self->most_narrow) &&
           spec.read_flag("shares_indices", &self->shares_indices) && spec.read_flag("short_rows", &self->short_rows) &&
           spec.read_flag("leaves_short_rows", &self->leaves_short_rows) &&
           spec.read_flag("order_dependent", &self->order_dependent) &&
           spec.read_flag("non_associative", &self->non_associative) && spec.read_flag("prints", &self->prints) &&
           spec.read_flag("bounded", &self->bounded) && spec.read_flag("recordable", &self->recordable) &&
           spec.read_flag("deterministic", &self->deterministic) && spec.read_flag("no_overlap", &self->no_overlap) &&
           spec.read_flag("fusible", &self->fusible) && spec.read_flag("self_contained", &self->self_contained);
}

bool read_callable(Dispatcher* self, const Spec& spec) {
    self->on_error = spec.get("on_error").release();
    if (self->on_error && !PyCallable_Check(self->on_error)) {
        PyErr_SetString(PyExc_TypeError, "`on_error` is a callable on_error(code, where, thread[, text, values])");
        return false;
    }
    return self->on_error != nullptr;
}

bool read_name(Dispatcher* self, const Spec& spec) {
    self->name = spec.get("name").release();
    if (self->name && !PyUnicode_Check(self->name)) {
        PyErr_SetString(PyExc_TypeError, "`name` is a str");
        return false;
    }
    return self->name != nullptr;
}

bool read_device(Dispatcher* self, const Spec& spec) {
    self->device = spec.get("device").release();
    self->device_name = self->device ? PyObject_Str(self->device) : nullptr;
    if (!self->device_name) return false;
    self->cuda = spec.optional("cuda").release();
    if (self->cuda && !PyObject_TypeCheck(self->cuda, &DriverContextType)) {
        PyErr_SetString(PyExc_TypeError, "`cuda` is a DriverContext or None");
        return false;
    }
    return !PyErr_Occurred() && spec.read_int("place", -kMostDevices, kMostDevices, &self->signature->place);
}

bool read_watch(Dispatcher* self, const Spec& spec) {
    self->watch = spec.optional("watch").release();
    if (self->watch && !is_watch(self->watch)) {
        PyErr_SetString(PyExc_TypeError, "`watch` is a Watch or None");
        return false;
    }
    return !PyErr_Occurred();
}

bool read_parameters(Dispatcher* self, const Spec& spec) {
    const Ref params = spec.get("params");
    if (!params || !self->signature->read(params.get())) return false;
    const Ref declared = spec.optional("declared");
    if (PyErr_Occurred() || (declared && !self->signature->read_declared(declared.get()))) return false;
    self->types = spec.get("types").release();
    return self->types != nullptr;
}

}  // namespace

bool read_spec(PyObject* object, Dispatcher* self) {
    const Spec spec(object);
    return read_name(self, spec) && read_callable(self, spec) && read_device(self, spec) &&
           read_parameters(self, spec) && read_facts(self, spec) && read_watch(self, spec);
}

}  // namespace wl
